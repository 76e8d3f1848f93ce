from rawthink_conformance import ProviderConformance
from rawthink_sqlite import SqliteProvider, SqliteSettings


class TestSqlite(ProviderConformance):
    def make_provider(self, world):
        return SqliteProvider(SqliteSettings(), world)
