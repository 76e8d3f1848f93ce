"""Search (DESIGN §4): what is found, in any language, and what is not."""

# ruff: noqa: D401 - a docstring here is the promise that the check holds
from __future__ import annotations

from typing import TYPE_CHECKING

from rawthink_conformance.checking import check
from rawthink_conformance.expect import contains, equal, only, refused, true
from rawthink_conformance.talking import EVERY_STATUS
from rawthink_core.errors import InvalidRequest
from rawthink_core.provider import Capability

if TYPE_CHECKING:
    from rawthink_conformance.bench import Bench
    from rawthink_conformance.talking import Space

# A text, and questions that must find it first among all the others.
LANGUAGES: dict[str, tuple[str, ...]] = {
    "今天讨论了部署方案": ("部署", "部署方案", "讨论", "怎么部署"),
    "データベースを移行した": ("データベース", "移行"),
    "회의는 서울에서 열렸다": ("서울", "회의"),
    "İstanbul'da bir toplantı yapıldı": ("istanbul", "ISTANBUL", "İSTANBUL", "toplantı", "TOPLANTI"),
    "ılık süt iyi gelir": ("ILIK", "ılık", "süt", "SÜT"),
    "Die Straße ist gesperrt": ("strasse", "STRASSE", "straße", "gesperrt"),
    "ذهب الولد إلى المَدْرَسَة": ("المدرسة", "الولد"),
    "השולחן נמצא במטבח": ("השולחן", "במטבח"),
    "Η οδός είναι κλειστή": ("ΟΔΟΣ", "κλειστη"),
    "база данных переехала вчера": ("БАЗА", "данных"),
    "ประเทศไทยสวยงาม": ("ประเทศ", "สวยงาม"),
    "हिन्दी में लिखा गया": ("हिन्दी", "लिखा"),
    "déjà vu à la crêperie": ("deja vu", "CREPERIE", "crêperie"),
    "Tiếng Việt rất hay": ("tieng viet", "Tiếng Việt"),
    "the decisions were revised twice": ("decision", "revising"),
    "rocket launch 🚀 tomorrow": ("🚀", "launching rockets"),
}
CODE: dict[str, tuple[str, ...]] = {
    "templates in c++ compile slowly": ("c++", "C++ templates"),
    "the language c has pointers": ("c pointers",),
    "never commit a .env file": (".env",),
    "getUserName returns null sometimes": ("getUserName", "user name", "getusername"),
    "read-through beats write-behind": ("read-through", "readthrough", "read through"),
    "api/cache.py holds the ttl": ("api/cache.py", "cache.py", "api/cache"),
    "fixed in v2.0.1 by issue #1234": ("v2.0.1", "#1234"),
    "Grade 4: Week 1 update": ("grade 4 week 1", "week update"),
    "max_retry_count defaults to seven": ("max_retry_count", "retry count"),
    "gpt4 answered, gpt3 did not": ("gpt4", "gpt"),
}


async def _found_first(bench: Bench, texts: dict[str, tuple[str, ...]]) -> None:
    space = bench.space()
    for number, text in enumerate(texts):
        await space.turn(f"session {number}", text)
    for text, questions in texts.items():
        for question in questions:
            equal((await space.texts(question))[:1], [text], f"the first hit for {question!r}")


@check("search.languages")
async def every_language_is_searched(bench: Bench) -> None:
    """Words of every script are found, in any case, with or without accents, without spaces between them."""
    await _found_first(bench, LANGUAGES)


@check("search.code")
async def code_is_searched(bench: Bench) -> None:
    """Identifiers, paths, versions and names with symbols are found whole and by their parts."""
    await _found_first(bench, CODE)


@check("search.punctuation")
async def any_question_may_be_asked(bench: Bench) -> None:
    """A question of punctuation finds nothing, and no character of a question is an operator."""
    space = bench.space()
    await space.turn("one", "what is new in the grade book")
    await space.turn("two", "not every near miss is a hit, and or else")
    for question in ("…", "?!", "   ", "()[]{}", "--", "\x00", "，。", "'"):
        equal((await space.search(question)).items, (), f"hits for {question!r}")
    for question in (
        "what's (new",
        '"grade book',
        "grade AND book",
        "NOT grade",
        "grade* OR",
        "title:grade",
        "-grade",
        "grade^2 book~1",
        "gr\\ade book",
        "book; DROP TABLE x",
        "book' OR 1=1 --",
        "NEAR(grade book)",
        "grade\x00book",
        "grade\u2028book",
        "+book",
        "{grade}",
    ):
        contains(await space.texts(question), "what is new in the grade book", f"hits for {question!r}")
    long = "grade " * 20_000
    contains(await space.texts(long), "what is new in the grade book", "hits for a very long question")


