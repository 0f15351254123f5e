"""The web server: metrics, health, reload and pages for people.

Runs in the agent's own event loop. A page is rendered in its own thread and written as fast as the
client reads it, so neither a large page nor a slow scraper delays a source.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from agent.config.addresses import parse_address
from agent.config.web import WebConfig
from agent.errors import RebalanceAgentError, SourceError
from agent.hub.recent_records import RecentRecords
from agent.web import api
from agent.web.handshakes import TlsListener
from agent.web.http_protocol import ENDLESS, HttpConnection
from agent.web.rate_limit import BURST, INTERVAL_S, RateLimit, RateLimitMiddleware
from agent.web.reload_auth import RELOAD, ReloadPolicy
from agent.web.shared_turns import BusyError, SharedTurns
from agent.web.unsent_pages import Page, UnsentPages
from aggregation.cycle_collector import paused_collector
from aggregation.live.live import live
from metrics.exporters.exposition import AgentStats, Exposition, SourceStats
from metrics.model.snapshot import Snapshot

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

    from agent.web.pages.live_events import LiveEvents
    from agent.web.pages.pages import HtmlPage, Seen
    from metrics.exporters.prometheus import PageWriter

    PageBuilder = Callable[[Seen, QueryParams], HtmlPage]

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
"""Enough for a few Prometheus servers and people; each may hold a page in memory."""
_KEEP_ALIVE_S = 75  # longer than the usual scrape interval, so a scraper keeps its connection
_BACKLOG = 128
_GRACE_S = 1.0
"""At the end, requests under way have so long for their responses."""
_HTML = "text/html; charset=utf-8"
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self';"
    " connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none';"
    " frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_FILE_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDependencies:
    """The application's part that the server reads."""

    snapshot: Callable[[], tuple[Snapshot, AgentStats]]
    sources_not_ready: Callable[[], Sequence[str]]
    """Names of sources that have not yet read up to now; none: ready."""
    reload: Callable[[], Awaitable[None]]
    """Raises RebalanceAgentError if the new configuration is wrong."""
    recent: RecentRecords = field(default_factory=RecentRecords)
    routes: Sequence[Route] = ()
    """Further routes of the application."""
    unsent: UnsentPages = field(default_factory=UnsentPages)
    """The bound on pages that are not read."""
    members: bool = True
    """Whether each member's own series are shown."""


