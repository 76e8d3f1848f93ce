"""What a secret looks like; masks it and keeps the sentence around it.

Pure: text in, text out. A `Secret` says what kind was found and where, never its value, so findings may be
logged. Masks read ``[redacted github-token]`` and are not taken for secrets: redacting twice changes nothing.

Three ways to be a secret, and none of them is "looks random" (commit hashes, UUIDs and base64 stay):

- it has a form that only secrets have (`_SHAPES`, private keys, the password in ``scheme://user:password@host``);
- a label says so (``password=…``, ``"api_key": "…"``, ``密码：…``, ``parola: …``, ``Authorization: …``);
- it has the form of an AWS secret key and stands near an AWS key id.

Every pattern is linear: a repeated part either ends its pattern, or is bounded, or starts only where the
character before it cannot belong to the same run.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from rawthink_core.scanning import matches

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Secret:
    """One secret: its kind, and where it stands in the text that was searched (``text[start:end]``)."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets, and what was found, with positions in the original text."""

    text: str
    found: tuple[Secret, ...]


@cache
def _re(pattern: str) -> re.Pattern[str]:
    """Compile when first used: together the patterns would cost every start-up 20 ms."""
    return re.compile(pattern)


# A group's name is the kind. Order matters only where two match at one place.
_SHAPES = r"""(?x)(?<![A-Za-z0-9])(?:
      (?P<github_token>   gh[pousr]_[A-Za-z0-9_]{20,} | github_pat_[A-Za-z0-9_]{20,} )
    | (?P<aws_key_id>     A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9]) )
    | (?P<anthropic_key>  sk-ant-[A-Za-z0-9_-]{10,} )
    | (?P<openai_key>     sk-(?:proj|svcacct|admin|None)-[A-Za-z0-9_-]{16,} )
    | (?P<api_key>        sk-[A-Za-z0-9_-]{16,} )
    | (?P<nowledge_key>   nmem_[A-Za-z0-9_-]{12,} )
    | (?P<stripe_key>     [sr]k_(?:live|test)_[A-Za-z0-9]{10,} | whsec_[A-Za-z0-9+/]{20,}={0,2} )
    | (?P<slack_token>    (?:xoxe\.)?xox[a-z]-[A-Za-z0-9-]{10,} | xapp-\d-[A-Za-z0-9-]{10,} )
    | (?P<google_key>     AIza[A-Za-z0-9_-]{30,} | GOCSPX-[A-Za-z0-9_-]{20,} | ya29\.[A-Za-z0-9_-]{20,} )
    | (?P<npm_token>      npm_[A-Za-z0-9]{30,} )
    | (?P<pypi_token>     pypi-(?:AgE[A-Za-z0-9_-]{13,} | [A-Za-z0-9_]{32}[A-Za-z0-9_-]*) )
    | (?P<huggingface_token> hf_[A-Za-z0-9]{20,} )
    | (?P<gitlab_token>   gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+)* )
    )"""
# "sk-…" and "nmem_…" also start names that people give to things; a key has a long unbroken run, or a
# shorter one that mixes in digits.
_DENSE = r"[A-Za-z0-9]{20}|(?<![A-Za-z0-9])(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{8}"
_MAYBE_NAMES = frozenset({"api_key", "nowledge_key"})

# Three parts, or two when unsigned; a GitHub installation token may carry one inside.
_JWT = (
    r"(?<![A-Za-z0-9_-])(?:gh[a-z]_\d{1,20}_)?eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*"
)
_BEARER = r"\b[Bb]earer[ \t]{1,4}(?P<value>(?=[A-Za-z._~+/-]{0,200}\d)[A-Za-z0-9._~+/-]{16,}=*)"
_SLACK_HOOK = r"hooks\.slack\.com/(?:services|workflows)/(?P<value>[A-Za-z0-9/_-]{20,})"

