"""``POST /api/v1/annotations``: markers of users' actions and deploys, for the reports.

The body is JSON: ``text``, and optionally ``at`` (RFC 3339, by default now), ``group``, ``app`` and
``cluster``. A marker without a group is for all groups. A post needs the same right as a reload of
the configuration: a user of ``web.config_file``, or the token of ``web.token_file``.
"""

import math
import time
from collections.abc import Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.request_bodies import BodyError, RequestBodies
from agent.web.rate_limit import RateLimit
from agent.web.reload_auth import ANNOTATIONS
from metrics.model.sample import (
    Sample,
    SampleKind,
    Scope,
    clip_reason,
    digest,
    format_time,
    parse_time,
)

MAX_BYTES = 8192
INTERVAL_S, BURST = 1.0, 30
"""One marker a second, and 30 at once: deploys post one each."""
_NAME_MAX_CHARS = 255
_PAST_S, _AHEAD_S = 10 * 366 * 86_400.0, 86_400.0
"""Reports leave out what is more than a day ahead; another century is a mistake."""


class Annotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request."""

    text: str
    at: str | None = None
    group: str = ""
    app: str = ""
    cluster: str | None = None


_decoder = msgspec.json.Decoder(Annotation)


def routes(
    take: Callable[[Sequence[Sample]], None],
    cluster: Callable[[], str],
    refusal: Callable[[Request], Response | None],
    clock: Callable[[], float] = time.time,
) -> list[Route]:
    """Return the route; ``take`` gets each marker as a record.

    ``refusal`` is the response to a request that may not post.
    """
    limit, bodies = RateLimit(INTERVAL_S, BURST), RequestBodies()

    async def post(request: Request) -> Response:
        refused = refusal(request)
        if refused is not None:
            return refused
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            return _refuse("wanted the content type application/json", 415)
        wait_s = limit.take_or_wait_s()
        if wait_s:
            return _refuse("too many annotations", 429, {"Retry-After": str(math.ceil(wait_s))})
        try:
            body = await bodies.read(request, MAX_BYTES)
            record = read_annotation(body, cluster(), clock())
        except BodyError as error:
            return _refuse(str(error), error.status)
        except ValueError as error:
            return _refuse(str(error), 400)
        take([record])
        return JSONResponse({"accepted": 1, "id": record.id}, 202)

    return [Route(ANNOTATIONS, post, methods=["POST"])]


def read_annotation(body: bytes, cluster: str, now: float) -> Sample:
    """Return a marker as a record.

    Raises:
        ValueError: the body is no marker; the text names the fault.

    """
    try:
        given = _decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no annotation: {error}") from None
    text = given.text.strip()
    if not text:
        raise ValueError("text is empty")
    names = (given.group, given.app, given.cluster or "")
    if any(len(name) > _NAME_MAX_CHARS for name in names):
        raise ValueError(f"a name is longer than {_NAME_MAX_CHARS} characters")
    ts = format_time(now if given.at is None else _read_time(given.at, now))
    where = cluster if given.cluster is None else given.cluster
    return Sample(
        id=digest(Scope.GROUP, where, given.group, given.app, SampleKind.ANNOTATION, ts, text),
        kind=SampleKind.ANNOTATION,
        ts=ts,
        cluster=where,
        app=given.app,
        group=given.group,
        scope=Scope.GROUP,
        reason=clip_reason(text),
        source="http",
    )


def _read_time(text: str, now: float) -> float:
    at = parse_time(text)
    if not now - _PAST_S <= at <= now + _AHEAD_S:
        raise ValueError(f"at: found {text!r}, wanted a time of the last ten years up to tomorrow")
    return at


def _refuse(error: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": error}, status, headers)
