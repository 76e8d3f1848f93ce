"""`search`, `show`, `history` and `challenge`: answers for people and for programs."""

from __future__ import annotations

import json

import pytest

from rawthink_cli.paper import width
from rawthink_core.memory import Memory
from rawthink_core.operations import SearchPage
from rawthink_core.provider import BaseProvider, ProviderInfo


def test_nothing_found_is_said_and_has_a_code_of_its_own(cache):
    answer = cache("search", "zeppelin")
    assert (answer.code, answer.out) == (3, "Nothing found.\n")
    assert cache("search", "zeppelin", "--json").json["items"] == []


def test_questions_in_words_and_punctuation_are_just_typed(cache):
    for words in (
        ["why", "not", "redis?"],
        ["Redis (more to run)"],
        ["what's", "redis"],
        ["redis", "AND", "OR"],
    ):
        answer = cache("search", *words)
        assert "Redis — one more thing to run" in answer.out, words
    assert cache("search", "AND", "(", "*", ".env", "c++").code in (0, 3)


def test_filters_narrow_an_answer(cache):
    assert cache("search", "redis", "--kind", "decided").code == 3
    assert cache("search", "redis", "--kind", "rejected").code == 0
    assert cache("search", "redis", "--domain", "music").code == 3
    assert cache("search", "redis", "--type", "decision", "--domain", "software").code == 0
    assert cache("search", "redis", "--until", "2001-01-01").code == 3
    assert cache("search", "redis", "--since", "2001-01-01", "--item", "observation").code == 0
    assert cache("search", "redis", "--as-of", "2001-01-01").code == 3


def test_a_filter_outside_the_vocabulary_is_refused_by_its_option(cache):
    answer = cache("search", "redis", "--domain", "musik")
    assert answer.code == 2
    assert "--domain" in answer.err
    assert "'music'" in answer.err


def test_a_wrong_date_and_a_wrong_limit_are_refused_by_their_options(cache):
    answer = cache("search", "redis", "--since", "yesterday", "--limit", "0")
    assert answer.code == 2
    assert "--since: 'yesterday' is not ISO 8601" in answer.err
    assert "--limit: " in answer.err


def test_a_belief_that_was_given_up_is_shown_with_what_replaced_it(cache):
    cache(
        "revise",
        "api/cache",
        "pages are read twenty times a minute",
        "--to",
        "pages are read seldom",
        "--reason",
        "bots",
    )
    assert "twenty" not in cache("search", "pages read").out
    answer = cache("search", "twenty times", "--status", "any")
    assert "pages are read twenty times a minute" in answer.out
    assert "was never so" in answer.out
    assert "given up because: bots" in answer.out
    assert "now: pages are read seldom" in answer.out


def test_groups_hold_what_is_said_of_one_entity(cache):
    answer = cache("search", "api cache process redis", "--group", "--json")
    assert {hit["entity_name"] for hit in answer.json["items"]} == {"api/cache"}
    told = cache("search", "cache process redis", "--group").out
    assert told.count("api/cache  (") == 1
    assert "1. " in told
    assert "2. " not in told


def test_why_says_how_each_answer_came_to_its_place(cache):
    assert "score 1.000, 1. by words" in cache("search", "redis", "--why").out
    assert cache("search", "redis", "--why", "--json").json["items"][0]["why"]["lexical_rank"] == 1


def test_json_is_one_document_whether_the_option_stands_before_or_after_the_command(cache):
    before, after = cache("--json", "search", "redis"), cache("search", "redis", "--json")
    assert before.json == after.json
    assert before.out.count("\n") == 1


def test_lines_fit_in_eighty_columns_in_any_language(cli):
    long = "我们把照片放在对象存储里，因为数据库的备份从四分钟变成了五十分钟，而且恢复的时候要等很久，" * 4
    cli(
        "record", "存储", long, "word " * 60, "ağır bir iş " * 20, "--type", "finding", "--domain", "software"
    )
    for command in (["show", "存储"], ["search", "照片 备份 word iş"], ["history", "存储"]):
        lines = cli(*command).out.splitlines()
        assert len(lines) > 10
        assert max(map(width, lines)) <= 80, command


def test_stored_text_cannot_steer_the_terminal(cli):
    cli("record", "--session", "s", "red \x1b[31m bell \x07 c1 \x9b2J", "--speaker", "a\x1b]0;b\nc")
    out = cli("search", "red bell").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "\x9b" not in out
    assert "red \\x1b[31m bell" in out


def test_a_very_long_text_is_shown_by_its_beginning_and_whole_on_request(cli):
    text = "needle " + "straw " * 100_000
    cli("record", "--from-json", "-", stdin=json.dumps({"passages": [{"session": "s", "text": text}]}))
    answer = cli("search", "needle", "--ids")
    assert len(answer.out) < 3_000
    assert "600,007 characters in all" in answer.out
    item = cli("search", "needle", "--json").json["items"][0]["id"]
    assert cli("show", item).out.count("straw") == 100_000


