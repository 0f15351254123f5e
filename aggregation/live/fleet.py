"""Status of members now, from many agents' records.

Theory of operation. Each agent's records arrive in its own order, and only they move the rows of
members that it sees. Members that one agent cannot distinguish share a row: its status is the max
over their open episodes. The rows of a silent agent are not shown: no data is no series. Once it is
back they are shown again, as its records hold the time between.

Several agents may see one member: beside its client, on the wire, in the brokers' logs. Their rows
are shown as one, by the rules that join records in the history (`aggregation.live.member_names`),
and its status is their max. An episode that another broker's log has ended does not count.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from math import inf

import msgspec

from aggregation.live.fleet_index import FleetIndex, FleetRow
from aggregation.live.fleet_member import (
    NONE,
    FleetMember,
    FleetMemberKey,
    OpenEpisode,
    apply_record,
    find_left_at,
    find_removed,
    hand_over,
    is_back,
)
from aggregation.live.member_names import MemberName, find_moved, find_unconfirmed
from metrics.model.sample import Sample, SampleKind, Scope, parse_time
from metrics.model.snapshot import GroupKey, MemberRow, StatusCounts
from metrics.model.status import RebalanceStatus
from metrics.model.transition import peak
from metrics.tracking.source_traits import BROKER_SOURCES
from metrics.tracking.status_track import StatusConfig

SILENT_S = 90.0
"""An agent sends periodic samples every 15 s; after this long without any, it is silent."""
GONE_S = 900.0
"""After this long its rows are evicted: pods come and go; a later return takes 15 s to refill."""
_SAMPLES_S = 15.0
"""Interval of an agent's periodic samples, where it is not known."""
_SAMPLED_LATE_S = 10.0
"""A sample is made this much later than its time, at most: sources read with a delay."""
_NO_COUNTS = StatusCounts({}, {}, {})