_PEM_BEGIN = r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_PEM_END = r"-{4,5} ?END [A-Z0-9 ]{0,40}?PRIVATE KEY(?: BLOCK)? ?-{4,5}"
# A key that was cut off: header lines, then base64 words, then one short last word if it ends its line.
_PEM_REST = r"""(?x)
        (?:(?:\s|\\[nr]|>){0,9} (?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset):[ ][^\n\\]{0,200})*+
        (?:(?:\s|\\[nr]|[>"'+,]){0,9} [A-Za-z0-9+/=_-]{16,}+)*+
        (?:(?:\s|\\[nr]|[>"'+,]){0,9} [A-Za-z0-9+/=]{1,15}+(?=[ \t"',]*(?:[\r\n]|\\[nr]|\Z)))?+"""

# Only the password goes; who and where stay. It ends at the last "@" that can still belong to it, so that an
# unescaped "@" is covered; an unescaped "/" is too, unless what stands there is a port.
_URL_LOGIN = r"""(?x)(?<=[A-Za-z0-9+.-])://[^\s:/?\#@\[\]<>"']*:
        (?P<value>(?!\[redacted\ |\$\{?\w{1,60}\}?@|\*+@)(?:
            [^\s/?\#@<>"'`，。；、）」]++ (?:@[^\s/?\#@:,;|&()<>"'`，。；、）」]*+(?=@))*+
          | (?!\d{1,5}[/?\#]) [^\s@\[\]()<>"'`，。；、）」]{1,128}+
        ))@(?=[\w\[])"""

_AWS_ID = r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}"
_AWS_FORTY = r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
_AWS_NEAR = 200

# A label ends a name (DB_PASSWORD, dbPassword, x-api-key), stands alone, or is a word of another language.
_LABEL = r"""(?ix)(?<!\[redacted\ )(?:
      (?P<aws_secret_key> secret[ _-]?access[ _-]?key )
    | (?P<password>  pass(?:word|wd|phrase) | (?<![a-z])pwd | (?<=[_-])pass
                   | 密[码碼] | 口令 | (?<![^\W_])[şs]ifre(?:m|n|si|niz|miz)? | parola(?:m|n|sı|nız|mız)?
                   | пароль | パスワード | 비밀번호 | passwort | kennwort | contrase[nñ]a | mot[ ]de[ ]passe )
    | (?P<api_key>   (?:api|access|secret|private|signing|encryption|master|account|shared|auth)[ _-]?key
                   | secret_key_base | api[ ]anahtar[ıi] | 密[钥鑰] )
    | (?P<secret>    secret )
    | (?P<token>     token | 令牌 )
    | (?P<authorization> authorization )
    )"""
# What joins a label to its value: a sign (past closing quotes and a type annotation), an XML tag, a verb, or
# only the space after a command line option.
_LINK = r"""(?x)(?:\\?["'`]\]?)?[*_]{0,2}[ \t]{0,4}(?::[ ]?[A-Za-z][\w.]{0,30}[ ]?(?==))?
        (?P<sign>:=|=>|==?|[:：＝])[*_]{0,2}[ \t]{0,4}
      | >(?=[^<>\n]{1,200}</)
      | (?P<verb>[ ](?:is|was|ist|es|est)[ :]{1,2}|[ ]?[是为為][:： ]{0,2})
      | (?P<space>[ \t]{1,4})"""
_OPTION = r"(?:\A|\s)--?[A-Za-z-]{0,40}\Z"
_SCHEME = r"(?i)(?:bearer|basic|token|digest|apikey|bot)[ \t]{1,4}"
_QUOTED = (
    r'\\"((?:[^"\\\n]|\\(?!")[^\n])+)\\"|"((?:[^"\\\n]|\\.)+)"'
    r"|'((?:[^'\\\n]|\\.)+)'|`([^`\n]+)`|“([^“”\n]+)”"
)
# White space, quotes, tags and CJK text end a bare value, and so does the next field of a query string.
_BARE = (
    r"(?:[^\s\"'`“”<>&\\\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
    r"|&(?!\w{1,40}=|amp;)|\\(?![nrt\"']))+"
)
_WORD = r"[A-Za-z\x80-\U0010ffff]+(?:[-'./][A-Za-z\x80-\U0010ffff]+)*"
_LAST = r"[\"'`]|[.;。；)]?[ \t]*(?:[\r\n]|\Z)"
# What follows a label without being its value: words for "there is none", templates, types; bare also names,
# calls, variables and paths.
_NO_VALUE = r"""(?ix) [*•.x_-]+ | \$?\{\{?[\w .$-]*\}*\)* | <[\w .-]*>? | %\(\w*\)*s?
      | none|null|nil|undefined|unset|empty|missing|unknown|true|false|yes|no|n/a|required|optional
      | invalid|incorrect|wrong|expired|changed|hidden|masked|redacted|auth|authentication|input|field
      | string|secretstr|str|text|bytes|int|any|object|number|bool|boolean|type|password|token|secret
      | gerekli|zorunlu|yanlış|hatalı|erforderlich|requis|requerida?
    """
