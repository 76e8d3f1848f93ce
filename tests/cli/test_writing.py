"""`record`, `decide` and `revise`: what people type becomes what the memory takes."""

from __future__ import annotations

import json


def texts(cli, name, *more):
    return [said["text"] for said in cli("show", name, "--json", *more).json["observations"]]


def test_a_decision_is_found_by_what_it_rejected(cache):
    answer = cache("search", "why not redis?")
    assert answer.code == 0
    assert "api/cache  (rejected" in answer.out
    assert "Redis — one more thing to run" in answer.out


def test_deciding_again_for_what_was_rejected_is_pointed_out_before_anything_else_is_read(cache):
    answer = cache(
        "decide", "sessions", "--domain", "software", "--decided", "sessions in Redis", "--because", "shared"
    )
    assert answer.code == 0
    assert "!  Rejected before: 'Redis' was rejected on" in answer.out


def test_deciding_again_under_the_same_name_ends_the_former_decision(cache):
    answer = cache("decide", "api/cache", "--decided", "no cache", "--because", "three processes")
    assert answer.code == 0
    assert "Given up: 2 observations" in answer.out
    assert "no cache" in texts(cache, "api/cache")
    assert "cache in the process" not in texts(cache, "api/cache")


def test_faults_speak_of_options_and_come_all_at_once(cli):
    answer = cli("record", "x", "y", "--domain", "musik")
    assert answer.code == 2
    assert "2 faults, nothing was written" in answer.err
    assert "--domain: unknown domain 'musik'. Did you mean 'music'?" in answer.err
    assert "--type: is required for a new entity" in answer.err
    assert "entities.0" not in answer.err


def test_a_statement_about_something_known_needs_its_name_only(cache):
    assert cache("record", "API/Cache", "hit rate is 93 %").code == 0
    assert "hit rate is 93 %" in texts(cache, "api/cache")


def test_relations_are_typed_as_type_and_target_and_only_the_first_colon_counts(cache):
    cache("record", "db: main", "--type", "artifact", "--domain", "software")
    assert cache("record", "api/cache", "--relation", "depends_on: db: main").code == 0
    links = cache("show", "api/cache", "--json").json["relations"]
    assert [(link["source_name"], link["type"], link["target_name"]) for link in links] == [
        ("api/cache", "depends_on", "db: main")
    ]


def test_a_relation_to_nothing_is_refused_and_nothing_is_written(cache):
    answer = cache("record", "api/cache", "a new fact", "--relation", "uses: ghost")
    assert answer.code == 2
    assert "--relation: " in answer.err
    assert "ghost" in answer.err
    assert "a new fact" not in texts(cache, "api/cache")


def test_a_malformed_relation_says_how_to_write_it(cli):
    answer = cli("record", "x", "--relation", "uses")
    assert answer.code == 2
    assert "'TYPE: TARGET'" in answer.err


def test_passages_are_recorded_with_a_session_and_without_a_name(cli):
    answer = cli(
        "record", "--session", "standup", "--speaker", "张三", "--tag", "ops", "导入在夜里跑", "第二句"
    )
    assert answer.code == 0
    found = cli("search", "导入", "--session", "standup", "--json").json["items"][0]
    assert (found["text"], found["speaker"], found["tags"]) == ("导入在夜里跑", "张三", ["ops"])


def test_options_that_do_not_go_together_are_refused_by_name(cli):
    assert (
        "--domain does not go with --session" in cli("record", "--session", "s", "t", "--domain", "music").err
    )
    assert "--speaker goes with --session" in cli("record", "x", "y", "--speaker", "Ada").err
    assert "--from-json takes the whole batch" in cli("record", "x", "--from-json", "-").err


def test_a_whole_batch_comes_from_a_file_or_from_stdin(cli, tmp_path):
    batch = {
        "entities": [{"name": "Ağ", "entity_type": "concept", "domain": "software"}],
        "observations": [{"entity": "Ağ", "text": "ağ yavaş\nikinci satır"}],
    }
    data = json.dumps(batch, ensure_ascii=False)
    assert cli("record", "--from-json", "-", stdin=data).code == 0
    assert texts(cli, "ağ") == ["ağ yavaş\nikinci satır"]
    file = tmp_path / "batch.json"
    file.write_bytes(b"\xef\xbb\xbf" + data.encode())
    assert "Known already: 1 entity, 1 observation" in cli("record", "--from-json", file).out


