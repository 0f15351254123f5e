"""Inspection as a source: polls the groups in the background; a scrape shows the last poll."""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from agent.errors import ConfigError
from agent.inspection.connection.broker_pool import BrokerPool
from agent.inspection.connection.errors import BrokerError, RefusedError
from agent.inspection.group_configs import GroupSession
from agent.inspection.lag import GroupLag, total_lag
from agent.inspection.lag_growth import GroupLagLevel, LagFollower
from agent.inspection.membership_diff import (
    AttributeChange,
    GroupSnapshot,
    MembershipChange,
    MembershipTracker,
)
from agent.inspection.model import Failure, GroupState, GroupType
from agent.inspection.poller import Poller, PollLimits, PollResult
from agent.sources.base import Detach, Emit, SourceHealth
from agent.sources.inspection.config import GroupsSourceConfig
from metrics.model.sample import Sample, SampleKind, Scope, digest, format_time
from metrics.model.signals import SourceKind
from metrics.model.snapshot import InspectedGroup, InspectedMember
from metrics.model.status import RebalanceStatus

log = logging.getLogger(__name__)

_JITTER = 0.1
_MAX_LAGS = 20
"""Limit of groups with lag in one poll, without ``lag: true``."""
_SHARE_GROUP = "share"
_QUIET = {GroupState.STABLE, GroupState.EMPTY}
"""States in which a group does not rebalance."""
_REFUSED_PAUSE_MAX_S = 300.0
"""Wrong credentials stay wrong: attempts back off up to this, so that no account is locked."""


