"""The servers that are measured: ours, and rawthink-mcp in the same run where ``--peer`` names it.

rawthink-mcp must be installed in an environment of its own. Its stores are made in its own format with the
content of ours, and it is asked what ours is asked.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from client import Client
from made import commits, make_store

if TYPE_CHECKING:
    from pathlib import Path

    from stub import Ollama

DATE = "2024-01-01"


class Server(ABC):
    """A kind of server: how it is started, and how its stores are made."""

    name: str
    command: tuple[str, ...]
    profiles: tuple[str, ...]
    sizes: tuple[int, ...]  # of vectors
    shares: bool  # whether a store serves several processes, each of which finds at once what any wrote

    def __init__(self, ollama: Ollama) -> None:
        self.ollama = ollama

    def start(self, home: Path, profile: str = "", size: int = 0) -> Client:
        """Start one on the store in a home: with its own default profile, without vectors."""
        return Client(self.command, home, self.variables(home, profile, size))

    @abstractmethod
    def variables(self, home: Path, profile: str, size: int) -> dict[str, str]:
        """Return the environment that says where all is, and which embedder to ask."""

    @abstractmethod
    def make_graph(self, home: Path, entities: int) -> None:
        """Make a store of so many entities."""


class Ours(Server):
    """`rawthink mcp` of this tree."""

    name = "rawthink"
    command = (sys.executable, "-m", "rawthink_cli.main", "mcp")
    profiles = ("recall", "record", "agent", "full")
    sizes = (384, 1024)
    shares = True

    def variables(self, home: Path, profile: str, size: int) -> dict[str, str]:
        """Return RAWTHINK_ variables; what is not said has its default."""
        found = {f"RAWTHINK_{name.upper()}": str(home / name) for name in ("vault", "cache", "state")}
        if profile:
            found["RAWTHINK_TOOL_PROFILE"] = profile
        if size:
            found["RAWTHINK_EMBEDDER"] = "ollama"
            found["RAWTHINK_EMBEDDER__URL"] = f"http://{self.ollama.address}"
            found["RAWTHINK_EMBEDDER__MODEL"] = self.ollama.model(size)
        return found

    def make_graph(self, home: Path, entities: int) -> None:
        """Write the journal."""
        make_store(home / "vault", entities)


class Peer(Server):
    """rawthink-mcp, started by its script or by the Python that it is installed for."""

    name = "rawthink-mcp"
    profiles = ("recall", "record", "full")
    sizes = (1024,)  # it takes no other
    shares = False

    def __init__(self, ollama: Ollama, program: Path) -> None:
        super().__init__(ollama)
        module = ("-m", "rawthink_mcp") if program.name.startswith("python") else ()
        self.command = (str(program.absolute()), *module)  # not resolved: an environment's Python is a link

    def variables(self, home: Path, profile: str, size: int) -> dict[str, str]:
        """Return its variables. Its index is embedded, and opens whether anything asks for vectors or not."""
        (home / "vault").mkdir(parents=True, exist_ok=True)
        return {
            "RAWTHINK_VAULT": str(home / "vault"),
            "RAWTHINK_TOOL_PROFILE": profile,
            "RAWTHINK_LOG_LEVEL": "WARNING",
            "QDRANT_PATH": str(home / "qdrant"),
            "OLLAMA_HOST": self.ollama.address,
            "OLLAMA_MODEL": self.ollama.model(size or self.sizes[0]),
        }

    def make_graph(self, home: Path, entities: int) -> None:
        """Write its one file, a line an entity."""
        (home / "vault").mkdir(parents=True, exist_ok=True)
        with (home / "vault" / "memory.jsonl").open("w", encoding="utf-8") as file:
            for commit in commits(entities):
                first, *others = commit.rows
                entity = {
                    "type": "entity",
                    "name": first["name"],
                    "entityType": first["entity_type"],
                    **{field: first[field] for field in ("domain", "epistemic", "visibility")},
                    "observations": [
                        {"text": row["text"], "kind": row["kind"], "created": DATE, "status": "active"}
                        for row in others
                    ],
                    "activation": 1.0,
                    "last_accessed": DATE,
                }
                file.write(json.dumps(entity, ensure_ascii=False) + "\n")
