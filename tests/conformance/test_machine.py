"""The state machine finds what single checks do not look for, and tells the story."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import settings

from rawthink_conformance import (
    REQUIREMENTS,
    ProviderConformance,
    ReferenceProvider,
    machine,
    machine_for,
    runner,
)
from rawthink_conformance.agreement import kept, laws
from rawthink_conformance.checking import run_check
from rawthink_conformance.expect import Broken
from rawthink_conformance.machine import FAST, compare, replay
from rawthink_conformance.mutants import Specimen, crashing, knowing, reading, revising, times, writing
from rawthink_conformance.story import retold, script, shortened
from rawthink_core.model import Entity, FieldVersion, Observation, Passage, Relation

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 2, 1, tzinfo=UTC)

TestMachine = machine_for(ReferenceProvider).TestCase
TestMachine.settings = settings(FAST, max_examples=5)


@pytest.mark.parametrize(
    "mutant",
    [
        knowing.FormerNamesAreFree,
        reading.HistoryOfThePresent,
        times.StripsText,
        revising.NoLinksBack,
        writing.ForgetsTheRetired,
        writing.IgnoresKeys,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_it_catches_a_mutant_and_tells_the_story(mutant, monkeypatch):
    monkeypatch.setattr(machine, "SHORTEN_SECONDS", 0)
    with pytest.raises(Broken, match=r"promised|links|vanished|answer") as failure:
        compare(Specimen(mutant))
    assert f"replay(Specimen({mutant.__name__}), story)" in failure.value.script


def test_the_story_is_a_script_that_ends_in_the_same_failure(tmp_path):
    result = run_check(REQUIREMENTS["machine.agrees"], Specimen(revising.DecisionsPileUp), {})
    script = tmp_path / "story.py"
    script.write_text(result.script, "utf-8")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 1
    assert 0 < result.script.count("    both.") < 5
    said = result.detail.partition("; after ")[0]
    assert f"rawthink_conformance.expect.Broken: {said}" in ran.stderr
    healthy = result.script.replace("Specimen(DecisionsPileUp)", "ReferenceProvider")
    healthy = f"from rawthink_conformance import ReferenceProvider\n{healthy}"
    script.write_text(healthy, "utf-8")
    subprocess.run([sys.executable, script], check=True, timeout=60)


class Authors(ProviderConformance):
    def make_provider(self, world):
        return revising.NoLinksBack(world)


@pytest.mark.parametrize("subject", [Authors(), runner.installed("reference"), revising.NoLinksBack])
def test_a_script_finds_its_subject_again(subject, tmp_path):
    if not hasattr(subject, "make_provider"):
        subject = machine_for(subject).subject
    steps = [("tell", {"space": "team", "names": ["Redis"], "texts": ["is fast"], "kind": "note"})]
    steps += [
        ("wait", {"by": timedelta(days=1)}),
        ("crash", {"space": "team", "name": "ılık", "texts": ["x"], "rarely": 1}),
    ]
    path = tmp_path / "story.py"
    path.write_text(script(subject, steps), "utf-8")
    subprocess.run([sys.executable, path], check=True, timeout=60, cwd=tmp_path)


def test_the_machine_crashes_what_is_durable():
    story = retold([("crash", {"space": "team", "name": "c++", "texts": ["is fast"], "rarely": 0})])
    replay(Specimen(crashing.Journalled), story)
    with pytest.raises(Broken, match="promised"):
        replay(Specimen(crashing.WritesAtClosing), story)


def test_steps_that_do_not_matter_are_left_out():
    steps = [(str(n), {}) for n in range(40)]

    def failure(left):
        names = {name for name, _ in left}
        return Broken("still") if {"3", "17", "39"} <= names else None

    assert [name for name, _ in shortened(steps, failure, 10)] == ["3", "17", "39"]
    assert shortened(steps, failure, 0) == steps


# --- what holds of any memory -------------------------------------------------------------------


def entity(item, *names, former=()):
    versions = [FieldVersion(field="name", n=1, value=name, recorded_at=WHEN) for name in former]
    return Entity(id=item, name=names[0], aliases=names[1:], recorded_at=WHEN, versions=tuple(versions))


def said(item, text="x", **fields):
    return Observation(id=item, entity="e", entity_name="E", text=text, recorded_at=WHEN, **fields)


def link(item, source, target):
    return Relation(
        id=item, source=source, type="uses", target=target, source_name="", target_name="", recorded_at=WHEN
    )


def turn(item, key, **fields):
    return Passage(id=item, text=item, session="s", ordinal=0, key=key, recorded_at=WHEN, **fields)


OWNER = entity("e", "E")


@pytest.mark.parametrize(
    ("items", "law"),
    [
        ([OWNER, OWNER], "twice"),
        ([OWNER, said("a", status="ended")], "disagree"),
        ([OWNER, said("a", invalidated_at=WHEN)], "disagree"),
        ([OWNER, said("a", valid_from=LATER, valid_to=WHEN)], "before it begins"),
        (
            [OWNER, said("a", status="ended", invalidated_at=WHEN, superseded_by="b"), said("b", "y")],
            "does not link back",
        ),
        ([OWNER, said("a"), said("b", "y", supersedes=("a",))], "does not link to its successor"),
        ([said("a")], "no entity here"),
        ([OWNER, link("r", "e", "nowhere")], "no entity here"),
        ([OWNER, said("a", " x "), said("b", "x")], "say the same"),
        ([turn("a", "k"), turn("b", "k")], "say the same"),
        ([OWNER, entity("f", "F", "e ")], "one name"),
        ([OWNER, entity("f", "F", former=["E"])], "one name"),
    ],
)
def test_what_breaks_a_law(items, law):
    with pytest.raises(Broken, match=law):
        laws(items)


def test_what_keeps_the_laws():
    laws(
        [
            OWNER,
            entity("f", "F", "G", former=["f"]),
            said(
                "a", status="ended", invalidated_at=LATER, superseded_by="b", valid_from=WHEN, valid_to=LATER
            ),
            said("b", "y", supersedes=("a", "forgotten")),
            said("c", "x"),
            said("d", "x", valid_from=WHEN),
            link("r", "e", "f"),
            turn("p", "k", status="ended", invalidated_at=WHEN),
            turn("q", "k"),
        ]
    )


@pytest.mark.parametrize(
    ("now", "forgotten", "law"),
    [
        ([], set(), "vanished"),
        ([said("a", "y")], set(), "the text of a"),
        ([said("a").model_copy(update={"recorded_at": LATER})], set(), "when a was recorded"),
        ([said("a")], {"a"}, "are back"),
    ],
)
def test_what_is_not_kept(now, forgotten, law):
    with pytest.raises(Broken, match=law):
        kept({"a": said("a")}, now, forgotten)


def test_what_was_retired_stays_retired():
    with pytest.raises(Broken, match="once it was retired"):
        kept({"a": said("a", status="ended", invalidated_at=WHEN)}, [said("a")], set())