class _Handlers:
    def __init__(
        self, config: WebConfig, max_series: int, dependencies: ServerDependencies
    ) -> None:
        self._config, self._max_series, self._dependencies = config, max_series, dependencies
        # one thread: two large pages at once would slow each other down; scrapes have their own
        self._scrapes = SharedTurns("render")
        self._looks = SharedTurns("render-html", MAX_CONNECTIONS)
        self._unsent = dependencies.unsent

    async def metrics(self, request: Request) -> Response:
        from metrics.exporters.prometheus import negotiate  # noqa: PLC0415 - 2 MiB

        content_type = negotiate(request.headers.get("accept", ""))
        try:
            page = await self._scrapes.run(content_type, lambda: self._scrape(content_type))
        except BusyError as error:
            return error.response()
        return self._unsent.respond(page)

    @cached_property
    def _writer(self) -> "PageWriter":
        from metrics.exporters.prometheus import PageWriter  # noqa: PLC0415 - 2 MiB

        return PageWriter()

    async def page(self, request: Request) -> Response:
        from agent.web.pages.pages import Seen  # noqa: PLC0415 - few open a page, and it is large

        path, query = request.url.path, request.query_params

        def prepare() -> Callable[[], Page]:
            snapshot, stats = self._look()
            seen = Seen(
                snapshot=snapshot,
                stats=stats,
                telemetry_path=self._config.telemetry_path,
                version=self._dependencies.recent.added,
            )
            return lambda: self._build(path, seen, query)

        try:
            page = await self._looks.run((path, str(query)), prepare)
        except BusyError as error:
            return error.response()
        return self._unsent.respond(page)

    def _build(self, path: str, seen: "Seen", query: "QueryParams") -> Page:
        with paused_collector():
            page = self._pages[path](seen, query)
            headers = _PAGE_HEADERS | ({"Location": page.location} if page.location else {})
            return Page([page.html.encode()], _HTML, headers, page.status_code)

    @cached_property
    def _pages(self) -> "dict[str, PageBuilder]":
        from agent.web.pages.pages import Pages  # noqa: PLC0415 - few open a page

        pages = Pages(self._dependencies.recent)
        return {"/": pages.overview, "/group": pages.group, "/incident": pages.incident}

    async def static(self, request: Request) -> Response:
        from agent.web.pages.environment import STATIC_TYPES, static_file  # noqa: PLC0415

        name = request.path_params["name"]
        if name not in STATIC_TYPES:
            return PlainTextResponse("not found\n", status_code=404)
        headers = {**_FILE_HEADERS, "Content-Type": STATIC_TYPES[name]}
        return Response(static_file(name), headers=headers)

    @cached_property
    def _live(self) -> "LiveEvents":
        from agent.web.pages.live_events import LiveEvents  # noqa: PLC0415 - for pages alone

        return LiveEvents(lambda: self._dependencies.recent.added)

    async def live(self, request: Request) -> Response:
        return self._live.respond(request.query_params.get("shown", ""))

    async def healthy(self, _: Request) -> Response:
        return PlainTextResponse("healthy\n")

    async def ready(self, request: Request) -> Response:
        waiting = self._dependencies.sources_not_ready()
        if waiting:
            return PlainTextResponse(f"waiting for {', '.join(waiting)}\n", status_code=503)
        if "members" in request.query_params:
            _, stats = self._dependencies.snapshot()
            without = [name for source in stats.sources for name in _without_members(source)]
            if without:
                return PlainTextResponse(f"no member in {', '.join(without)}\n", status_code=503)
        return PlainTextResponse("ready\n")

    async def reload(self, request: Request) -> Response:
        refusal = ReloadPolicy(self._config.token_file).refusal(request)
        if refusal is not None:
            return refusal
        try:
            await self._dependencies.reload()
        except RebalanceAgentError as error:
            return PlainTextResponse(f"{error}\n", status_code=500)
        return PlainTextResponse("reloaded\n")

    def _look(self) -> tuple[Snapshot, AgentStats]:
        with paused_collector():
            return self._dependencies.snapshot()

    def _scrape(self, accept: str) -> Callable[[], Page]:
        """Take a snapshot, and return the call that writes its page."""
        snapshot, stats = self._look()
        members, state_sets = self._dependencies.members, self._config.state_sets

        def write_page() -> Page:
            with paused_collector():
                exposition = Exposition(live(snapshot, members=members), stats)
                return Page(
                    *self._writer.write(exposition, accept, self._max_series, state_sets=state_sets)
                )

        return write_page

    def take_snapshot(self) -> tuple[Snapshot, Sequence[SourceStats]]:
        """Return the input of `/api`."""
        snapshot, stats = self._dependencies.snapshot()
        return snapshot, stats.sources


def _without_members(source: SourceStats) -> Sequence[str]:
    """Return a source that shows no member, or its files that are blind beside a good one."""
    files = source.files or ()
    if not source.members and not any(file.has_no_group for file in files):
        return (source.name,)
    return [file.path for file in files if file.is_blind]


