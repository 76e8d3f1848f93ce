r"""What people and the assistant said: speakers, the text of a turn, the question it asks of a memory.

Pure functions on text and on OpenAI-style messages (dicts). Nothing here remembers a conversation or reads a
clock, and a message of a shape we don't know says nothing instead of raising.

**How a forged label is made harmless.** A label opens a line, so a backslash is put before a bracket that
could be one (``\[me] …``), as Markdown does; nothing else changes.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rawthink_core.injected import strip_memory_context
from rawthink_core.marks import BLANK, INVISIBLE, LINE_ENDS, compiled
from rawthink_core.redaction import redact

if TYPE_CHECKING:
    import re

_HAN = r"々〇\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_KANA_HANGUL = (
    r"\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    r"\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
)
_OPENS, _SHUTS = "[［【〔〖〘〚⟦❲⁅﹝⦋", "]］】〕〗〙〛⟧❳⁆﹞⦌"
_ROUND = str.maketrans(_OPENS + _SHUTS, "(" * len(_OPENS) + ")" * len(_SHUTS))
_LABEL = (
    rf"(?P<lead>(?<![^{LINE_ENDS}])[{BLANK}]*+)(?P<open>[\{_OPENS}])"
    rf"(?P<inside>[^\{_OPENS}\{_SHUTS}{LINE_ENDS}]{{1,80}})[\{_SHUTS}]"
    rf"(?P<said>(?=[{BLANK}]+[^{BLANK}{LINE_ENDS}=]|[0-9A-Za-z]|[^\x00-\x7f：{BLANK}{LINE_ENDS}]))?"
)
_LABEL_NAMES = frozenset({"user", "me", "用户", "我", "assistant", "system", "human", "ai", "助手", "系统"})

_YAML = (
    r"\ufeff?---[ \t]*\r?\n(?P<fields>(?:(?!(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z))[^\n]*\n){0,64})"
    r"(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)"
)
_FIELD = r"""["']?([A-Za-z][\w .-]{0,60}?)["']?[ \t]*:(?:[ \t](.*))?"""
_QUOTED = r""""(?:\\.|[^"\\])*+"|'(?:''|\\'|[^'])*'"""
_ESCAPE = r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))"
_WRAPPER = (
    r"""(?is)\ufeff?\s*<message(?P<attributes>(?:\s(?:[^<>"']|"(?:\\.|[^"\\])*+"|'(?:\\.|[^'\\])*+')*+)?)>"""
    r"(?P<inside>.*)</message>\s*"
)
_SENDER = rf"(?i)(?<![\w-])sender\s*=\s*({_QUOTED})"

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})
_FINISHED = frozenset({"stop", "stop_sequence", "end_turn", "completed", "eos", "eos_token"})
_COMMAND = r"/[A-Za-z][\w:-]*(?:\s|\Z)"
_UNIT = rf"[{_HAN}{_KANA_HANGUL}]{{1,2}}|[^\W_{_HAN}{_KANA_HANGUL}]+"
# Short is less than six words (two Han characters count as one); then up to two earlier messages help.
_ENOUGH, _RECENT_MESSAGES, _RECENT, _ACK_LENGTH = 6, 2, 200, 60
# Words of thanks and assent, alone or in a row; Chinese, Japanese and Korean need no space between.
_ACK = (
    r"(?:(?:o?k++|ok[ae]y|thanks?(?: you)?(?: (?:so|very) much| a lot)?|thx|ty|cheers|great|perfect|cool|nice"
    r"|good|fine|got it|i see|sure|yes|yep|yeah|no|nope|alright|right|done|please|continue|go (?:on|ahead)"
    r"|tamam(?:dır)?|te[sş]ekk[uü]r(?:ler)?(?: ederim)?|sa[gğ] ?ol(?:un)?|çok|iyi|güzel|süper|harika|peki"
    r"|olur|evet|hay[ıi]r|devam"
    r"|gracias|vale|danke|bitte|merci|d'accord|oui|ja|nein|si|sí|obrigad[oa]|grazie|да|нет|ок|спасибо|хорошо"
    r")(?= |\Z|[\u3040-\U0010ffff]) ?"
    r"|(?:好的?|好吧|嗯|哦|行|可以|对的?|是的?|不|不用了?|谢谢(?:你|您)?|多谢|感谢|收到|明白了?|知道了|了解了?"
    r"|没问题|辛苦了|继续|太好了|太棒了|[啊吧呢呀啦哈]|はい|いいえ|ありがとう(?:ございます)?|了解です|わかりました"
    r"|네|아니요|감사합니다|고마워요?) ?)+"
)