@check("search.entities")
async def names_are_found(bench: Bench) -> None:
    """An entity is found by every name that it answers to, former ones too; of the past, by those of then."""
    space = bench.space()
    (owner,) = await space.create("Zanzibar", aliases=["Unguja"])
    await space.about("Other", "nothing to see")
    for name in ("zanzibar", "unguja"):
        hit = only((await space.search(name)).items, "hits")
        equal(
            (hit.item, hit.id, hit.text, hit.entity_name),
            ("entity", owner, "Zanzibar", "Zanzibar"),
            f"{name!r}",
        )
    then = bench.clock.tick()
    bench.clock.tick()
    await space.revise({"id": owner}, fields={"name": "Pemba", "aliases": ["Mafia"]})
    for moment in ("at once", "after reopening"):
        for name in ("pemba", "mafia", "zanzibar", "unguja"):
            hit = only((await space.search(name)).items, f"hits for {name!r} {moment}")
            equal((hit.id, hit.text), (owner, "Pemba"), f"{name!r} {moment}")
        await bench.reopen()
    if Capability.AS_OF in bench.provider.info.capabilities:
        equal(await space.texts("zanzibar", as_of=then), ["Zanzibar"], "hits for the name of then")
        equal(await space.texts("pemba mafia", as_of=then), [], "hits for names that it did not have yet")


@check("search.hit")
async def a_hit_says_what_it_is(bench: Bench) -> None:
    """A hit carries what its item is: ids, names, places, tags, times and status."""
    space = bench.space()
    (said,) = await space.about("NAS", "the heron statue", kind="because", valid_from="2025-01-15T10:00:00Z")
    (turn,) = await space.turn("talk 7", "a stork statue", speaker="张三", tags=["garden"])
    owner = (await space.entity("NAS")).id
    hit = only((await space.search("heron")).items, "hits")
    seen = (hit.item, hit.id, hit.kind, hit.text, hit.entity, hit.entity_name, hit.session, hit.status)
    shown = ("observation", said, "because", "the heron statue", owner, "NAS", None, "active")
    equal(seen, shown, "the hit of an observation")
    equal(hit.valid_from and hit.valid_from.isoformat(), "2025-01-15T10:00:00+00:00", "its begin")
    hit = only((await space.search("stork")).items, "hits")
    said_in = (hit.item, hit.id, hit.kind, hit.text, hit.entity, hit.session, hit.speaker, hit.tags)
    given = ("passage", turn, None, "a stork statue", None, "talk 7", "张三", ("garden",))
    equal(said_in, given, "the hit of a passage")
    equal(hit.recorded_at, (await space.scan(items=["passage"]))[0].recorded_at, "its time")


@check("search.filters_first")
async def filters_come_before_the_best(bench: Bench) -> None:
    """An item that passes a filter is found, however many better ones do not pass."""
    space = bench.space()
    many = 300 if bench.grade(Capability.FILTERS) == "before_top_k" else 20
    await space.record(
        entities=[
            {"name": "Noise", "entity_type": "concept", "domain": "music"},
            {"name": "Straw", "entity_type": "artifact", "domain": "software"},
        ]
    )
    for start in range(0, many, 100):
        numbers = range(start, min(start + 100, many))
        await space.say("Noise", *(f"cache cache {n}" for n in numbers), valid_from="2020-01-01")
        await space.turn(
            "noise", *(f"cache cache {n}" for n in numbers), tags=["noise"], valid_from="2020-01-01"
        )
    long = "among very many other things that were said on that long day somebody mentioned a {} cache once"
    await space.say("Straw", long.format("straw"), kind="decided", valid_from="2025-01-01")
    await space.turn("quiet", long.format("quiet"), tags=["needle"], valid_from="2024-01-01")
    await space.revise({"entity": "Noise", "text": "cache cache 7"})
    cases: tuple[tuple[dict[str, object], str], ...] = (
        ({"observation_kinds": ["decided"]}, long.format("straw")),
        ({"domains": ["software"], "items": ["observation"]}, long.format("straw")),
        ({"entity_types": ["artifact"], "items": ["observation"]}, long.format("straw")),
        ({"tags": ["needle"]}, long.format("quiet")),
        ({"sessions": ["quiet"]}, long.format("quiet")),
        ({"since": "2024-06-01", "items": ["observation"]}, long.format("straw")),
        ({"since": "2023-01-01", "until": "2024-12-31"}, long.format("quiet")),
        ({"statuses": ["invalidated"]}, "cache cache 7"),
    )
    for filters, text in cases:
        equal(await space.texts("cache", limit=3, **filters), [text], f"hits with {filters}")


