"""Events and statistics that users' processes post over HTTP; the agent's server hands them in.

Theory of operation. A body counts whole or not at all. Senders show a bearer token. The token file
is read again for each body, so the token can be changed while the agent runs; without a token file
only this machine may post. Above the rate limit a body is refused before it is read, with a time
for the next attempt. A member that reported ``alive`` once and is silent after that has departed.
"""

import asyncio
import hmac
import logging
import math
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from agent.errors import RebalanceAgentError
from agent.small_files import read_bytes
from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.http_events.config import HttpConfig
from agent.sources.http_events.events import EventError, EventKind, build_signal, read_events
from agent.sources.position import decode_position
from agent.sources.statistics.interpreter import StatisticsInterpreter
from agent.sources.statistics.line_parser import StatsParser
from metrics.model.signals import Signal

TICK_S = 1.0
ALIVE_S = 180.0
"""Longest silence of a member that reports to be alive: six times the helper's interval."""
_BURST_S = 10.0
_SENDER_LIMIT = 1_000
"""Hosts with remembered statistics."""
_ALIVE_LIMIT = 50_000

_log = logging.getLogger(__name__)


class PostRefusedError(RebalanceAgentError):
    """A body that was not taken; ``status`` is HTTP's."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: int = 0) -> None:
        """``reason`` is the counter's label."""
        super().__init__(message)
        self.status, self.reason, self.retry_after_s = status, reason, retry_after_s


class _AliveOrigins(msgspec.Struct):
    """Its part of a checkpoint."""

    alive: list[str] = []
    """Origins that report to be alive."""


