"""An embedder that is bad company: cold, hanging, gone, full of nonsense, or another one behind the same name.

The server is a process as clients start it, the embedder an Ollama on loopback whose answers a test decides.
Whatever it does, a record is stored in a moment, and a recall answers by words and says why.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager

import pytest

from tests.core.embedders.servers import Ollama, Reply, free_port, serving

MOMENT = 4.0  # seconds that a call may take on a busy machine; an embedder that is waited for takes more
PETS = {"entityType": "concept", "domain": "personal"}
MEANINGS = {"kitten": 0, "cat": 0, "feline": 0, "automobile": 1, "vehicle": 1}


class Model(Ollama):
    """An Ollama whose model knows what some words mean. Without ``ready``, it lets everybody wait."""

    def __init__(self):
        super().__init__()
        self.ready = threading.Event()
        self.ready.set()
        self.garbage = None
        self.texts = []

    def __call__(self, asked):
        if asked.path != "/api/embed":
            self.info["bert.embedding_length"] = self.size
            return super().__call__(asked)
        self.texts += asked.body["input"]
        self.ready.wait()
        if self.garbage is not None:
            return self.garbage
        reply = super().__call__(asked)
        if reply.status == 200:
            reply.body["embeddings"] = [self.vector(text) for text in asked.body["input"]]
        return reply

    def vector(self, text):
        known = [place for word, place in MEANINGS.items() if word in text]
        return [float(place == (known[0] if known else self.size - 1)) for place in range(self.size)]


@pytest.fixture
def model():
    model = Model()
    yield model
    model.ready.set()


@pytest.fixture
def ollama(model):
    with serving(model) as server:
        yield server
        model.ready.set()


def at(server):
    return {"RAWTHINK_EMBEDDER": "ollama", "RAWTHINK_EMBEDDER__URL": getattr(server, "url", server)}


def say(talk, *texts, name="Pets"):
    return talk.call("record", entities=[{"name": name, **PETS, "observations": list(texts)}])


@contextmanager
def in_a_moment():
    began = time.monotonic()
    yield
    assert time.monotonic() - began < MOMENT


def by_words_because(talk, *reasons):
    """Search by a word that stands there: it is found, and the answer says why meaning was not asked.

    The first answers may say only that the embedder has not been heard of yet.
    """
    end = time.monotonic() + 20
    while True:
        with in_a_moment():
            told = talk.call("search_thoughts", query="kitten sleeps")
        assert "a kitten sleeps" in told
        [warning] = [line for line in told.splitlines() if line.startswith("! INCOMPLETE")]
        assert "by words only" in warning
        if all(reason in warning for reason in reasons):
            return
        assert time.monotonic() < end, (warning, reasons)
        time.sleep(0.1)


def by_meaning(talk, query="feline", found="a kitten sleeps"):
    """Search until meaning is asked again, without a restart."""
    end = time.monotonic() + 30
    while "INCOMPLETE" in (told := talk.call("search_thoughts", query=query)) or found not in told:
        assert time.monotonic() < end, told
        time.sleep(0.1)
    return told


def ended(talk):
    """End the server as clients do: it must be gone by itself, soon, and without a traceback."""
    began = time.monotonic()
    code, _ = talk.end()
    assert code == 0
    assert time.monotonic() - began < 5
    assert "Traceback" not in talk.stderr()


def journal(home):
    return (home / "vault" / "rawthink.jsonl").read_bytes()


# --- slow, hanging, gone ------------------------------------------------------------------------


def test_a_cold_model_costs_one_recall_its_vectors_and_no_later_one(serve, ollama, model):
    talk = serve(**at(ollama))
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    model.ready.clear()  # it was unloaded, and takes its 15 seconds
    by_words_because(talk, "embedder ollama", "within 1 s")
    with in_a_moment():
        assert "Recorded" in say(talk, "a cat purrs")
    model.ready.set()
    assert "a cat purrs" in by_meaning(talk, "feline", "a cat purrs")
    ended(talk)


def test_an_embedder_that_hangs_from_the_start_holds_up_nobody(serve, model):
    with serving(lambda _: Reply({}, after=60)) as server:
        talk = serve(**at(server))
        talk.greet()
        with in_a_moment():
            assert "follow later; words are found at once" in say(talk, "a kitten sleeps")
        by_words_because(talk, "ollama has not answered yet")
        ended(talk)


def test_an_embedder_that_is_not_there_is_named_with_its_cure(serve):
    talk = serve(**at(f"http://127.0.0.1:{free_port()}"))
    talk.greet()
    with in_a_moment():
        say(talk, "a kitten sleeps")
    end = time.monotonic() + 20
    while "ollama serve" not in talk.call("search_thoughts", query="kitten"):
        assert time.monotonic() < end
    by_words_because(talk, "can't be reached", "Start it with: ollama serve")
    ended(talk)


# --- nonsense -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        Reply(b"<html>Bad gateway</html>", 502, {"content-type": "text/html"}),
        Reply(b"<html>Welcome</html>", 200, {"content-type": "text/html"}),
        Reply(b""),
        Reply([]),
        Reply({"embeddings": "none today"}),
        Reply({"embeddings": [[1.0] * 8, [1.0] * 8]}),
        Reply({"embeddings": [["a", "b"]]}),
        Reply(b'{"embeddings": [[NaN, 1, 1, 1, 1, 1, 1, 1]]}'),
        Reply({"embeddings": [[0.0] * 8]}),
        Reply(hang_up=True),
        Reply({"error": "out of memory"}, 500),
    ],
    ids=["502", "page", "nothing", "list", "text", "too many", "words", "nan", "zeros", "cut", "500"],
)
def test_an_embedder_that_talks_nonsense_is_not_believed_and_forgiven(serve, ollama, model, garbage):
    talk = serve(**at(ollama))
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    model.garbage = garbage
    with in_a_moment():
        assert "Recorded" in say(talk, "the automobile is red")
    by_words_because(talk, "embedder ollama")
    assert "the automobile is red" in talk.call("search_nodes", query="automobile")
    model.garbage = None
    by_meaning(talk, "vehicle", "the automobile is red")
    ended(talk)


def test_a_text_that_breaks_the_model_costs_only_itself(serve, ollama, model):
    model.broken = {"poison"}
    model.longest = 400
    talk = serve(**at(ollama), RAWTHINK_EMBEDDER__WINDOW="2000")
    talk.greet()
    say(talk, "a kitten sleeps", "poison in the well", "an automobile, and so on, " * 60, "a cat purrs")
    by_meaning(talk)
    assert "a cat purrs" in by_meaning(talk)
    assert "and so on" in by_meaning(talk, "vehicle", "an automobile")
    assert "poison in the well" in talk.call("search_thoughts", query="poison")
    asked = len(model.texts)
    time.sleep(3.5)  # longer than the first pauses between attempts
    assert len(model.texts) == asked, "what can't be embedded is asked for again and again"
    ended(talk)


# --- another model ------------------------------------------------------------------------------


def refused(talk, *words):
    """Try to write in each way; each is refused in words that say what to do."""
    told = talk.result(talk.send_call("record", entities=[{"name": "Pets", "observations": ["a cat purrs"]}]))
    assert told["isError"]
    text = told["content"][0]["text"]
    for word in ("bge-m3", "rawthink reindex --vectors", "Nothing was written", *words):
        assert word in text


def test_vectors_of_another_size_are_refused_before_any_write(serve, rawthink, home, ollama, model):
    talk = serve(**at(ollama))
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    ended(talk)
    before = journal(home)
    model.size, model.digest = 16, "f" * 64
    talk = serve(**at(ollama))
    talk.greet()
    by_words_because(talk, "; 8;", "; 16;", "rawthink reindex --vectors")
    refused(talk, "; 8;", "; 16;")
    assert journal(home) == before
    note = talk.call("store_thought", text="a note about felines")
    assert "can't be found by searching yet" in note
    assert "rawthink reindex --vectors" in note
    ended(talk)
    done = rawthink("reindex", "--vectors", **at(ollama))
    assert done.returncode == 0, done.stderr
    talk = serve(**at(ollama))
    talk.greet()
    assert "Recorded" in say(talk, "a cat purrs")
    assert "a kitten sleeps" in by_meaning(talk, "feline", "a cat purrs")
    ended(talk)


def test_a_model_pulled_anew_under_the_same_name_is_refused_by_the_next_server(serve, home, ollama, model):
    talk = serve(**at(ollama))
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    ended(talk)
    before = journal(home)
    model.digest = "0123456789abcdef" * 4
    talk = serve(**at(ollama))
    talk.greet()
    by_words_because(talk, "0123456789abcdef")
    refused(talk, "0123456789abcdef")
    assert journal(home) == before
    ended(talk)


def test_a_model_that_changes_while_the_server_runs_is_noticed(serve, ollama, model):
    talk = serve(**at(ollama))
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    model.size = 16
    by_words_because(talk, "16 numbers, not of 8", "has its model changed?")
    assert "Recorded" in say(talk, "a dog barks")
    assert "a dog barks" in talk.call("search_thoughts", query="barks")
    model.size = 8
    by_meaning(talk)
    ended(talk)


def test_without_an_embedder_the_vectors_that_others_made_are_missed(serve, ollama):
    talk = serve(**at(ollama))
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    ended(talk)
    talk = serve()
    talk.greet()
    by_words_because(talk, "no embedder", "ollama made the vectors")
    ended(talk)


# --- on the way ---------------------------------------------------------------------------------


def test_a_proxy_of_the_system_does_not_stand_between_the_server_and_this_machine(serve, ollama):
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    proxies |= dict.fromkeys(("ALL_PROXY", "all_proxy"), "socks5h://nowhere.invalid:1")
    talk = serve(**at(ollama), **proxies, NO_PROXY=None, no_proxy=None)
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    assert "/api/embed" in ollama.paths()
    ended(talk)


def test_how_long_a_model_stays_is_sent_as_ollama_takes_it(serve, ollama):
    talk = serve(**at(ollama), RAWTHINK_EMBEDDER__KEEP_ALIVE="-1")
    talk.greet()
    say(talk, "a kitten sleeps")
    by_meaning(talk)
    sent = [asked.body for asked in ollama.asked if asked.path == "/api/embed"]
    assert {json.dumps(body["keep_alive"]) for body in sent} == {"-1"}
    ended(talk)
