"""Each guess is a switch that works: with its other values the server answers differently."""

from __future__ import annotations

import pytest

from rawthink_nowledge_emulator import ASSUMED, Emulator

from .asking import detail

LONG = {"content": "x", "importance": 2}


def pair(ask, *, superseded=False):
    """Add two memories, the older superseded or not."""
    ask.add("note a", id="a", importance=0.9, labels=["x"], metadata={"k": "1", "n": 7})
    ask.add("note b", id="b", labels=["x", "y"])
    if superseded:
        return ask.post("/memories/a/supersede", {"newer_memory_id": "b"})
    return None


def upsert(ask, **fields):
    ask.space("work")
    pair(ask, superseded=True)
    answer = ask.post("/memories", {"content": "note c", "id": "a", **fields})
    row = next(memory for memory in ask.server.memories() if memory.id == "a")
    return answer.status_code, row.importance, row.metadata.get("k"), row.space_id, row.lifecycle


def archived(ask):
    pair(ask)
    ask.post("/memories/a/archive")
    return ask.browsed(q="note", include_history=True)


def relate(ask):
    pair(ask)
    said = {"target_memory_id": "b", "relation_type": "Depends On"}
    told = [ask.post("/memories/a/relations", said).json() for _ in range(2)]
    return told[0]["id"] == told[1]["id"], told[0]["relation_type"]


def forgotten(ask):
    pair(ask)
    ask.post("/memories/a/forget")
    return ask.get("/memories/a").status_code


def replayed(ask):
    said = {
        "messages": [{"role": "user", "content": "x"}],
        "idempotency_key": "k",
        "expected_message_count": 0,
    }
    ask.post("/threads", {"thread_id": "t", "messages": []})
    return [ask.post("/threads/t/append", said).status_code for _ in range(2)]


def reviewed(ask):
    pair(ask)
    ask.server.background("review", kept_id="a", other_id="b")
    return ask.post("/memories/a/supersede", {"newer_memory_id": "b"}).status_code


def busy(ask):
    ask.server.fail("*", "storage_admission_unavailable")
    return ask.get("/stats").status_code


def unknown_space(ask):
    written = ask.post("/memories", {"content": "x", "space_id": "nowhere"}).status_code
    return written, ask.get("/memories", space_id="nowhere").status_code


def by_id(ask):
    ask.space("work")
    ask.add("x", id="w", space_id="work")
    return ask.get("/memories/w").status_code


def shared(ask):
    ask.server.add_space("all", mode="all")
    pair(ask)
    return ask.found("note", space_id="all")


def deleted(ask):
    pair(ask)
    ask.server.lag(never=True)
    ask.delete("/memories/a")
    return ask.found("note")


def filtered(ask):
    pair(ask)
    return ask.found("note", metadata_filters=["n=7"])


def labelled(ask):
    pair(ask)
    return ask.found("note", filter_labels=["x", "y"])


def full(ask):
    for number in range(20):
        ask.add(str(number), id=str(number))
    return ask.post("/memories", {"content": "again", "id": "1"}).status_code


def more(ask):
    pair(ask)
    return ask.get("/memories/search", q="note", limit=1).json()["pagination"]["has_more"]


def listed(ask):
    pair(ask, superseded=True)
    return ask.listed()


def event(ask):
    return ask.post("/memories", {"content": "x", "event_start": "2024-03-05T10:00:00Z"}).json()["memory"][
        "event_start"
    ]


def unit_type(ask):
    return ask.post("/memories", {"content": "x", "unit_type": "poem"}).status_code


def keyless(ask):
    return [ask.get("/stats").status_code for _ in range(9)]


def raw(ask, content, **headers):
    return ask.http.post("/memories", content=content, headers=headers).status_code


PROBES = {
    "constraint_form": lambda ask: ask.post("/memories", LONG).headers["content-type"],
    "bad_json_status": lambda ask: raw(ask, b"{", **{"content-type": "application/json"}),
    "bad_type_status": lambda ask: raw(ask, b"{}"),
    "unknown_unit_type": unit_type,
    "event_datetime": event,
    "upsert_omitted": upsert,
    "upsert_metadata": upsert,
    "upsert_lifecycle": upsert,
    "upsert_other_space": lambda ask: upsert(ask, space_id="work"),
    "upsert_counts": full,
    "superseded_in_list": listed,
    "lifecycle_receipt": lambda ask: pair(ask, superseded=True).json(),
    "supersede_unknown_status": lambda ask: (
        ask.post(f"/memories/{ask.add()}/supersede", {"newer_memory_id": "nobody"}).status_code
    ),
    "reviewed_pair_status": reviewed,
    "forgotten_status": forgotten,
    "archived_in_history": archived,
    "relation_key": relate,
    "relation_name": relate,
    "unknown_thread_status": lambda ask: (
        ask.post("/threads/t/append", {"messages": [{"role": "user", "content": "x"}]}).status_code
    ),
    "append_replay": replayed,
    "busy_status": busy,
    "unknown_space_status": unknown_space,
    "unknown_space_write": unknown_space,
    "blank_space": lambda ask: ask.get("/memories", space_id="").status_code,
    "omitted_space_by_id": by_id,
    "shared_spaces": shared,
    "metadata_filter": filtered,
    "label_filter": labelled,
    "search_has_more": more,
    "deleted_in_index": deleted,
    "missing_key_counts": keyless,
}
SETUP = {"upsert_counts": {"free_plan": True}, "missing_key_counts": {"api_key": "right"}}


def test_every_guess_has_its_probe():
    assert PROBES.keys() == ASSUMED.keys()


@pytest.mark.parametrize("name", ASSUMED)
def test_a_guess_changes_what_the_server_does(start, name):
    values = (ASSUMED[name].value, *ASSUMED[name].others)
    setup = SETUP.get(name, {})
    seen = [PROBES[name](start(assume={name: value}, **setup)) for value in values]
    assert len({repr(one) for one in seen}) == len(values), seen
    assert PROBES[name](start(**setup)) == seen[0]


def test_a_guess_can_be_switched_while_it_runs(start):
    ask = start()
    ask.server.assume(unknown_space_status=422)
    assert ask.get("/memories", space_id="nowhere").status_code == 422
    assert ask.server.assumed["unknown_space_status"] == 422
    for wrong in ({"no_such": 1}, {"busy_status": 200}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ask.server.assume(**wrong)
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Emulator(assume=wrong)


def test_a_range_is_refused_in_text_where_that_is_assumed(start):
    answer = start(assume={"constraint_form": "text"}).post("/memories", LONG)
    assert "importance must be between 0.0 and 1.0" in answer.text
    assert detail(start().post("/memories", LONG)) == "importance must be between 0.0 and 1.0"
