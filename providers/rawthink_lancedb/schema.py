"""What the tables look like: the catalogue, the log of a space (truth), and its search index (derived).

Names of tables are hashes, so any text may name a space. A column is never added for what somebody stores:
whatever is not searched for or looked up by stands in a row's JSON.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

CATALOGUE = "catalogue"
FORMAT = 1  # of the catalogue and the logs; what is derived has its own
_KEY = {"lance-schema:unenforced-primary-key": "true"}  # two writers of one new key: one row


def log_name(space: str) -> str:
    """Return the name of the table with all rows of a space."""
    return f"s_{_hashed(space)}"


def index_name(space: str) -> str:
    """Return the name of the table that a space is searched in."""
    return f"x_{_hashed(space)}"


def _hashed(space: str) -> str:
    return hashlib.sha256(space.encode()).hexdigest()[:32]


@lru_cache(maxsize=1)
def catalogue_schema() -> pa.Schema:
    """Return the columns of the catalogue: what a store is, and which spaces it has, as JSON by key."""
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    return pa.schema([pa.field("key", pa.string(), nullable=False, metadata=_KEY), ("value", pa.string())])


@lru_cache(maxsize=1)
def log_schema() -> pa.Schema:
    """Return the columns of a log.

    ``claim`` numbers what was appended together: of two appends with one number, one is in the table.
    ``rid`` orders all rows. A commit is a head (``op`` is "commit", ``size`` the number of rows after it)
    and its rows; ``n`` is a row's place in its commit. ``keys`` are the questions that a row answers,
    ``born`` microseconds since 1970 where it creates something, ``session`` the key of a passage's session.
    """
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    return pa.schema(
        [
            pa.field("claim", pa.int64(), nullable=False, metadata=_KEY),
            pa.field("rid", pa.int64(), nullable=False),
            ("commit", pa.string()),
            ("n", pa.int32()),
            ("at", pa.string()),
            ("by", pa.string()),
            ("request", pa.string()),
            ("size", pa.int32()),
            ("op", pa.string()),
            ("item", pa.string()),
            ("row", pa.string()),
            ("keys", pa.list_(pa.int64())),
            ("born", pa.int64()),
            ("session", pa.int64()),
            ("ordinal", pa.int64()),
        ]
    )


@lru_cache(maxsize=2)
def index_schema(*, remote: bool) -> pa.Schema:
    """Return the columns of a search index, without vectors: their size is known when a model is.

    ``point`` is the id of an item, empty in the one row that says up to which row of the log the index is
    ``applied``, in which making of the table (``said``) and in which form (``model``); in a point ``applied``
    says as of which row of the log it is what it is, and ``created`` by which it was made.
    ``tokens`` are term ids, ``terms`` and ``weights`` core's vector of the text, ``told`` the terms that it
    had at first, where they have changed, ``said`` the key of the text itself. ``model`` names what made its
    vectors.
    """
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    return pa.schema(
        [
            # a key costs 64 KB a write; under a lock nobody needs it
            pa.field("point", pa.string(), nullable=False, metadata=_KEY if remote else None),
            pa.field("applied", pa.int64(), nullable=False),
            ("created", pa.int64()),
            ("kind", pa.string()),
            ("status", pa.string()),
            ("recorded_at", pa.int64()),
            ("retired_at", pa.int64()),
            ("date", pa.int64()),
            ("valid_from", pa.int64()),
            ("valid_to", pa.int64()),
            ("session", pa.string()),
            ("ordinal", pa.int64()),
            ("speaker", pa.string()),
            ("tags", pa.list_(pa.string())),
            ("entity_type", pa.string()),
            ("domain", pa.string()),
            ("tokens", pa.string()),
            ("terms", pa.list_(pa.uint32())),
            ("weights", pa.list_(pa.float32())),
            ("told", pa.list_(pa.uint32())),
            ("said", pa.int64()),
            ("model", pa.string()),
        ]
    )


def vectors_field(name: str, dimensions: int) -> pa.Field:
    """Return the column for the vectors of a model: as many an item as its text has windows."""
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    return pa.field(name, pa.list_(pa.list_(pa.float32(), dimensions)))
