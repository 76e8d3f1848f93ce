"""The embedder `ollama`: a model that an Ollama server runs, on this machine or another.

A model is told from others by its digest, so that one pulled anew under the same name is another one. Text
is never truncated by the server, which would embed a part for the whole in silence: what is too long for the
model's context comes back refused and is embedded in parts.

Some versions have a context of 2,048 tokens for any model, whatever they report (bge-m3 has 8,192). A window
of 2,000 characters fits into it in every language, since a character is one token at most.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from rawthink_core.embedders.endpoint import Cures, Key
from rawthink_core.embedders.http import Address, HttpEmbedder, HttpSettings
from rawthink_core.embedding import EmbedderPlugin
from rawthink_core.errors import BackendProtocolError, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PORT = 11434
DEFAULT_MODEL = "bge-m3"
_LEARN_SECONDS = 10.0
_WINDOW = 2_000  # characters, see above
_DIGITS = 16  # of a digest
_SECONDS: Final = re.compile(r"[+-]?\d+")


def default_url(environ: Mapping[str, str]) -> str:
    """Return where Ollama listens: what its own variable OLLAMA_HOST says, else its port on this machine.

    OLLAMA_HOST may be a host, a port, both or an address; one that is bound to (0.0.0.0) is reached on
    loopback.
    """
    said = environ.get("OLLAMA_HOST", "").strip().strip("\"'")
    port_of = {"http": 80, "https": 443} if "://" in said else {"http": DEFAULT_PORT}
    try:
        parts = urlsplit(said if "://" in said else f"http://{said}")
        host, port = parts.hostname or "127.0.0.1", parts.port or port_of[parts.scheme]
    except (ValueError, KeyError):
        return f"http://127.0.0.1:{DEFAULT_PORT}"
    if host in ("0.0.0.0", "::"):  # noqa: S104 - not bound to, replaced
        host = "127.0.0.1"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


def _keep_alive(value: object) -> object:
    """Make a whole number of what a variable gives as text: Ollama refuses "-1" and takes -1."""
    return int(value) if isinstance(value, str) and _SECONDS.fullmatch(value.strip()) else value


class OllamaSettings(HttpSettings):
    """Settings of the embedder `ollama`."""

    url: Address = Field(
        default_factory=lambda: default_url(os.environ),
        title="Address",
        description="Where Ollama listens; by default OLLAMA_HOST, else port 11434 of this machine",
    )
    model: str = Field(
        default=DEFAULT_MODEL, min_length=1, title="Model", description="Model that Ollama has pulled"
    )
    keep_alive: Annotated[int | str, BeforeValidator(_keep_alive)] = Field(
        default="30m", title="Keep alive", description="How long the model stays loaded: 30m, -1 for ever"
    )


class OllamaEmbedder(HttpEmbedder):
    """Vectors from an Ollama server."""

    name = "ollama"

    def __init__(self, settings: OllamaSettings) -> None:
        self._keep_alive = settings.keep_alive
        self._digest = ""
        super().__init__(
            settings,
            model=settings.model,
            url=settings.url,
            key=Key(settings.api_key_env, settings.api_key_file),
            cures=Cures(
                start="Start it with: ollama serve",
                model=f"Fetch it with: ollama pull {settings.model}",
                key="Name its key in [embedder] api_key_env or api_key_file",
            ),
        )

    def _learn(self) -> int:
        self._digest = self._listed_digest()
        shown = self._endpoint.ask("/api/show", {"model": self._model}, seconds=_LEARN_SECONDS)
        info = shown.get("model_info") if isinstance(shown, dict) else None
        info = info if isinstance(info, dict) else {}
        if self._settings.window is None:
            self.window = min(_WINDOW, 2 * _number(info, "context_length") or _WINDOW)
        return _number(info, "embedding_length")

    def _marks(self) -> list[str]:
        return [self._digest[:_DIGITS]]  # of all that the model is, its pooling too

    def _listed_digest(self) -> str:
        listed = self._endpoint.ask("/api/tags", seconds=_LEARN_SECONDS)
        models = listed.get("models") if isinstance(listed, dict) else None
        if not isinstance(models, list):
            raise BackendProtocolError(
                f"what answers at {self._endpoint.url} is no Ollama; is [embedder] url right?"
            )
        wanted = _full(self._model)
        for model in models:
            if isinstance(model, dict) and wanted in (_full(model.get("name")), _full(model.get("model"))):
                digest = str(model.get("digest") or "")
                return digest.rpartition(":")[2] or "no digest"
        raise BackendUnavailable(
            f"Ollama at {self._endpoint.url} has no model {self._model!r}. "
            f"Fetch it with: ollama pull {self._model}"
        )

    def _send(self, texts: list[str], *, question: bool, seconds: float, tries: int) -> object:  # noqa: ARG002
        answer = self._endpoint.ask(
            "/api/embed",
            {"model": self._model, "input": texts, "truncate": False, "keep_alive": self._keep_alive},
            seconds=seconds,
            tries=tries,
        )
        return answer.get("embeddings") if isinstance(answer, dict) else answer


def _full(name: Any) -> str:
    """Return a model's name with its tag, as Ollama compares them."""
    name = str(name or "").casefold()
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


def _number(info: Mapping[str, Any], field: str) -> int:
    """Return a number of a model, whose architecture stands before its name; 0 where it has none."""
    for key, value in info.items():
        if key.endswith(f".{field}") and isinstance(value, int):
            return value
    return 0


plugin = EmbedderPlugin("ollama", "A model that Ollama runs", OllamaEmbedder, OllamaSettings)
