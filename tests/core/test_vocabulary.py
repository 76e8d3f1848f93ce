"""One closed list of words, its synonyms, and what is said to a word outside it."""

from __future__ import annotations

import pytest

from rawthink_core.vocabulary import DEFAULT_VOCABULARY, Folded, Vocabulary, unknown

WORDS = DEFAULT_VOCABULARY

ALIASES = {
    "connected_to": "related_to",
    "aspect_of": "part_of",
    "part": "part_of",
    "demonstrates": "exemplifies",
    "instance_of": "exemplifies",
    "requires": "depends_on",
    "constrained_by": "depends_on",
    "solves": "enables",
    "validates": "supports",
    "supported_by": "<supports",
    "validated_by": "<supports",
    "informed_by": "<informs",
    "used_by": "<uses",
    "solved_by": "<enables",
    "extends": "<evolved_into",
    "parcasi": "part_of",
    "icerir": "<part_of",
    "arastirir": "investigates",
    "bilgilendirir": "informs",
    "etkiler": "related_to",
}


def folded(arrow: str) -> Folded:
    return Folded(arrow.removeprefix("<"), turned=arrow.startswith("<"))


def test_the_words_are_those_of_the_design() -> None:
    assert WORDS.entity_types == (
        "decision", "concept", "finding", "rule", "open-question", "artifact", "insight", "task", "event", "thing",
    )  # fmt: skip
    assert WORDS.domains == (
        "software", "music", "history", "philosophy", "health", "writing", "neuro", "finance", "personal", "galaxy",
    )  # fmt: skip
    assert WORDS.relations == (
        "supports", "contradicts", "evolved_into", "depends_on", "exemplifies", "part_of", "caused_by", "enables",
        "supersedes", "related_to", "investigates", "informs", "uses",
    )  # fmt: skip


@pytest.mark.parametrize(("alias", "arrow"), ALIASES.items())
def test_a_synonym_folds_and_turns_the_arrow_where_its_meaning_does(alias: str, arrow: str) -> None:
    assert WORDS.relation(alias) == folded(arrow)


def test_there_are_no_other_synonyms() -> None:
    assert WORDS.relation_aliases.keys() == ALIASES.keys()


def test_every_synonym_points_at_a_type() -> None:
    assert {folded.type for folded in WORDS.relation_aliases.values()} <= set(WORDS.relations)


@pytest.mark.parametrize("word", ["open-question", "Open Question", "OPEN_QUESTION", " open question "])
def test_a_word_is_met_whatever_its_case_and_joints(word: str) -> None:
    assert WORDS.entity_type(word) == "open-question"


@pytest.mark.parametrize("word", ["", " ", "decisions", "opinion", "d\x00ecision"])
def test_any_other_word_is_unknown(word: str) -> None:
    assert WORDS.entity_type(word) is None
    assert WORDS.domain(word) is None
    assert WORDS.relation(word) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [("descision", "decision"), ("Artefact", "artifact"), ("open qestion", "open-question")],
)
def test_an_unknown_type_is_answered_with_the_nearest_and_all_that_is_allowed(said: str, meant: str) -> None:
    answer = WORDS.unknown_entity_type(said)
    assert f"Did you mean {meant!r}?" in answer
    assert all(word in answer for word in WORDS.entity_types)


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert "Did you mean" not in WORDS.unknown_domain("zzzzzz")


def test_a_domain_given_as_a_type_is_told_where_it_belongs() -> None:
    assert "goes into `domain`" in WORDS.unknown_entity_type("software")


def test_a_type_of_another_server_is_told_its_name_here() -> None:
    assert "is called 'decision' here" in WORDS.unknown_entity_type("karar")


def test_a_synonym_is_suggested_as_well() -> None:
    assert "Did you mean 'used_by'?" in WORDS.unknown_relation("usedby")


def test_a_long_word_is_not_repeated_whole() -> None:
    assert len(unknown("domain", "x" * 1_000_000, WORDS.domains)) < 400


def test_one_line_of_configuration_adds_a_word() -> None:
    larger = WORDS.extended(domains=["cooking"], entity_types=["recipe"], relations=["tastes_like"])
    assert larger.domain("Cooking") == "cooking"
    assert larger.entity_type("recipe") == "recipe"
    assert larger.relation("tastes like") == Folded("tastes_like")
    assert WORDS.domain("cooking") is None


def test_one_line_adds_a_synonym_either_way_round() -> None:
    larger = WORDS.extended(
        relations=["owns"], relation_aliases={"owned by": "<owns", "belongs_to": "< owns", "has": "owns"}
    )
    assert larger.relation("owned_by") == Folded("owns", turned=True)
    assert larger.relation("belongs-to") == Folded("owns", turned=True)
    assert larger.relation("HAS") == Folded("owns")


def test_a_word_that_is_there_already_is_not_added_twice() -> None:
    assert WORDS.extended(domains=["software", "Software"], entity_types=["Open Question"]) == WORDS


def test_a_synonym_may_become_a_type_of_its_own() -> None:
    assert WORDS.extended(relations=["extends"]).relation("extends") == Folded("extends")


@pytest.mark.parametrize(
    "wrong",
    [
        {"relation_aliases": {"owned_by": "<owns"}},
        {"relation_aliases": {"uses": "supports"}},
        {"relation_aliases": {" ": "uses"}},
        {"domains": [" "]},
        {"entity_types": [""]},
        {"relations": [""]},
    ],
)
def test_a_word_that_could_never_be_used_is_refused(wrong: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match=r"alias|blank"):
        WORDS.extended(**wrong)  # type: ignore[arg-type] # one of several shapes


def test_a_vocabulary_does_not_change() -> None:
    with pytest.raises(TypeError):
        WORDS.relation_aliases["x"] = Folded("uses")  # type: ignore[index] # what must fail
    assert Vocabulary() == WORDS


@pytest.mark.parametrize(
    ("word", "adopted"),
    [
        ("decision", ("decision", None)),
        ("Decision", ("decision", "Decision")),
        ("karar", ("decision", "karar")),
        ("Bug Pattern", ("finding", "Bug Pattern")),
        ("Developer", ("thing", "Developer")),
        ("", ("thing", None)),
        (None, ("thing", None)),
    ],
)
def test_an_adopted_type_folds_and_remembers_what_it_was(
    word: str | None, adopted: tuple[str, str | None]
) -> None:
    assert WORDS.adopted_entity_type(word) == adopted


@pytest.mark.parametrize(
    ("word", "adopted"),
    [
        ("uses", (Folded("uses"), None)),
        ("used_by", (Folded("uses", turned=True), "used_by")),
        ("visualizes data from", (Folded("related_to"), "visualizes data from")),
        ("", (Folded("related_to"), None)),
        (None, (Folded("related_to"), None)),
    ],
)
def test_an_adopted_relation_folds_and_remembers_what_it_was(
    word: str | None, adopted: tuple[Folded, str | None]
) -> None:
    assert WORDS.adopted_relation(word) == adopted


def test_every_legacy_type_is_one_of_ours() -> None:
    assert set(WORDS.legacy_types.values()) <= set(WORDS.entity_types)
    assert all(word == word.casefold() and "_" not in word for word in WORDS.legacy_types)
