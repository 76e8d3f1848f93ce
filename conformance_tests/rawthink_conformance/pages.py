"""Writes the pages that come from data: ``python -m rawthink_conformance.pages [FOLDER]``.

``docs/requirements.md`` comes from the requirements; ``docs/conformance.md`` and the table in ``README.md``
from ``docs/conformance.json``, which ``rawthink conform NAME … --save docs/conformance.json`` wrote.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rawthink_conformance.listing import listing
from rawthink_conformance.matrix import load, page, stale, summary
from rawthink_core.errors import ConfigError

BEGIN, END = "<!-- conformance -->\n", "<!-- /conformance -->"


def pages(root: Path) -> dict[Path, str]:
    """Return every generated page below a folder with what must stand in it. Raises ConfigError."""
    reports = load((root / "docs" / "conformance.json").read_bytes())
    if why := stale(reports):
        raise ConfigError(f"docs/conformance.json is stale: {why}. Run `rawthink conform … --save` again")
    readme = (root / "README.md").read_text("utf-8")
    before, begun, rest = readme.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ConfigError(f"README.md has no place for the matrix: {BEGIN.strip()} and {END}")
    return {
        root / "docs" / "requirements.md": listing(),
        root / "docs" / "conformance.md": page(reports),
        root / "README.md": f"{before}{BEGIN}{summary(reports)}\n{END}{after}",
    }


def main() -> None:
    """Write them."""
    root = Path(sys.argv[1] if sys.argv[1:] else ".")
    for path, text in pages(root).items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