def test_a_batch_that_is_no_batch_is_refused_with_its_line(cli, tmp_path):
    file = tmp_path / "batch.json"
    file.write_text('{"entities": [\n}', encoding="utf-8")
    assert "in line 2" in cli("record", "--from-json", file).err
    file.write_text('{"entity": []}', encoding="utf-8")
    assert "a batch is a JSON object with some of entities" in cli("record", "--from-json", file).err
    file.write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in cli("record", "--from-json", file).err
    assert "can't be read" in cli("record", "--from-json", tmp_path / "none.json").err


def test_places_in_a_json_batch_are_named_as_the_batch_has_them(cli):
    answer = cli("record", "--from-json", "-", stdin='{"entities": [{"name": "x", "wrong": 1}]}')
    assert answer.code == 2
    assert "entities.0.wrong" in answer.err


def test_a_retry_with_the_same_batch_id_writes_once_and_other_content_is_a_conflict(cli):
    first = cli(
        "record", "x", "one", "--type", "finding", "--domain", "software", "--batch-id", "b1", "--json"
    )
    again = cli(
        "record", "x", "one", "--type", "finding", "--domain", "software", "--batch-id", "b1", "--json"
    )
    assert first.json == again.json
    answer = cli("record", "x", "two", "--batch-id", "b1")
    assert answer.code == 4
    assert "b1" in answer.err


