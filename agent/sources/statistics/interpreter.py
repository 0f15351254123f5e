"""Meaning of librdkafka's statistics (`cgrp`): one JSON object per client and interval.

Theory of operation. Statistics are observations of a client, not events: between two of them
anything may have happened. A rebalance shows as a ``join_state`` that is not ``steady``, or as a
higher ``rebalance_cnt``; ``rebalance_age`` dates its last step. One that fits between two
observations has no length.

``rebalance_reason`` is the last reason and is not cleared, and only a client that gives up all its
partitions sets it: an eager one always, a cooperative one after a drop or a removal. So a reason
counts if its text has changed; the same text again counts only as CoordinatorRequested (1), which
is no cause. ``unsubscribe`` is a close or a changed subscription, and "Metadata for subscribed
topic(s) has changed" follows a first join, a changed subscription and a grown topic alike: neither
gives a code. So this source shows the codes 1, 3, 4 and 5; every other join has no visible cause.

A client delivers its statistics when it polls. If a client is silent for `SILENT_INTERVALS` of its
own intervals while its group rebalances, the group probably waits for it: that is a note, no code.

Sources: https://github.com/confluentinc/librdkafka/blob/v2.15.0/STATISTICS.md and, for the texts,
rd_kafka_cgrp_revoke_all_rejoin's callers in rdkafka_cgrp.c of the same tag.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import msgspec

from metrics.model.names import clip_name
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.model.units import Int64

SILENT_INTERVALS = 3
_CLIENT_LIMIT = 5_000
"""Clients remembered of one stream; the longest silent goes first."""
FORGET_S = 300.0
"""A client that is silent for so long has gone: the others report at every interval."""
_STEADY, _STABLE = "steady", {"steady", "init", "wait-metadata"}
"""Join states; a stable client does not wait for its group."""
_SUSPECTED = "suspected straggler: no statistics while its group rebalances"
_FATAL = "consumer fenced by newer instance"
_CAUSES = {
    "rebalance in progress": RebalanceStatus.COORDINATOR_REQUESTED,
    "resetting member-id": RebalanceStatus.UNKNOWN_MEMBER,
    "OffsetCommit error: Unknown member": RebalanceStatus.UNKNOWN_MEMBER,
    "illegal generation": RebalanceStatus.STALE_MEMBER,
    "OffsetCommit error: Illegal generation": RebalanceStatus.STALE_MEMBER,
    "max.poll.interval.ms exceeded": RebalanceStatus.DROPPED_GROUP,
}


class StatsGroupType(StrEnum):
    """The clients' group protocol; librdkafka does not report it."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class Cgrp(msgspec.Struct, frozen=True):
    """The consumer group's part. Ages are milliseconds."""

    join_state: str
    rebalance_age: Int64
    rebalance_cnt: Int64
    rebalance_reason: str = ""


class StatisticsObject(msgspec.Struct, frozen=True, kw_only=True):
    """The used part of a statistics object; librdkafka itself does not report the group."""

    name: str
    client_id: str
    ts: Int64
    """Microseconds of a monotonic clock."""
    time: Int64
    """Unix seconds, whole ones."""
    age: Int64 = 0
    """Microseconds since the client was made."""
    cgrp: Cgrp | None = None
    group_id: str | None = None