class Fleet:
    """All members, by agent; the longest silent are evicted when there are too many."""

    def __init__(self, config: StatusConfig, state: object = None) -> None:
        """Start empty or from a `state`."""
        self._config = config
        self._rows: dict[FleetMemberKey, FleetMember] = {}
        self._contact_at: dict[str, float] = {}
        self._groups: dict[GroupKey, None] = {}
        self._sampled_at: dict[str, float] = {}
        self._intervals_s: dict[str, float] = {}
        """Seconds between the last two periodic samples of an agent."""
        self._idle_at: dict[str, float] = {}
        self._holders: dict[tuple[str, str], FleetMemberKey] = {}
        """By spool and episode: the row in which that is open."""
        self.evicted = 0
        if state is not None:
            saved = msgspec.convert(state, _FleetState)
            self._rows = dict(saved.rows)
            self._contact_at = saved.heard
            self._intervals_s = saved.intervals
            self._groups = dict.fromkeys(saved.groups)
            self._index_episodes()
        self._index = FleetIndex(self._rows)

    def state(self) -> object:
        """Return the state for a restart, in JSON types."""
        saved = _FleetState(
            list(self._rows.items()), self._contact_at, list(self._groups), self._intervals_s
        )
        return msgspec.to_builtins(saved)

    def record_contact(self, spool: str, now: float) -> None:
        """Note a sign of life of an agent."""
        self._contact_at[spool] = now

    def record_idle(self, spool: str, now: float) -> None:
        """Note that an agent has nothing left to send.

        One whose last member is gone has no samples any more.
        """
        self._idle_at[spool] = now

    def apply(self, spool: str, record: Sample) -> None:
        """Apply one record, in its agent's order."""
        if record.scope not in {Scope.CONSUMER, Scope.STREAMS}:
            return
        key, row = self._get_or_create(spool, record)
        heard_at = self._contact_at.get(spool, inf)
        at = min(parse_time(record.ts), heard_at)  # a clock may be ahead
        episode = record.episode
        if episode is not None:
            self._hand_over(spool, episode, key, row)
        if apply_record(row, record, at, heard_at):
            self._index.add(key, row)
        if episode is not None and episode in row.open:
            self._holders[spool, episode] = key
            self._bound_episodes()
        if record.kind is SampleKind.SAMPLE:
            before = self._sampled_at.get(spool, at)
            if at > before:
                self._intervals_s[spool] = at - before
            self._sampled_at[spool] = max(at, before)

    def _bound_episodes(self) -> None:
        """Forget the oldest open episodes: a hostile agent may end none."""
        while len(self._holders) > 2 * self._config.members:
            (spool, episode), key = next(iter(self._holders.items()))
            del self._holders[spool, episode]
            row = self._rows.get(key)
            if row is not None:
                row.open.pop(episode, None)
            self.evicted += 1

    def _index_episodes(self) -> None:
        self._holders = {
            (key.spool, episode): key for key, row in self._rows.items() for episode in row.open
        }

    def _hand_over(self, spool: str, episode: str, key: FleetMemberKey, row: FleetMember) -> None:
        """Give an open episode to ``row`` if its agent had other labels for the member before.

        The log of a member that the wire has shown first names another host.
        """
        before = self._holders.pop((spool, episode), key)
        holder = self._rows.get(before)
        if before != key and holder is not None and episode in holder.open:
            hand_over(episode, holder, row)
            self._index.add(key, row)

    def rows(self, scope: Scope, now: float) -> Iterator[MemberRow]:
        """Return the members of live agents; evict those that left long ago."""
        self._evict(now)
        over = self._find_over(now)
        for of_scope, name, parts in self._index.members():
            shown = self._list_shown(parts, over, now)
            if of_scope == scope and shown and not self._has_left(parts, now):
                yield self._member_row(name, shown, over, now)

    def groups(self) -> tuple[GroupKey, ...]:
        """Return every group seen so far."""
        known: dict[str, set[str]] = defaultdict(set)
        for each in self._groups:
            known[each.group] |= {each.cluster} - {""}
        only = {group: next(iter(names)) for group, names in known.items() if len(names) == 1}
        return tuple(
            dict.fromkeys(
                each if each.cluster else each._replace(cluster=only.get(each.group, ""))
                for each in self._groups
            )
        )

    def unseen(self, now: float) -> frozenset[tuple[str, str]]:
        """Return cluster and name of groups with a member that no live agent shows now."""
        over = self._find_over(now)
        return frozenset(
            (name.cluster, name.group)
            for _, name, parts in self._index.members()
            if find_left_at(row for _, row in parts) is None
            and not self._list_shown(parts, over, now)
        )

    def _find_over(self, now: float) -> Container[tuple[str, str]]:
        """Return spool and name of each open episode that another agent has seen end, or lost."""
        found: set[tuple[str, str]] = set()
        for group in self._index.groups():
            rows = group.rows.items()
            if any(row.open and row.source in BROKER_SOURCES for _, row in rows):
                found |= find_moved(rows, group.names)
            if any(row.lost_at is not None for _, row in rows) and any(row.open for _, row in rows):
                found |= find_unconfirmed(rows, group.names, now)
        return found

    def _list_shown(
        self, parts: Sequence[FleetRow], over: Container[tuple[str, str]], now: float
    ) -> Sequence[FleetRow]:
        """Return the rows of a member whose agents live and know its status.

        Without a status that is lost nothing is known. If an agent has lost it, neither does the
        row count that the agent had under the member's earlier labels.
        """
        lost = {key.spool: row.lost_at for key, row in parts if row.lost_at is not None}
        return [
            (key, row)
            for key, row in parts
            if row.known
            and now < self._contact_at.get(key.spool, -inf) + SILENT_S
            and (row.seen_at or inf) >= (lost.get(key.spool) or -inf)
            and (
                not lost or not row.open or any((key.spool, each) not in over for each in row.open)
            )
        ]

    def _get_or_create(self, spool: str, record: Sample) -> FleetRow:
        key = FleetMemberKey(
            spool,
            record.cluster,
            record.group,
            record.scope,
            record.client_id or "",
            record.group_instance_id or "",
            record.host,
        )
        row = self._rows.pop(key, None)
        if row is None:
            row = FleetMember(
                app=record.app, group_type=record.group_type, since_at=parse_time(record.ts)
            )
            self._groups.setdefault(
                GroupKey(record.cluster, record.app, record.group, record.group_type)
            )
            self._keep_bounds()
            self._index.add(key, row)
        self._rows[key] = row
        return key, row

    def _keep_bounds(self) -> None:
        while len(self._rows) >= self._config.members:
            oldest = next(iter(self._rows))
            del self._rows[oldest]
            self._index.remove(oldest)
            self.evicted += 1
        while len(self._groups) > self._config.groups:
            del self._groups[next(iter(self._groups))]
            self.evicted += 1

    def _evict(self, now: float) -> None:
        """Drop the rows of agents that are gone, of members that left, and of forgotten members."""
        self._forget_agents(now)
        gone: set[FleetMemberKey] = set()
        for _, _, parts in self._index.members():
            has_left = self._has_left(parts, now)
            for key, row in parts:
                if has_left and row.left_at is None:
                    row.left_at = row.active_at  # this agent did not see it
                if self._is_unneeded(key, row, parts, has_left=has_left):
                    gone.add(key)
        if gone:
            kept = {key: row for key, row in self._rows.items() if key not in gone}
            self._forget_groups(kept)
            for key in gone:
                self._index.remove(key)
            self._rows = kept
            self._index_episodes()

    def _forget_agents(self, now: float) -> None:
        """Forget the times of agents that are gone."""
        self._contact_at = {
            spool: at for spool, at in self._contact_at.items() if now < at + GONE_S
        }
        for of_spool in (self._sampled_at, self._intervals_s, self._idle_at):
            for spool in of_spool.keys() - self._contact_at.keys():
                del of_spool[spool]

    def _has_left(self, parts: Sequence[FleetRow], now: float) -> bool:
        """Whether a member has left so long ago that it is shown no more."""
        if all(row.left_at is None and row.removed is None for _, row in parts):
            return False  # nearly all members
        rows = [row for _, row in parts]
        removed = find_removed(rows)
        if removed is not None and not self._has_client(parts):
            left_at: float | None = removed.since_at  # only the brokers' logs have it
        else:
            left_at = None if is_back(rows) else find_left_at(rows)
        return left_at is not None and now >= left_at + self._config.forget_after_s

    def _has_client(self, parts: Sequence[FleetRow]) -> bool:
        """Whether a member's own side is watched, too: its log or its connection, all of them.

        An agent forgets a member whose connection has ended.
        """
        clients = [(key, row) for key, row in parts if row.source not in BROKER_SOURCES]
        return bool(clients) and all(self._is_sampled(key, row) for key, row in clients)

    def _sampled_to(self, spool: str) -> float | None:
        """Return up to when an agent's samples are known (Unix seconds); None: it has sent none."""
        sampled_at, idle_at = self._sampled_at.get(spool), self._idle_at.get(spool)
        if idle_at is None:
            return sampled_at
        interval_s = self._intervals_s.get(spool, _SAMPLES_S)
        return max(sampled_at or -inf, idle_at - interval_s - _SAMPLED_LATE_S)

    def _is_sampled(self, key: FleetMemberKey, row: FleetMember) -> bool:
        """Whether an agent's last periodic samples have the member."""
        sampled_at = self._sampled_to(key.spool)
        return sampled_at is not None and row.seen_at is not None and row.seen_at >= sampled_at

    def _is_unneeded(
        self, key: FleetMemberKey, row: FleetMember, parts: Sequence[FleetRow], *, has_left: bool
    ) -> bool:
        """Whether an agent is gone, or has forgotten a member and shows nothing about it."""
        if key.spool not in self._contact_at:
            return True
        if has_left:
            return not self._is_sampled(key, row)
        return self._is_forgotten(key, row) and not _shows_loss(row, parts)

    def _is_forgotten(self, key: FleetMemberKey, row: FleetMember) -> bool:
        """Whether an agent samples its other members, and has not sampled this one for long."""
        sampled_at = self._sampled_to(key.spool)
        if sampled_at is None or row.seen_at is None:
            return False
        return sampled_at - row.seen_at >= self._config.forget_after_s

    def _forget_groups(self, kept: Mapping[FleetMemberKey, FleetMember]) -> None:
        """Drop each group with a last member that disappeared together with its agent.

        If its last member has left, the group stays, at status 0.
        """
        there = {(key.cluster, key.group) for key in kept}
        gone = {
            (key.cluster, key.group)
            for key, row in self._rows.items()
            if key not in kept and row.left_at is None
        }
        self._groups = {
            group: None
            for group in self._groups
            if (group.cluster, group.group) not in gone - there
        }

    def _member_row(
        self,
        name: MemberName,
        parts: Sequence[FleetRow],
        over: Container[tuple[str, str]],
        now: float,
    ) -> MemberRow:
        """Return a member's row: the max of what its agents show."""
        rows = [row for _, row in parts]
        left_at = find_left_at(rows)
        ended_ids = {episode for row in rows for episode in row.ended}
        open_ones = [
            held
            for key, row in parts
            for episode, held in row.open.items()
            if episode not in ended_ids
            if (key.spool, episode) not in over and not _is_over(row, held, left_at)
        ]
        removed = find_removed(rows)
        stale_s = self._config.stale_after_s
        if removed and self._has_client(parts) and now < removed.since_at + stale_s:
            open_ones.append(removed)
        lingers = left_at is not None and now < left_at + self._config.linger_s
        if open_ones:
            held = max(open_ones, key=lambda each: (each.status, -each.since_at))
        else:
            status = RebalanceStatus.USER_REQUESTED if lingers else NONE
            ended = max(rows, key=lambda row: row.since_at)
            held = OpenEpisode(status, ended.since_at, ended.reason)
        window_s = self._config.peak_window_s
        by_generation = sorted(
            rows, key=lambda row: -1 if row.generation is None else row.generation, reverse=True
        )
        latest = by_generation[0]
        attributes = _merge_attributes([*rows, latest])
        return MemberRow(
            cluster=name.cluster,
            app=latest.app,
            group=name.group,
            group_type=latest.group_type,
            client_id=name.client_id,
            host=name.host,
            status=held.status,
            peak=max(peak(held.status, row.steps, now, window_s) for row in rows),
            since_at=held.since_at,
            reason=held.reason,
            member_id=next((row.member_id for row in by_generation if row.member_id), None),
            group_instance_id=name.group_instance_id or None,
            assignor=attributes.get("assignor"),
            assignors=tuple(names.split(",")) if (names := attributes.get("assignors")) else None,
            software=attributes.get("software"),
            generation=latest.generation,
            counts=_NO_COUNTS,
        )


def _merge_attributes(rows: Sequence[FleetMember]) -> dict[str, str]:
    """Return a member's attributes; of an attribute with several values the last row's is shown."""
    return {name: value for row in rows for name, value in row.attributes.items()}


def _shows_loss(row: FleetMember, parts: Iterable[FleetRow]) -> bool:
    """Whether an agent has lost a status that another agent of the member still shows."""
    return row.lost_at is not None and any(other.open for _, other in parts)


def _is_over(row: FleetMember, held: OpenEpisode, left_at: float | None) -> bool:
    """Whether another agent has seen the member leave since; a drop is a leave on the wire, too."""
    if left_at is None or row.left_at is not None:
        return False
    return held.status is not RebalanceStatus.DROPPED_GROUP


class _FleetState(msgspec.Struct):
    rows: list[tuple[FleetMemberKey, FleetMember]]
    heard: dict[str, float]
    groups: list[GroupKey]
    intervals: dict[str, float] = {}
