"""First drafts of incidents, from the rebalance that begins them. Pure.

Kinds rise later (`aggregation.incidents.detection`).
"""

from collections.abc import Container, Iterable, Sequence

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.causes import (
    Cause,
    find_retries,
    infer_from_scan,
    list_causes,
)
from aggregation.incidents.details import detail_of, list_lost_topics, list_new_topics
from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import IncidentKind, RelatedCause
from aggregation.incidents.topic_growth import find_kept
from aggregation.rebalances.departures import STOP_S
from aggregation.rebalances.grouping import NOTICE_S
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.root_cause import Certainty, may_have_waited
from aggregation.rebalances.segments import MemberRef
from metrics.tracking.source_traits import BROKER_SOURCES

_EARLY_S = 1.0
"""A session, from the last request that was seen, may end so late: the clocks' difference."""
_Keys = Container[tuple[str, ...]]
_DEPARTURES = {
    IncidentKind.MEMBER_LEFT,
    IncidentKind.POLL_TIMEOUT,
    IncidentKind.REMOVED_BY_ADMIN,
    IncidentKind.SESSION_EXPIRED,
}


def open_draft(
    rebalance: ExplainedRebalance,
    roots: Sequence[Cause],
    present: _Keys,
    attributes: Attributes,
) -> Draft:
    """Return the incident that a rebalance begins; ``present`` are its members before it."""
    at, trigger = rebalance.round.started_at, rebalance.trigger
    if rebalance.is_after_failure and trigger.member is not None:
        draft = Draft(IncidentKind.JOIN_FAILED, at, Certainty.SEEN, trigger.reason)
        draft.add_members([trigger.member])
        return draft
    if not roots:
        return _draft_without_cause(rebalance, present, attributes)
    root = next((each for each in roots if _explains_subscription(each, roots[0])), roots[0])
    roots = [
        each
        for each in roots
        if not (_explains_subscription(root, each) or _is_fetched(each, root))
    ]
    draft = Draft(root.kind, min(at, root.at), root.certainty, root.reason)
    same = [cause for cause in roots if cause.kind is root.kind]
    details = (detail_of(cause.kind, cause.reason) for cause in same)
    draft.detail = next(filter(None, details), {})
    if lost := list_lost_topics(root.reason) if is_passing(root, rebalance, attributes) else None:
        draft.detail = {"unseen_topics": lost}
    if root.kind.is_caused_by_a_member:
        draft.add_members(cause.member for cause in same)
    others = list_others(draft, roots)
    for cause in others:
        if cause.kind is IncidentKind.COORDINATOR_MOVED:
            draft.detail = draft.detail | detail_of(cause.kind, cause.reason)
    draft.also = relate(others)
    return draft


