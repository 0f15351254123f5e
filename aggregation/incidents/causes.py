"""Causes within one rebalance: the actions of each of its members, by kind and time. Pure.

Consequences are no causes: CoordinatorRequested (1), the follow-ups of a cooperative assignor, the
follow-up that Kafka Streams triggers at once (semantics.md 4a and 6).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aggregation.incidents.model import IncidentKind
from aggregation.rebalances.causes import cause_of, list_steps
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty, find_removals
from aggregation.rebalances.segments import (
    DROPPED_GROUP,
    MemberRef,
    Segment,
    Step,
    is_inferred_leave,
)
from metrics.model.sample import CONFIGURED, Outcome, Scope
from metrics.model.signals import streams_thread
from metrics.model.status import RebalanceStatus

_KINDS = {
    RebalanceStatus.NEW_MEMBER: IncidentKind.MEMBER_JOINED,
    RebalanceStatus.UNKNOWN_MEMBER: IncidentKind.SESSION_EXPIRED,
    RebalanceStatus.STALE_MEMBER: IncidentKind.STALE_MEMBER,
    RebalanceStatus.DROPPED_GROUP: IncidentKind.POLL_TIMEOUT,
    RebalanceStatus.USER_REQUESTED: IncidentKind.ENFORCED,
    RebalanceStatus.METADATA_CHANGED: IncidentKind.METADATA_CHANGED,
    RebalanceStatus.SUBSCRIPTION_CHANGED: IncidentKind.SUBSCRIPTION_CHANGED,
    RebalanceStatus.RETRY_ON_ERROR: IncidentKind.COORDINATOR_MOVED,
    RebalanceStatus.ASSIGNMENT_PROBING: IncidentKind.PROBING,
    RebalanceStatus.VERSION_PROBING: IncidentKind.VERSION_PROBING,
    RebalanceStatus.ENDPOINT_UPDATE: IncidentKind.ENDPOINT_UPDATE,
}

NOT_STORED = re.compile(r"(?i)error(?: (?P<error>\w+))? when storing group assignment")
# GroupCoordinator.doSyncGroup; 2.x prints no name
TOPICS_SCANNED = re.compile(r": (?P<news>\d+ topics to match, \d+ before)")
PATTERNS_CHANGED = re.compile(r": (?P<news>other regular expressions, .*)")
# agent.sources.broker_logs.membership: since 4.0 a broker matches the members' expressions
_ASSIGNMENT_FAILED = re.compile(
    r"Assignment\{error=[1-9]\d*,|Join group completed, but (?:the )?assignment failed"
    r"|assignment failed: [A-Z_]+ at"
)
# DistributedHerder.RebalanceListener.onAssigned and handleRebalanceCompleted; agent.wire.members
_EXCEEDED = re.compile(r"\bexceeded by (?P<ms>\d+)ms\b")
# librdkafka's rd_kafka_cgrp_max_poll_interval_check_tmr_cb, each half second
NOTICED_MS = 1_000
"""A client that runs notices an exceeded poll interval within this; one that was frozen later."""
_EXITS = {RebalanceStatus.USER_REQUESTED, DROPPED_GROUP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One thing that a member did, or that was done to it. ``at`` is Unix seconds."""

    kind: IncidentKind
    at: float
    member: MemberRef
    reason: str | None = None
    certainty: Certainty = Certainty.SEEN
    source: str = ""
    is_first: bool = True
    """False: the member was in a rebalance already."""


def was_noticed_at_once(reason: str | None) -> bool:
    """Check that a client ran when its poll interval passed, even if its log line came later."""
    exceeded = _EXCEEDED.search(reason or "")
    return exceeded is not None and int(exceeded["ms"]) < NOTICED_MS


def list_causes(rebalance: ExplainedRebalance) -> list[Cause]:
    """Return the causes of a rebalance, the earliest first."""
    found = [cause for segment in rebalance.round.segments for cause in _of_segment(segment)]
    found += [
        _cause(note, IncidentKind.REMOVED_BY_ADMIN)
        for note in find_removals(rebalance.round).values()
    ]
    found += _infer_join(rebalance)
    removed = {c.member for c in found if c.kind is IncidentKind.REMOVED_BY_ADMIN}
    return sorted(
        (c for c in found if not (c.member in removed and c.kind is IncidentKind.SESSION_EXPIRED)),
        key=lambda cause: cause.at,
    )


def is_failed_assignment(reason: str | None) -> bool:
    """Check that Connect's workers got an error instead of an assignment: they join again.

    The configuration of one worker is older than that of the others, or a different one.
    """
    return reason is not None and _ASSIGNMENT_FAILED.search(reason) is not None


