"""The hub's receiver of pushes: records of many agents, applied in each agent's own order.

Theory of operation. An agent numbers its records; the hub remembers the last number of each spool
and skips older ones. Two agents may push one spool, if its folder was copied with its id. So the
last record must have the same id if it comes again, else the hub refuses the batch. The agent then
compares that id with its own record's, and gives its spool a new id.

Agents that see one member are compared by its events (`aggregation.rebalances.agent_clocks`). The
members that the hub shows have the times of a right clock, and so have its analyses. The records
are kept as they arrived, with their ids. The offsets are part of the checkpoint.

The hub acknowledges a batch after the fsync of its own spool, so acknowledged records survive a
kill -9. After a crash between that and the next checkpoint the agent sends again; the records have
the same ids, and the spool drops the duplicates.
"""

import asyncio
import gzip
import hmac
import logging
import re
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.outputs.hub_push.push import MAX_BYTES, PATH
from agent.request_bodies import BodyError, RequestBodies
from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.position import decode_position, note_unusable
from aggregation.live.fleet import Fleet
from aggregation.rebalances.agent_clocks import MIN_S, AgentClocks, ClockOffset, correct_record
from aggregation.rebalances.unnumbered_syncs import SyncTimes
from metrics.model.record_bounds import clip_record
from metrics.model.sample import MALFORMED, Sample, Scope, decode, parse_time
from metrics.model.snapshot import GroupKey, MemberRow
from metrics.model.units import Int64
from metrics.tracking.status_track import StatusConfig

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 2 * MAX_BYTES
MAX_LINES = 40_000
"""Of a batch; each record has more than a hundred bytes. 4 KB unpack to four million empty lines,
and each of them takes as long as a record that is refused."""
MAX_SPOOLS = 10_000
_OFFSETS_KEPT = 8
"""Common events of two agents that show their present offset."""
PENDING_TIMEOUT_S = 120.0
"""Longest wait for records of an agent that is silent now, or since this hub began to listen: an
agent tries a push again every minute.
"""
_NAME_CHARS = 8
"""Characters of a spool's name that an agent's name ends with."""
_SPOOL_CHARS = range(1, 65)
_AFTER = re.compile(r"\d{1,18}", re.ASCII)


class _Numbered(msgspec.Struct):
    seq: Int64
    id: str = ""


_decode_seq = msgspec.json.Decoder(_Numbered).decode
Record = Callable[[Sequence[Sample]], None]
WaitDurable = Callable[[], Awaitable[bool]]
"""Waits until all recorded samples are durable; False: they are not."""


class _PushRefusedError(Exception):
    def __init__(self, status_code: int, text: str) -> None:
        super().__init__(text)
        self.status_code = status_code


_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Position(msgspec.Struct, forbid_unknown_fields=True):
    """The receiver's part of a checkpoint; `offsets` are a topic's, by its partitions."""

    seqs: dict[str, Int64] = {}
    told: dict[str, float] = {}
    members: Any = None
    """The members' state of f36c958, the last release: it cannot start with a later one."""
    fleet: Any = None
    """The members' state."""
    clocks: list[ClockOffset] = []
    syncs: list[SyncTimes] = []
    offsets: dict[_Offset, _Offset] = {}


@dataclass(slots=True)
class PushedBatch:
    """Numbers of the lines that are applied together."""

    begin: int
    """The highest number of all batches before it."""
    last: int
    """The highest number so far."""
    numbers: set[int] = field(default_factory=set)
    """Those taken of this batch."""


