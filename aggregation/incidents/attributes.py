"""Attributes of a group's members, from records of changes. Pure.

Partitions, timeouts and lag are for the cost of an incident, the others for its detail.

Source: incidents.md 1a.4, 1a.8 and 5.
"""

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregation.incidents.model import DepartureMode, MemberDeparture
from aggregation.incidents.own_partitions import find_early_assignments
from aggregation.incidents.settings import (
    BROKER_SESSION_S,
    SESSION_TIMEOUT,
    has_broker_session,
    setting_of,
)
from aggregation.rebalances.segments import member_of
from metrics.model.partitions import parse_partitions
from metrics.model.sample import FETCHERS_PAUSED, Sample, SampleKind, is_number, parse_time

_Key = tuple[str, ...]
HEARTBEAT_SHARE = 1 / 3
"""Kafka's documentation: a heartbeat interval is no more than a third of the session timeout."""
SLACK_S = 5.0
"""A new process reports its assignor with its first assignment, a little after its join."""


class Ownership(NamedTuple):
    """One member's partitions from an instant on. ``at`` is Unix seconds."""

    at: float
    member: _Key
    owned: frozenset[str]
    is_paused: bool = False
    """The client has paused its fetchers: its application takes the revoke callback later."""


class Silence(NamedTuple):
    """A member's last request, and when its silence showed. Both are Unix seconds."""

    since: float
    at: float


class LagStep(NamedTuple):
    """A changed lag of the group, in records. ``at`` is Unix seconds."""

    at: float
    before: int
    after: int


class _LabelValue(NamedTuple):
    at: float
    text: str