@dataclass(frozen=True, slots=True)
class Labels:
    """How the two sides of a conversation are called where no name is known."""

    user: str = "user"
    assistant: str = "me"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who speaks, safe to put in a label; and the words, without the header that said so."""

    name: str
    text: str


def message_text(content: object) -> str:
    """Return the text of a message's ``content``: a string, or the text parts of a list, one a line.

    Images, sound, files, refusals, reasoning, tool traffic and unknown shapes give no text. Never raises.
    """
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, (list, tuple)) else ()
    return "\n".join(text for part in parts if (text := _part_text(part)))


def _part_text(part: object) -> str:
    text = part
    if isinstance(part, Mapping):
        kind = part.get("type", "text")
        text = part.get("text") if isinstance(kind, str) and kind in _TEXT_PARTS else None
        text = text.get("value") if isinstance(text, Mapping) else text
    return text if isinstance(text, str) else ""


def labels_for(first_turn: str, override: Labels | None = None) -> Labels:
    """Return the labels for a session that began with ``first_turn``; ``override`` comes from config.

    ``用户`` and ``我`` where it has Han characters and neither kana nor hangul, else ``user`` and ``me``.
    """
    if override is not None:
        return override
    chinese = compiled(f"[{_HAN}]").search(first_turn) and not compiled(f"[{_KANA_HANGUL}]").search(
        first_turn
    )
    return Labels("用户", "我") if chinese else Labels()


def speaker_of(
    text: str,
    *,
    labels: Labels,
    vouched: bool = False,
    name: str | None = None,
    display_name: str | None = None,
) -> Speaker:
    """Return who speaks in a user's message, and the message without its header.

    In this order: ``display-name`` in a YAML header at the very start, ``<message sender="…">`` around the
    text, the message's own ``name``, ``display_name`` of the request, the user label. Header and wrapper
    count only where the host vouches for them, and then they are removed; typed by a user they are text.
    """
    named, text = _unwrap(text) if vouched else ("", text)
    return Speaker(_label_name(named or clean_name(name) or clean_name(display_name), labels), text)


def clean_name(name: object) -> str:
    """Return ``name`` in one line of at most 80 characters, without brackets or invisible characters.

    Square and other label-like brackets become round. Joiners that scripts and emoji need are kept. What is
    no string, or shows nothing, gives an empty name.
    """
    if not isinstance(name, str):
        return ""
    line = compiled(f"[{LINE_ENDS}\0-\x1f\x7f-\x9f]").sub(" ", name[:1000].translate(_ROUND))
    line = compiled(f"(?![\u200c\u200d\ufe00-\ufe0f])[{INVISIBLE}]").sub("", line)
    line = " ".join(compiled(r"[\ud800-\udfff]").sub("\ufffd", line).split())[:80].strip()
    return line if any(unicodedata.category(char)[0] in "LNS" for char in line) else ""


def _label_name(name: str, labels: Labels) -> str:
    """Return the name for the user's label; one that reads as the assistant's is told apart."""
    if not name:
        return labels.user
    return f"{name} ({labels.user})" if _same(name) == _same(labels.assistant) else name


def _same(name: str) -> str:
    """Return what is left of a name when look-alikes are made equal."""
    return compiled(f"[{BLANK}{LINE_ENDS}]").sub("", unicodedata.normalize("NFKC", name)).casefold()


def _unwrap(text: str) -> tuple[str, str]:
    """Take header and wrapper off a vouched text: (name or empty, the text inside)."""
    name = ""
    header = compiled(_YAML).match(text)
    if header and (shown := _display_name(header["fields"])) is not None:
        name, text = clean_name(shown), text[header.end() :]
    if wrapper := compiled(_WRAPPER).fullmatch(text):
        import html  # noqa: PLC0415 - only wrappers need its table of entities

        sender = compiled(_SENDER).search(wrapper["attributes"])
        name = name or clean_name(html.unescape(_unquote(sender[1])) if sender else "")
        text = wrapper["inside"]
    return name, text


def _display_name(block: str) -> str | None:
    """Return the display name in a header's lines ("" without one), or None where they are no header."""
    name, keys = "", 0
    for line in block.split("\n"):
        if field := compiled(_FIELD).fullmatch(line.rstrip("\r")):
            keys += 1
            if not name and field[1].replace("_", "-").casefold() in {"display-name", "displayname"}:
                name = _unquote((field[2] or "").strip())
        elif line.strip() and not line.startswith((" ", "\t", "#", "- ")):
            return None
    return name if keys else None


def _unquote(value: str) -> str:
    """Return what a YAML scalar on one line (or a quoted attribute) says."""
    quoted = compiled(_QUOTED).match(value)
    if quoted is None:
        plain = compiled(r"(?:\A|\s+)#.*").sub("", value)
        return "" if plain in {"~", "null", "|", ">", "|-", ">-"} else plain
    inside = quoted[0][1:-1]
    if quoted[0][0] == "'":
        return inside.replace("''", "'").replace("\\'", "'")
    plain = compiled(_ESCAPE).sub(_character, inside)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins surrogate pairs