class GroupsSource:
    """Polls one cluster's groups. It emits no signals: group states are exported as they are."""

    kind = "groups"

    def __init__(  # noqa: PLR0913 - what the configuration and the world give
        self,
        config: GroupsSourceConfig,
        *,
        cluster: str,
        brokers: Callable[[], BrokerPool],
        is_watched: Callable[[str], bool],
        app_of: Callable[[str], str] = str,
        limits: PollLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``cluster`` is the label; without one it is the cluster's own id."""
        self.name = config.name
        self.health = SourceHealth()
        self._config, self._cluster, self._cluster_id = config, cluster, ""
        self._brokers, self._watched = brokers, is_watched
        self._app_of, self._clock, self._limits = app_of, clock, limits
        self._findings: list[Sample] = []
        self._lags: dict[str, GroupLag] = {}
        self._sessions: dict[str, GroupSession] = {}
        self._tracker, self._growth = MembershipTracker(), LagFollower()
        self._fault = ""

    async def run(self, emit: Emit, detach: Detach) -> None:
        """Poll until cancelled; the connections are kept from poll to poll."""
        del emit, detach
        brokers, refused = self._brokers(), 0
        by_partition = self._config.lag_by_partition
        poller = Poller(brokers, self._watched, by_partition=by_partition, limits=self._limits)
        try:
            while True:
                began_s = time.monotonic()
                try:
                    polled = await poller.poll(self._tracker.groups.keys())
                    changes = self._update(polled)
                    refused = 0
                    await self._read_lags(polled.groups, changes, poller)
                    self._record_changes(changes)
                    self._record_growth(changes, polled.gone)
                    self._record_sessions(polled, await poller.sessions(polled.groups))
                except (BrokerError, ConfigError) as error:  # a file of a secret can be missing
                    self._fail(error)
                    refused += isinstance(error, RefusedError | ConfigError)
                self.health.read_bytes = brokers.read_bytes
                self.health.lag_s = time.monotonic() - began_s
                await asyncio.sleep(self._pause_s(refused))
        finally:
            await brokers.close()

    def watermark(self, now: float) -> float:
        """Return ``now``: no signal waits for a poll."""
        return now

    def checkpoint(self) -> dict[str, Any]:
        """Return nothing: the first poll restores everything."""
        return {}

    def group_states(self) -> tuple[InspectedGroup, ...]:
        """Return every group as of the last poll that could describe it."""
        return tuple(
            InspectedGroup(
                cluster=self.cluster,
                group=each.snapshot.group,
                group_type=each.snapshot.type.lower(),
                state=each.snapshot.state.value,
                members=None if each.snapshot.members is None else len(each.snapshot.members),
                generation=each.snapshot.epoch,
                changes=each.changes,
                lags=self._lags.get(each.snapshot.group, ()) if self._config.lag else (),
                who=each.snapshot.members or frozenset(),
            )
            for each in self._tracker.groups.values()
        )

    def findings(self) -> Sequence[Sample]:
        """Return the changes of groups since the last call: members, moves, lag."""
        found, self._findings = self._findings, []
        return found

    async def _read_lags(
        self,
        polled: Sequence[GroupSnapshot],
        changes: Sequence[MembershipChange],
        poller: Poller,
    ) -> None:
        """Read the lag of every group, or without ``lag`` of some that have changed."""
        if not self._config.lag:
            changed = {each.group for each in changes if each.group_type != _SHARE_GROUP}
            polled = [each for each in polled if each.group in changed][:_MAX_LAGS]
        lags = await poller.lags(polled) if polled else {}
        self._count_faults([each for each in lags.values() if isinstance(each, Failure)])
        self._lags = {group: lag for group, lag in lags.items() if not isinstance(lag, Failure)}

    def _record_changes(self, changes: Sequence[MembershipChange]) -> None:
        """Record changes, with the lag of some groups."""
        for change in changes:
            lag = None
            if change.group_type != _SHARE_GROUP:
                lag = total_lag(self._lags.get(change.group, ()))
            at = self._clock()
            self._findings.append(self._finding(change, at, lag))
            self._findings += self._attribute_records(change, at)

    def _finding(self, change: MembershipChange, at: float, lag: int | None) -> Sample:
        ts, group = format_time(at), change.group
        watched = self._tracker.groups.get(group)
        who = _only_member(change)
        joined = who is not None and who in change.joined
        return Sample(
            id=digest(Scope.GROUP, self.cluster, group, SampleKind.SIGNAL, ts),
            kind=SampleKind.SIGNAL,
            ts=ts,
            cluster=self.cluster,
            app=self._app_of(group),
            group=group,
            group_type=change.group_type,
            scope=Scope.GROUP,
            client_id=None if who is None else who.client_id,
            member_id=None if who is None else who.member_id,
            host="" if who is None else who.host,
            to=RebalanceStatus.NEW_MEMBER.value if joined else None,
            status=RebalanceStatus.NEW_MEMBER.label if joined else None,
            reason=_reason(change),
            generation=None if watched is None else watched.snapshot.epoch,
            source=SourceKind.ADMIN,
            gained=change.moved,
            lag=lag,
        )

    def _record_growth(self, changes: Sequence[MembershipChange], gone: Iterable[str]) -> None:
        """Record how the lag of disturbed groups grows, and when it is as before."""
        if not self._config.lag:
            return
        self._growth.forget(gone)
        at, disturbed = self._clock(), {each.group for each in changes}
        for change in self._growth.update(self._lag_levels(disturbed), at):
            snapshot = self._tracker.groups[change.group].snapshot
            changed = AttributeChange("lag", str(change.before), str(change.after))
            ts = format_time(at)
            self._findings.append(
                self._change_record(snapshot.type.lower(), snapshot.group, changed, ts)
            )

    def _record_sessions(self, polled: PollResult, found: dict[str, GroupSession]) -> None:
        """Record a session timeout at the broker that is new or another one."""
        ts, types = format_time(self._clock()), {each.group: each.type for each in polled.groups}
        for group in polled.gone:
            self._sessions.pop(group, None)
        for group, session in found.items():
            known = self._sessions.get(group)
            if known == session:
                continue
            is_same = known is not None and known.setting == session.setting
            before = known.value_ms if known is not None and is_same else None
            changed = AttributeChange(session.setting, before, session.value_ms)
            self._findings.append(self._change_record(types[group].lower(), group, changed, ts))
            self._sessions[group] = session

    def _lag_levels(self, disturbed: Collection[str]) -> Iterator[GroupLagLevel]:
        """Yield the lags of the last poll that are known; share groups do not rebalance."""
        for group, lag in self._lags.items():
            known, total = self._tracker.groups.get(group), total_lag(lag)
            if (
                known is not None
                and total is not None
                and known.snapshot.type is not GroupType.SHARE
            ):
                is_quiet = known.snapshot.state in _QUIET and group not in disturbed
                yield GroupLagLevel(group, total, not is_quiet)

    def _attribute_records(self, change: MembershipChange, at: float) -> Iterator[Sample]:
        """Return a record for each changed attribute of a group."""
        for each in change.attributes:
            yield self._change_record(change.group_type, change.group, each, format_time(at))

    def _change_record(
        self, group_type: str, group: str, change: AttributeChange, ts: str
    ) -> Sample:
        return Sample(
            id=digest(Scope.GROUP, self.cluster, group, SampleKind.CHANGE, change.field, ts),
            kind=SampleKind.CHANGE,
            ts=ts,
            cluster=self.cluster,
            app=self._app_of(group),
            group=group,
            group_type=group_type,
            scope=Scope.GROUP,
            source=SourceKind.ADMIN,
            subject="group",
            field=change.field,
            before=change.before,
            after=change.after,
        )

    def _pause_s(self, refused: int) -> float:
        interval_s = self._config.interval_s
        if refused:
            interval_s = max(interval_s, min(interval_s * 2**refused, _REFUSED_PAUSE_MAX_S))
        return interval_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret

    @property
    def cluster(self) -> str:
        """Return the label: the configured name, else the id of the last poll."""
        return self._cluster or self._cluster_id

    def _update(self, polled: PollResult) -> list[MembershipChange]:
        self._cluster_id = polled.cluster_id
        changes = list(self._tracker.update(polled.groups, polled.gone))
        self._tracker.update_listed(polled.undescribed)
        for change in changes:
            keys = {
                "group": change.group,
                "group_type": change.group_type,
                "joined": len(change.joined),
                "left": len(change.left),
            }
            log.info("membership_changed", extra=keys)
        self.health.up = True
        errors = Counter(each.reason for each in polled.down)
        errors["too_many"] += polled.excess > 0
        for reason, count in (+errors).items():
            self.health.errors[reason] = self.health.errors.get(reason, 0) + count
        self._count_faults(polled.failures)
        texts = [each.error for each in polled.down]
        texts += [f"{each.group}: {each.error}" for each in polled.failures[:1]]
        if polled.excess:
            texts.append(f"limits.groups: {polled.excess} more groups are not described")
        self._log_fault("groups_partial", "; ".join(texts))
        return changes

    def _count_faults(self, failures: Sequence[Failure]) -> None:
        """Count the groups that failed, and each broker that did once."""
        faults = {each.error if each.is_of_broker else each.group: each for each in failures}
        for each in faults.values():
            reason = each.code.lower()
            self.health.errors[reason] = self.health.errors.get(reason, 0) + 1

    def _fail(self, error: BrokerError | ConfigError) -> None:
        reason = error.reason if isinstance(error, BrokerError) else "config"
        self.health.up = False
        self.health.errors[reason] = self.health.errors.get(reason, 0) + 1
        self._log_fault("groups_not_inspected", str(error))

    def _log_fault(self, event: str, fault: str) -> None:
        """Log each change of state once."""
        if fault and not self._fault:
            log.warning(event, extra={"source": self.name, "error": fault})
        elif self._fault and not fault:
            log.info("groups_inspected_again", extra={"source": self.name})
        self._fault = fault


def _reason(change: MembershipChange) -> str:
    text = f"{len(change.joined)} joined, {len(change.left)} left"
    for each in change.attributes:
        if each.field == "assignor":
            text += f"; assignor {each.after}, before {each.before}"
    return text


def _only_member(change: MembershipChange) -> InspectedMember | None:
    """Return the member that joined or left, or None unless there is exactly one."""
    members = change.joined | change.left
    return next(iter(members)) if len(members) == 1 else None