@dataclass(slots=True)
class Attributes:
    """Attributes of one group and of its members, from its records of changes."""

    ownership: list[Ownership] = field(default_factory=list)
    changes_of_member: dict[_Key, list[Ownership]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """The same for each member, in the order of time."""
    exits: dict[_Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Times at which each member departed (Unix seconds), in order. A killed one reports none."""
    first_owned: dict[str, float] = field(default_factory=dict)
    """When each partition had an owner for the first time (Unix seconds)."""
    latest_process: dict[_Key, str] = field(default_factory=dict)
    """For each static member, the member id of the process that got partitions last."""
    session_timeout_s: dict[_Key, float] = field(default_factory=dict)
    """Of members of classic groups."""
    broker_session_s: dict[str, float] = field(default_factory=dict)
    """Of groups of the new protocols, by type."""
    max_poll_interval_s: dict[_Key, float] = field(default_factory=dict)
    software: dict[_Key, str] = field(default_factory=dict)
    removed_by: dict[_Key, str] = field(default_factory=dict)
    closes: dict[_Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    """Times (Unix seconds) of a member's closes without a leave."""
    silences: dict[_Key, list[Silence]] = field(default_factory=lambda: defaultdict(list))
    labels: dict[str, list[_LabelValue]] = field(default_factory=lambda: defaultdict(list))
    """Values of assignor, group's type, and application's version, each with its time."""
    lag_steps: list[LagStep] = field(default_factory=list)

    def add(self, record: Sample) -> None:
        """Add a record of a changed attribute."""
        member = member_of(record).key
        after = record.after or ""
        self._add_label("group_type", record, record.group_type)
        if record.field == setting_of(SESSION_TIMEOUT, record.group_type) and is_number(after):
            self._add_session(record, int(after) / 1000)
        before = record.before or ""
        match record.field:
            case "partitions":
                self._add_partitions(record, member)
            case "max.poll.interval.ms" if is_number(after):
                self.max_poll_interval_s[member] = int(after) / 1000
            case "software" | "removed_by":
                texts = self.software if record.field == "software" else self.removed_by
                texts[member] = after
            case "closed" | "silent.ms":
                self._add_end(record, member)
            case "lag" if is_number(before) and is_number(after):
                self.lag_steps.append(LagStep(parse_time(record.ts), int(before), int(after)))
            case "assignor" | "version" | "image":
                self._add_label(record.field, record, after)

    def _add_partitions(self, record: Sample, member: _Key) -> None:
        owned = frozenset(parse_partitions(record.after))
        if record.group_instance_id and record.member_id:
            process = self.latest_process.setdefault(member, record.member_id)
            if not owned and process != record.member_id:
                return  # the other process with its instance id has these partitions already
            self.latest_process[member] = record.member_id
        is_paused = record.reason == FETCHERS_PAUSED
        change = Ownership(parse_time(record.ts), member, owned, is_paused)
        self.ownership.append(change)
        for partition in owned:
            self.first_owned[partition] = min(change.at, self.first_owned.get(partition, change.at))
        insort(self.changes_of_member[member], change, key=lambda each: each.at)

    def find_owned(self, member: _Key, at: float) -> frozenset[str]:
        """Return the partitions that a member had at an instant (Unix seconds)."""
        changes = self.changes_of_member.get(member, ())
        index = bisect_right(changes, at, key=lambda each: each.at)
        return changes[index - 1].owned if index else frozenset()

    def _add_end(self, record: Sample, member: _Key) -> None:
        """Add the end of a member that the others notice later: its close or its last request."""
        at, silent_ms = parse_time(record.ts), record.after or ""
        if record.field == "closed":
            self.closes[member].append(at)
        elif is_number(silent_ms):
            self.silences[member].append(Silence(at - int(silent_ms) / 1000, at))

    def _add_session(self, record: Sample, seconds: float) -> None:
        if has_broker_session(record.group_type):
            self.broker_session_s[record.group_type] = seconds
        else:
            self.session_timeout_s[member_of(record).key] = seconds

    def session_of(self, member: _Key, at: float) -> float | None:
        """Return the session timeout in force at an instant; None if no source shows it."""
        group_type = self.label_at("group_type", at)
        if group_type is not None and has_broker_session(group_type):
            return self.broker_session_s.get(group_type)
        return self.session_timeout_s.get(member)

    def is_session_on_broker(self, at: float) -> bool:
        """Return whether the broker had the session timeout at an instant (Unix seconds)."""
        return has_broker_session(self.label_at("group_type", at))

    def _add_label(self, name: str, record: Sample, text: str) -> None:
        values = self.labels[name]
        if not values or values[-1].text != text:
            values.append(_LabelValue(parse_time(record.ts), text))

    def change_of(self, name: str, since: float, until: float) -> tuple[str, str] | None:
        """Return a label before and after a span (Unix seconds); None if it did not change."""
        values = sorted(self.labels[name])
        before = [value.text for value in values if value.at < since]
        after = [value.text for value in values if value.at <= until + SLACK_S]
        if not before or before[-1] == after[-1]:
            return None
        return before[-1], after[-1]

    def label_at(self, name: str, at: float) -> str | None:
        """Return a label at an instant (Unix seconds), or its first value after that."""
        values = sorted(self.labels[name])
        index = max(0, bisect_right(values, at, key=lambda value: value.at) - 1)
        return values[index].text if values else None

    def stop_of(self, departure: MemberDeparture) -> float:
        """Return the time at which a departed member stopped reading (Unix seconds).

        It may be before the departure: a dropped member read until its last poll, an expired one
        until its last request, or until it gave up its partitions right behind that.
        """
        key = departure.member.key
        if departure.how is DepartureMode.DROPPED:
            is_expired = departure.is_silent and departure.member.group_instance_id is not None
            session_s = self.session_of(key, departure.at) if is_expired else None
            return departure.at - self.max_poll_interval_s.get(key, 0.0) - (session_s or 0.0)
        silent_since = self._silence_of(departure)
        if silent_since is not None:
            return self._last_life_of(departure, silent_since)
        session_s = self.session_of(key, departure.at)
        if session_s is None and self.is_session_on_broker(departure.at):
            session_s = BROKER_SESSION_S  # an assumption: `assumes_session` is true then
        if departure.expired_at is not None and session_s is not None:
            return self._last_life_of(departure, departure.expired_at - session_s)
        if departure.how is not DepartureMode.EXPIRED or not departure.is_silent:
            return departure.at
        return self._last_life_of(departure, departure.at - (session_s or 0.0))

    def assumes_session(self, departure: MemberDeparture) -> bool:
        """Check that `stop_of` uses the broker's default session timeout: no source shows it."""
        is_counted_back = departure.is_silent or departure.expired_at is not None
        return (
            departure.how is DepartureMode.EXPIRED
            and is_counted_back
            and self._silence_of(departure) is None
            and self.is_session_on_broker(departure.at)
            and self.session_of(departure.member.key, departure.at) is None
        )

    def unknown_timeout_of(self, departure: MemberDeparture) -> str | None:
        """Return the name of the timeout that `stop_of` needs and no source shows; else None.

        Without it, `stop_of` is the time of the departure. The cost is then too low, because the
        member stopped reading before.
        """
        key, how = departure.member.key, departure.how
        if how is DepartureMode.DROPPED:
            return None if key in self.max_poll_interval_s else "max.poll.interval.ms"
        is_shown = (
            how is not DepartureMode.EXPIRED
            or departure.closed_at is not None
            or self._silence_of(departure) is not None
            or self.session_of(key, departure.at) is not None
            or self.is_session_on_broker(departure.at)
        )
        return None if is_shown else "session.timeout.ms"

    def _silence_of(self, departure: MemberDeparture) -> float | None:
        """Return the time of an expired member's last request; None if no source shows it."""
        last_at = self._last_assignment_of(departure)
        found = [
            silence.since
            for silence in self.silences.get(departure.member.key, ())
            if silence.since <= departure.at
            # a refused successor shows the silence before the expiry: nothing was assigned since
            and (departure.at <= silence.at or silence.since >= (last_at or departure.at))
        ]
        return max(found) if found and departure.how is DepartureMode.EXPIRED else None

    def _last_life_of(self, departure: MemberDeparture, at: float) -> float:
        """Return ``at``, limited to the time between last assignment and departure.

        A member that gave up its partitions within a heartbeat interval was alive until then.
        """
        last_at = self._last_assignment_of(departure)
        stopped_at = min(departure.at, at if last_at is None else max(at, last_at))
        return self._revocation_of(departure, stopped_at) or stopped_at

    def _revocation_of(self, departure: MemberDeparture, since: float) -> float | None:
        """Return when a member that still had partitions gave up all; None: not right behind.

        A successor that came before the expiry begins without partitions: that is no revocation.
        """
        if departure.expired_at is not None:
            return None
        changes = self.changes_of_member.get(departure.member.key, [])
        index = bisect_right(changes, since, key=lambda each: each.at)
        is_own = 0 < index < len(changes) and changes[index - 1].owned and not changes[index].owned
        session_s = self.session_of(departure.member.key, departure.at) or BROKER_SESSION_S
        until = min(departure.at, since + session_s * HEARTBEAT_SHARE)
        return changes[index].at if is_own and changes[index].at <= until else None

    def _last_assignment_of(self, departure: MemberDeparture) -> float | None:
        """Return the time of a departed member's last assignment; None if no source shows it."""
        changes = self.changes_of_member.get(departure.member.key, [])
        index = bisect_right(changes, departure.at, key=lambda each: each.at) - 1
        while index > 0 and not changes[index].owned:
            index -= 1
        return changes[index].at if index >= 0 else None

    def owned_at(self, member: _Key, at: float) -> frozenset[str]:
        """Return the partitions that a member had at an instant (Unix seconds).

        Partitions that it gave up in the `SLACK_S` before count: a member gives them up at the
        start of a rebalance, or with its leave. Behind its departure it has none: a killed member
        does not report that.
        """
        changes = self.changes_of_member.get(member, [])
        index = bisect_right(changes, at, key=lambda each: each.at) - 1
        if index > 0 and not changes[index].owned and changes[index].at >= at - SLACK_S:
            index -= 1
        if index < 0 or self._has_departed(member, changes[index].at, at):
            return frozenset()
        return changes[index].owned

    def _has_departed(self, member: _Key, since: float, until: float) -> bool:
        """Check that a member departed between two instants (Unix seconds)."""
        exits = self.exits.get(member, ())
        index = bisect_right(exits, since)
        return index < len(exits) and exits[index] < until

    def count_owned(self, member: _Key, at: float) -> int:
        """Return the number of them."""
        return len(self.owned_at(member, at))


def read_attributes(records: Iterable[Sample]) -> dict[tuple[str, str], Attributes]:
    """Return the attributes of all groups, by cluster and group."""
    found: dict[tuple[str, str], Attributes] = defaultdict(Attributes)
    known = list(records)
    seen = find_early_assignments(known)
    for record in known:
        if record.kind is SampleKind.CHANGE and record.id not in seen:
            seen.add(record.id)
            found[record.cluster, record.group].add(record)
    return found