class PushReceiver:
    """A source that reads other agents' pushes."""

    name = "intake"
    kind = "intake"

    def __init__(
        self, token: str, config: StatusConfig, position: dict[str, Any] | None = None
    ) -> None:
        """Resume from a `checkpoint`; with an empty token no request needs one.

        An unusable checkpoint is noted in ``health.damaged``: agents then send their spools again.
        """
        self.health = SourceHealth(up=True)
        self._token = token
        try:
            found = decode_position(position, Position, self.name, self.health)
            self._restore(config, found)
        except (ValueError, TypeError) as error:
            note_unusable(self.name, error, self.health)
            self._restore(config, Position())
        self._contact_at: dict[str, float] = {}
        self._began_at: float | None = None

    def _restore(self, config: StatusConfig, position: Position) -> None:
        self._fleet = Fleet(config, position.members if position.fleet is None else position.fleet)
        self._seqs = dict(position.seqs)
        self._durable_seqs = dict(self._seqs)
        self._ids: dict[str, dict[int, str]] = {}
        """Record ids by spool and number: of the last durable record, and of the last one."""
        self._watermarks = dict(position.told)
        self._clocks = AgentClocks(position.clocks, _OFFSETS_KEPT, position.syncs)
        self.clock_spans = self._clocks.spans()
        """Offsets of the clocks of all agents; for any thread."""
        self.health.clocks = self._clocks.leads()

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Wait: records arrive at the web server."""
        del emit, detach
        self.health.up = True
        await asyncio.Event().wait()

    def watermark(self, now: float) -> float:
        """Return ``now``: the receiver has no backlog."""
        return now

    def checkpoint(self) -> dict[str, Any]:
        """Return each spool's last number and watermark, and the members' state."""
        return {
            "seqs": dict(self._seqs),
            "told": dict(self._watermarks),
            "fleet": self._fleet.state(),
            "clocks": self._clocks.state(),
            "syncs": self._clocks.syncs(),
        }

    def rows(self, scope: Scope, now: float) -> tuple[MemberRow, ...]:
        """Return the members that agents see."""
        return tuple(self._fleet.rows(scope, now))

    def groups(self) -> tuple[GroupKey, ...]:
        """Return the groups that agents have seen."""
        return self._fleet.groups()

    def unseen(self, now: float) -> frozenset[tuple[str, str]]:
        """Return cluster and name of groups with a member that no live agent shows now."""
        return self._fleet.unseen(now)

    def watermark_of(self, agent: str) -> float | None:
        """Return an agent's watermark (Unix seconds); None: it is unknown here."""
        return self._watermarks.get(_spool_part(agent))

    def is_pending(self, agent: str, until: float, now: float) -> bool:
        """Whether an agent's records up to an instant may still arrive."""
        if self._began_at is None:
            self._began_at = now
        told_to = self.watermark_of(agent)
        if told_to is None or told_to >= until:
            return False
        heard_at = self._contact_at.get(_spool_part(agent), self._began_at)
        return now < max(heard_at, self._began_at) + PENDING_TIMEOUT_S

    @property
    def has_token(self) -> bool:
        """Whether a push requires the token."""
        return bool(self._token)

    def is_authorized(self, request: Request) -> bool:
        """Whether a request carries the token."""
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(shown.encode(), self._token.encode()) or not self._token

    def durable_seq(self, spool: str) -> int:
        """Return the last durable record number of a spool."""
        return self._durable_seqs.get(spool, 0)

    def last_seq(self, spool: str) -> int:
        """Return the last received record number of a spool."""
        return self._seqs.get(spool, 0)

    def durable_id(self, spool: str) -> str:
        """Return the id of the last durable record of a spool; empty: it is not known."""
        return self._ids.get(spool, {}).get(self.durable_seq(spool), "")

    def is_of_other_agent(self, spool: str, lines: bytes) -> bool:
        """Whether lines cannot follow, or repeat, those that were received of this spool.

        An agent that sends again begins where it began before: the last record is among the lines.
        """
        last = self.last_seq(spool)
        known = self._ids.get(spool, {}).get(last)
        if known is None or not lines:
            return False
        each_line = lines.splitlines()
        first = _read_number(each_line[0])
        if first is not None and first.seq > last:  # nearly always
            return False
        found = map(_read_number, each_line)
        ids = {each.seq: each.id for each in found if each is not None}
        if not ids:
            return False
        return ids.get(last, "" if max(ids) < last else known) != known

    def mark_durable(self, spool: str, seq: int) -> None:
        """Note that a spool's records are durable up to a number."""
        self._durable_seqs[spool] = max(seq, self._durable_seqs.get(spool, 0))
        ids = self._ids.get(spool, {})
        kept = {self.durable_seq(spool), self.last_seq(spool)}
        self._ids[spool] = {number: ids[number] for number in kept if number in ids}

    def apply_lines(self, spool: str, lines: bytes, now: float) -> list[Sample]:
        """Apply and return the new records of an agent's lines."""
        self._fleet.record_contact(spool, now)
        self.health.read_bytes += len(lines)
        seq = self._seqs.pop(spool, 0)
        batch, taken = PushedBatch(seq, seq), list[Sample]()
        reached_at = 0.0
        if not lines:  # an empty push means that nothing is left to send
            reached_at = now
            self._fleet.record_idle(spool, now)
        for line in lines.splitlines():
            try:
                record, clipped = clip_record(decode(line))
            except ValueError:
                batch.last = self._pass_over(line, batch.last)
                continue
            if clipped:
                errors = self.health.errors
                errors["name_clipped"] = errors.get("name_clipped", 0) + clipped
            is_new = self._is_new(spool, record, batch)
            right = self._correct(spool, record, is_new=is_new)
            reached_at = parse_time(right.ts)
            if is_new:
                batch.last = max(batch.last, record.seq)
                batch.numbers.add(record.seq)
                taken.append(record)
                self._fleet.apply(spool, right)
        self._show_clocks()
        self._seqs[spool] = batch.last  # the newest is last
        if taken:
            newest = max(taken, key=lambda each: each.seq)
            self._ids.setdefault(spool, {})[newest.seq] = newest.id
        self._advance_watermark(spool, now, reached_at)
        while len(self._seqs) > MAX_SPOOLS:
            oldest = next(iter(self._seqs))
            del self._seqs[oldest]
            self._durable_seqs.pop(oldest, None)
            self._ids.pop(oldest, None)
            self._watermarks.pop(oldest[:_NAME_CHARS], None)
            self._contact_at.pop(oldest[:_NAME_CHARS], None)
        self.health.signals += len(taken)
        return taken

    def _correct(self, spool: str, record: Sample, *, is_new: bool) -> Sample:
        """Return a record in the time that most agents have; it is recorded as it arrived."""
        agent = with_spool(record, spool).agent
        if is_new:
            self._clocks.observe(record, agent)
        right = correct_record(record, self.clock_spans, agent)
        if is_new and right is not record:
            self.health.errors["clock"] = self.health.errors.get("clock", 0) + 1
        return right

    def _show_clocks(self) -> None:
        """Show the agents with a wrong clock; warn of each correction that begins or ends."""
        self.clock_spans, before = self._clocks.spans(), self.health.clocks
        self.health.clocks = self._clocks.leads()
        for agent in {*before, *self.health.clocks}:
            ahead_s = self.health.clocks.get(agent, 0.0)
            if abs(ahead_s - before.get(agent, 0.0)) >= MIN_S:
                keys = {"agent": agent, "ahead_s": round(ahead_s, 1)}
                hint = "its times are corrected to most agents'; set the clock of its host"
                _log.warning("clock_differs", extra=keys | {"hint": hint})

    def _is_new(self, spool: str, record: Sample, batch: PushedBatch) -> bool:
        """Whether a record was not received before; within a batch the numbers need not rise."""
        del spool
        return record.seq > batch.begin and record.seq not in batch.numbers

    def _pass_over(self, line: bytes, seq: int) -> int:
        """Count a record that cannot be read; return the number that is reached with it."""
        self.health.unparsed += 1
        found = _read_number(line)
        return seq if found is None else max(seq, found.seq)

    def _advance_watermark(self, spool: str, now: float, reached_at: float) -> None:
        """Raise an agent's watermark, at most to ``now``: its clock may be ahead."""
        name = spool[:_NAME_CHARS]
        self._contact_at[name] = now
        self._watermarks[name] = max(min(now, reached_at), self._watermarks.get(name, 0.0))


