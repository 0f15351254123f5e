"""The hub's side: records of many agents, applied in each agent's own order.

Theory of operation. An agent numbers its records; the hub remembers the last one of each spool and
skips what it has. A batch is answered when it is fsynced in the hub's own spool, so what the hub
has said to hold survives its kill -9. Between the answer and the next checkpoint a crash makes the
agent send again; the same records have the same ids, and the spool takes none twice.
"""

import asyncio
import gzip
import hmac
import re
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agent.outputs.hub_push import MAX_BYTES, PATH
from agent.sources.base import Detach, Emit, SourceHealth
from aggregation.live.fleet import Fleet
from metrics.model.sample import Sample, Scope, decode, parse_time
from metrics.model.snapshot import GroupKey, MemberRow
from metrics.tracking.status_track import StatusConfig

MAX_BODY_BYTES = 2 * MAX_BYTES
MAX_SPOOLS = 10_000
PENDING_TIMEOUT_S = 120.0
"""How long records of an agent are awaited that is away, or was when this hub began to listen: a
push is tried again every minute.
"""
_NAME_CHARS = 8
"""Of a spool's name, behind its agent's."""
_SPOOL_CHARS = range(1, 65)
_AFTER = re.compile(r"\d{1,18}", re.ASCII)

Record = Callable[[Sequence[Sample]], None]
WaitDurable = Callable[[], Awaitable[bool]]
"""Returns once all that was taken is safe; False: it is not."""