_decoder = msgspec.json.Decoder(StatisticsObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientObservation:
    """A client's last statistics. ``at`` is Unix seconds."""

    member: Member
    cgrp: Cgrp
    at: float
    ts: int
    age: int
    clock_offset_s: float
    """Unix time less the client's monotonic clock, within the precision of whole seconds."""
    interval_s: float | None = None
    """The shortest pause between two looks so far."""
    is_suspected: bool = False

    @property
    def is_steady(self) -> bool:
        """Whether the client has its assignment."""
        return self.cgrp.join_state == _STEADY

    @property
    def is_busy(self) -> bool:
        """Whether its group rebalances."""
        return self.cgrp.join_state not in _STABLE


@dataclass(slots=True, kw_only=True)
class StatisticsInterpreter:
    """An interpreter of one stream of statistics: a file, a connection, a host that posts them."""

    stream: str
    group: str | None = None
    """For clients without a group in their lines."""
    group_type: StatsGroupType = StatsGroupType.CLASSIC
    cluster: str = ""
    host: str = ""
    looks: dict[str, ClientObservation] = field(default_factory=dict)
    last_at: float | None = None
    without_group: int = 0
    """Statistics of consumers without a known group."""
    departed_origins: list[str] = field(default_factory=list)
    """Origins of departed clients, for the source to take."""
    evicted: int = 0
    """Of them, those that had to go because there were too many."""
    has_ended: bool = False

    def take(self, line: bytes, origin: str = "", host: str = "") -> list[Signal]:
        """Take one JSON object; producers and consumers without a group have no signals.

        ``origin`` is the name of a stream within this one, ``host`` the part of it that names one.

        Raises:
            msgspec.DecodeError: it is none, or not librdkafka's.

        """
        stats = _bound_texts(_decoder.decode(line))
        group = stats.group_id or self.group
        if stats.cgrp is None:
            return []
        if not group:
            self.without_group += 1
            return []
        name = f"{origin}/{stats.name}" if origin else stats.name
        before = self.looks.pop(name, None)
        if before is not None and stats.age < before.age:
            before = None  # another client of the same name
        member = self._member(stats, group, name, host or self.host)
        now = _observe(stats, stats.cgrp, member, before)
        self.looks[name] = now
        if len(self.looks) > _CLIENT_LIMIT:
            self._forget(next(iter(self.looks)))
            self.evicted += 1
        self.last_at = max(self.last_at or 0.0, now.at)
        return (_report_first(now) if before is None else _compare(before, now)) + self.advance(
            now.at
        )

    def advance(self, now: float) -> list[Signal]:
        """Advance to Unix seconds ``now``: note silent clients of busy groups, forget old ones."""
        busy = {look.member.group for look in self.looks.values() if look.is_busy}
        out = []
        for name, look in list(self.looks.items()):
            if now - look.at >= FORGET_S:
                self._forget(name)
            elif look.member.group in busy and _is_silent(look, now):
                self.looks[name] = replace(look, is_suspected=True)
                out.append(_build_signal(look, SignalKind.NOTE, now, reason=_SUSPECTED))
        return out

    def end(self) -> None:
        """Note the end of the stream: all its clients have departed."""
        self.has_ended = True
        for name in list(self.looks):
            self._forget(name)

    def state(self) -> dict[str, Any]:
        """Return the state for a restart, in types that JSON can carry."""
        state: dict[str, Any] = msgspec.to_builtins({"looks": self.looks, "last_at": self.last_at})
        return state

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a `state` again."""
        self.looks = msgspec.convert(state["looks"], dict[str, ClientObservation])
        self.last_at = state["last_at"]

    def _member(self, stats: StatisticsObject, group: str, name: str, host: str) -> Member:
        return Member(
            cluster=self.cluster,
            group=group,
            client_id=stats.client_id,
            origin=f"{self.stream}#{name}",
            group_type=self.group_type.value,
            protocol_type="consumer" if self.group_type is StatsGroupType.CLASSIC else None,
            host=host,
            software="librdkafka",
        )

    def _forget(self, name: str) -> None:
        self.departed_origins.append(self.looks.pop(name).member.origin)


def _bound_texts(stats: StatisticsObject) -> StatisticsObject:
    """Clip the texts that are kept: a line may have 4 MiB."""
    cgrp = stats.cgrp
    if cgrp is None:
        return stats
    return msgspec.structs.replace(
        stats,
        name=clip_name(stats.name),
        client_id=clip_name(stats.client_id),
        group_id=None if stats.group_id is None else clip_name(stats.group_id),
        cgrp=msgspec.structs.replace(
            cgrp,
            join_state=clip_name(cgrp.join_state),
            rebalance_reason=clip_name(cgrp.rebalance_reason),
        ),
    )


def _observe(
    stats: StatisticsObject, cgrp: Cgrp, member: Member, before: ClientObservation | None
) -> ClientObservation:
    clock_s = stats.ts / 1e6
    offset_s, interval_s = stats.time - clock_s, None  # the whole second has begun by then
    if before is not None:
        paused_s = (stats.ts - before.ts) / 1e6
        interval_s = min(paused_s, before.interval_s or paused_s)
        if before.clock_offset_s < offset_s + 1.0:  # else the wall clock was set back
            offset_s = max(offset_s, before.clock_offset_s)
    return ClientObservation(
        member=member,
        cgrp=cgrp,
        at=clock_s + offset_s,
        ts=stats.ts,
        age=stats.age,
        clock_offset_s=offset_s,
        interval_s=interval_s,
    )


def _report_first(now: ClientObservation) -> list[Signal]:
    return [_build_signal(now, SignalKind.JOIN if now.is_busy else SignalKind.SEEN, now.at)]


def _compare(before: ClientObservation, now: ClientObservation) -> list[Signal]:
    """Return the signals of a client's change between two observations."""
    moved = now.cgrp.rebalance_cnt > before.cgrp.rebalance_cnt
    turned_at = now.at
    if moved:
        turned_at = max(before.at, now.at - now.cgrp.rebalance_age / 1000)
    out = []
    status = _find_cause(before, now)
    if now.cgrp.rebalance_reason == _FATAL != before.cgrp.rebalance_reason:
        out.append(_build_signal(now, SignalKind.FAIL, turned_at, reason=_FATAL))
    elif status is not RebalanceStatus.NONE:
        reason = now.cgrp.rebalance_reason
        out.append(_build_signal(now, SignalKind.RAISE, turned_at, status=status, reason=reason))
    elif before.is_steady and (moved or now.is_busy):
        out.append(_build_signal(now, SignalKind.JOIN, turned_at))
    if now.is_steady and (moved or not before.is_steady):
        out.append(_build_signal(now, SignalKind.SYNC, turned_at))
    return out


def _find_cause(before: ClientObservation, now: ClientObservation) -> RebalanceStatus:
    """Return the code of a new reason, or of a new rebalance for other members."""
    status = _CAUSES.get(now.cgrp.rebalance_reason, RebalanceStatus.NONE)
    if now.cgrp.rebalance_reason != before.cgrp.rebalance_reason:
        return status
    again = before.is_steady and now.cgrp.rebalance_cnt > before.cgrp.rebalance_cnt
    is_harmless = status is RebalanceStatus.COORDINATOR_REQUESTED
    return status if again and is_harmless else RebalanceStatus.NONE


def _is_silent(look: ClientObservation, now: float) -> bool:
    if look.interval_s is None or look.is_suspected:
        return False
    return now - look.at > SILENT_INTERVALS * look.interval_s + 1.0  # looks are dated to a second


def _build_signal(
    look: ClientObservation,
    kind: SignalKind,
    at: float,
    *,
    status: RebalanceStatus = RebalanceStatus.NONE,
    reason: str | None = None,
) -> Signal:
    return Signal(
        kind=kind,
        at=at,
        member=look.member,
        source=SourceKind.STATS,
        status=status,
        reason=reason,
    )
