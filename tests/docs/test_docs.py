"""The documentation names everything there is to name, and nothing that is not there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel

from rawthink_conformance.pages import pages
from rawthink_core import config, hosting, plugins
from rawthink_lancedb.settings import LanceSettings
from rawthink_local.settings import LocalSettings
from rawthink_nowledge.settings import NowledgeSettings

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def settings_of(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Return every key of a settings model, with its description."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= settings_of(inner, f"{prefix}{name}.")
        else:
            found[prefix + name] = field.description or ""
    return found


def test_every_setting_is_in_the_operators_table_with_its_description():
    table = dict(
        re.findall(
            r"^\| `([\w.]+)` \| [^|]+ \| ([^|]+) \|$",
            (DOCS / "operator.md").read_text("utf-8").partition("<!-- settings -->")[2],
            re.MULTILINE,
        )
    )
    wanted = settings_of(config.Settings) | settings_of(LocalSettings, "providers.local.")
    wanted |= settings_of(hosting.TokenSettings, "tokens.NAME.")
    wanted |= settings_of(LanceSettings, "providers.lancedb.")
    wanted |= settings_of(NowledgeSettings, "providers.nowledge.")
    assert {key: text.strip() for key, text in table.items()} == wanted


def test_every_variable_that_is_read_is_named_to_the_operator():
    text = (DOCS / "operator.md").read_text("utf-8")
    named = set(re.findall(r"`((?:RAWTHINK|QDRANT|OLLAMA|MEMORY)_[A-Z_]+)`", text))
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "rawthink_core").glob("*.py"))
    read = set(re.findall(r'environ(?:\.get\(|\[)"(RAWTHINK_[A-Z_]+)"', source))
    assert read - {"RAWTHINK_SECTION__KEY"} <= named


@pytest.mark.parametrize("page", ["docs/requirements.md", "docs/conformance.md", "README.md"])
def test_what_comes_from_the_suite_is_as_it_would_be_written_now(page):
    written = pages(ROOT)[ROOT / page]  # if not: python -m rawthink_conformance.pages
    assert (ROOT / page).read_text("utf-8") == written


def test_every_hook_is_in_the_table_of_hooks_with_its_argument():
    text = (DOCS / "host-author.md").read_text("utf-8")
    for name in plugins.HOOK_NAMES:
        argument = getattr(plugins.HookSpecs, name).__code__.co_varnames[1]
        assert f"| `{name}({argument})` |" in text


@pytest.mark.parametrize("page", sorted(p.name for p in DOCS.glob("*.md")))
def test_links_between_pages_lead_somewhere(page):
    text = (DOCS / page).read_text("utf-8")
    for target, anchor in re.findall(r"\]\(([\w./-]*\.md)?(#[\w-]+)?\)", text):
        there = DOCS / target if target else DOCS / page
        assert there.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", there.read_text("utf-8"), re.MULTILINE)
            slugs = {"#" + re.sub(r"[^\w -]", "", h).strip().lower().replace(" ", "-") for h in headings}
            assert anchor in slugs


def test_the_changelog_has_the_form_that_it_names():
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert "## [Unreleased]" in text
    assert set(re.findall(r"^### (\w+)", text, re.MULTILINE)) <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }


def test_python_in_the_pages_compiles():
    for page in DOCS.glob("*.md"):
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            whole = (
                f"if True:\n{block}" if block[0] == " " else block
            )  # a method is shown as it stands in its class
            compile(whole, page.name, "exec", flags=0x2000)  # top-level await is fine in a page
    assert sys.version_info >= (3, 11)
