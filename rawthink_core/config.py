"""Settings: one file, `rawthink.toml`, and the environment over it. Nothing here opens anything.

Order: ``--config`` or ``RAWTHINK_CONFIG``, else ``rawthink.toml`` in the user's config folder; then the
environment (``RAWTHINK_PROVIDER``, ``RAWTHINK_SPACE``, ``RAWTHINK_SECTION__KEY``). A file inside a vault
may set only what is harmless to share: vaults travel between people.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rawthink_core.errors import ConfigError
from rawthink_core.hosting import HostSection, ProxySettings, TokenSettings
from rawthink_core.layers import OF_OLLAMA, WITH_OLLAMA, embedder_section, holds, merged
from rawthink_core.operations import faults_of
from rawthink_core.ranking import Fusion
from rawthink_core.vocabulary import DEFAULT_VOCABULARY, Vocabulary, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

FILE = "rawthink.toml"
DEFAULT_VAULT = "~/rawthink-vault"
SHARED_KEYS = ("space", "timezone", "vocabulary", "ranking")

# Variables of rawthink-mcp. Those that mean something here map to a key; the others get one notice
# (those of Ollama only where it is no embedder).
_SEED = {
    "RAWTHINK_VAULT": ("vault",),
    "MEMORY_FILE_PATH": ("providers", "local", "memory_file"),
    "QDRANT_URL": ("providers", "local", "url"),
}
_SEED_WITHOUT_MEANING = (
    "QDRANT_PATH", "OLLAMA_URL", "OLLAMA_MODEL", "RAWTHINK_TURKISH_NORMALIZATION",
    "RAWTHINK_BM25_STATE", "RAWTHINK_EVAL_GT",
)  # fmt: skip
# Variables that are read where they matter, and are no settings of this file.
_ELSEWHERE = (
    "RAWTHINK_CONFIG", "RAWTHINK_CACHE", "RAWTHINK_STATE", "RAWTHINK_PLUGINS", "RAWTHINK_LOG_LEVEL",
    "RAWTHINK_TOOL_PROFILE",
)  # fmt: skip
_READ = frozenset({*_SEED, *_SEED_WITHOUT_MEANING, *_ELSEWHERE})


class VocabularySettings(HostSection):
    """Words added to the vocabulary."""

    entity_types: tuple[str, ...] = Field(default=(), title="Entity types", description="Entity types to add")
    domains: tuple[str, ...] = Field(default=(), title="Domains", description="Domains to add")
    relations: tuple[str, ...] = Field(default=(), title="Relations", description="Relation types to add")
    relation_aliases: dict[str, str] = Field(
        default={},
        title="Relation synonyms",
        description="Synonym = type; a leading < turns the arrow: owned_by = '<owns'",
    )


class RankingSettings(HostSection):
    """How what was found is put in order."""

    fusion: Fusion = Field(default="minmax", title="Fusion", description="By score (minmax) or by rank (rrf)")


class RecallSettings(HostSection):
    """How long a chat may wait for its memory."""

    deadline: float = Field(default=1.2, gt=0, title="Deadline", description="Seconds a recall may take")


class EmbedderSettings(HostSection):
    """Which embedder makes vectors. Its own settings stand beside its name; `opening` checks them."""

    model_config = ConfigDict(extra="allow")

    name: str = Field(
        default="none", title="Embedder", description="An installed embedder, auto for what there is, or none"
    )


class Settings(HostSection):
    """Everything that can be set."""

    provider: str = Field(default="local", title="Provider", description="The backend: an installed provider")
    vault: str = Field(default=DEFAULT_VAULT, title="Vault", description="Folder of your memory and notes")
    space: str = Field(default="default", min_length=1, title="Space", description="The memory to work in")
    timezone: str | None = Field(
        default=None, title="Time zone", description="IANA zone of a new store; by default the machine's"
    )
    redact: Literal["on", "warn", "off"] = Field(
        default="warn", title="Secrets", description="Mask secrets in what is recorded, warn, or do nothing"
    )
    embedder: EmbedderSettings = Field(default=EmbedderSettings(), title="Embedder", description="Vectors")
    vocabulary: VocabularySettings = Field(
        default=VocabularySettings(), title="Vocabulary", description="Your own words"
    )
    ranking: RankingSettings = Field(default=RankingSettings(), title="Ranking", description="Order of hits")
    recall: RecallSettings = Field(
        default=RecallSettings(), title="Recall", description="Recall before a chat"
    )
    proxy: ProxySettings = Field(default=ProxySettings(), title="Proxy", description="Before a chat API")
    tokens: dict[str, TokenSettings] = Field(
        default={}, title="Tokens", description="Who may come in over a network, under a name of your choice"
    )
    providers: dict[str, dict[str, Any]] = Field(
        default={}, title="Providers", description="Settings of each provider, under its name"
    )


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings, where they came from, and what the user should be told about them once."""

    settings: Settings
    file: Path | None
    notices: tuple[str, ...] = ()

    @property
    def vault(self) -> Path:
        """The vault as an absolute path: the same from every working directory."""
        return absolute(self.settings.vault)

    def vocabulary(self) -> Vocabulary:
        """Return the vocabulary with the user's words. Raises ConfigError."""
        words = self.settings.vocabulary
        try:
            return DEFAULT_VOCABULARY.extended(
                entity_types=words.entity_types,
                domains=words.domains,
                relations=words.relations,
                relation_aliases=words.relation_aliases,
            )
        except ValueError as error:
            raise ConfigError(f"[vocabulary] {error}") from None


