"""`ProviderConformance`: the class by which a provider's author gets every requirement as a named test.

::

    class TestMine(ProviderConformance):
        def make_provider(self, world):
            return MyProvider(world.path, clock=world.clock, ids=world.ids, embedder=world.embedder)

The tests are plain methods that need no plugin of pytest, and each runs in a world, a thread and an event
loop of its own. A test is called after its requirement: ``pytest -k scope.exact``. None can be switched off
by overriding, deleting or marking it: a promise that is not kept yet is waived by name and with a reason,
which shows in the report, and fails again as soon as the promise is kept::

        waivers = {"text.long": "the service truncates at 100 kB; asked for more in #42"}
        waiver_file = "waivers.toml"   # the same, in a file beside this one

With ``RAWTHINK_CONFORM_DEEP`` set, the state machine runs for minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rawthink_conformance.checking import Result, run_check
from rawthink_conformance.expect import Broken
from rawthink_conformance.requirements import REQUIREMENTS, Requirement
from rawthink_conformance.waiving import check_waivers, read_waivers
from rawthink_core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rawthink_core.provider import Provider, World

_SWITCHES = ("skip", "skipif", "xfail")
_INSTEAD = "a check can be waived, not switched off"
_TESTS: dict[str, Callable[[ProviderConformance], None]] = {}  # by the names of their methods
_SPELLINGS: dict[str, str] = {}  # those names, by how a method could be spelt in a class


class _Whole(type):
    """Keeps the checks of a class, and of what inherits from it, as they are."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if name in ("pytestmark", "__test__"):
            _refuse_marks(cls, name, value)
        elif name == "waivers":
            _refuse_waivers(cls, value)
        elif (check := _check_named(name)) is not None and value is not _TESTS.get(name):
            raise TypeError(f"{cls.__name__} overrides {check}: {_INSTEAD}")
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        if name in _TESTS:
            raise TypeError(f"{cls.__name__} removes {name}: {_INSTEAD}")
        super().__delattr__(name)


class ProviderConformance(metaclass=_Whole):
    """All checks of the contract. Subclass it, and say how to make a provider."""

    waivers: ClassVar[Mapping[str, str]] = {}
    waiver_file: ClassVar[str | None] = None  # a TOML file beside the class's own: see `waiving`

    def make_provider(self, world: World) -> Provider:
        """Return a provider on ``world``, not opened yet.

        It is called again on the same world to reopen the store, and while another instance is open, as a
        second process would. Everything that the provider writes belongs into the folders of the world.
        """
        raise NotImplementedError("say how to make a provider on a world")

    def make_unusable(self, world: World) -> None:
        """Change ``world``, in which nothing was opened yet, so that no store can work in it.

        A file is put where the store's folder should be. Override it for a store that lies elsewhere.
        """
        spoil(world)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse a subclass that switches checks off."""
        super().__init_subclass__(**kwargs)
        refuse_switches(cls)
        if "waiver_file" in vars(cls) and cls.waiver_file is not None:
            home = Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or "").parent
            cls.waivers = {**read_waivers(home / cls.waiver_file), **cls.waivers}


def spoil(world: World) -> None:
    """Put a file where the folder of a store should be."""
    world.path.parent.mkdir(parents=True, exist_ok=True)
    world.path.write_bytes(b"this is a file, not a folder")


def refuse_switches(cls: type[ProviderConformance]) -> None:
    """Raise TypeError where a class overrides checks, marks them away, or waives without a reason."""
    inherited = {name for parent in cls.__mro__ if parent is not ProviderConformance for name in vars(parent)}
    named = {check for name in inherited if (check := _check_named(name)) is not None}
    lost = {test for test, body in _TESTS.items() if getattr(cls, test, None) is not body}
    if overridden := sorted(named | lost):
        raise TypeError(f"{cls.__name__} overrides {', '.join(overridden)}: {_INSTEAD}")
    for name in ("pytestmark", "__test__"):
        _refuse_marks(cls, name, getattr(cls, name, True))
    _refuse_waivers(cls, cls.waivers)


def _check_named(name: str) -> str | None:
    """Return the check that an attribute is, or could be taken for."""
    return _SPELLINGS.get(name.replace(".", "_"))


def _refuse_marks(cls: type, name: str, value: Any) -> None:
    if name == "__test__" and not value:
        raise TypeError(f"{cls.__name__} hides its checks; a base class needs no name that begins with Test")
    marks = [getattr(mark, "name", "") for mark in _as_list(value)]
    if switches := sorted(set(marks) & set(_SWITCHES)):
        raise TypeError(f"{cls.__name__} is marked {', '.join(switches)}: waive single requirements instead")


def _refuse_waivers(cls: type, waivers: Mapping[str, str]) -> None:
    try:
        check_waivers(waivers)
    except InvalidRequest as error:
        raise TypeError(f"{cls.__name__}: {error}") from None


def _as_list(marks: Any) -> list[Any]:
    return list(marks) if isinstance(marks, list | tuple) else [marks]


def _test(requirement: Requirement) -> Callable[[ProviderConformance], None]:
    def test(self: ProviderConformance) -> None:
        result = run_check(requirement, self, self.waivers)
        __tracebackhide__ = (
            result.outcome == "failed"
        )  # shown are the check and the provider, not what runs them
        tell_pytest(result)

    test.__name__ = requirement.test_name
    test.__qualname__ = f"ProviderConformance.{requirement.test_name}"
    test.__doc__ = requirement.statement
    return test


def tell_pytest(result: Result) -> None:
    """Turn the result of a check into the outcome of the running test."""
    import pytest  # noqa: PLC0415 - whoever imports the suite need not have it

    __tracebackhide__ = result.outcome == "failed"
    match result.outcome:
        case "passed":
            return
        case "unsupported":
            pytest.skip(f"unsupported: {result.detail}")
        case "waived":
            pytest.xfail(f"waived: {result.detail}")
        case "failed":
            requirement = result.requirement
            script = f"\n  this program shows it:\n\n{result.script}" if result.script else ""
            raise Broken(
                f"{requirement.id} (rule {requirement.rule}) is not kept\n"
                f"  promised: {requirement.statement}\n  seen: {result.detail}\n  hint: {requirement.hint}\n"
                f"  check: {result.where}{script}"
            ) from result.error


for _requirement in REQUIREMENTS.values():
    _TESTS[_requirement.test_name] = _test(_requirement)
    _SPELLINGS[_requirement.test_name.replace(".", "_")] = _requirement.test_name
    setattr(ProviderConformance, _requirement.test_name, _TESTS[_requirement.test_name])
