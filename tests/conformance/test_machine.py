"""The state machine finds what single checks do not look for, and tells the story."""

from datetime import UTC, datetime

import pytest
from hypothesis import settings

from rawthink_conformance import ReferenceProvider, machine_for
from rawthink_conformance.agreement import kept, laws
from rawthink_conformance.expect import Broken
from rawthink_conformance.machine import FAST, compare
from rawthink_conformance.mutants import Specimen, knowing, reading, revising, times, writing
from rawthink_core.model import Entity, FieldVersion, Observation, Passage, Relation

WHEN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 2, 1, tzinfo=UTC)

TestMachine = machine_for(ReferenceProvider).TestCase
TestMachine.settings = settings(FAST, max_examples=5)


@pytest.mark.parametrize(
    "mutant",
    [
        knowing.Assertive,
        knowing.FormerNamesAreFree,
        times.DropsMicroseconds,
        reading.HistoryOfThePresent,
        times.StripsText,
        revising.DecisionsPileUp,
        revising.NoLinksBack,
        revising.RelationsForever,
        writing.ForgetsTheRetired,
        writing.IgnoresKeys,
        writing.WritesWhatItCan,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_it_catches_a_mutant_and_tells_the_story(mutant):
    with pytest.raises(Broken, match=r"(?s)promised|links|vanished|answer.*state\."):
        compare(Specimen(mutant))


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