def absolute(path: str | Path) -> Path:
    """Return an absolute path with ``~`` expanded; a relative one starts at the home folder.

    A memory must not land in another folder for each directory that a client happens to start in.
    """
    try:
        expanded = Path(path).expanduser()
        return (expanded if expanded.is_absolute() else Path.home() / expanded).resolve()
    except (RuntimeError, ValueError) as error:  # no such user, no home, a NUL
        raise ConfigError(f"{str(path)!r} is no place for a file: {error}") from None


def machine_zone() -> str:
    """Return the IANA name of this machine's time zone, UTC where it has none that we can name."""
    import tzlocal  # noqa: PLC0415 - only a new store asks

    try:
        return tzlocal.get_localzone_name() or "UTC"
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def config_file(environ: Mapping[str, str]) -> Path:
    """Return where the settings are looked for."""
    if named := environ.get("RAWTHINK_CONFIG"):
        return Path(named).expanduser().absolute()
    import platformdirs  # noqa: PLC0415 - not when the file is named

    return platformdirs.user_config_path("rawthink", appauthor=False) / FILE


def load(
    file: Path | None = None, environ: Mapping[str, str] | None = None, **overrides: Any
) -> Configuration:
    """Read the settings. ``overrides`` (what was said on a command line) count most.

    Raises ConfigError that names the file, the key, and the nearest known one.
    """
    environ = os.environ if environ is None else environ
    chosen = file.expanduser() if file is not None else config_file(environ)
    own = _read(chosen, required=file is not None or bool(environ.get("RAWTHINK_CONFIG")))
    layers = {
        f"in {chosen}": own,
        "in the environment": _from_environment(environ),
        "as given": {key: value for key, value in overrides.items() if value is not None},
    }
    vault = merged(layers.values()).get("vault")
    shared = absolute(vault if isinstance(vault, str) else DEFAULT_VAULT) / FILE
    if shared.is_file() and shared != chosen.resolve():
        layers = {f"in {shared}": _shared(shared), **layers}
    try:
        said = merged(layers.values()) | embedder_section(layers.values(), environ)
        settings = Settings.model_validate(said)
    except ValidationError as error:
        raise ConfigError(_explain(error, layers)) from None
    notices = tuple(_notices(environ, chosen, settings.embedder.name))
    return Configuration(settings, chosen if chosen.is_file() else None, notices)


def _notices(environ: Mapping[str, str], chosen: Path, embedder: str) -> Iterator[str]:
    """Yield what is set in the environment to no effect."""
    for name in _SEED_WITHOUT_MEANING:
        if environ.get(name) and not (name in OF_OLLAMA and embedder in WITH_OLLAMA):
            yield f"{name} is set but means nothing to rawthink; its settings are in {chosen}"
    known = [f"RAWTHINK_{field.upper()}" for field in Settings.model_fields]
    for name in environ:
        field = name.removeprefix("RAWTHINK_").partition("__")[0].lower()
        if name.startswith("RAWTHINK_") and name not in _READ and field not in Settings.model_fields:
            import difflib  # noqa: PLC0415 - only an odd variable needs it

            if near := difflib.get_close_matches(name.partition("__")[0], known, n=1, cutoff=0.85):
                yield f"{name} is set but means nothing to rawthink; did you mean {near[0]}?"


def _read(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise ConfigError(f"there is no configuration file {path}") from None
        return {}
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def _shared(path: Path) -> dict[str, Any]:
    data = _read(path, required=True)
    if private := sorted(set(data) - set(SHARED_KEYS)):
        raise ConfigError(
            f"{path} lies in a vault, which people share: it may set {', '.join(SHARED_KEYS)} only, "
            f"not {', '.join(private)}. Move the rest to your own {FILE}"
        )
    return data


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, keys in _SEED.items():
        if value := environ.get(name):
            _put(data, keys, value)
    for name, value in environ.items():
        keys = tuple(part.lower() for part in name.removeprefix("RAWTHINK_").split("__"))
        if (
            not value
            or not name.startswith("RAWTHINK_")
            or name in _READ
            or keys[0] not in Settings.model_fields
        ):
            continue
        if len(keys) == 1:
            _put(data, ("embedder", "name") if keys == ("embedder",) else keys, value)
        else:
            _put(data, keys, _parsed(value))
    return data


def _parsed(value: str) -> Any:
    """Read a list or a table as TOML would; all else is a text, which the setting itself converts."""
    try:
        return tomllib.loads(f"value = {value}")["value"] if value[0] in "[{" else value
    except tomllib.TOMLDecodeError:
        return value


def _put(data: dict[str, Any], keys: tuple[str, ...], value: Any) -> None:
    for key in keys[:-1]:
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            name = "__".join(keys).upper()
            raise ConfigError(
                f"RAWTHINK_{name} is set, but {key!r} is set to a single value as well; drop one"
            )
    data[keys[-1]] = value


def _explain(error: ValidationError, layers: dict[str, dict[str, Any]]) -> str:
    lines = []
    for fault in faults_of(error):
        *section, key = fault.where.split(".")
        problem = fault.problem
        if "not an argument" in problem:
            problem = unknown("setting", key, tuple(_section_at(section).model_fields))
        path = (*section, key)
        source = next((name for name, layer in reversed(layers.items()) if holds(layer, path)), "by default")
        lines.append(f"{fault.where} ({source}): {problem}")
    return "settings: " + "; ".join(lines)


def _section_at(path: Iterable[str]) -> type[BaseModel]:
    """Return the model of a section, as far as the path is known."""
    model: type[BaseModel] = Settings
    for key in path:
        field = model.model_fields.get(key)
        if (
            field is None
            or not isinstance(field.annotation, type)
            or not issubclass(field.annotation, BaseModel)
        ):
            break
        model = field.annotation
    return model
