"""The embedder `auto`: what there is, chosen once.

Ollama when it answers and has the model, else the offline model where it is installed, else none. A store
keeps the choice, for another model's vectors are of no use to it: `settle` on the kept name before `open`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from rawthink_core import embedding
from rawthink_core.embedders import offline, ollama
from rawthink_core.embedders.ollama import OllamaEmbedder, OllamaSettings
from rawthink_core.errors import BackendError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rawthink_core.embedding import Embedder, EmbedderPlugin

CHOICES = {"ollama": ollama.plugin, "offline": offline.plugin, "none": embedding.plugin}


async def resolve_auto(settings: OllamaSettings | None = None) -> EmbedderPlugin:
    """Return the embedder to choose here and now; ``settings`` say where Ollama would be. Raises nothing."""
    candidate = OllamaEmbedder(settings or OllamaSettings())
    try:
        await candidate.open()
    except BackendError:
        return CHOICES["none" if offline.unavailable() else "offline"]
    finally:
        await candidate.close()
    return CHOICES["ollama"]


class AutoEmbedder:
    """Chooses when it opens, and is what it chose from then on. ``settings`` are Ollama's."""

    def __init__(self, settings: OllamaSettings) -> None:
        self._settings = settings
        self._turn = threading.Lock()
        self._become(embedding.NoEmbedder())
        self.choice: str | None = None
        self.name, self.fingerprint = "auto", "auto; not chosen yet"

    def _become(self, chosen: Embedder) -> None:
        self._chosen = chosen
        self.name = chosen.name
        self.dimensions = chosen.dimensions
        self.fingerprint = chosen.fingerprint
        self.dense_weight = chosen.dense_weight
        self.min_similarity = chosen.min_similarity
        self.window = chosen.window

    def settle(self, name: str) -> None:
        """Be this embedder, as was chosen before. Raises ConfigError for one that is never chosen."""
        if name not in CHOICES:
            raise ConfigError(f"'auto' never chooses {name!r}; set [embedder] name = {name!r}")
        with self._turn:
            if self.choice != name:
                plugin = CHOICES[name]
                self._become(plugin.make(self._settings if name == "ollama" else plugin.settings()))
                self.choice = name

    async def open(self) -> None:
        """Choose, where nothing was chosen yet, and open what was. Raises BackendError."""
        if self.choice is None:
            self.settle((await resolve_auto(self._settings)).name)
        await self._chosen.open()
        self._become(self._chosen)  # which may know its size only now

    async def close(self) -> None:
        """Close what was chosen."""
        await self._chosen.close()

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed as what was chosen does."""
        return await self._chosen.embed_passages(texts)

    async def embed_query(self, text: str) -> list[float]:
        """Embed as what was chosen does."""
        return await self._chosen.embed_query(text)