def make_app(config: WebConfig, max_series: int, dependencies: ServerDependencies) -> Router:
    """Return the ASGI application."""
    handlers = _Handlers(config, max_series, dependencies)
    free = {"/-/healthy", "/-/ready", RELOAD, *(route.path for route in dependencies.routes)}
    return Router(
        routes=[
            Route(config.telemetry_path, handlers.metrics),
            Route("/-/healthy", handlers.healthy),
            Route("/-/ready", handlers.ready),
            Route(RELOAD, handlers.reload, methods=["POST"]),
            *(Route(path, handlers.page) for path in ("/", "/group", "/incident")),
            Route("/static/{name}", handlers.static),
            Route(ENDLESS, handlers.live),
            *dependencies.routes,
            *api.routes(
                api.ApiDependencies(
                    handlers.take_snapshot, dependencies.recent, dependencies.unsent
                )
            ),
        ],
        middleware=[Middleware(RateLimitMiddleware, limit=RateLimit(INTERVAL_S, BURST), free=free)],
    )


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, tls: ssl.SSLContext | None) -> None:
        super().__init__(config)
        self.stopping = asyncio.Event()
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; uvicorn would wait a minute for a missing TLS handshake, of any number."""
        self.servers = [await self._listen(each) for each in sockets or ()]
        self.started = True

    async def _listen(self, listener: socket.socket) -> Any:
        def create() -> HttpConnection:
            return HttpConnection(self.config, self.server_state, {})

        if self._tls is not None:
            limit = self.config.limit_concurrency or MAX_CONNECTIONS
            return TlsListener(listener, create, self._tls, limit)
        loop = asyncio.get_running_loop()
        return await loop.create_server(create, sock=listener, backlog=_BACKLOG)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Complete the responses under way, and cut those that take too long."""
        for each in (*self.servers, *(sockets or ())):
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await self._wait_tasks_to_complete()
        tasks = list(self.server_state.tasks)
        if tasks:
            log.info("requests_cut", extra={"requests": len(tasks)})
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the agent."""
        yield

    async def main_loop(self) -> None:
        """Wait to be stopped: uvicorn's own loop wakes ten times a second, the whole night."""
        await self.stopping.wait()


async def serve(
    app: ASGIApp,
    sockets: list[socket.socket],
    max_connections: int = MAX_CONNECTIONS,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until cancelled."""
    config = uvicorn.Config(
        app,
        http=HttpConnection,
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anybody can write X-Forwarded-For
        date_header=False,  # its value comes from uvicorn's loop, which does not run
        limit_concurrency=max_connections,
        timeout_keep_alive=_KEEP_ALIVE_S,
    )
    server = _Server(config, tls)
    serving = asyncio.ensure_future(server.serve(sockets))
    try:
        await asyncio.shield(serving)
    finally:
        server.stopping.set()
        await serving


def listen(addresses: Sequence[str]) -> list[socket.socket]:
    """Bind every address; port 0 selects a free one. The ports are logged as ``listening``.

    Raises:
        SourceError: an address cannot be bound.

    """
    bound: list[socket.socket] = []
    for address in addresses:
        try:
            bound.append(_bind(*parse_address(address, "web.listen")))
        except OSError as error:
            for each in bound:
                each.close()
            raise _listen_error(address, error) from error
    for each in bound:
        # connections inherit it; asyncio sets it only where the protocol's number is named, and
        # without it the body of a kept connection waits 40 ms for the head's acknowledgement
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        host, port = each.getsockname()[:2]
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        log.info("listening", extra={"address": shown})
    return bound


def check_listen(address: str) -> None:
    """Check that an address can be bound, but for another process that uses its port.

    The agent itself may run there. Nothing listens meanwhile, so it can also start.

    Raises:
        SourceError: as `listen`.

    """
    host, port = parse_address(address, "web.listen")
    try:
        with socket.socket(_family(host), socket.SOCK_STREAM) as each:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((host, port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise _listen_error(address, error) from error


def _listen_error(address: str, error: OSError) -> SourceError:
    return SourceError(f"cannot listen on {address!r}: {error.strerror}")


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind(host: str, port: int) -> socket.socket:
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
        )
    return socket.create_server((host, port), family=_family(host), backlog=_BACKLOG)
