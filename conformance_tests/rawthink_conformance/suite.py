"""`ProviderConformance`: the class by which a provider's author gets every requirement as a named test.

::

    class TestMine(ProviderConformance):
        def make_provider(self, world):
            return MyProvider(world.path, clock=world.clock, ids=world.ids, embedder=world.embedder)

The tests are plain methods that need no plugin of pytest, and each runs in a world and an event loop of
its own. None can be switched off by overriding it: a promise that is not kept yet is waived by name and with
a reason, which shows in the report, and fails again as soon as the promise is kept::

        waivers = {"text.long": "the service truncates at 100 kB; asked for more in #42"}

With ``RAWTHINK_CONFORM_DEEP`` set, the state machine runs for minutes and tells the shortest story.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rawthink_conformance.checking import Result, run_check
from rawthink_conformance.expect import Broken
from rawthink_conformance.requirements import REQUIREMENTS, Requirement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rawthink_core.provider import Provider, World

_SWITCHES = ("skip", "skipif", "xfail")


class ProviderConformance:
    """All checks of the contract. Subclass it, and say how to make a provider."""

    waivers: ClassVar[Mapping[str, str]] = {}

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


def spoil(world: World) -> None:
    """Put a file where the folder of a store should be."""
    world.path.parent.mkdir(parents=True, exist_ok=True)
    world.path.write_bytes(b"this is a file, not a folder")


def refuse_switches(cls: type[ProviderConformance]) -> None:
    """Raise TypeError where a class overrides checks, marks them away, or waives without a reason."""
    tests = (requirement.test_name for requirement in REQUIREMENTS.values())
    base = ProviderConformance
    if overridden := [test for test in tests if getattr(cls, test, None) is not getattr(base, test)]:
        raise TypeError(
            f"{cls.__name__} overrides {', '.join(overridden)}: a check can be waived, not switched off"
        )
    marks = [getattr(mark, "name", "") for mark in _as_list(getattr(cls, "pytestmark", ()))]
    if switches := sorted(set(marks) & set(_SWITCHES)):
        raise TypeError(f"{cls.__name__} is marked {', '.join(switches)}: waive single requirements instead")
    for requirement, reason in cls.waivers.items():
        if requirement not in REQUIREMENTS:
            raise TypeError(f"{cls.__name__} waives {requirement!r}, which is no requirement")
        if not reason.strip():
            raise TypeError(f"{cls.__name__} waives {requirement!r} without a reason")


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
            raise Broken(
                f"{requirement.id} (rule {requirement.rule}) is not kept\n"
                f"  promised: {requirement.statement}\n  seen: {result.detail}\n  hint: {requirement.hint}\n"
                f"  check: {result.where}"
            ) from result.error


for _requirement in REQUIREMENTS.values():
    setattr(ProviderConformance, _requirement.test_name, _test(_requirement))