_NAME = r"""(?x) [A-Za-z_.]+[(\[].* | \$[A-Z_][A-Z0-9_]* | \$\(.* | ~?(?:/[a-z._][\w.@-]*)+/?
      | (?:os|env|process|self|this|settings|config|cfg|args|secrets|vault)[.\[].*
      | [A-Za-z_.]*(?:password|passwd|pwd|token|secret|key)
    """
_TECHNICAL = r"(?i)sha\d|md5|base\d|utf|argon|bcrypt|pbkdf|aes|rsa|x\.?509|oauth|v\d|\d+-"
_NUMBER = r"[\d.,]+"
_CAMEL = r"[a-z][A-Z]"
# How short the value of a label may be: a password in prose, a secret, a key; how long no single word is; and
# from where on no value is questioned (so that text full of labels is not read again and again).
_PASSWORD, _SECRET, _KEY, _LONG, _CERTAIN = 4, 6, 8, 20, 200


def redact(text: str) -> Redacted:
    """Return ``text`` with each secret replaced by ``[redacted <kind>]``, and what was found.

    All else stays byte for byte. Text without secrets is returned as it is.
    """
    found = find_secrets(text)
    if not found:
        return Redacted(text, ())
    pieces: list[str] = []
    at = 0
    for secret in found:
        pieces += text[at : secret.start], f"[redacted {secret.kind}]"
        at = secret.end
    pieces.append(text[at:])
    return Redacted("".join(pieces), found)


def find_secrets(text: str) -> tuple[Secret, ...]:
    """Return the secrets in ``text``, in order and without overlap.

    Where two ways to see a secret overlap they become one, named by the more specific.
    """
    ranked: list[tuple[Secret, int]] = []
    for rank, finder in enumerate((_pem_blocks, _shapes, _aws_secrets, _url_passwords, _labelled)):
        ranked += ((secret, rank) for secret in finder(text))
    ranked.sort(key=lambda entry: (entry[0].start, entry[1]))
    merged: list[tuple[Secret, int]] = []
    for secret, rank in ranked:
        if merged and secret.start < merged[-1][0].end:
            last, last_rank = merged[-1]
            kind = last.kind if last_rank <= rank else secret.kind
            merged[-1] = Secret(kind, last.start, max(last.end, secret.end)), min(last_rank, rank)
        else:
            merged.append((secret, rank))
    return tuple(secret for secret, _ in merged)


def _pem_blocks(text: str) -> Iterator[Secret]:
    """Private keys from BEGIN to the END that belongs to it, or as far as the key goes without one."""
    if "PRIVATE KEY" not in text:
        return
    begins = list(matches(_re(_PEM_BEGIN), text))
    marks = [
        *((match, True) for match in begins),
        *((match, False) for match in matches(_re(_PEM_END), text)),
    ]
    ends: dict[int, int] = {}
    opened: list[int] = []
    for mark, opens in sorted(marks, key=lambda mark: mark[0].start()):
        if opens:
            opened.append(mark.start())
        elif opened:
            ends[opened.pop()] = mark.end()
    done = 0
    for begin, following in zip_longest(begins, begins[1:]):
        if begin.start() < done:
            continue
        if (end := ends.get(begin.start())) is None:
            rest = _re(_PEM_REST).match(text, begin.end(), following.start() if following else len(text))
            end = rest.end() if rest else begin.end()
            if end == begin.end():
                continue  # the line was only mentioned
        done = end
        yield Secret("private-key", begin.start(), done)


