"""``/api/v1``: groups, members, rebalances and sources as JSON; read-only. See ``openapi.json``."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.hub.recent_records import RecentRecords
from agent.web.shared_turns import RETRY_S, BusyError, SharedTurns
from agent.web.unsent_pages import Page, UnsentPages
from aggregation.live.group_search import UNSTABLE, GroupSearch, search_groups
from aggregation.live.group_views import GroupView, group_views
from aggregation.live.live import live
from metrics.exporters.exposition import SourceStats
from metrics.model.names import escape_invisible
from metrics.model.sample import format_time
from metrics.model.snapshot import Snapshot
from metrics.model.status import RebalanceStatus

PREFIX = "/api/v1"
MAX_LAST = 1000
TOTAL_HEADER = "X-Total-Count"
_LAST = re.compile(r"\d{1,4}", re.ASCII)
_DEFAULT_LAST = 20
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_TYPES = frozenset({"classic", "consumer", "share", "streams"})
_STATES = frozenset(
    {
        UNSTABLE,
        *("unknown", "preparingrebalance", "completingrebalance", "stable", "dead", "empty"),
        *("assigning", "reconciling", "notready"),
    }
)
_ROWS_AT_ONCE = 200
_TYPE = "application/json"


class _WrongQueryError(ValueError):
    """A query that the client must change."""


@dataclass(frozen=True, slots=True)
class ApiDependencies:
    """The application's part that the API reads."""

    take_snapshot: Callable[[], tuple[Snapshot, Sequence[SourceStats]]]
    """Called in the event loop, so that nothing changes during the call."""
    recent: RecentRecords
    unsent: UnsentPages = field(default_factory=UnsentPages)


def routes(queries: ApiDependencies) -> list[Route]:
    """Return the routes below `PREFIX`."""
    lists: dict[str, _Handler] = {"groups": _groups, "members": _members, "sources": _sources}
    analyses = {"episodes": _episodes, "explain": _explain, "incidents": _incidents}
    short, long = SharedTurns("lists"), SharedTurns("analysis")
    return [
        *(
            Route(f"{PREFIX}/{name}", _route(queries, answer, short))
            for name, answer in lists.items()
        ),
        *(
            Route(f"{PREFIX}/{name}", _route(queries, answer, long))
            for name, answer in analyses.items()
        ),
        Route(f"{PREFIX}/openapi.json", _openapi),
    ]


_Handler = Callable[["_ApiView", "_Query"], Any]


@dataclass(frozen=True, slots=True)
class _ApiView:
    """The input of one response, at one instant."""

    snapshot: Snapshot
    sources: Sequence[SourceStats]
    recent: RecentRecords


@dataclass(frozen=True, slots=True)
class _ListPart:
    """A part of a list, and the number of all its items."""

    items: list[dict[str, Any]]
    total: int


@dataclass(frozen=True, slots=True)
class _Query:
    group: str | None
    last: int
    at: float | None
    since_s: float | None
    search: GroupSearch
    offset: int
    limit: int | None

    @property
    def group_or_error(self) -> str:
        if self.group is None:
            raise _WrongQueryError("wanted the name of a group: ?group=NAME")
        return self.group


def _route(queries: ApiDependencies, answer: _Handler, turns: SharedTurns) -> Callable[..., Any]:
    async def serve(request: Request) -> Response:
        def prepare() -> Callable[[], Page]:
            seen = _ApiView(*queries.take_snapshot(), queries.recent)
            return lambda: _write_page(answer(seen, query))

        try:
            query = _parse_query(request)
            key = request.url.path, str(request.query_params)
            return queries.unsent.respond(await turns.run(key, prepare))
        except _WrongQueryError as error:
            return _json({"error": str(error)}, 400)
        except LookupError as error:
            return _json({"error": str(error.args[0])}, 404)
        except BusyError as error:
            return _json({"error": str(error)}, 503, {"Retry-After": str(RETRY_S)})

    return serve


def _write_page(answer: Any) -> Page:
    """Return an answer's JSON text; that of a part of a list has the total in a header."""
    if isinstance(answer, _ListPart):
        return Page(_encode(answer.items), _TYPE, {TOTAL_HEADER: str(answer.total)})
    return Page(_encode(answer), _TYPE)


def _parse_query(request: Request) -> _Query:
    given = request.query_params
    last = given.get("last", str(_DEFAULT_LAST))
    if not _LAST.fullmatch(last) or not 1 <= int(last) <= MAX_LAST:
        raise _WrongQueryError(f"last: found {last[:20]!r}, wanted 1 to {MAX_LAST}")
    at, since = given.get("at"), given.get("since_seconds")
    limit = given.get("limit")
    return _Query(
        group=given.get("group"),
        last=int(last),
        at=None if at is None else _parse_instant(at),
        since_s=None if since is None else _parse_number(since, "since_seconds"),
        search=GroupSearch(
            name=given.get("name", ""),
            types=_parse_words(given.getlist("type"), "type", _TYPES),
            states=_parse_words(given.getlist("state"), "state", _STATES),
            member=given.get("member", ""),
            host=given.get("host", ""),
        ),
        offset=_parse_number(given.get("offset", "0"), "offset"),
        limit=None if limit is None else _parse_number(limit, "limit"),
    )


def _parse_words(texts: Sequence[str], name: str, known: frozenset[str]) -> frozenset[str]:
    """Return the words of a parameter that may be repeated, or hold several after commas."""
    words = frozenset(word.strip().lower() for text in texts for word in text.split(",")) - {""}
    for word in sorted(words - known):
        raise _WrongQueryError(f"{name}: found {word[:40]!r}, wanted {', '.join(sorted(known))}")
    return words


