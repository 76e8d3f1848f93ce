"""The small alphabet of the state machine: few names, texts and times, of which many are the same or nearly.

Strategies of Hypothesis for the parts of a batch; what they make often refers to what is not there.
"""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = ("Redis", "redis ", "İstanbul", "istanbul", "ılık", "c++", "部署方案", "api: cache")
TEXTS = (
    "is fast",
    " is fast\n",
    "cafe\u0301",
    "café",
    "今天讨论了部署方案",
    "İstanbul'da toplantı",
    "c++ is fast",
)
TURNS = (*TEXTS, "line\u2028separator", "ok")
QUESTIONS = ("fast", "istanbul", "部署", "c++", "cafe separator", "redis")
TIMES = (None, None, "2025-01-01", "2025-06-01T12:00:00.500+03:00", "2027-01-01")
SPACES = ("team", "team ")

spaces = st.sampled_from((SPACES[0], SPACES[0], SPACES[0], SPACES[1]))
names = st.sampled_from(NAMES)
texts = st.sampled_from(TEXTS)
times = st.sampled_from(TIMES)
kinds = st.sampled_from(("note", "note", "decided", "because", "rejected"))
relation_types = st.sampled_from(("uses", "used_by", "supersedes", "related_to", "connected_to"))
entities = st.fixed_dictionaries(
    {"name": names, "entity_type": st.just("concept"), "domain": st.just("software")},
    optional={
        "epistemic": st.sampled_from(("hypothesis", "assertion")),
        "aliases": st.lists(names, max_size=1),
        "supersedes": names,
    },
)
observations = st.fixed_dictionaries({"entity": names, "text": texts, "kind": kinds, "valid_from": times})
relations = st.fixed_dictionaries({"source": names, "type": relation_types, "target": names})
passages = st.fixed_dictionaries(
    {"session": st.sampled_from(("s1", "s2")), "text": st.sampled_from(TURNS)},
    optional={"key": st.sampled_from(("m1", "m2"))},
)
successors = st.none() | st.fixed_dictionaries({"text": texts})
causes = st.sampled_from(("corrected", "changed"))
places = st.integers(min_value=0, max_value=40)