def _shapes(text: str) -> Iterator[Secret]:
    for match in matches(_re(_SHAPES), text):
        kind = match.lastgroup or ""
        if kind not in _MAYBE_NAMES or _re(_DENSE).search(match[0]):
            yield Secret(kind.replace("_", "-"), *match.span())
    for match in matches(_re(_JWT), text):
        yield Secret("jwt", *match.span())
    for match in matches(_re(_BEARER), text):
        yield Secret("bearer-token", *match.span("value"))
    for match in matches(_re(_SLACK_HOOK), text):
        yield Secret("slack-webhook", *match.span("value"))


def _aws_secrets(text: str) -> Iterator[Secret]:
    """Forty characters of an AWS secret key, where an AWS key id stands near."""
    ids = [match.start() for match in matches(_re(_AWS_ID), text)]
    if not ids:
        return
    for match in matches(_re(_AWS_FORTY), text):
        value = match[0]
        index = bisect_left(ids, match.start() - _AWS_NEAR)
        near = index < len(ids) and ids[index] <= match.end() + _AWS_NEAR
        # a commit hash is forty characters too, but of one case
        if near and value.lower() != value and value.upper() != value:
            yield Secret("aws-secret-key", *match.span())


def _url_passwords(text: str) -> Iterator[Secret]:
    for match in matches(_re(_URL_LOGIN), text):
        yield Secret("password", *match.span("value"))


class _Claim(NamedTuple):
    """What a label announces; prose is possible where it is not ``stated`` ("the password: how do I …")."""

    kind: str
    start: int
    end: int
    quoted: bool
    stated: bool  # quoted, after "=", or in a tag
    said: bool  # after a verb, where prose is the rule


def _labelled(text: str) -> Iterator[Secret]:
    done = 0
    for label in matches(_re(_LABEL), text):
        claim = _claim(text, label) if label.start() >= done else None
        if claim and (claim.end - claim.start > _CERTAIN or _holds(text, claim)):
            done = claim.end
            yield Secret(claim.kind.replace("_", "-"), claim.start, claim.end)


def _claim(text: str, label: re.Match[str]) -> _Claim | None:
    """Read what stands after ``label``, or None where nothing does."""
    link = _re(_LINK).match(text, label.end())
    before = text[max(0, label.start() - 43) : label.start()]
    if link is None or (link["space"] and not _re(_OPTION).search(before)):
        return None
    kind, at = label.lastgroup or "", link.end()
    if kind in {"authorization", "token"}:
        scheme = _re(_SCHEME).match(text, at)
        kind, at = ("credentials", scheme.end()) if scheme else ("token", at)
    if text.startswith("[redacted ", at):
        return None
    quoted, bare = _re(_QUOTED).match(text, at), _re(_BARE).match(text, at)
    if quoted:
        at, end = quoted.span(quoted.lastindex or 0)
    elif bare:
        end = at + len(bare[0].rstrip(".,;:)]}…"))
    else:
        return None
    stated = quoted is not None or "=" in (link["sign"] or "") or link.lastgroup is None
    return _Claim(kind, at, end, quoted is not None, stated, link["verb"] is not None)


def _holds(text: str, claim: _Claim) -> bool:
    """Whether the value can be what its label announces. A plain word in prose must be last on its line."""
    value = text[claim.start : claim.end]
    if not value or _re(_NO_VALUE).fullmatch(value) or (not claim.quoted and _re(_NAME).fullmatch(value)):
        return False
    last = _re(_LAST).match(text, claim.end) is not None
    digit = any(character.isdecimal() for character in value)
    technical = not claim.stated and _re(_TECHNICAL).match(value) is not None
    odd = not _re(_WORD).fullmatch(value) and not technical
    random = digit or len(value) >= _LONG or _re(_CAMEL).search(value) is not None
    if claim.said and not claim.stated:
        return len(value) >= _SECRET and digit and odd and not value.isdecimal()
    if claim.kind == "password":
        return claim.stated or (len(value) >= _PASSWORD and not value.startswith("-") and (last or odd))
    if claim.kind == "credentials":
        return len(value) >= _SECRET and (last or odd or random)
    if claim.kind == "token":  # other things are called tokens too
        return len(value) >= _KEY and random and not technical and not _re(_NUMBER).fullmatch(value)
    return len(value) >= _SECRET if claim.stated else len(value) >= _KEY and (odd or len(value) >= _LONG)