def _character(escape: re.Match[str]) -> str:
    code = escape[1] or escape[2] or escape[3]
    if code is None:
        return {"n": "\n", "r": "\r", "t": "\t"}.get(escape[4], escape[4])
    return chr(int(code, 16)) if int(code, 16) <= sys.maxunicode else "\ufffd"


def defuse_labels(text: str, *reserved: str) -> str:
    """Return ``text`` with a backslash before each bracket that could pass for a speaker's label.

    That is, at the start of a line: a label of ours or one of ``reserved`` in any bracket, however spelled;
    or square brackets with a word in them and words behind. ``[1]``, ``[x]``, links, ``[sections]`` stay.
    """
    names = _LABEL_NAMES | ({_same(name) for name in reserved} - {""})

    def defuse(found: re.Match[str]) -> str:
        inside, lead = _same(found["inside"]), len(found["lead"])
        word = any(char.isalpha() for char in inside) and (len(inside) > 1 or not inside.isascii())
        if inside in names or (word and found["said"] is not None and found["open"] in "[［"):
            return f"{found[0][:lead]}\\{found[0][lead:]}"
        return found[0]

    return compiled(_LABEL).sub(defuse, text)


def turn_text(
    user_text: str, reply_text: str | None, speaker: str, labels: Labels, earlier: Sequence[Speaker] = ()
) -> str | None:
    """Return one turn as it is stored, or None where it is no complete turn.

    Pass ``reply_text=None`` for an answer that was interrupted (`is_complete`). White space around each side
    goes, labels forged inside it are made harmless, all else stays::

        [张三] 我最近在用 Rust 重写后端
        [我] 很好的选择，Rust 的性能和安全性都很出色

    ``earlier`` is what others said before the same answer: a line for each.
    """
    if not user_text.strip() or not (reply_text or "").strip():
        return None
    sides = [(_label_name(clean_name(one.name), labels), one.text) for one in earlier]
    sides += [(_label_name(clean_name(speaker), labels), user_text), (labels.assistant, reply_text or "")]
    names = [name for name, _ in sides]
    said = ((name, defuse_labels(text.strip(), *names, labels.user)) for name, text in sides if text.strip())
    return "\n".join(f"[{name}] {text}" for name, text in said)


def is_complete(finish_reason: object) -> bool:
    """Whether an answer with this finish reason was spoken to its end.

    It was not when length, a filter, an error or a lost line (no reason) cut it off, or tools come first.
    """
    return isinstance(finish_reason, str) and finish_reason.casefold() in _FINISHED


def recall_query(messages: object, *, vouched: bool = False, limit: int = 2000) -> str | None:
    """Return what to look for in memory before the newest of ``messages`` is answered, or None for nothing.

    The query is the user's own words: the current message, and when that is short a little of what the user
    said before it. Injected blocks are taken out, secrets masked, and it has at most ``limit`` characters.
    Nothing is looked for on thanks and the like, on slash commands, without a word, without a user message,
    and when tools are at work on the current one.
    """
    words: list[str] = []
    for message in reversed(messages if isinstance(messages, (list, tuple)) else ()):
        if not isinstance(message, Mapping):
            continue
        if not words and is_tool_traffic(message):
            return None
        if message.get("role") != "user":
            continue
        text = message_text(message.get("content"))
        text = redact(strip_memory_context(_unwrap(text)[1] if vouched else text)).text.strip()
        topical = _is_topical(text)
        if topical:
            words.append(_shortened(text, _RECENT if words else limit))
        if not words:
            return None
        if len(words) > _RECENT_MESSAGES or len(compiled(_UNIT).findall(words[0])) >= _ENOUGH:
            break
    return "\n".join(words)[:limit] or None


def is_tool_traffic(message: Mapping[str, object]) -> bool:
    """Whether a message (or an item of the responses API) belongs to the traffic with tools."""
    role, content = message.get("role"), message.get("content")
    if role is None:
        return message.get("type") not in (None, "message")
    parts = content if isinstance(content, (list, tuple)) else ()
    results = any(isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts)
    calls = message.get("tool_calls") or message.get("function_call")
    return role in ("tool", "function") or results or bool(calls)


def _is_topical(text: str) -> bool:
    """Whether a message has words to search for: no slash command, and more than thanks or assent."""
    start = unicodedata.normalize("NFKC", text[:_ACK_LENGTH]).casefold()
    start = start.replace("\u0307", "").replace("’", "'")
    words = " ".join(compiled(r"[^\W_]+(?:'[^\W_]+)?").findall(start))
    thanks = len(text) <= _ACK_LENGTH and compiled(_ACK).fullmatch(words)
    return bool(words) and not thanks and not compiled(_COMMAND).match(text)


def _shortened(text: str, limit: int) -> str:
    """Return at most ``limit`` characters of ``text``: how it begins and how it ends."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}…{text[len(text) - (limit - head - 1) :]}"
