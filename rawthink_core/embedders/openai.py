"""The embedder `openai`: any server with its ``/v1/embeddings``: OpenAI, vLLM, llama.cpp, LM Studio, TEI.

Such servers say little about a model: its name, its size and what the server calls it tell it from others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field

from rawthink_core.embedders.endpoint import Cures, Key
from rawthink_core.embedders.http import Address, HttpEmbedder, HttpSettings
from rawthink_core.embedders.vectors import in_order
from rawthink_core.embedding import EmbedderPlugin

if TYPE_CHECKING:
    from typing import Final

DEFAULT_URL: Final = "https://api.openai.com/v1"
DEFAULT_MODEL: Final = "text-embedding-3-small"
_OWN_HOST: Final = "api.openai.com"


class OpenAISettings(HttpSettings):
    """Settings of the embedder `openai`."""

    base_url: Address = Field(
        default=DEFAULT_URL, title="Address", description="Address of the server, mostly ending in /v1"
    )
    model: str = Field(
        default=DEFAULT_MODEL, min_length=1, title="Model", description="Model as the server calls it"
    )
    dimensions: int | None = Field(
        default=None, ge=1, title="Dimensions", description="Size to ask for, of models that can be shortened"
    )
    encoding: Literal["float", "base64"] = Field(
        default="float", title="Encoding", description="How vectors travel; base64 is a quarter of the size"
    )
    query_input_type: str | None = Field(
        default=None,
        title="Type of questions",
        description="input_type of questions, where a server wants one",
    )
    passage_input_type: str | None = Field(
        default=None, title="Type of passages", description="input_type of passages, where a server wants one"
    )


class OpenAIEmbedder(HttpEmbedder):
    """Vectors from a server that speaks OpenAI's protocol."""

    name = "openai"

    def __init__(self, settings: OpenAISettings) -> None:
        self._own = settings
        self._called = settings.model
        variable = settings.api_key_env
        if variable is None and urlsplit(settings.base_url).hostname == _OWN_HOST:
            variable = "OPENAI_API_KEY"  # which is sent to nobody else without being named
        super().__init__(
            settings,
            model=settings.model,
            url=settings.base_url,
            key=Key(variable, settings.api_key_file),
            cures=Cures(
                start="Start it, or correct [embedder] base_url",
                model="Correct [embedder] model",
                key=f"Look at the key in {settings.api_key_file or variable or '[embedder] api_key_env'}",
            ),
        )

    def _learn(self) -> int:
        return 0  # nothing tells it but a vector, for which the model and the key must be right too

    def _marks(self) -> list[str]:
        marks = [f"answers as {self._called}"] if self._called != self._model else []
        types = (self._own.query_input_type, self._own.passage_input_type)
        return [*marks, *([f"types {types[0]} {types[1]}"] if any(types) else [])]

    def _send(self, texts: list[str], *, question: bool, seconds: float, tries: int) -> object:
        body: dict[str, Any] = {
            "model": self._model,
            "input": texts,
            "encoding_format": self._own.encoding,
        }
        if self._own.dimensions is not None:
            body["dimensions"] = self._own.dimensions
        kind = self._own.query_input_type if question else self._own.passage_input_type
        if kind is not None:
            body["input_type"] = kind
        answer = self._endpoint.ask("/embeddings", body, seconds=seconds, tries=tries)
        if not isinstance(answer, dict):
            return answer
        if isinstance(answer.get("model"), str):
            self._called = answer["model"]
        return in_order(answer.get("data"), len(texts))


plugin = EmbedderPlugin(
    "openai", "Any server with OpenAI's embeddings endpoint", OpenAIEmbedder, OpenAISettings
)
