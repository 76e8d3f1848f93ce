"""Whether a bucket keeps old versions of objects: the library can't say, so it is asked for directly.

One signed request (AWS Signature Version 4), with the credentials of the storage options or the environment.
Where that can't be told, old versions are taken to be kept.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import urllib.error
import urllib.request
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECONDS: Final = 5.0
_SCOPE_END: Final = "aws4_request"


def keeps_versions(uri: str, options: Mapping[str, str]) -> str | None:
    """Say why text that is deleted may stay in a bucket, None where it does not."""
    parts = urlsplit(uri)
    if parts.scheme not in ("s3", "s3+ddb"):
        return f"whether {parts.scheme}:// keeps old versions is not known"
    key, secret = _option(options, "access_key_id"), _option(options, "secret_access_key")
    if not key or not secret:
        return f"whether {parts.netloc} keeps old versions could not be asked without credentials"
    try:
        answer = _ask(parts.netloc, key, secret, options)
    except (OSError, ValueError) as error:
        return f"whether {parts.netloc} keeps old versions could not be asked ({_short(error)})"
    if "<Status>Enabled</Status>" in answer or "<Status>Suspended</Status>" in answer:
        return f"{parts.netloc} keeps old versions of objects"
    return None


def _short(error: Exception) -> str:
    return f"HTTP {error.code}" if isinstance(error, urllib.error.HTTPError) else type(error).__name__


def _option(options: Mapping[str, str], name: str) -> str:
    named = {key.lower(): value for key, value in options.items()}
    return named.get(f"aws_{name}") or named.get(name) or os.environ.get(f"AWS_{name.upper()}", "")


def _ask(bucket: str, key: str, secret: str, options: Mapping[str, str]) -> str:
    region = _option(options, "region") or _option(options, "default_region") or "us-east-1"
    endpoint = _option(options, "endpoint") or _option(options, "endpoint_url")
    address = f"{endpoint.rstrip('/')}/{quote(bucket)}" if endpoint else ""
    address = address or f"https://{bucket}.s3.{region}.amazonaws.com/"
    request = urllib.request.Request(f"{address}?versioning")  # noqa: S310 - the configured endpoint
    token = _option(options, "session_token")
    for name, value in signed(address, region, key, secret, token, datetime.now(UTC)).items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - see above
        return str(answer.read(65_536).decode("utf-8", "replace"))


def signed(address: str, region: str, key: str, secret: str, token: str, now: datetime) -> dict[str, str]:
    """Return the headers of a signed ``GET address?versioning``."""
    parts = urlsplit(address)
    moment = now.strftime("%Y%m%dT%H%M%SZ")
    day = moment[:8]
    empty = hashlib.sha256(b"").hexdigest()
    headers = {"host": parts.netloc, "x-amz-content-sha256": empty, "x-amz-date": moment}
    if token:
        headers["x-amz-security-token"] = token
    names = ";".join(sorted(headers))
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    asked = "\n".join(["GET", parts.path or "/", "versioning=", lines, names, empty])
    scope = f"{day}/{region}/s3/{_SCOPE_END}"
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(asked.encode()).hexdigest()])
    signing = f"AWS4{secret}".encode()
    for step in (day, region, "s3", _SCOPE_END):
        signing = hmac.new(signing, step.encode(), hashlib.sha256).digest()
    signature = hmac.new(signing, text.encode(), hashlib.sha256).hexdigest()
    headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, Signature={signature}"
    )
    return headers
