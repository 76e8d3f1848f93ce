"""The zoo of mutants: the reference provider, each time with one fault. Importing it fills `ZOO`."""

from rawthink_conformance.mutants import (
    crashing,
    dense,
    forgetting,
    hosting,
    knowing,
    narrow,
    ranking,
    reading,
    revising,
    robustness,
    scope,
    searching,
    times,
    writing,
)
from rawthink_conformance.mutants.zoo import ZOO, Specimen

__all__ = [
    "UNBITTEN",
    "ZOO",
    "Specimen",
    "crashing",
    "dense",
    "forgetting",
    "hosting",
    "knowing",
    "narrow",
    "ranking",
    "reading",
    "revising",
    "robustness",
    "scope",
    "searching",
    "times",
    "writing",
]

# Requirements that no mutant of a provider can break, and why.
UNBITTEN = {
    "text.surrogates": "requests refuse lone surrogates when they are built, before any provider sees them",
}
