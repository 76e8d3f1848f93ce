"""The vault: Markdown notes and sessions beside a memory, searchable in it.

``chunking`` and ``frontmatter`` are pure; ``folder`` is the disk, ``documents`` what a file says, ``ledger``
what is indexed already, ``filing`` and ``indexing`` how it gets into the memory; ``vault`` is the door.
"""

from __future__ import annotations

from rawthink_core.vault.documents import Source, own_tags, source_of, source_tags
from rawthink_core.vault.reports import IndexReport, SessionText, StoredNote
from rawthink_core.vault.vault import Vault

__all__ = [
    "IndexReport",
    "SessionText",
    "Source",
    "StoredNote",
    "Vault",
    "own_tags",
    "source_of",
    "source_tags",
]
