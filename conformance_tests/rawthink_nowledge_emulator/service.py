"""From a request to an answer: the gate, the route, the checks, the handler, and the failures on the way."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rawthink_nowledge_emulator import (
    labels,
    lifecycle,
    memories,
    meta,
    relations,
    searching,
    spaces,
    threads,
)
from rawthink_nowledge_emulator.access import Access
from rawthink_nowledge_emulator.call import Call, Route, Site
from rawthink_nowledge_emulator.fields import check, read_query, refuse
from rawthink_nowledge_emulator.refusals import Refusal, TextRefusal
from rawthink_nowledge_emulator.state import Clock, State
from rawthink_nowledge_emulator.wire import Reply, Request

# A path is matched by its most literal route first: /memories/search is no memory's id.
ROUTES = sorted(
    (
        *memories.ROUTES,
        *searching.ROUTES,
        *lifecycle.ROUTES,
        *relations.ROUTES,
        *labels.ROUTES,
        *threads.ROUTES,
        *spaces.ROUTES,
        *meta.ROUTES,
    ),
    key=lambda route: [part.startswith("{") for part in route.path.split("/")],
)
# What the real server has and this one hasn't: said so, rather than looking like an older server.
NOT_EMULATED = (
    "/memories/distill*",
    "/memories/relations/suggest",
    "/memories/*/extract-kg/*",
    "/memories/*/export",
    "/threads/summaries",
    "/threads/sources",
    "/threads/parse",
    "/threads/sessions/*",
    "/threads/bulk/*",
    "/threads/*/reconcile-tail",
    "/threads/*/coverage",
    "/threads/*/export",
    "/threads/*/favorite",
    "/entities/*",
    "/graph/*",
    "/sources*",
    "/spaces/config",
    "/fs/*",
    "/mcp*",
    "/models/*",
    "/events/stream",
    "/search-index/reindex*",
)
OPENAPI_VERSION = "0.1.0"  # not the server's, nor the client's


@dataclass(frozen=True)
class Seen:
    """One request that came, what became of it, and the status that was sent (0: none)."""

    request: Request
    status: int
    applied: bool
    failure: str = ""

    @property
    def line(self) -> str:
        """The request's method and path."""
        return f"{self.request.method} {self.request.path}"

    def json(self) -> Any:
        """Return the request's body as JSON value; none where it has none."""
        return json.loads(self.request.body) if self.request.body else None


class Service:
    """One server's rows and rules, without its socket."""

    def __init__(self, site: Site, key: str | None, clock: Clock) -> None:
        self.site = site
        self.clock = clock
        self.state = State(clock)
        self.access = Access(key, clock, site.assumed)

    def apply(self, request: Request, *, broken: bool = False) -> Reply:
        """Carry a request out and return its answer; ``broken`` lets its handler fail instead."""
        codes = self.site.profile.error_codes
        try:
            self.access.check(request)
            if request.path == "/openapi.json" and request.method == "GET":
                return Reply.of(self._openapi())
            route, parts = self._route(request)
            call = self._call(request, route, parts)
            value = self._broken(route) if broken else route.answer(call)
        except Refusal as refusal:
            return refusal.answer(codes=codes)
        return value if isinstance(value, Reply) else Reply.of(value)

    def _broken(self, route: Route) -> Any:
        """Answer as a server whose handler failed: in its route's words, or, as old ones, with nothing."""
        if route.broken_as is not None and self.site.profile.swallows_list_errors:
            return route.broken_as
        raise Refusal(500, route.broken.format(error="broken on request"))

    def _route(self, request: Request) -> tuple[Route, dict[str, str]]:
        allowed = []
        for route in ROUTES:
            parts = route.match(request.segments) if route.since <= self.site.profile.number else None
            if parts is not None and route.method == request.method:
                return route, parts
            if parts is not None:
                allowed.append(route.method)
        if any(fnmatchcase(request.path, pattern) for pattern in NOT_EMULATED):
            raise Refusal(501, f"rawthink_nowledge_emulator doesn't emulate {request.method} {request.path}")
        if allowed:
            raise Refusal(405, "Method Not Allowed", headers=(("allow", ", ".join(sorted(allowed))),))
        raise Refusal(404, "Not Found")

    def _call(self, request: Request, route: Route, parts: dict[str, str]) -> Call:
        raw = {} if route.body is None else self._body(request, route)
        query, faults = read_query(route.query, request.query)
        fields = self._needed(route)
        body, wrong = check(fields, raw, ("body",))
        if faults + wrong:
            form = self.site.profile.refusals
            raise refuse(faults + wrong, request.body, form, self.site.assumed["constraint_form"])
        return Call(request, self.site, self.state, parts, query, body, raw)

    def _needed(self, route: Route) -> Any:
        if route.answer is searching.post and self.site.profile.search_needs_query:
            return searching.POST_STRICT
        return route.body or ()

    def _body(self, request: Request, route: Route) -> dict[str, Any]:
        """Return the body as an object; raise the refusal of what is none, in this version's words."""
        if not request.body and not route.body:
            return {}
        python = self.site.profile.refusals == "json"
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        declared = kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
        if not declared and not python:
            raise TextRefusal(
                self.site.assumed["bad_type_status"],
                "Expected request with `Content-Type: application/json`",
            )
        try:
            value = _parse(request.body)
        except (ValueError, RecursionError) as error:
            if python:
                fault = {
                    "loc": ["body", getattr(error, "pos", 0)],
                    "msg": "JSON decode error",
                    "type": "json_invalid",
                }
                raise Refusal(422, [fault]) from None
            text = f"Failed to parse the request body as JSON: {error}"
            raise TextRefusal(self.site.assumed["bad_json_status"], text) from None
        if isinstance(value, dict) and (declared or not python):
            return value
        if python:
            message = "Input should be a valid dictionary or object to extract fields from"
            raise Refusal(422, [{"loc": ["body"], "msg": message, "type": "model_attributes_type"}])
        wanted = "Failed to deserialize the JSON body into the target type"
        raise TextRefusal(422, f"{wanted}: invalid type: sequence, expected struct")

    def _openapi(self) -> dict[str, Any]:
        paths: dict[str, dict[str, Any]] = {}
        for route in ROUTES:
            if route.since <= self.site.profile.number and (route.method, route.path) != (
                "GET",
                "/memories/search",
            ):
                paths.setdefault(route.path, {})[route.method.lower()] = {"responses": {"200": {}}}
        info = {"title": "Nowledge Mem API (emulated)", "version": OPENAPI_VERSION}
        return {"openapi": "3.1.0", "info": info, "paths": paths}


def _parse(body: bytes) -> Any:
    """Return a JSON value of text that can be stored; raise `ValueError` else."""

    def refuse_constant(name: str) -> Any:
        raise ValueError(f"expected value, not {name}")

    value = json.loads(body.decode(), parse_constant=refuse_constant)
    json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate is no text
    return value
