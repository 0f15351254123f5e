"""Access control of the web server: the active web configuration, and the check of each request.

Each request and each TLS handshake checks the file and its certificates for changes, and reads them
again after one. A fault is logged and counted once, and the last valid configuration stays active.
"""

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.errors import ConfigError
from agent.web.basic_auth import Users, parse_credentials
from agent.web.rate_limit import RateLimit, refusal
from agent.web.reload_auth import USER
from agent.web.tls import current_context, make_context
from agent.web.web_config import WebFileConfig, read_web_config

log = logging.getLogger(__name__)

MAX_WAITING = 16
"""Passwords that wait for their check, one after the other; scrapers need one check each."""
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="rebalance-agent", charset="UTF-8"'}

HasOwnToken = Callable[[str], bool]
"""Predicate: whether a path requires a token of its own."""


@dataclass(frozen=True, slots=True)
class _ActiveConfig:
    tls: ssl.SSLContext | None
    users: Users | None
    headers: dict[str, str]
    rate: RateLimit | None


class WebSecurity:
    """The active web configuration."""

    def __init__(self, path: Path, reloads: Counter[str]) -> None:
        """Read it.

        Raises:
            ConfigError: it is wrong.

        """
        self._path, self._reloads = path, reloads
        self._files: tuple[Path, ...] = ()
        self._file_stamps: tuple[object, ...] = ()
        self._active = self._read()
        self.tls = None if self._active.tls is None else current_context(self._context)
        """Context of the listening sockets; None: plaintext."""

    def reload(self) -> None:
        """Read it again.

        Raises:
            ConfigError: it is wrong; the old one stays.

        """
        settings = self._read()
        if (settings.tls is None) != (self.tls is None):
            wanted = "wanted a restart to turn TLS on or off"
            raise ConfigError(f"{self._path}: tls_server_config: {wanted}")
        self._active = settings

    def current(self) -> _ActiveConfig:
        """Return the active configuration, after a check of the files for changes."""
        if _stamps((self._path, *self._files)) == self._file_stamps:
            return self._active
        try:
            self.reload()
        except ConfigError as error:
            self._reloads["failure"] += 1
            log.error("web_config_failed", extra={"error": str(error)})  # noqa: TRY400
        else:
            self._reloads["success"] += 1
            log.info("web_config_reloaded", extra={"file": str(self._path)})
        return self._active

    def guard(self, app: ASGIApp, own_tokens: Sequence[HasOwnToken]) -> ASGIApp:
        """Return the application for users only, except for paths with a token of their own."""
        return _AccessGuard(app, self.current, own_tokens)

    def _context(self) -> ssl.SSLContext:
        context = self.current().tls
        assert context is not None  # noqa: S101 - `reload` never turns TLS off
        return context

    def _read(self) -> _ActiveConfig:
        # stamps first: a change during the reading shows at the next check
        self._file_stamps = _stamps((self._path, *self._files))
        config = read_web_config(self._path)
        self._files = config.files
        self._file_stamps = (self._file_stamps[0], *_stamps(self._files))
        return _activate(config, self._path)


def _activate(config: WebFileConfig, path: Path) -> _ActiveConfig:
    tls, users = config.tls_server_config, config.basic_auth_users
    rate = config.rate_limit
    return _ActiveConfig(
        tls=None if tls is None else make_context(tls, f"{path}: tls_server_config"),
        users=Users(users, f"{path}: basic_auth_users") if users else None,
        headers={name: value for name, value in config.http_server_config.headers.items() if value},
        rate=RateLimit(rate.interval_s, rate.burst) if rate.interval_s else None,
    )


def _stamps(paths: Iterable[Path]) -> tuple[object, ...]:
    return tuple(_stamp(path) for path in paths)


def _stamp(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class _AccessGuard:
    def __init__(
        self, app: ASGIApp, current: Callable[[], _ActiveConfig], own_tokens: Sequence[HasOwnToken]
    ) -> None:
        self._app, self._current, self._own_tokens = app, current, own_tokens
        # one thread: a flood of wrong passwords costs one core at most
        self._checker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="password")
        self._waiting = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        in_force = self._current()
        refused = None if in_force.rate is None else refusal(in_force.rate)
        has_token = any(own_token(scope["path"]) for own_token in self._own_tokens)
        if refused is None and in_force.users is not None and not has_token:
            refused = await self._refusal(in_force.users, Headers(scope=scope))
            scope[USER] = refused is None
        await (refused or self._app)(scope, receive, _add_headers(in_force.headers, send))

    async def _refusal(self, users: Users, headers: Headers) -> ASGIApp | None:
        shown = parse_credentials(headers.get("authorization", ""))
        if shown is None:
            return PlainTextResponse("wanted a user and a password\n", 401, _CHALLENGE)
        if users.is_verified(shown):
            return None
        if self._waiting >= MAX_WAITING:
            return PlainTextResponse("too many passwords to check\n", 503, {"Retry-After": "5"})
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._checker, users.verify, shown)
        finally:
            self._waiting -= 1
        if is_right:
            return None
        return PlainTextResponse("wrong user or password\n", 401, _CHALLENGE)


def _add_headers(headers: dict[str, str], send: Send) -> Send:
    """Add headers that a response does not set itself."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = MutableHeaders(scope=message)
            for name, value in headers.items():
                own.setdefault(name, value)
        await send(message)

    return send_with_headers if headers else send
