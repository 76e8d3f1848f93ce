"""Settings in layers (a vault's file, the user's, the environment, a command line), the nearer counting more.

Tables are merged key by key, but for ``[embedder]``: its keys belong to the embedder that it names. Where a
nearer layer names another embedder than the file does, the keys of the file are the other one's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Variables of rawthink-mcp, and the keys that they set for an embedder that may be Ollama.
OF_OLLAMA: Final = {"OLLAMA_URL": "url", "OLLAMA_MODEL": "model"}
WITH_OLLAMA: Final = ("ollama", "auto")


def embedder_section(layers: Iterable[Mapping[str, Any]], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return ``{"embedder": section}`` of layers of settings, the later ones counting more.

    ``embedder = "name"`` is short for a section of a name alone. Empty where nothing says anything; what is
    no section is returned as it is, to be refused.
    """
    section: dict[str, Any] = {}
    for layer in layers:
        said = layer.get("embedder", {})
        if isinstance(said, str):
            said = {"name": said}
        if not isinstance(said, dict):
            return {"embedder": said}
        name = said.get("name")
        if name is not None and section.get("name", name) != name:
            section = {}
        section |= said
    if section.get("name") in WITH_OLLAMA:
        section |= _from_variables(environ)
    return {"embedder": section} if section else {}


def _from_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what rawthink-mcp's variables say: more than a file, less than a variable of our own."""
    found: dict[str, str] = {}
    for variable, key in OF_OLLAMA.items():
        own = environ.get(f"RAWTHINK_EMBEDDER__{key.upper()}")
        if (value := environ.get(variable)) and not own:
            found[key] = value if "://" in value or key != "url" else f"http://{value}"
    return found


def merged(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one table of several, the later ones counting more."""
    table: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = table.get(key)
            if isinstance(value, dict) and isinstance(below, dict):
                table[key] = merged((below, value))
            else:
                table[key] = value
    return table


def holds(layer: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Tell whether a table says something at a path, or at what lies above it."""
    value: Any = layer
    for key in path:
        if not isinstance(value, dict):
            return True
        if key not in value:
            return False
        value = value[key]
    return True
