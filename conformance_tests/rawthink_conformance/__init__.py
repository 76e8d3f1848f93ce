"""The conformance suite: proves that a provider keeps the contract, and runs for anyone.

==================== ==========================================================================
`ProviderConformance` subclass it in a test, and every requirement is a test of your provider
`Requirement`         one promise; all are in ``REQUIREMENTS``, by id
`conform`             runs the suite on an installed provider, without pytest
`Report`              what `conform` returns: as a table, Markdown or JSON
`machine_for`         a state machine that compares a provider with the reference (needs hypothesis)
`ReferenceProvider`   the whole contract in memory
``plugin``            the reference provider, as the entry point ``reference``
==================== ==========================================================================

Nothing is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rawthink_conformance.installed import plugin
    from rawthink_conformance.machine import machine_for
    from rawthink_conformance.reference import ReferenceProvider
    from rawthink_conformance.report import Report
    from rawthink_conformance.requirements import REQUIREMENTS, Requirement
    from rawthink_conformance.runner import conform
    from rawthink_conformance.suite import ProviderConformance

_HOMES = {
    "ProviderConformance": "suite",
    "REQUIREMENTS": "requirements",
    "ReferenceProvider": "reference",
    "Report": "report",
    "Requirement": "requirements",
    "conform": "runner",
    "machine_for": "machine",
    "plugin": "installed",
}

__all__ = [
    "REQUIREMENTS",
    "ProviderConformance",
    "ReferenceProvider",
    "Report",
    "Requirement",
    "conform",
    "machine_for",
    "plugin",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