def test_show_tells_what_is_said_and_related(cache):
    cache("record", "page", "--type", "artifact", "--domain", "software", "--relation", "uses: api/cache")
    told = cache("show", "api/cache").out
    assert told.startswith("api/cache\n   decision, software; since ")
    places = [
        told.index(part)
        for part in ("decided: cache", "because: pages", "rejected: Redis", "page —uses→ api/cache")
    ]
    assert places == sorted(places)


def test_show_takes_ids_of_any_item(cache):
    cache("record", "--session", "s1", "a passage", "--speaker", "Ada")
    passage = cache("search", "passage", "--json").json["items"][0]["id"]
    said = cache("search", "redis", "--json").json["items"][0]["id"]
    entity = cache("show", "api/cache", "--json").json["entities"][0]["id"]
    assert "Ada, s1, " in cache("show", passage).out
    assert "in api/cache" in cache("show", said).out
    assert cache("show", entity.upper()).out == cache("show", "api/cache").out


def test_a_name_that_is_not_there_is_answered_with_similar_ones(cache):
    for command in (["show", "cache"], ["history", "cache"]):
        answer = cache(*command)
        assert answer.code == 3
        assert "Did you mean: api/cache" in answer.err


def test_the_past_is_shown_as_it_was_believed(cache):
    cache("revise", "api/cache", "pages are read twenty times a minute", "--to", "pages are read seldom")
    history = cache("history", "api/cache", "--json").json
    old = next(said for said in history["observations"] if said["status"] == "invalidated")
    told = cache("show", "api/cache", "--as-of", old["recorded_at"]).out
    assert "twenty times" in told
    assert "seldom" not in told


def test_history_tells_events_in_their_order(cache):
    cache(
        "revise",
        "api/cache",
        "pages are read twenty times a minute",
        "--to",
        "pages are read seldom",
        "--reason",
        "bots",
    )
    told = cache("history", "api/cache").out
    places = [
        told.index(part)
        for part in (
            "+ because: pages",
            "- corrected: pages are read twenty",
            "because: pages are read seldom",
        )
    ]
    assert places == sorted(places)
    assert "because bots" in " ".join(told.split())


def test_history_of_one_item_follows_its_successors(cache):
    item = cache("search", "twenty", "--json").json["items"][0]["id"]
    cache("revise", "--id", item, "--to", "pages are read seldom")
    assert "pages are read seldom" in cache("history", item).out
    assert "(api/cache)" in cache("history", item).out


def test_challenge_argues_from_what_was_rejected_given_up_and_left_open(cache):
    cache(
        "revise",
        "api/cache",
        "pages are read twenty times a minute",
        "--to",
        "pages are read seldom",
        "--reason",
        "bots",
    )
    cache(
        "record",
        "cache on phones",
        "should pages be cached on phones?",
        "--type",
        "open-question",
        "--domain",
        "software",
    )
    cache("record", "redis is fast", "--type", "finding", "--domain", "software", "--epistemic", "hypothesis",
          "--relation", "contradicts: api/cache")  # fmt: skip
    told = cache("challenge", "use redis to cache pages that are read twenty times").out
    for part in (
        "You rejected\n1. api/cache  (rejected",
        "You believed, and gave up\n1. api/cache",
        "It contradicts\n   redis is fast —contradicts→ api/cache",
        "It stands on\n   redis is fast (only a hypothesis)",
        "You left open\n1. cache on phones",
    ):
        assert part in told, told


def test_a_challenge_that_finds_nothing_is_a_good_answer(cache):
    answer = cache("challenge", "paint the office")
    assert (answer.code, answer.out) == (0, "Nothing in this memory speaks against it.\n")


class Limping(BaseProvider):
    """A provider whose index catches up after some questions."""

    def __init__(self, questions):
        self.info = ProviderInfo("limping", "1", {}, "nowhere")
        self.left = questions

    async def search(self, query):
        self.left -= 1
        return SearchPage(degraded=f"index {10 - self.left} of 10" if self.left >= 0 else None)


@pytest.fixture
def limping():
    provider = Limping(3)
    return lambda configuration, _: Memory(provider, space=configuration.settings.space)


def test_a_degraded_answer_differs_from_an_honest_empty_one(cli, limping):
    answer = cli("search", "redis", "--wait", "0", build=limping)
    assert answer.code == 5
    assert "index 8 of 10" in answer.out
    assert "Nothing found.\n" not in answer.out
    assert cli("search", "redis", "--json", "--wait", "0", build=limping).json["degraded"] == "index 9 of 10"


def test_an_index_that_is_being_built_is_waited_for(cli, limping):
    answer = cli("search", "redis", build=limping)
    assert (answer.code, answer.out) == (3, "Nothing found.\n")


def test_what_a_provider_does_not_offer_is_said_in_one_sentence(cli, limping):
    answer = cli("history", "x", build=limping)
    assert (answer.code, answer.err) == (2, "rawthink: limping does not support history\n")


def test_an_empty_memory_says_where_it_looked(cli):
    told = cli("search", "anything")
    assert told.code == 3
    assert f"{cli.home / 'rawthink-vault'} holds nothing in this space yet" in " ".join(told.out.split())
    assert "holds nothing" in " ".join(cli("challenge", "anything").out.split())
    cli("record", "Redis", "is fast", "--type", "artifact", "--domain", "software")
    assert cli("search", "unheard").out == "Nothing found.\n"