def infer_from_scan(rebalance: ExplainedRebalance) -> Cause | None:
    """Return the cause that a broker's match of regular expressions shows; None if there is none.

    Its member may be any: the broker prints the expressions of all members in one line.
    """
    words = (
        (kind, step, found["news"])
        for segment in rebalance.round.segments
        for step in segment.steps
        for kind, pattern in _SCANS.items()
        if (found := pattern.search(step.reason or "")) is not None
    )
    for kind, step, news in words:
        return replace(_cause(step, kind), reason=news, certainty=Certainty.INFERRED)
    return None


_PATTERN_MATCHED = "subscription updated from metadata change"
"""librdkafka's log, where its pattern matches other topics; the same member's new subscription on
the wire names them. Whichever is read first, it is one cause."""
_SCANS = {
    IncidentKind.METADATA_CHANGED: TOPICS_SCANNED,
    IncidentKind.SUBSCRIPTION_CHANGED: PATTERNS_CHANGED,
}


def find_retries(rebalance: ExplainedRebalance) -> Cause | None:
    """Return the first join or sync that the coordinator could not serve (9)."""
    found = (
        _cause(step, IncidentKind.COORDINATOR_MOVED)
        for segment in rebalance.round.segments
        for step in segment.steps
        if step.code is RebalanceStatus.RETRY_ON_ERROR
    )
    return min(found, key=lambda cause: cause.at, default=None)


def _of_segment(segment: Segment) -> Iterator[Cause]:
    if segment.is_exit and segment.scope is Scope.STREAMS:
        return  # its threads leave
    if segment.is_exit:
        yield _exit(segment)
    has_change = any(step.code is RebalanceStatus.SUBSCRIPTION_CHANGED for step in segment.steps)
    for step in list_steps(segment):
        kind = _kind_of(step, segment)
        if kind is not None and not (has_change and step.reason == _PATTERN_MATCHED):
            yield _cause(step, kind)
    is_failed = is_failed_assignment(segment.shown)
    if is_failed or (not segment.steps and _is_configured(segment.shown)):
        yield Cause(
            kind=IncidentKind.TASK_CONFIGURATION,
            at=segment.ended_at if is_failed else segment.started_at,
            member=segment.member,
            reason=segment.shown,
            certainty=Certainty.SEEN if is_failed else Certainty.INFERRED,
            source=segment.source,
        )


def _is_configured(shown: str | None) -> bool:
    """Check for an assignment that rests on a newer configuration of Connect's workers."""
    return shown is not None and shown.startswith(CONFIGURED)


def _exit(segment: Segment) -> Cause:
    last = segment.steps[-1] if segment.steps else None
    is_left = segment.outcome is Outcome.LEFT
    reason = None if last is None else last.reason
    return Cause(
        kind=IncidentKind.MEMBER_LEFT if is_left else IncidentKind.POLL_TIMEOUT,
        at=segment.ended_at,
        member=segment.member,
        reason=reason,
        certainty=Certainty.INFERRED if is_inferred_leave(reason) else Certainty.SEEN,
        source=segment.source,
    )


def _kind_of(step: Step, segment: Segment) -> IncidentKind | None:
    code = cause_of(step)
    if is_failed_assignment(step.reason):
        return IncidentKind.TASK_CONFIGURATION
    if step.code is RebalanceStatus.RETRY_ON_ERROR and _is_store_error(step):
        return IncidentKind.COORDINATOR_MOVED
    if code is None or (
        segment.is_exit and code in {RebalanceStatus.USER_REQUESTED, DROPPED_GROUP}
    ):
        return None
    if code is RebalanceStatus.METADATA_CHANGED and segment.protocol_type == "connect":
        return IncidentKind.TASK_CONFIGURATION
    if code is RebalanceStatus.USER_REQUESTED and _is_by_streams(step):
        return IncidentKind.PROBING
    return _KINDS.get(code)


def _is_store_error(step: Step) -> bool:
    """Check that the coordinator could not store an assignment."""
    return step.reason is not None and NOT_STORED.search(step.reason) is not None


def _is_by_streams(step: Step) -> bool:
    """Check that Kafka Streams enforced a rebalance: before 3.2 it gives no reason (4a)."""
    return step.reason is None and streams_thread(step.member.client_id) is not None


def _infer_join(rebalance: ExplainedRebalance) -> Iterator[Cause]:
    """Yield the new member that began a rebalance, if its join is the only evidence of it."""
    trigger = rebalance.trigger
    is_new = trigger.code is RebalanceStatus.NEW_MEMBER
    if trigger.certainty is Certainty.INFERRED and trigger.member is not None and is_new:
        yield Cause(
            kind=IncidentKind.MEMBER_JOINED,
            at=trigger.at,
            member=trigger.member,
            reason=trigger.reason,
            certainty=Certainty.INFERRED,
        )


def _cause(step: Step, kind: IncidentKind) -> Cause:
    return Cause(
        kind=kind,
        at=step.at,
        member=step.member,
        reason=step.reason,
        source=step.source,
        is_first=step.before is RebalanceStatus.NONE,
    )
