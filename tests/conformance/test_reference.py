"""The reference provider keeps every promise of the contract."""

from rawthink_conformance import ProviderConformance, ReferenceProvider


class TestReference(ProviderConformance):
    def make_provider(self, world):
        return ReferenceProvider(world)