class _RefusedError(Exception):
    def __init__(self, status_code: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status_code


class PushReceiver:
    """A source whose world is other agents."""

    name = "intake"
    kind = "intake"

    def __init__(
        self, token: str, config: StatusConfig, position: dict[str, Any] | None = None
    ) -> None:
        """Go on from `checkpoint`; an empty token lets everybody in."""
        position = position or {}
        self.health = SourceHealth(up=True)
        self._token = token
        self._seqs: dict[str, int] = dict(position.get("seqs", {}))
        self._durable_seqs = dict(self._seqs)
        self._watermarks: dict[str, float] = dict(position.get("told", {}))
        self._contact_at: dict[str, float] = {}
        self._began_at: float | None = None
        self._fleet = Fleet(config, position.get("members"))

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Wait: the records come by the web server."""
        del emit, detach
        self.health.up = True
        await asyncio.Event().wait()

    def watermark(self, now: float) -> float:
        """Return ``now``: there is nothing to catch up with."""
        return now

    def checkpoint(self) -> dict[str, Any]:
        """Return how far each spool is, and what is known of members."""
        return {
            "seqs": dict(self._seqs),
            "told": dict(self._watermarks),
            "members": self._fleet.state(),
        }

    def rows(self, scope: Scope, now: float) -> tuple[MemberRow, ...]:
        """Return the members that agents see."""
        return tuple(self._fleet.rows(scope, now))

    def groups(self) -> tuple[GroupKey, ...]:
        """Return the groups that agents have seen."""
        return self._fleet.groups()

    def watermark_of(self, agent: str) -> float | None:
        """Return up to when an agent has told all (Unix seconds); None: it is none of them."""
        return self._watermarks.get(_spool_part(agent))

    def is_pending(self, agent: str, until: float, now: float) -> bool:
        """Tell whether an agent's records up to an instant may still be on their way."""
        if self._began_at is None:
            self._began_at = now
        told_to = self.watermark_of(agent)
        if told_to is None or told_to >= until:
            return False
        heard_at = self._contact_at.get(_spool_part(agent), self._began_at)
        return now < max(heard_at, self._began_at) + PENDING_TIMEOUT_S

    @property
    def has_token(self) -> bool:
        """Whether agents are asked for one."""
        return bool(self._token)

    def is_authorized(self, request: Request) -> bool:
        """Tell whether a request shows the token."""
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(shown.encode(), self._token.encode()) or not self._token

    def durable_seq(self, spool: str) -> int:
        """Return the last record of a spool that is safe here."""
        return self._durable_seqs.get(spool, 0)

    def received_seq(self, spool: str) -> int:
        """Return the last record of a spool that was taken."""
        return self._seqs.get(spool, 0)

    def mark_durable(self, spool: str, seq: int) -> None:
        """Note that a spool is safe up to a record."""
        self._durable_seqs[spool] = max(seq, self._durable_seqs.get(spool, 0))

    def apply_lines(self, spool: str, lines: bytes, now: float) -> list[Sample]:
        """Apply what is new of an agent's lines, and return it."""
        self._fleet.record_contact(spool, now)
        self.health.read_bytes += len(lines)
        seq, taken = self._seqs.pop(spool, 0), list[Sample]()
        told_to = 0.0 if lines else now  # who has no more to tell has told all
        for line in lines.splitlines():
            try:
                record = decode(line)
            except ValueError:
                self.health.unparsed += 1
                continue
            told_to = parse_time(record.ts)
            if record.seq > seq:
                seq = record.seq
                taken.append(record)
                self._fleet.apply(spool, record)
        self._seqs[spool] = seq  # the newest is last
        self._advance_watermark(spool, now, told_to)
        while len(self._seqs) > MAX_SPOOLS:
            oldest = next(iter(self._seqs))
            del self._seqs[oldest]
            self._durable_seqs.pop(oldest, None)
            self._watermarks.pop(oldest[:_NAME_CHARS], None)
            self._contact_at.pop(oldest[:_NAME_CHARS], None)
        self.health.signals += len(taken)
        return taken

    def _advance_watermark(self, spool: str, now: float, told_to: float) -> None:
        """Note how far an agent is; a clock that is ahead has not told the future."""
        name = spool[:_NAME_CHARS]
        self._contact_at[name] = now
        self._watermarks[name] = max(min(now, told_to), self._watermarks.get(name, 0.0))


def routes(
    receiver: Callable[[], PushReceiver],
    record: Record,
    wait_durable: WaitDurable,
    clock: Callable[[], float],
) -> list[Route]:
    """Return where agents push to; ``intake`` is asked each time, for a reload makes another."""
    desk = PushEndpoint(receiver, record, wait_durable, clock)
    return [Route(PATH, desk.serve, methods=["GET", "POST"])]


@dataclass(frozen=True, slots=True)
class PushEndpoint:
    current: Callable[[], PushReceiver]
    record: Record
    wait_durable: WaitDurable
    clock: Callable[[], float]

    @property
    def receiver(self) -> PushReceiver:
        return self.current()

    async def serve(self, request: Request) -> Response:
        try:
            spool = self._spool(request)
            if request.method == "POST":
                await self._receive(request, spool)
            return _json({"seq": self.receiver.durable_seq(spool)})
        except _RefusedError as error:
            return _json({"error": str(error)}, error.status_code)

    def _spool(self, request: Request) -> str:
        if not self.receiver.is_authorized(request):
            raise _RefusedError(401, "wanted the hub's token: Authorization: Bearer TOKEN")
        spool = request.headers.get("x-spool", "")
        if len(spool) not in _SPOOL_CHARS or not (spool.isascii() and spool.isalnum()):
            raise _RefusedError(400, f"X-Spool: found {spool[:70]!r}, wanted a spool's name")
        return spool

    async def _receive(self, request: Request, spool: str) -> None:
        after = request.headers.get("x-after", "0")
        if not _AFTER.fullmatch(after):
            raise _RefusedError(400, f"X-After: found {after[:40]!r}, wanted a sequence number")
        if int(after) > self.receiver.received_seq(
            spool
        ):  # a restart has forgotten what was not saved
            raise _RefusedError(409, f"wanted what comes after {self.receiver.received_seq(spool)}")
        lines = await _read_body(request)
        taken = self.receiver.apply_lines(spool, lines, self.clock())
        seq = self.receiver.received_seq(spool)
        if taken:
            self.record([with_spool(record, spool) for record in taken])
        if seq > self.receiver.durable_seq(spool):
            if not await self.wait_durable():
                raise _RefusedError(503, "the records could not be made safe; send them again")
            self.receiver.mark_durable(spool, seq)


def with_spool(record: Sample, spool: str) -> Sample:
    """Return a record that names its agent: two agents may go by one name."""
    return msgspec.structs.replace(record, agent=f"{record.agent}/{spool[:_NAME_CHARS]}")


def _spool_part(agent: str) -> str:
    return agent.rpartition("/")[2]


async def _read_body(request: Request) -> bytes:
    packed = bytearray()
    try:
        async for piece in request.stream():
            packed += piece
            if len(packed) > MAX_BODY_BYTES:
                raise _RefusedError(413, f"wanted {MAX_BODY_BYTES} bytes or less")
    except ClientDisconnect as error:
        raise _RefusedError(400, "the body has not come whole") from error
    if request.headers.get("content-encoding") != "gzip":
        return bytes(packed)
    return _decompress(bytes(packed))


def _decompress(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        lines = unpacker.decompress(packed, MAX_BODY_BYTES)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise _RefusedError(400, f"the body is no gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise _RefusedError(413, f"wanted {MAX_BODY_BYTES} bytes or less when unpacked")
    return lines


def _json(body: object, status_code: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status_code, media_type="application/json")