def list_others(draft: Draft, causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes of a rebalance that are independent of its incident."""
    gone = draft.members if draft.kind is IncidentKind.MEMBER_LEFT else {}
    return [
        cause
        for cause in causes
        if cause.kind is not draft.kind
        and cause.kind not in _DEPARTURES
        and not (cause.kind is IncidentKind.MEMBER_JOINED and cause.member in gone)  # it is back
    ]


def relate(others: Sequence[Cause]) -> list[RelatedCause]:
    """Return independent causes by kind, with their members; follow-ups are none."""
    kinds = dict.fromkeys(cause.kind for cause in others if not cause.kind.is_follow_up)
    return [
        RelatedCause(kind, tuple(dict.fromkeys(c.member for c in others if c.kind is kind)))
        for kind in kinds
    ]


def _explains_subscription(news: Cause, change: Cause) -> bool:
    """Check that the topics that a member adds are new to its leader: its pattern matches them."""
    return _has_same_topics(news, change) and not _is_fetched(news, change)


def _is_fetched(news: Cause, change: Cause) -> bool:
    """Check that a leader sees the topics to which it has just subscribed: a consequence."""
    is_own = news.member == change.member and change.at < news.at
    return is_own and _has_same_topics(news, change)


def _has_same_topics(news: Cause, change: Cause) -> bool:
    """Check that the topics that are new to a leader are those that a member adds."""
    kinds = (news.kind, change.kind)
    if kinds != (IncidentKind.METADATA_CHANGED, IncidentKind.SUBSCRIPTION_CHANGED):
        return False
    added = detail_of(change.kind, change.reason).get("added")
    return bool(added) and added == list_new_topics(news.reason)


def is_passing(cause: Cause, rebalance: ExplainedRebalance, attributes: Attributes) -> bool:
    """Check for metadata that lack topics, though the group still reads all their partitions.

    A broker that has just started does not know all topics for a moment. A member that leaves
    within the rebalance that it began has another reason: Kafka Streams fails if topics have grown.
    """
    if cause.kind is not IncidentKind.METADATA_CHANGED or rebalance.round.is_open:
        return False
    if any(each.is_exit and each.member == cause.member for each in rebalance.round.consumers):
        return False
    kept, is_all = find_kept(attributes, cause.at, rebalance.round.ended_at)
    lost = list_lost_topics(cause.reason)
    return bool(kept) and (is_all if lost is None else bool(lost) and kept.issuperset(lost))


def _draft_without_cause(
    rebalance: ExplainedRebalance, present: _Keys, attributes: Attributes
) -> Draft:
    """Return the incident of a rebalance without a visible cause.

    It is an inferred expiry, a join that the coordinator could not serve, a match of regular
    expressions, or unknown.
    """
    round_ = rebalance.round
    if rebalance.absent and not may_have_waited(round_):
        return _draft_of_expiry(rebalance, rebalance.absent)
    if (removed := _find_removed(rebalance, present)) and not round_.is_open:
        return _draft_of_expiry(rebalance, removed)
    if expired := find_expired(rebalance.absent, round_.started_at, attributes):
        return _draft_of_expiry(rebalance, expired)
    retry = find_retries(rebalance)
    if retry is not None and retry.at <= round_.started_at + STOP_S:
        return _draft_of_retry(rebalance, retry, present)
    scan = infer_from_scan(rebalance)
    if scan is not None:
        return Draft(scan.kind, round_.started_at, scan.certainty, scan.reason)
    return Draft(IncidentKind.UNKNOWN, round_.started_at, Certainty.UNKNOWN)


def _draft_of_expiry(rebalance: ExplainedRebalance, members: Iterable[MemberRef]) -> Draft:
    at = rebalance.round.started_at
    draft = Draft(IncidentKind.SESSION_EXPIRED, at, Certainty.INFERRED)
    draft.add_members(members)
    return draft


def find_expired(absent: Iterable[MemberRef], at: float, attributes: Attributes) -> list[MemberRef]:
    """Return the absent members whose sessions ended as the others were asked to join, ``at``.

    Their last requests and their session timeouts were seen.
    """
    return [
        member
        for member in absent
        if (session_s := attributes.session_of(member.key, at)) is not None
        and any(
            -_EARLY_S <= at - (silence.since + session_s) <= NOTICE_S
            for silence in attributes.silences.get(member.key, ())
        )
    ]


def _find_removed(rebalance: ExplainedRebalance, present: _Keys) -> list[MemberRef]:
    """Return the members that learn within a rebalance that they were removed before it.

    A frozen member may return before the others have their assignment.
    """
    return [
        cause.member
        for cause in list_causes(rebalance)
        if cause.kind is IncidentKind.SESSION_EXPIRED
        and cause.source not in BROKER_SOURCES
        and cause.member.key in present
    ]


def _draft_of_retry(rebalance: ExplainedRebalance, retry: Cause, present: _Keys) -> Draft:
    """Return the incident of a join that the coordinator could not serve.

    A member that was absent before joins as new. If the rebalance has a single member, the reason
    of its join is unknown. If it has several, the coordinator moved.
    """
    at = rebalance.round.started_at
    if retry.member.key not in present:
        draft = Draft(IncidentKind.MEMBER_JOINED, at, Certainty.INFERRED, retry.reason)
        draft.add_members([retry.member])
        return draft
    if len({segment.member.key for segment in rebalance.round.consumers}) == 1:
        return Draft(IncidentKind.UNKNOWN, at, Certainty.UNKNOWN, retry.reason)
    draft = Draft(IncidentKind.COORDINATOR_MOVED, at, Certainty.SEEN, retry.reason)
    draft.detail = detail_of(draft.kind, retry.reason)
    return draft
