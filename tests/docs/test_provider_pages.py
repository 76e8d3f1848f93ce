"""The pages for provider authors: the tutorial is the example, its failing check fails, the reference names what is there."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from importlib import import_module
from inspect import signature
from pathlib import Path
from textwrap import dedent

from rawthink_conformance import REQUIREMENTS, ProviderConformance
from rawthink_conformance.runner import conform_subject
from rawthink_core.provider import GRADES, Capability
from rawthink_core.questions import key, questions
from rawthink_core.store_provider import Store
from rawthink_sqlite import SqliteProvider, SqliteSettings, reader

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "sqlite_provider"
TUTORIAL = (ROOT / "docs" / "writing-a-provider.md").read_text("utf-8")
REFERENCE = (ROOT / "docs" / "provider-author.md").read_text("utf-8")
MARKED = re.compile(r"^<!-- (\w+)(?:: ([\w./]+))? -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(kind):
    return [(name, text) for found, name, text in MARKED.findall(TUTORIAL) if found == kind]


def lines_of(text):
    return [line for line in text.splitlines() if line.strip()]


def table(first):
    """Return the rows of the reference's table whose first column is so called."""
    rows = REFERENCE.partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row[1:-1].split("|")] for row in rows]


def test_the_blocks_of_the_tutorial_are_the_files_of_the_example():
    told = defaultdict(list)
    for name, text in blocks("file"):
        told[name] += lines_of(text)
    files = [path for path in EXAMPLE.rglob("*") if path.suffix in {".py", ".toml"}]
    assert told == {str(path.relative_to(EXAMPLE)): lines_of(path.read_text("utf-8")) for path in files}


def test_no_code_of_the_tutorial_is_left_unchecked():
    marked = len(MARKED.findall(TUTORIAL))
    [switched_off] = re.findall(r"^  ```python\n(.*?)^  ```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    exec(dedent(switched_off), {"ProviderConformance": ProviderConformance})  # its waivers name requirements
    [shell] = re.findall(r"^```sh\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert "rawthink conform sqlite" in shell  # as tests/examples does with the built wheel
    assert (
        len(re.findall(r"^ *```\w", TUTORIAL, re.MULTILINE)) + 1 == marked + 2
    )  # the report has no language


class Author:
    make_provider = staticmethod(lambda world: SqliteProvider(SqliteSettings(), world))


def without_numbers(line):
    """Return a line of a report without the number of a line and of seconds."""
    return re.sub(r"(?<=\.py):\d+$|(?<= in )\d+(?= s;)", "", line)


def test_the_check_that_fails_in_the_tutorial_fails_so(monkeypatch):
    [(name, statement)] = blocks("instead")
    broken = {}
    exec(statement, broken)
    assert len(set(lines_of(broken[name])) - set(lines_of(reader.SCORED))) == 1
    monkeypatch.setattr(reader, name, broken[name])
    [(_, shown)] = blocks("report")
    command, *expected = lines_of(shown)
    told = conform_subject(Author, only=command.rpartition(" ")[2]).table()
    assert [without_numbers(line) for line in expected] == [
        without_numbers(line) for line in lines_of(told)[:-1]
    ]


def test_the_tutorial_counts_the_checks_that_pass():
    declared = Counter(requirement.capability is Capability.DENSE for requirement in REQUIREMENTS.values())
    assert f"`sqlite: {declared[False]} passed, {declared[True]} unsupported`" in TUTORIAL


def test_every_name_that_the_reference_offers_is_there():
    for module, names, _ in table("module"):
        for name in re.findall(r"`(\w+)`", names):
            assert hasattr(import_module(module.strip("`")), name), (module, name)


def test_every_method_of_a_store_is_in_the_reference_with_its_arguments():
    told = {}
    for methods, _, _ in table("of the store"):
        told |= dict(re.findall(r"`(\w+)(?:\((.*?)\))?`", methods))
    members = {name: value for name, value in vars(Store).items() if not name.startswith("_")}
    assert told == {
        name: ", ".join(list(signature(value).parameters)[1:]) if callable(value) else ""
        for name, value in members.items()
    }


def test_every_capability_is_in_the_reference_with_its_grades():
    grades = {}
    for capabilities, graded, _ in table("capability"):
        for name in re.findall(r"`(\w+)`", capabilities):
            grades[Capability(name)] = tuple(re.findall(r"`([\w ]+)`", graded))
    assert grades == {capability: GRADES.get(capability, ()) for capability in Capability}


def test_every_kind_of_question_is_in_the_reference():
    rows = [
        {"op": "entity", "id": "e", "name": "n"},
        {"op": "observation", "id": "o", "entity": "e", "kind": "decided", "text": "t"},
        {"op": "relation", "id": "r", "source": "s", "type": "y", "target": "z"},
        {"op": "passage", "id": "p", "session": "c", "key": "k", "ordinal": 7, "origin": {"path": "a.md"}},
    ]
    asked = {
        "id": [("e",), ("o",), ("r",), ("p",)],
        "name": [("n",)],
        "about": [("e",)],
        "said": [("e", "t")],
        "decision": [("e",)],
        "link": [("s", "y", "z")],
        "touch": [("s",), ("z",)],
        "slot": [("c", "k")],
        "place": [("c", 7)],
        "session": [("c",)],
        "origin": [("a.md",)],
    }
    answered = Counter(found for row in rows for found in questions("home", row))
    assert answered == Counter(key(kind, "home", *parts) for kind, some in asked.items() for parts in some)
    assert [kind.strip("`") for kind, _, _ in table("kind")] == list(asked)