@check("search.limit")
async def at_most_limit_hits(bench: Bench) -> None:
    """A search gives at most `limit` hits, says when there are more, and counts them all or not at all."""
    space = bench.space()
    for start in range(0, 120, 40):
        await space.record(
            passages=[{"session": f"s{n}", "text": f"heron number {n}"} for n in range(start, start + 40)]
        )
    for limit in (1, 7, 100):
        page = await space.search("heron", limit=limit)
        equal((len(page.items), page.truncated), (limit, True), f"hits and `truncated` for limit {limit}")
        contains((None, 120), page.total, f"total for limit {limit}")
    page = await space.search("number 7", sessions=["s7"])
    equal((len(page.items), page.truncated), (1, False), "hits and `truncated` of a whole answer")
    contains((None, 1), page.total, "total of a whole answer")
    for limit in (0, 101, -1):
        await refused(InvalidRequest, space.search("heron", limit=limit), f"limit {limit}")


@check("search.group")
async def hits_are_grouped_by_entity(bench: Bench) -> None:
    """`group="entity"` gives hits of at most `limit` entities, found however many hits one of them has."""
    space = bench.space()
    loud = [f"cache cache {n}" for n in range(150)]
    await space.about("Loud", *loud)
    for number in range(9):
        await space.about(
            f"Quiet {number}", f"somewhere in this rather long sentence number {number} is a cache"
        )
    await space.turn("talk", "cache cache cache")
    page = await space.search("cache", group="entity", limit=4)
    names = list(dict.fromkeys(hit.entity_name for hit in page.items))
    equal((len(names), names[0], page.truncated), (4, "Loud", True), "entities of a full answer")
    contains((None, 10), page.total, "entities counted by a full answer")
    page = await space.search("cache", group="entity", limit=50)
    equal(len({hit.entity for hit in page.items}), 10, "entities of a whole answer")
    contains((None, 10), page.total, "entities counted by a whole answer")
    true(all(hit.item != "passage" for hit in page.items), "a passage belongs to no entity")


@check("search.stale")
async def old_wordings_are_not_found(bench: Bench) -> None:
    """Edited, retired or forgotten text is not found by its old wording; the new wording is."""
    space = bench.space()
    (said,) = await space.about("NAS", "the heron wording")
    await space.record(passages=[{"session": "s", "key": "m1", "text": "the stork wording"}])
    (gone,) = await space.turn("other", "the crane wording")
    await space.create("Puffin", "Auk")
    await space.revise({"entity": "Auk"}, fields={"name": "Guillemot"})
    await space.revise({"id": said}, successor={"text": "the ibis wording"})
    await space.record(passages=[{"session": "s", "key": "m1", "text": "the egret wording"}])
    if Capability.FORGET in bench.provider.info.capabilities:
        await space.forget(ids=[gone], names=["Guillemot"])
        for name in ("auk", "guillemot"):
            equal(await space.texts(name), [], f"hits for {name!r}, a name of what was forgotten")
    else:
        await space.revise({"id": gone})
    await space.revise({"entity": "Puffin"}, fields={"name": "Razorbill"})
    for moment in ("at once", "after reopening"):
        for old in ("heron", "stork", "crane"):
            equal(await space.texts(old), [], f"hits for {old!r} {moment}")
        for new, text in (
            ("ibis", "the ibis wording"),
            ("egret", "the egret wording"),
            ("razorbill", "Razorbill"),
        ):
            equal(await space.texts(new), [text], f"hits for {new!r} {moment}")
        await bench.reopen()
    retired = await space.texts("wording", statuses=["ended", "invalidated"])
    contains(retired, "the heron wording", "hits among the retired")
    true("the ibis wording" not in retired, "an active item is among the retired")


@check("search.repeatable")
async def asking_changes_nothing(bench: Bench) -> None:
    """The same question gets the same answer, however often it is asked, and after reopening."""
    space = bench.space()
    for number in range(30):
        await space.turn(f"s{number % 3}", f"the cache of service {number} and its heron")
        await space.about(f"Service {number % 4}", f"heron cache {number}")
    for question in ("cache", "heron service 7", "service"):
        first = await space.search(question, statuses=EVERY_STATUS, limit=20)
        for _ in range(3):
            again = await space.search(question, statuses=EVERY_STATUS, limit=20)
            equal(_form(again.items), _form(first.items), f"hits for {question!r}")
        await bench.reopen()
        again = await space.search(question, statuses=EVERY_STATUS, limit=20)
        equal(_form(again.items), _form(first.items), f"hits for {question!r} after reopening")


def _form(hits: tuple[object, ...]) -> list[object]:
    return [(getattr(hit, "id", None), getattr(hit, "score", None)) for hit in hits]


@check("search.relevant_only")
async def only_what_shares_a_word(bench: Bench) -> None:
    """With `relevant_only`, a hit must share a meaningful word: no neighbours, fragments or stop words."""
    space = bench.space()
    await _talk(space)
    equal(await space.texts("what about the heron?", relevant_only=True), ["the heron is back"], "hits")
    equal(await space.texts("what is it about?", relevant_only=True), [], "hits for stop words")
    equal(await space.texts("heroic", relevant_only=True), [], "hits for a word that only looks alike")


async def _talk(space: Space) -> None:
    await space.turn("talk", "what about today?", "the heron is back", "it is nice to see", "what is it?")
