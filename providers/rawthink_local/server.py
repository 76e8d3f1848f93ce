"""A Qdrant server: how it is reached, with which key, and what its failures mean.

Only this module, `remote` and `remotepoints` know the client, which is imported late. A key is sent in a
header and nowhere else. A loopback address is reached past every proxy that the system has set.
"""

from __future__ import annotations

import importlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from rawthink_core.embedders.connection import is_loopback
from rawthink_core.embedders.endpoint import Key
from rawthink_core.errors import (
    AuthenticationFailed,
    BackendError,
    BackendProtocolError,
    BackendTimeout,
    BackendUnavailable,
)
from rawthink_local.served import IndexLost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rawthink_local.settings import LocalSettings

VARIABLE: Final = "QDRANT_API_KEY"
OLDEST: Final = (
    1,
    19,
)  # the first that counts IDF over one space: before, spaces changed each other's scores

_GONE: Final = 404
_REFUSED: Final = (401, 403)
_BUSY: Final = 429
_BROKEN: Final = 500
_EXISTS: Final = 409


def load_client() -> Any:
    """Return the client's module. Raises `BackendUnavailable` where it is not installed."""
    try:
        return importlib.import_module("qdrant_client")
    except ImportError as error:
        raise BackendUnavailable(
            "A Qdrant server needs qdrant-client: pip install 'rawthink[qdrant]'"
        ) from error


def connect(settings: LocalSettings) -> Any:
    """Return a client; nothing is sent yet. Raises BackendUnavailable or AuthenticationFailed."""
    client, url = load_client(), settings.url or ""
    key = key_of(settings)
    with explaining(url, "be reached"):
        return client.QdrantClient(
            url=url,
            timeout=settings.timeout,
            check_compatibility=False,  # by a warning; `check_version` refuses what can't work
            headers={"api-key": key} if key else None,
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
        )


def key_of(settings: LocalSettings) -> str | None:
    """Return the key: of the file, else the settings, else ``QDRANT_API_KEY``; None where there is none."""
    if settings.api_key_file is not None:
        return Key(file=settings.api_key_file).read()
    if settings.api_key is None:
        return Key(VARIABLE).read() if os.environ.get(VARIABLE) else None
    key = settings.api_key.get_secret_value().strip()
    if key and not (key.isascii() and key.isprintable()):
        raise AuthenticationFailed("providers.local.api_key holds characters that no key has")
    return key or None


def check_version(client: Any, url: str) -> str:
    """Return the server's version. Raises BackendProtocolError where it is too old, or no Qdrant at all."""
    with explaining(url, "say its version"):
        version = str(client.info().version)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        raise BackendProtocolError(f"What answers at {url} says no version of Qdrant. Is the address right?")
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise BackendProtocolError(f"The Qdrant server at {url} is {version}; {wanted} or newer is needed")
    return version


def exists_already(error: BaseException) -> bool:
    """Tell whether making a collection failed because another process has just made it."""
    return getattr(error, "status_code", None) == _EXISTS or "already exists" in str(error)


@contextmanager
def explaining(url: str, doing: str) -> Iterator[None]:
    """Give the client's failures a kind. What a server answered is not repeated: it might hold our key."""
    import httpx  # noqa: PLC0415 - qdrant-client brings it, and is imported late
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse  # noqa: PLC0415 - see above
    from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415 - see above

    try:
        yield
    except (ApiException, ResourceExhaustedResponse, httpx.HTTPError, ValueError) as error:
        raise kind_of(error, f"The Qdrant server at {url} could not {doing}") from None


def kind_of(error: Exception, failed: str) -> BackendError:
    """Return what a failure of the client means; ``failed`` is the first half of its sentence."""
    import httpx  # noqa: PLC0415 - see above

    error = getattr(error, "source", error)
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return _by_status(status, failed)
    if isinstance(error, httpx.TimeoutException):
        return BackendTimeout(
            f"{failed}: it did not answer in time. Is it overloaded? providers.local.timeout"
        )
    if isinstance(error, httpx.TransportError):
        reason = str(error).strip() or type(error).__name__
        return BackendUnavailable(f"{failed}: {reason}. Start it, or see providers.local.url")
    if type(error).__name__ == "ResourceExhaustedResponse":
        return _by_status(_BUSY, failed)
    if isinstance(error, ValueError) and "not found" in str(error):  # as the client's own memory says it
        return _by_status(_GONE, failed)
    return BackendProtocolError(f"{failed}: what it answered is not Qdrant's protocol. Is the address right?")


def _by_status(status: int, failed: str) -> BackendError:
    if status in _REFUSED:
        what = f"it refused our key ({status}). Set {VARIABLE} or providers.local.api_key_file"
        return AuthenticationFailed(f"{failed}: {what}")
    if status == _GONE:
        return IndexLost(f"{failed}: the collection is not there ({status})")
    if status == _BUSY or status >= _BROKEN:
        return BackendUnavailable(f"{failed}: it answered {status}. Its log says more; try again later")
    return BackendProtocolError(f"{failed}: it answered {status}. Its log says more")
