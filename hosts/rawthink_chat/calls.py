"""What a caller says of one call: who speaks, in which conversation, what is to be remembered.

It travels in headers of the request, so that it reaches us through any client; none of them goes on to the
upstream. Text beyond ASCII is percent-encoded in UTF-8.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, unquote

from rawthink_core.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PREFIX: Final = "x-rawthink-"
RECALL_HEADER: Final = "x-rawthink-recall"  # of the answer, too: what was recalled
MAX_VALUE: Final = 1_024

# "off" and "on": from this call on, for the whole conversation
Remember = Literal["yes", "no", "off", "on"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call. What is None is left to the host, the request and core, in this order.

    ``speaker`` is the name of who speaks; ``message_id`` names the turn; ``recall`` says whether to tell the
    model what is remembered.
    """

    space: str | None = None
    session: str | None = None
    speaker: str | None = None
    message_id: str | None = None
    remember: Remember | None = None
    recall: bool | None = None

    def over(self, other: Call) -> Call:
        """Return this call, completed by another."""
        said = {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}
        return replace(other, **said)

    def headers(self) -> dict[str, str]:
        """Return the headers that say this."""
        said: dict[str, str] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
                said[f"X-RAWThink-{field.name.replace('_', '-').title()}"] = quote(text, safe=_PLAIN)
        return said


# printable ASCII without the percent sign; a space goes as it is but at the ends
_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")


def is_own(header: str) -> bool:
    """Whether a header is for us alone."""
    return header.lower().startswith(PREFIX)


def call_of(headers: Iterable[tuple[str, str]]) -> Call:
    """Return what the headers of a request say of the call. Raises InvalidRequest, naming the header."""
    said: dict[str, Any] = {}
    for name, value in headers:
        if not is_own(name):
            continue
        field = name.lower().removeprefix(PREFIX).replace("-", "_")
        if field not in _READERS:
            known = ", ".join(sorted(f"X-RAWThink-{key.replace('_', '-').title()}" for key in _READERS))
            raise InvalidRequest(f"the header {name} is unknown; those that are known: {known}")
        if field in said:
            raise InvalidRequest(f"the header {name} stands there twice; send it once")
        said[field] = _READERS[field](name, value)
    return Call(**said)


def _text(name: str, value: str) -> str:
    try:
        text = unquote(value, errors="strict").strip()
    except UnicodeDecodeError:
        raise InvalidRequest(f"the header {name} is not percent-encoded UTF-8") from None
    if not text or len(text) > MAX_VALUE or not text.isprintable():
        raise InvalidRequest(f"the header {name} must be 1 to {MAX_VALUE} printable characters")
    return text


def _choice(allowed: Mapping[str, Any]) -> Any:
    def read(name: str, value: str) -> Any:
        chosen = value.strip().lower()
        if chosen not in allowed:
            raise InvalidRequest(f"the header {name} must be one of {', '.join(allowed)}, not {value!r}")
        return allowed[chosen]

    return read


_READERS: Final[Mapping[str, Any]] = {
    "space": _text,
    "session": _text,
    "speaker": _text,
    "message_id": _text,
    "remember": _choice({"yes": "yes", "no": "no", "off": "off", "on": "on"}),
    "recall": _choice({"yes": True, "no": False}),
}


def per_call(
    *,
    space: str | None = None,
    session: str | None = None,
    speaker: str | None = None,
    message_id: str | None = None,
    remember: bool | Remember | None = None,
    recall: bool | None = None,
) -> dict[str, str]:
    """Return the headers for one call of a client or of the proxy: ``create(…, extra_headers=per_call(…))``.

    ``remember`` False keeps this turn out of the memory; ``"off"`` the whole conversation from here on, until
    a call with ``"on"``. Raises InvalidRequest for a value that can't be sent.
    """
    chosen = {True: "yes", False: "no"}.get(remember, remember) if isinstance(remember, bool) else remember
    said = Call(space, session, speaker, message_id, chosen, recall).headers()  # type: ignore[arg-type]
    call_of(said.items())
    return said
