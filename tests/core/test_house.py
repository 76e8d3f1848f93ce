"""The house: which way arrows point, which module stands above which, and what the pages promise."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from rawthink_core.memory import Memory
from rawthink_core.provider import Provider

ROOT = Path(__file__).parents[2]
CORE = ROOT / "rawthink_core"

# Core from the roof down: a module imports only what stands above it.
LEVELS = (
    "errors clock disk locking stopwords tokens text scanning redaction vocabulary model",
    "frame writes reads upkeep operations",
    "identity rows commits ranking embedding provider",
    "embedders.threads embedders.vectors embedders.batches embedders.figures embedders.connection",
    "embedders.endpoint embedders.http embedders.ollama embedders.openai",
    "embedders.directions embedders.serving embedders.offline embedders.auto",
    "work validation slice entities revising planning graph draft dialects foreign",
    "selection questions asking embedding_shelf vectorizer embedding_queue retrieval hits finding searching reading keyed activity",
    "store_provider embedding_provider",
    "decisions masking marks injected chat context turns",
    "plugins guard layers hosting config recall verbs",
    "spooling.files spooling.index spooling.spool spooling.pacing spooling.courier spooling.delivery spooling.spooled",
    "moving memory opening sync",
    "vault.chunking vault.frontmatter vault.folder vault.documents vault.ledger vault.reports vault.catalogue",
    "vault.filing vault.indexing vault.vault",
)
FLOORS = [module for level in LEVELS for module in level.split()]

# Arrows that point up all the same.
UPWARDS = {
    ("entities", "planning"): "types only: the planner hands itself to its parts",
    ("revising", "planning"): "types only: the planner hands itself to its parts",
    ("memory", "vault.vault"): "inside `Memory.vault`: few memories have files beside them",
    ("memory", "opening"): "inside `open_memory`: who brings a provider needs no configuration",
}

MOST_LINES = 320
LONGER: dict[str, str] = {}

# What start-up can't afford: never imported by core at all, or only inside a function.
NEVER = ("numpy", "httpx", "mcp", "qdrant_client", "qdrant_edge", "lancedb", "openai", "click")
LATE = ("pluggy", "platformdirs", "tzlocal", "Stemmer", "regex", "difflib", "httpx2", "yaml")


class Import(NamedTuple):
    """One import statement: of which module, and where."""

    name: str
    where: str


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> list[Import]:
    """Return every module that a file imports, inside functions and for types too."""
    found: list[Import] = []
    for node in ast.walk(tree(path)):
        where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            found += [Import(alias.name, where) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{where}: a relative import"
            found.append(Import(node.module or "", where))
            found += [Import(f"{node.module}.{alias.name}", where) for alias in node.names]
    return found


def packages(folder: str) -> list[Path]:
    return sorted(path for path in (ROOT / folder).iterdir() if path.name.startswith("rawthink_"))


def files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def modules() -> list[Path]:
    return [path for path in files(CORE) if path.stem != "__init__"]


def room(path: Path) -> str:
    """Return the name of a module of core: ``model``, ``embedders.ollama``."""
    return ".".join(path.relative_to(CORE).with_suffix("").parts)


OURS = {path.name for folder in ("providers", "hosts", "conformance_tests") for path in packages(folder)}


# --- arrows -------------------------------------------------------------------------------------


def strangers(package: Path) -> list[str]:
    """Return where a package imports another of ours than core and itself."""
    others = OURS - {package.name}
    return [
        f"{where} imports {name}"
        for path in files(package)
        for name, where in imports(path)
        if name in others
    ]


def test_core_imports_no_provider_no_host_and_no_suite() -> None:
    assert strangers(CORE) == []


@pytest.mark.parametrize("folder", ["providers", "hosts", "conformance_tests"])
def test_everything_else_imports_core_and_itself_only(folder: str) -> None:
    assert [found for package in packages(folder) for found in strangers(package)] == []


def test_every_module_of_core_has_its_floor() -> None:
    assert sorted(map(room, modules())) == sorted(FLOORS)


def upward() -> dict[tuple[str, str], str]:
    """Return every import of core by core that points to the same floor or below."""
    found: dict[tuple[str, str], str] = {}
    for path in modules():
        for name, where in imports(path):
            package, _, module = name.partition(".")
            if (
                package == "rawthink_core"
                and module in FLOORS
                and FLOORS.index(module) >= FLOORS.index(room(path))
            ):
                found[room(path), module] = where
    return found


def test_a_module_imports_only_what_stands_above_it() -> None:
    assert {arrow: where for arrow, where in upward().items() if arrow not in UPWARDS} == {}


def test_no_exception_outlives_its_reason() -> None:
    assert UPWARDS.keys() == upward().keys()
    assert all(
        len((CORE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8").splitlines()) > MOST_LINES
        for name in LONGER
    )


# --- start-up -----------------------------------------------------------------------------------


def loaded_by(statement: str) -> set[str]:
    """Return what a fresh interpreter has loaded after a statement."""
    done = subprocess.run(
        [sys.executable, "-c", f"{statement}; import sys; print(*sys.modules)"],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_package_itself_imports_nothing() -> None:
    assert {name for name in loaded_by("import rawthink_core") if name.startswith("rawthink_core")} == {
        "rawthink_core"
    }


def test_core_imports_nothing_heavy() -> None:
    loaded = loaded_by("import " + ", ".join(f"rawthink_core.{name}" for name in FLOORS))
    assert loaded.isdisjoint(NEVER)
    assert loaded.isdisjoint(LATE)


def test_core_names_nothing_heavy_anywhere() -> None:
    named = {name.partition(".")[0]: where for path in modules() for name, where in imports(path)}
    assert {name: named[name] for name in NEVER if name in named} == {}


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", files(CORE), ids=lambda path: path.stem)
def test_a_module_says_what_it_is_for_and_is_short(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "no docstring"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def undocumented(node: ast.AST, prefix: str) -> list[str]:
    """Return the public classes, functions and methods below a node that have no docstring."""
    missing: list[str] = []
    for child in ast.iter_child_nodes(node):
        if not isinstance(
            child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ) or child.name.startswith("_"):
            continue
        if not ast.get_docstring(child):
            missing.append(f"{prefix}{child.name}")
        if isinstance(child, ast.ClassDef):
            missing += undocumented(child, f"{prefix}{child.name}.")
    return missing


@pytest.mark.parametrize("path", files(CORE), ids=lambda path: path.stem)
def test_every_public_name_says_what_it_does(path: Path) -> None:
    assert undocumented(tree(path), "") == []


# --- docs/verbs.md ------------------------------------------------------------------------------


class Row(NamedTuple):
    """One row of a table of verbs."""

    contract: list[str]
    memory: list[str]
    command: list[str]
    tools: list[str]


PAGE = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")
ROWS = [
    Row(*(re.findall(r"`(\w+)`", cell) for cell in line.strip("|").split("|")))
    for line in PAGE.splitlines()
    if line.startswith("| `")
]
COMPOSED = {"record_decision", "challenge"}
VERBS = [row for row in ROWS if not COMPOSED & set(row.memory)]


def methods(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}


def test_the_page_has_each_verb_of_the_contract_once_and_in_a_row_of_its_own() -> None:
    assert [len(row.contract) for row in VERBS] == [1] * len(VERBS)
    assert sorted(row.contract[0] for row in VERBS) == sorted(methods(Provider))


def test_the_page_has_each_method_of_a_memory_once() -> None:
    named = [name for row in ROWS for name in row.memory] + ["in_space"]
    assert sorted(named) == sorted(methods(Memory))


def test_compositions_are_made_of_verbs() -> None:
    composed = [row for row in ROWS if COMPOSED & set(row.memory)]
    assert {name for row in composed for name in row.memory} == COMPOSED
    assert {name for row in composed for name in row.contract} <= methods(Provider)


def table_of_commands() -> set[str]:
    """Return the names in the command line's static table, read without importing it."""
    for path in files(ROOT / "hosts" / "rawthink_cli"):
        for node in tree(path).body:
            if (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.target.id == "SECTIONS"
            ):
                assert isinstance(node.value, ast.Dict)
                sections = [section for section in node.value.values if isinstance(section, ast.Dict)]
                return {str(ast.literal_eval(key)) for section in sections for key in section.keys if key}
    return set()


def test_the_page_has_every_command() -> None:
    (others,) = re.findall(r"^Commands that are no verb: (.*)\.$", PAGE, re.MULTILINE)
    named = {name for row in ROWS for name in row.command} | set(re.findall(r"`(\w+)`", others))
    assert named == table_of_commands()


def test_the_page_has_the_tools_of_the_server() -> None:
    tools = {name for row in ROWS for name in row.tools}
    servers = [path for path in packages("hosts") if path.name == "rawthink_mcp_server"]
    spoken = {
        str(node.value)
        for server in servers
        for path in files(server)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert tools <= spoken or not servers
    assert {name for name in methods(Memory) if name in tools} >= {"record", "revise", "history", *COMPOSED}