def test_a_belief_is_revised_by_its_text_and_the_old_one_stays(cache):
    answer = cache(
        "revise", "api/cache", "pages are read twenty times a minute", "--to", "pages are read twice a minute",
        "--changed", "--effective", "2026-03-01", "--reason", "a crawler was shut out",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "pages are read twice a minute" in texts(cache, "api/cache")
    told = " ".join(cache("history", "api/cache").out.split())
    assert "a crawler was shut out" in told
    assert "held until 2026-03-01" in told


def test_a_text_that_nobody_said_is_answered_with_what_was_said(cache):
    answer = cache("revise", "api/cache", "Redis", "--reason", "no")
    assert answer.code == 3
    assert "Redis — one more thing to run" in answer.err
    said = cache("show", "api/cache", "--json").json["observations"]
    assert all(one["id"] in answer.err for one in said)


def test_what_was_revised_already_is_a_conflict_that_names_the_successor(cache):
    item = cache("search", "minute", "--json").json["items"][0]["id"]
    assert cache("revise", "--id", item, "--to", "never read").code == 0
    answer = cache("revise", "--id", item, "--to", "seldom read")
    assert answer.code == 4
    assert "it was replaced by" in answer.err


def test_fields_are_revised_with_names_and_values(cache):
    answer = cache(
        "revise", "api/cache", "--field", "domain=music", "--field", "name=the cache", "--field", "pinned=yes",
        "--field", "aliases=c1", "--field", "aliases=c2", "--reason", "moved",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    entity = cache("show", "api/cache", "--json").json["entities"][0]
    assert (entity["name"], entity["domain"], entity["pinned"], entity["aliases"]) == (
        "the cache", "music", True, ["c1", "c2"],
    )  # fmt: skip
    assert "domain: software → music, because moved" in cache("history", "c2").out


def test_a_field_that_is_set_is_changed_by_revise_and_the_error_says_how(cache):
    answer = cache("record", "api/cache", "--domain", "music")
    assert answer.code == 2
    assert "rawthink revise NAME --field domain=music" in answer.err


def test_a_relation_is_revised(cache):
    cache("record", "db", "--type", "artifact", "--domain", "software")
    cache("record", "api/cache", "--relation", "uses: db")
    answer = cache(
        "revise", "api/cache", "--relation", "uses: db", "--to", "depends_on: db", "--reason", "harder"
    )
    assert answer.code == 0, answer.err
    assert [link["type"] for link in cache("show", "api/cache", "--json").json["relations"]] == ["depends_on"]


def test_a_revision_says_in_one_way_what_it_is_about(cli):
    for args, says in (
        (["x"], "in one way"),
        (["x", "t", "--field", "domain=music"], "in one way"),
        (["--field", "domain=music"], "missing ENTITY"),
        (["x", "--id", "1"], "--id needs no ENTITY"),
        (["x", "t", "--effective", "2026-01-01"], "goes with --changed"),
        (["x", "--field", "domain=music", "--to", "y"], "--field takes its new value itself"),
        (["x", "--field", "domain"], "NAME=VALUE"),
    ):
        answer = cli("revise", *args)
        assert (answer.code, says in answer.err) == (2, True), answer.err


def test_a_secret_is_pointed_out(cli):
    answer = cli(
        "record",
        "x",
        "token ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "--type",
        "finding",
        "--domain",
        "software",
    )
    assert answer.code == 0
    assert "!  Secret: " in answer.out


def test_ids_are_printed_when_asked_for(cli):
    answer = cli("record", "x", "one", "--type", "finding", "--domain", "software", "--ids")
    item = cli("search", "one", "--json").json["items"][0]["id"]
    assert f"observation {item} created" in answer.out


def test_a_text_is_read_from_stdin(cli):
    assert cli("record", "--session", "commits", "-", stdin="fix the café\n\nlonger\n").code == 0
    assert cli("search", "café", "--json").json["items"][0]["text"] == "fix the café\n\nlonger"
    assert "stdin is not UTF-8" in cli("record", "--session", "s", "-", stdin=b"\xff").err


def test_an_entity_is_named_by_its_id_too(cache):
    entity = cache("show", "api/cache", "--json").json["entities"][0]["id"]
    assert cache("record", entity, "said by id").code == 0
    assert "said by id" in texts(cache, "api/cache")


# --- names that look like ids -------------------------------------------------------------------

LIKE_AN_ID = "6F9619FF-8b86-4d01-b42d-00cf4fc964ff"


def test_an_entity_whose_name_looks_like_an_id_is_recorded_shown_told_of_and_revised(cli):
    answer = cli("record", LIKE_AN_ID, "--type", "artifact", "--domain", "software", "is a build")
    assert answer.code == 0, answer.err
    assert cli("record", LIKE_AN_ID, "is green").code == 0
    for verb in ("show", "history"):
        answer = cli(verb, LIKE_AN_ID)
        assert answer.code == 0, answer.err
        assert "is a build" in answer.out
        assert "is green" in answer.out
    answer = cli("revise", LIKE_AN_ID, "is green", "--to", "is red")
    assert answer.code == 0, answer.err
    answer = cli("revise", LIKE_AN_ID, "--field", "domain=music")
    assert answer.code == 0, answer.err
    shown = cli("show", LIKE_AN_ID, "--json").json
    assert [entity["domain"] for entity in shown["entities"]] == ["music"]
    assert {said["text"] for said in shown["observations"]} == {"is a build", "is red"}
    assert cli("show", "0b0b0b0b-0000-4000-8000-000000000000").code == 3


def test_an_id_comes_before_a_name_and_names_no_second_entity(cli):
    cli("record", "api/cache", "--type", "artifact", "--domain", "software", "is read-through")
    (entity,) = cli("show", "api/cache", "--json").json["entities"]
    answer = cli("record", entity["id"].upper(), "--epistemic", "hypothesis", "is fast")
    assert answer.code == 0, answer.err
    assert cli("record", entity["id"], "is small").code == 0
    answer = cli("revise", entity["id"], "--field", "domain=music")
    assert answer.code == 0, answer.err
    shown = cli("show", entity["id"], "--json").json
    assert [(e["name"], e["domain"], e["epistemic"]) for e in shown["entities"]] == [
        ("api/cache", "music", "hypothesis")
    ]
    assert {said["text"] for said in shown["observations"]} == {"is read-through", "is fast", "is small"}
    (said,) = [said for said in shown["observations"] if said["text"] == "is small"]
    assert "is small" in cli("show", said["id"].upper()).out
    assert "--id" in cli("revise", entity["id"], "is huge").err
    assert "is small" in cli("history", said["id"]).out
