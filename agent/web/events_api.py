"""``POST /api/v1/events`` and ``/api/v1/stats``: events and statistics of users' own processes."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.request_bodies import BodyError, RequestBodies
from agent.web.same_origin import is_foreign, is_forwarded, is_json, is_rebound

if TYPE_CHECKING:
    from agent.sources.http_events.source import HttpSource

_EVENTS, _STATS = "/api/v1/events", "/api/v1/stats"
FindSource: TypeAlias = "Callable[[], HttpSource | None]"


def routes(source: FindSource) -> list[Route]:
    """Return the routes; each request calls ``source``, as a reload may change it."""
    return [
        Route(_EVENTS, _route(source, _events), methods=["POST"]),
        Route(_STATS, _route(source, _stats), methods=["POST"]),
    ]


def has_own_token(find: FindSource, path: str) -> bool:
    """Whether a path requires a token of its own."""
    source = find()
    asked = source is not None and source.config.token_file is not None
    return asked and path in {_EVENTS, _STATS}


def _route(
    find: FindSource, take: "Callable[[HttpSource, bytes, str, Request], int]"
) -> Callable[[Request], Awaitable[Response]]:
    bodies = RequestBodies()

    async def post(request: Request) -> Response:
        source, sender = find(), request.client.host if request.client else ""
        if source is None:
            return _json("no source of type http is configured", 404)
        # imported by its own source
        from agent.sources.http_events.source import PostRefusedError  # noqa: PLC0415

        try:
            source.check(sender, request.headers.get("authorization"))
            if source.config.token_file is None:
                _check_without_token(request)
            body = await _body(bodies, request, source)
            return JSONResponse({"accepted": take(source, body, sender, request)}, 202)
        except PostRefusedError as error:
            source.count(error)
            return _json(str(error), error.status, error.retry_after_s)

    return post


def _check_without_token(request: Request) -> None:
    """Accept posts by programs on this machine, and none by a page of another site.

    Raises:
        PostRefusedError: it comes from elsewhere, or is not JSON.

    """
    # imported by its own source
    from agent.sources.http_events.source import PostRefusedError  # noqa: PLC0415

    if is_forwarded(request):
        wanted = "without a token_file only this machine may post"
        raise PostRefusedError(401, "unauthorized", wanted)
    if is_foreign(request) or is_rebound(request):
        wanted = "without a token_file no page of another site may post"
        raise PostRefusedError(403, "unauthorized", wanted)
    if not is_json(request):
        wanted = "wanted Content-Type: application/x-ndjson or application/json"
        raise PostRefusedError(415, "unauthorized", wanted)


def _events(source: "HttpSource", body: bytes, sender: str, _: Request) -> int:
    return source.take_events(body, sender)


def _stats(source: "HttpSource", body: bytes, sender: str, request: Request) -> int:
    return source.take_stats(body, sender, request.query_params.get("group"))


async def _body(bodies: RequestBodies, request: Request, source: "HttpSource") -> bytes:
    """Read the body, up to the limit.

    Raises:
        PostRefusedError: it is too large, or does not arrive whole and in time.

    """
    # imported by its own source
    from agent.sources.http_events.source import (  # noqa: PLC0415
        PostRefusedError,
        refuse_too_large,
    )

    try:
        return await bodies.read(request, source.config.max_bytes)
    except BodyError as error:
        if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise refuse_too_large(source.config) from error
        raise PostRefusedError(error.status, "unfinished", str(error)) from error


def _json(error: str, status: int, retry_after_s: int = 0) -> Response:
    headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": error}, status, headers)
