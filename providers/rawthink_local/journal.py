"""The journal `rawthink.jsonl`: the truth of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_local.files import explained, make_folder, write_new
from rawthink_local.logfile import LogFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rawthink_core.commits import Header
    from rawthink_local.lock import StoreLock

NAME = "rawthink.jsonl"
ATTRIBUTES = f"{NAME} merge=union -text\n"


class Journal(LogFile):
    """The journal of one store folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / NAME)
        self.folder = folder

    def create(self, header: Callable[[], Header], lock: StoreLock) -> None:
        """Create the folder and the journal where there are none."""
        make_folder(self.folder)
        if self.exists():
            return
        with explained("creating", self.path):
            write_new(self.folder / ".gitattributes", [ATTRIBUTES.encode()])
            with lock.held():
                if not self.exists():
                    self.rewrite(header(), ())