def _read_number(line: bytes) -> _Numbered | None:
    try:
        return _decode_seq(line)
    except MALFORMED:
        return None


def routes(
    receiver: Callable[[], PushReceiver],
    record: Record,
    wait_durable: WaitDurable,
    has_room: Callable[[], bool],
    clock: Callable[[], float],
) -> list[Route]:
    """Return the route for pushes; each request calls ``receiver``, as a reload makes a new one.

    ``has_room`` is false while the disk refuses and more records would be lost.
    """
    endpoint = PushEndpoint(receiver, record, wait_durable, has_room, clock)
    return [Route(PATH, endpoint.serve, methods=["GET", "POST"])]


@dataclass(frozen=True, slots=True)
class PushEndpoint:
    current: Callable[[], PushReceiver]
    record: Record
    wait_durable: WaitDurable
    has_room: Callable[[], bool]
    clock: Callable[[], float]
    bodies: RequestBodies = field(default_factory=RequestBodies)

    @property
    def receiver(self) -> PushReceiver:
        return self.current()

    async def serve(self, request: Request) -> Response:
        try:
            spool = self._spool(request)
            unreadable = 0
            if request.method == "POST":
                unreadable = await self._receive(request, spool)
            progress: dict[str, Any] = {"seq": self.receiver.durable_seq(spool)}
            if request.method == "GET" and (found := self.receiver.durable_id(spool)):
                progress["id"] = found
            return _json(progress | ({"unreadable": unreadable} if unreadable else {}))
        except _PushRefusedError as error:
            return _json({"error": str(error)}, error.status_code)

    def _spool(self, request: Request) -> str:
        if not self.receiver.is_authorized(request):
            raise _PushRefusedError(401, "wanted the hub's token: Authorization: Bearer TOKEN")
        spool = request.headers.get("x-spool", "")
        if len(spool) not in _SPOOL_CHARS or not (spool.isascii() and spool.isalnum()):
            raise _PushRefusedError(400, f"X-Spool: found {spool[:70]!r}, wanted a spool's name")
        return spool

    async def _read_lines(self, request: Request) -> bytes:
        try:
            body = await self.bodies.read(request, MAX_BODY_BYTES)
        except BodyError as error:
            raise _PushRefusedError(error.status, str(error)) from error
        if request.headers.get("content-encoding") == "gzip":
            body = _decompress(body)
        if body.count(b"\n") + body.count(b"\r") > MAX_LINES:
            raise _PushRefusedError(413, f"wanted {MAX_LINES:,} lines or less")
        return body

    def _check_agent(self, spool: str, lines: bytes) -> None:
        if self.receiver.is_of_other_agent(spool, lines):
            errors = self.receiver.health.errors
            errors["spool_copied"] = errors.get("spool_copied", 0) + 1
            _log.warning("spool_copied", extra={"spool": spool})
            raise _PushRefusedError(409, "another agent has pushed other records of this spool")

    async def _receive(self, request: Request, spool: str) -> int:
        """Apply a batch and wait until it is durable; return how many records are unreadable."""
        after = request.headers.get("x-after", "0")
        if not _AFTER.fullmatch(after):
            raise _PushRefusedError(400, f"X-After: found {after[:40]!r}, wanted a sequence number")
        if int(after) > self.receiver.last_seq(spool):  # a restart has forgotten what was not saved
            raise _PushRefusedError(409, f"wanted what comes after {self.receiver.last_seq(spool)}")
        lines = await self._read_lines(request)
        if not self.has_room():  # nothing is taken that could be lost
            raise _PushRefusedError(503, "the hub's disk takes no records; send them again")
        self._check_agent(spool, lines)
        before = self.receiver.health.unparsed
        taken = self.receiver.apply_lines(spool, lines, self.clock())
        unreadable = self.receiver.health.unparsed - before
        seq = self.receiver.last_seq(spool)
        if taken:
            self.record([with_spool(record, spool) for record in taken])
        if seq > self.receiver.durable_seq(spool):
            if not await self.wait_durable():
                raise _PushRefusedError(503, "the records could not be made safe; send them again")
            self.receiver.mark_durable(spool, seq)
        if unreadable:
            _log.warning("records_unreadable", extra={"spool": spool, "records": unreadable})
        return unreadable


def with_spool(record: Sample, spool: str) -> Sample:
    """Return a record with its agent's name made unique: two agents may share a name."""
    return msgspec.structs.replace(record, agent=f"{record.agent}/{spool[:_NAME_CHARS]}")


def _spool_part(agent: str) -> str:
    return agent.rpartition("/")[2]


def _decompress(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        lines = unpacker.decompress(packed, MAX_BODY_BYTES)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise _PushRefusedError(400, f"the body is no gzip: {error}") from error
    if unpacker.unconsumed_tail or len(lines) == MAX_BODY_BYTES:
        raise _PushRefusedError(413, f"wanted {MAX_BODY_BYTES} bytes or less when unpacked")
    if not unpacker.eof or unpacker.unused_data:
        fault = "it breaks off" if not unpacker.eof else "more follows behind its end"
        raise _PushRefusedError(400, f"the body is no gzip: {fault}")
    return lines


def _json(body: object, status_code: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status_code, media_type="application/json")