def _parse_number(text: str, name: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise _WrongQueryError(f"{name}: found {text[:20]!r}, wanted a number from 0")
    return int(text)


def _parse_instant(text: str) -> float:
    try:
        at = float(text)
    except ValueError:
        at = math.nan
    if not math.isfinite(at):
        raise _WrongQueryError(f"at: found {text[:40]!r}, wanted Unix seconds")
    return at


def _groups(seen: _ApiView, query: _Query) -> _ListPart:
    views = group_views(live(seen.snapshot))
    wanted = [view for view in views if query.group in {None, view.group}]
    page = search_groups(wanted, query.search, offset=query.offset, limit=query.limit)
    return _ListPart([_group(view) for view in page.groups], page.total)


def _group(view: GroupView) -> dict[str, Any]:
    highest = view.highest_member
    return {
        "cluster": view.cluster,
        "group": view.group,
        "group_type": view.group_type,
        **_status(view.status, view.peak),
        "state": view.state,
        "generation": view.generation,
        "members": view.members,
        "client_id": None if highest is None else highest.client_id,
        "reason": None if highest is None else highest.reason,
        "since": None if highest is None else format_time(highest.since_at),
    }


def _members(seen: _ApiView, query: _Query) -> list[dict[str, Any]]:
    shown = live(seen.snapshot)
    return [
        {
            "cluster": row.cluster,
            "app": row.app,
            "group": row.group,
            "group_type": row.group_type,
            "scope": scope,
            "client_id": row.client_id,
            "member_id": row.member_id,
            "group_instance_id": row.group_instance_id,
            "host": row.host,
            **_status(row.status, row.peak),
            "since": format_time(row.since_at),
            "reason": row.reason,
            "generation": row.generation,
            "leader": row.leader,
            "software": row.software,
            "assignor": row.assignor,
            "assignors": row.assignors,
            "state": row.state,
        }
        for scope, rows in (("streams", shown.instances), ("consumer", shown.consumers))
        for row in sorted(rows, key=lambda row: (row.cluster, row.group, row.client_id, row.host))
        if query.group in {None, row.group}
    ]


def _status(status: RebalanceStatus | None, peak: RebalanceStatus | None) -> dict[str, Any]:
    return {
        "status": None if status is None else status.value,
        "name": None if status is None else status.label,
        "peak": None if peak is None else peak.value,
        "peak_name": None if peak is None else peak.label,
    }


def _episodes(seen: _ApiView, query: _Query) -> list[dict[str, Any]]:
    from aggregation.explain.explanation import explanations  # noqa: PLC0415 - not at start-up

    history = seen.recent
    found = history.episodes(history.records(query.group), seen.snapshot.at)
    return [
        {"cluster": explanation.cluster, "group": explanation.group, **msgspec.to_builtins(each)}
        for explanation in explanations(found, query.last, query.at)
        for each in explanation.happened
    ]


def _incidents(seen: _ApiView, query: _Query) -> list[dict[str, Any]]:
    from aggregation.incidents.answers import answer_of  # noqa: PLC0415 - not at start-up

    history = seen.recent
    analysis = history.analyze(history.records(query.group), seen.snapshot.at)
    latest = analysis.incidents[: -query.last - 1 : -1]
    return [msgspec.to_builtins(answer_of(each)) for each in latest]


def _explain(seen: _ApiView, query: _Query) -> list[Any]:
    # not at start-up
    from aggregation.explain.explanation import explain_unobserved, explanations  # noqa: PLC0415
    from aggregation.incidents.incidents import recent  # noqa: PLC0415

    group, history, shown = query.group_or_error, seen.recent, seen.snapshot
    analysis = history.analyze(history.records(group), shown.at)
    if query.since_s is not None:
        analysis = recent(analysis, shown.at - query.since_s)
    found = explanations(analysis.rebalances, query.last, query.at, analysis.incidents)
    quiet = [] if found else explain_unobserved(group, shown)
    if not found and not quiet:
        known = ", ".join(sorted({key.group for key in shown.groups})[:5]) or "none"
        raise LookupError(f"no record of group {group!r}; groups that were seen: {known}")
    return found or quiet


def _sources(seen: _ApiView, _: _Query) -> list[dict[str, Any]]:
    return [
        {
            "name": source.name,
            "type": source.type,
            "up": source.up,
            "lag_seconds": source.lag_s,
            "members": source.members,
            "read_bytes": source.read_bytes,
            "signals": source.signals,
            "unparsed": source.unparsed,
            "errors": source.errors,
            "files": None
            if source.files is None
            else [dataclasses.asdict(file) for file in source.files],
            "clocks": [
                {"agent": agent, "ahead_seconds": round(ahead_s, 3)}
                for agent, ahead_s in sorted(source.clocks.items())
            ],
        }
        for source in seen.sources
    ]


async def _openapi(_: Request) -> Response:
    text = files("agent.web").joinpath("openapi.json").read_bytes()
    return Response(text, media_type=_TYPE)


def _json(
    body: object, status_code: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(_encode_one(body), status_code, headers, media_type=_TYPE)


def _encode(body: object) -> list[bytes]:
    """Return JSON text in pieces; no other thread runs while one is encoded."""
    if not isinstance(body, list) or len(body) <= _ROWS_AT_ONCE:
        return [_encode_one(body)]
    pieces = []
    for at in range(0, len(body), _ROWS_AT_ONCE):
        rows = _encode_one(body[at : at + _ROWS_AT_ONCE])
        pieces.append(b"%b%b" % (b"," if at else b"[", rows[1:-1]))
    return [*pieces, b"]"]


def _encode_one(body: object) -> bytes:
    """Return JSON text; people read it with curl, in a terminal."""
    return escape_invisible(msgspec.json.encode(body))
