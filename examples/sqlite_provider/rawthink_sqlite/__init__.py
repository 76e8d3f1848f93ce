"""A memory in one file of SQLite: the provider that ``docs/writing-a-provider.md`` writes."""

from rawthink_core.plugins import ProviderPlugin
from rawthink_sqlite.provider import SqliteProvider, SqliteSettings

plugin = ProviderPlugin("sqlite", "One file of SQLite, searched by FTS5", SqliteProvider, SqliteSettings)