class HttpSource:
    """The source of type ``http``."""

    kind = "http"

    def __init__(
        self,
        config: HttpConfig,
        *,
        cluster: str = "",
        position: dict[str, Any] | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Await the members that had reported to be alive at the time of ``position``."""
        self.name, self.config = config.name, config
        self.health = SourceHealth()
        self._cluster, self._clock, self._monotonic = cluster, clock, monotonic
        self._emit: Emit | None = None
        self._room = _BURST_S * config.max_lines_per_second
        self._filled_at = monotonic()
        self._has_reported_token = False
        known = decode_position(position, _AliveOrigins, self.name, self.health)
        self._alive = dict.fromkeys(known.alive, clock())
        self._senders: dict[tuple[str, str | None], StatsParser] = {}
        self._evicted: list[str] = []
        """Origins with an end that is not reported yet."""

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Accept bodies until cancelled."""
        self._emit, self.health.up = emit, True
        try:
            while True:
                await asyncio.sleep(TICK_S)
                self.tick(detach)
        finally:
            self._emit, self.health.up = None, False

    def watermark(self, now: float) -> float:
        """Return ``now``: posted lines are taken at once."""
        return now

    def checkpoint(self) -> dict[str, Any]:
        """Return the members that report to be alive: without that, a dead one would never end."""
        return {"alive": sorted(self._alive)}

    def check(self, sender: str, authorization: str | None) -> None:
        """Accept a sender.

        Raises:
            RefusedError: no or a wrong token, or the source does not run.

        """
        if self._emit is None:
            raise PostRefusedError(503, "not_running", "the agent is starting or stopping", 1)
        if self.config.token_file is not None:
            if not _is_authorized(self._read_token(self.config.token_file), authorization):
                raise PostRefusedError(
                    401, "unauthorized", "wanted a valid 'Authorization: Bearer'"
                )
        elif not _is_loopback(sender):
            wanted = "without a token_file only this machine may post"
            raise PostRefusedError(401, "unauthorized", wanted)

    def take_events(self, body: bytes, sender: str) -> int:
        """Apply a body of events, one a line; return their number.

        Raises:
            RefusedError: a line is invalid, or the body is above the rate limit.

        """
        self._admit(body)
        now = self._clock()
        try:
            events = read_events(body, now)
        except EventError as error:
            self.health.unparsed += 1
            raise PostRefusedError(400, "malformed", str(error)) from error
        signals = [
            build_signal(event, sender=sender, cluster=self._cluster, arrival_at=now)
            for event in events
        ]
        for event, signal in zip(events, signals, strict=True):
            stream = signal.member.origin
            if event.event is EventKind.ALIVE or stream in self._alive:
                self._record_alive(stream, now)
        self._emit_signals(body, signals)
        return len(events)

    def take_stats(self, body: bytes, sender: str, group: str | None) -> int:
        """Apply a body of librdkafka's statistics, one object a line; return the number of lines.

        Raises:
            RefusedError: a line is invalid (the others count), or the body is above the rate limit.

        """
        self._admit(body)
        parser = self._get_parser(sender, group)
        unread, unnamed, evicted = (
            parser.counts.unread,
            parser.interpreter.without_group,
            parser.eviction_count,
        )
        self._emit_signals(body, parser.feed(body.rstrip(b"\n") + b"\n", self._clock()))
        wrong = parser.counts.unread - unread
        self.health.unparsed += wrong
        self._count("member_evicted", parser.eviction_count - evicted)
        if wrong:
            raise PostRefusedError(400, "malformed", f"{wrong} lines are no librdkafka statistics")
        if parser.interpreter.without_group > unnamed:
            wanted = "group: is missing, wanted ?group=NAME or a group_id in each object"
            raise PostRefusedError(400, "no_group", wanted)
        return len(body.splitlines())

    def count(self, refused: PostRefusedError) -> None:
        """Count a refusal."""
        self._count(refused.reason, 1)

    def tick(self, detach: Detach) -> None:
        """Detach members that have fallen silent."""
        now = self._clock()
        while self._evicted:
            detach(self._evicted.pop(), now)
        for stream, heard_at in list(self._alive.items()):
            if now - heard_at >= ALIVE_S:
                del self._alive[stream]
                detach(stream, now)
        for parser in self._senders.values():
            signals = parser.interpreter.advance(now)
            if signals and self._emit is not None:
                self.health.signals += len(signals)
                self._emit(signals)
            while parser.interpreter.departed_origins:
                detach(parser.interpreter.departed_origins.pop(), now)

    def _get_parser(self, sender: str, group: str | None) -> StatsParser:
        """Find or create the parser of a host's statistics, and put it last."""
        parser = self._senders.pop((sender, group), None)
        if parser is None:
            view = StatisticsInterpreter(
                stream=f"stats:{sender}", group=group, cluster=self._cluster, host=sender
            )
            parser = StatsParser(view)
        self._senders[sender, group] = parser
        if len(self._senders) > _SENDER_LIMIT:
            view = self._senders.pop(next(iter(self._senders))).interpreter
            self._count("member_evicted", len(view.looks))
            view.end()
            self._evicted += view.departed_origins
        return parser

    def _admit(self, body: bytes) -> None:
        """Count the body's lines against the rate limit (a token bucket).

        Raises:
            RefusedError: the body is too large, or above the rate limit.

        """
        config, now = self.config, self._monotonic()
        if len(body) > config.max_bytes:
            raise refuse_too_large(config)
        rate, full = config.max_lines_per_second, _BURST_S * config.max_lines_per_second
        self._room = min(full, self._room + rate * max(0.0, now - self._filled_at))
        self._filled_at = now
        lines = body.count(b"\n") + 1
        if lines > full:
            raise PostRefusedError(
                413, "too_large", f"found {lines} lines, wanted {full:.0f} at most"
            )
        if lines > self._room:
            wait_s = math.ceil((lines - self._room) / rate)
            wanted = f"wanted {rate} lines a second at most"
            raise PostRefusedError(429, "too_fast", wanted, wait_s)
        self._room -= lines

    def _read_token(self, path: Path) -> bytes:
        try:
            token = read_bytes(path, wait_s=0).strip()
        except OSError as error:
            if not self._has_reported_token:
                self._has_reported_token = True
                keys = {"path": str(path), "error": str(error)}
                _log.error("token_unreadable", extra=keys)
            raise PostRefusedError(503, "token_file", "the agent cannot read its token") from error
        self._has_reported_token = False
        return token

    def _record_alive(self, stream: str, now: float) -> None:
        self._alive.pop(stream, None)
        self._alive[stream] = now
        if len(self._alive) > _ALIVE_LIMIT:
            oldest = next(iter(self._alive))
            del self._alive[oldest]
            self._evicted.append(oldest)
            self._count("member_evicted", 1)

    def _count(self, reason: str, count: int) -> None:
        if count:
            self.health.errors[reason] = self.health.errors.get(reason, 0) + count

    def _emit_signals(self, body: bytes, signals: Sequence[Signal]) -> None:
        self.health.read_bytes += len(body)
        self.health.signals += len(signals)
        if signals and self._emit is not None:
            self._emit(signals)


def refuse_too_large(config: HttpConfig) -> PostRefusedError:
    """Return the refusal of a body that is larger than the configuration allows."""
    return PostRefusedError(413, "too_large", f"wanted {config.max_bytes} bytes at most")


def _is_authorized(token: bytes, authorization: str | None) -> bool:
    scheme, _, shown = (authorization or "").partition(" ")
    return (
        bool(token)
        and scheme.lower() == "bearer"
        and hmac.compare_digest(shown.strip().encode(), token)
    )


def _is_loopback(sender: str) -> bool:
    try:
        address = ip_address(sender)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
