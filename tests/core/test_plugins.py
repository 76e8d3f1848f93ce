"""Plugins are found by name without importing them, checked when they load, and can be left out."""

from __future__ import annotations

import importlib.metadata
import sys
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rawthink_core.errors import PluginError
from rawthink_core.plugins import (
    HOOK_NAMES,
    HOOKS,
    PROVIDERS,
    HookSpecs,
    ProviderPlugin,
    hook_manager,
    hookimpl,
    load_provider,
    names,
)
from rawthink_core.provider import CONTRACT_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Install = Callable[..., None]


def make(settings: Any, world: Any) -> Any:
    raise AssertionError("not called here")


GOOD = ProviderPlugin("mine", "Mine", make)


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Install:
    """Return what installs plugins: modules by name, with what they hold or the source they run."""
    points: list[EntryPoint] = []
    monkeypatch.syspath_prepend(str(tmp_path))

    def entry_points(group: str, name: str | None = None) -> list[EntryPoint]:
        return [point for point in points if point.group == group and name in (None, point.name)]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)

    def add(group: str, name: str, thing: object) -> None:
        module = f"plugin_{group.rpartition('.')[2]}_{name}"
        if isinstance(thing, str):
            (tmp_path / f"{module}.py").write_text(thing, encoding="utf-8")
            monkeypatch.delitem(sys.modules, module, raising=False)
        else:
            monkeypatch.setitem(sys.modules, module, SimpleNamespace(plugin=thing))
        points.append(EntryPoint(name, f"{module}:plugin", group))

    return add


def test_listing_imports_nothing(install: Install) -> None:
    install(PROVIDERS, "zeta", "raise RuntimeError('imported')")
    install(PROVIDERS, "alpha", "raise RuntimeError('imported')")
    install(PROVIDERS, "alpha", "raise RuntimeError('imported')")
    install(HOOKS, "other", "raise RuntimeError('imported')")
    assert names() == ["alpha", "zeta"]
    assert "plugin_providers_alpha" not in sys.modules


def test_a_provider_is_loaded_by_name(install: Install) -> None:
    install(PROVIDERS, "mine", GOOD)
    assert load_provider("mine") is GOOD


@pytest.mark.parametrize("name", ["local", "lancedb", "nowledge"])
def test_one_of_ours_that_is_missing_says_what_to_install(install: Install, name: str) -> None:
    install(PROVIDERS, "mine", GOOD)
    with pytest.raises(PluginError) as refused:
        load_provider(name)
    assert f"pip install 'rawthink[{name}]'" in str(refused.value)
    assert "Installed: mine" in str(refused.value)


def test_another_that_is_missing_is_told_with_what_there_is(install: Install) -> None:
    with pytest.raises(PluginError, match=r"no provider called 'mongo' is installed\. Installed: none"):
        load_provider("mongo")


@pytest.mark.parametrize("source", ["import no_such_library", "plugin = 1 / 0", "def broken(", "other = 1"])
def test_a_provider_that_cannot_be_imported_is_named(install: Install, source: str) -> None:
    install(PROVIDERS, "local", source)
    with pytest.raises(PluginError, match=r"provider 'local' can't be imported: .*pip install"):
        load_provider("local")


@pytest.mark.parametrize(
    ("contract", "upgrade"),
    [(CONTRACT_VERSION + 1, "upgrade rawthink"), (CONTRACT_VERSION - 1, "upgrade the plugin")],
)
def test_another_version_of_the_contract_is_refused(install: Install, contract: int, upgrade: str) -> None:
    install(PROVIDERS, "mine", ProviderPlugin("mine", "Mine", make, contract=contract))
    with pytest.raises(PluginError, match=f"speaks contract version {contract}.*{upgrade}"):
        load_provider("mine")


def test_what_is_no_plugin_is_refused(install: Install) -> None:
    install(PROVIDERS, "mine", "plugin = dict")
    with pytest.raises(PluginError, match="is no ProviderPlugin but a type"):
        load_provider("mine")


# --- hooks --------------------------------------------------------------------------------------


HOOK = "from rawthink_core.plugins import hookimpl\n@hookimpl\ndef after_commit(receipt): pass\n"
PLUGIN = f"{HOOK}\nimport sys\nplugin = sys.modules[__name__]\n"


def loaded(*extra: object) -> list[str]:
    manager = hook_manager(extra)
    return [] if manager is None else sorted(name for name, _ in manager.list_name_plugin())


def test_without_plugins_there_is_no_manager(install: Install) -> None:
    assert hook_manager() is None


def test_installed_hooks_are_loaded(install: Install) -> None:
    install(HOOKS, "one", PLUGIN)
    install(HOOKS, "two", PLUGIN)
    assert loaded() == ["one", "two"]


def test_none_leaves_all_out_and_imports_none(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(HOOKS, "one", "raise RuntimeError('imported')")
    monkeypatch.setenv("RAWTHINK_PLUGINS", "none")
    assert hook_manager() is None


def test_a_list_loads_those_and_no_others(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        install(HOOKS, name, PLUGIN)
    install(HOOKS, "broken", "raise RuntimeError('imported')")
    monkeypatch.setenv("RAWTHINK_PLUGINS", " two , one,")
    assert loaded() == ["one", "two"]


def test_a_list_that_names_what_is_not_there_is_refused(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(HOOKS, "one", PLUGIN)
    monkeypatch.setenv("RAWTHINK_PLUGINS", "one,three,two")
    with pytest.raises(PluginError, match="not installed: three, two"):
        hook_manager()


@pytest.mark.parametrize(
    "source",
    [
        "import no_such_library",
        "plugin = 1 / 0",
        PLUGIN.replace("after_commit(receipt)", "after_commit(receipt, more)"),
        PLUGIN.replace("after_commit", "after_comit"),
        PLUGIN.replace("def ", "async def "),
        PLUGIN.replace(
            "@hookimpl", "import pluggy\n@pluggy.HookimplMarker('rawthink')(wrapper=True)"
        ).replace("pass", "yield"),
    ],
    ids=["import", "error", "arguments", "misspelt", "async", "wrapper"],
)
def test_a_hook_that_could_not_run_is_refused_at_once(install: Install, source: str) -> None:
    install(HOOKS, "mine", source)
    with pytest.raises(PluginError, match=r"(?s)plugin 'mine' can't be loaded: .*RAWTHINK_PLUGINS=none"):
        hook_manager()


class Mine:
    """Hooks that an application brings itself."""

    @hookimpl
    def after_commit(self, receipt: Any) -> None: ...


class Misspelt:
    """A hook that would never run."""

    @hookimpl
    def before_recrod(self, batch: Any) -> None: ...


def test_an_application_may_bring_hooks_of_its_own(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(HOOKS, "one", PLUGIN)
    assert len(loaded(Mine())) == 2
    monkeypatch.setenv("RAWTHINK_PLUGINS", "none")
    assert len(loaded(Mine())) == 1


@pytest.mark.parametrize("own", [Misspelt(), None])
def test_hooks_of_an_application_are_checked_too(install: Install, own: object) -> None:
    with pytest.raises(PluginError, match="a hook plugin of this application"):
        hook_manager([own] if own else [plugin := Mine(), plugin])


def test_there_are_three_hooks_and_each_is_described() -> None:
    specified = [name for name in vars(HookSpecs) if not name.startswith("_")]
    assert tuple(specified) == HOOK_NAMES == ("before_record", "before_capture", "after_commit")
    assert all(getattr(HookSpecs, name).__doc__ for name in HOOK_NAMES)
