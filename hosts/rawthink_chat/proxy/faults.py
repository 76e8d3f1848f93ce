"""What the proxy itself refuses, in the form of OpenAI's errors: the client's library shows the sentence."""

from __future__ import annotations

import json
from typing import Final

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    502: "api_connection_error",
    503: "overloaded_error",
}


class Refused(Exception):  # noqa: N818 - says what happened
    """A request that goes no further. ``message`` is for whoever set up the client, and says what to do.

    ``headers`` go with the answer. With ``closes``, the connection is not used again.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: tuple[tuple[bytes, bytes], ...] = (),
        closes: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.headers = (*headers, (b"connection", b"close")) if closes else headers

    def body(self) -> bytes:
        """Return the answer's body."""
        return error_body(self.status, self.code, self.message)


def error_body(status: int, code: str, message: str) -> bytes:
    """Return an error in OpenAI's form."""
    kind = _TYPES.get(status, "invalid_request_error")
    error = {"message": f"rawthink proxy: {message}", "type": kind, "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def bad(code: str, message: str) -> Refused:
    """Return the refusal of a request that can't be meant, or is no HTTP: 400."""
    return Refused(400, code, message, closes=True)
