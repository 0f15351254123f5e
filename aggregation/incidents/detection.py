"""Detection of incidents: each rebalance of a group is added to the incident it follows from. Pure.

Theory of operation. Rebalances come in the order of time. The root of a rebalance is the earliest
cause in it that is no consequence. It begins a new incident, unless it is the return of a member
that an earlier incident dropped, expired or removed, half of a restart, part of a rollout or crash
loop, or a follow-up that an earlier one announced. So kinds rise: a leave is `member_left` until a
successor comes, then `restart`, then `rollout`. Other causes in the same rebalance are its
departures, or stand in `also`.

Source: incidents.md 1a and 2.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.causes import (
    Cause,
    find_retries,
    infer_from_scan,
    is_failed_assignment,
    list_causes,
    was_noticed_at_once,
)
from aggregation.incidents.details import (
    detail_of,
    is_resized,
    list_lost_topics,
    list_new_topics,
)
from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import DepartureMode, IncidentKind, MemberDeparture, RelatedCause
from aggregation.incidents.places import place_key, replaces
from aggregation.incidents.topic_growth import find_growth, find_kept
from aggregation.incidents.waiting import find_vain_wait, find_waits
from aggregation.rebalances.departures import Departure, DepartureKind
from aggregation.rebalances.grouping import EPOCH_NOTICE_S
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from aggregation.rebalances.root_cause import EXPIRY_WAIT_S, Certainty
from aggregation.rebalances.segments import MemberRef, Segment, is_inferred_leave
from metrics.model.sample import Outcome
from metrics.model.signals import streams_thread
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import BROKER_SOURCES

RESTART_S = 600.0
"""A successor that comes this soon makes a departure a restart; so it links rollouts and loops."""
SURGE_S = 120.0
"""So does one that came this soon before it."""
STOP_S = 60.0
"""All members that stop within this are one incident."""
FOLLOW_S = 60.0
"""A leader notices a changed subscription's topics within this (metadata is asked for at once)."""
REJOIN_S = 2.0
"""A process that joins as new this soon after its assignment has not started again."""
LOOP_COUNT = 3
EFFECT_SLACK_S = 1.0
"""Two sources' times of one event differ by less; a cause that is later did not begin it."""
CLOCKS_S = 2.0
"""Clocks of two hosts differ by less."""
CLOSED = "closed without leaving the group"

_MODES = {
    DepartureKind.LEFT: DepartureMode.LEFT,
    DepartureKind.ROLLOUT: DepartureMode.LEFT,
    DepartureKind.SCALE_DOWN: DepartureMode.LEFT,
    DepartureKind.DROPPED: DepartureMode.DROPPED,
    DepartureKind.EXPIRED: DepartureMode.EXPIRED,
    DepartureKind.REMOVED: DepartureMode.REMOVED,
}
_FOLLOW_UPS = {
    IncidentKind.PROBING,
    IncidentKind.VERSION_PROBING,
    IncidentKind.ENDPOINT_UPDATE,
}
_RETURNS = {
    IncidentKind.MEMBER_JOINED,
    IncidentKind.SESSION_EXPIRED,
    IncidentKind.STALE_MEMBER,
    IncidentKind.POLL_TIMEOUT,
    IncidentKind.SUBSCRIPTION_CHANGED,
}
_RESTARTS = {IncidentKind.RESTART, IncidentKind.ROLLOUT, IncidentKind.CRASH_LOOP}
_MERGED = {IncidentKind.MEMBER_JOINED, IncidentKind.MEMBER_LEFT}
"""Several in a row are one incident while their rebalances overlap."""
_ENDS = {DepartureMode.LEFT, DepartureMode.EXPIRED, DepartureMode.FENCED}
"""Departures of members whose process may have ended: only these make a crash loop."""
_DEPARTURES = {
    IncidentKind.MEMBER_LEFT,
    IncidentKind.POLL_TIMEOUT,
    IncidentKind.REMOVED_BY_ADMIN,
    IncidentKind.SESSION_EXPIRED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Away:
    """A member that went and is not back."""

    member: MemberRef
    how: DepartureMode
    at: float
    draft: Draft
    is_closed: bool = False
    """Its consumer was closed, so another process comes back."""


class Stop(NamedTuple):
    """Span in which the last members of a group left, and nobody came. Both are Unix seconds."""

    since: float
    until: float


@dataclass(slots=True)
class GroupHistory:
    """What is known of one group between two of its rebalances."""

    attributes: Attributes = field(default_factory=Attributes)
    stops: Sequence["Stop"] = ()
    """Times in which its last members left."""
    drafts: list[Draft] = field(default_factory=list)
    present: dict[tuple[str, ...], MemberRef] = field(default_factory=dict)
    present_since: dict[tuple[str, ...], float] = field(default_factory=dict)
    """The first sign of each of them: rebalances of new protocols overlap."""
    arrived_at: dict[tuple[str, ...], float] = field(default_factory=dict)
    away: dict[tuple[str, ...], _Away] = field(default_factory=dict)
    steps: dict[tuple[str, ...], list[tuple[float, Draft]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Departures by place, for crash loops."""
    gone_places: set[tuple[str, ...]] = field(default_factory=set)
    """Places that nobody came to since the last departure: several threads go at once."""
    restart: Draft | None = None
    """The latest restart or rollout."""
    synced_at: dict[tuple[str, ...], float] = field(default_factory=dict)
    """When each member got its last assignment."""
    member_ids: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Each member's last one."""
    replaced: set[tuple[str, ...]] = field(default_factory=set)
    """Members that came in this rebalance to the place of one that had gone."""

    def add(self, rebalance: ExplainedRebalance) -> None:
        """Add the next rebalance to the incident that it follows from."""
        causes = [*list_causes(rebalance), *self._infer_joins(rebalance, self.away)]
        if any(map(_is_inferred_join, causes)):  # the others that came with it show no more
            listed = {cause.member for cause in causes}
            came = self._infer_joins(rebalance, None)
            causes += [cause for cause in came if cause.member not in listed]
        noted = _find_first_notes(rebalance)
        rejoins = {cause for cause in causes if self._is_rejoin(cause, noted)}
        causes = [cause for cause in causes if cause not in rejoins]
        self._note_expiry(rebalance, causes)
        self._forget_earlier_drops(rebalance, causes)
        late = self._note_leave(causes) or self._note_drop(causes)
        causes = [cause for cause in causes if cause is not late]
        returns = self._find_returns(causes)
        roots = self._find_lasting_roots(rebalance, [c for c in causes if c not in returns])
        known = None if rebalance.is_after_failure else self._find_draft(rebalance, roots, returns)
        is_more = late is not None or any(map(self._is_repeated, rejoins))
        is_more |= self._is_in_loop(rebalance)
        if known is None and not roots and is_more:
            known = self.drafts[-1]
        draft = known or self._begin(rebalance, roots)
        draft.rebalances.append(rebalance)
        draft.sources |= _find_sources(rebalance)
        draft.waits += find_waits(rebalance, self.present.values())
        self._depart(
            rebalance,
            draft,
            causes,
            returns,
            {cause.member.key for cause in rejoins if cause.is_first},
        )
        for cause, known_away in returns.items():
            away = self.away.get(known_away.member.key)
            if away is None:
                continue  # a second source reports the same return
            is_new = cause.kind is IncidentKind.MEMBER_JOINED
            self._return(
                away,
                cause.member,
                cause.at,
                as_new=is_new and cause.certainty is Certainty.SEEN,
            )
            if not is_new:  # the same process: it did not end
                self._forget_step(away)
        self._bring_back_at_once(rebalance)
        self._note_surges(roots, draft)
        self._update(rebalance)
        if not self.present and not rebalance.round.is_open:
            self._merge_stop()

    def _note_expiry(self, rebalance: ExplainedRebalance, causes: Sequence[Cause]) -> None:
        """Take a member's word that it was removed as the cause of the last round, without it.

        A classic group's members all take part in a rebalance: it was no member any more. In
        groups with owners its partitions show that, if a source shows them.
        """
        last, word = self.drafts[-1] if self.drafts else None, causes[0] if causes else None
        if last is None or word is None or last.kind is not IncidentKind.UNKNOWN:
            return
        is_own = word.kind is IncidentKind.SESSION_EXPIRED and word.source not in BROKER_SOURCES
        has_owners = rebalance.round.group_type in {"consumer", "streams"}
        sees_partitions = bool(self.attributes.ownership)
        if not is_own or (has_owners and sees_partitions) or last.is_ongoing:
            return
        took_part = {s.member.key for each in last.rebalances for s in each.round.consumers}
        key = word.member.key
        if key in took_part or key in self.away or word.at > last.ended_at + RETURN_S:
            return
        last.kind, last.certainty, last.reason = word.kind, word.certainty, word.reason
        last.add_members([word.member])
        at = last.started_at
        went = MemberDeparture(member=word.member, how=DepartureMode.EXPIRED, at=at, is_silent=True)
        self._add_departure(last, went)

    def _forget_earlier_drops(self, rebalance: ExplainedRebalance, causes: Iterable[Cause]) -> None:
        """Let a second drop of a member begin its own incident: it was back, and nobody saw it.

        The log of a muted client shows drops alone.
        """
        dropped = {segment.member.key for segment in rebalance.round.consumers if segment.is_exit}
        for cause in causes:
            key = cause.member.key
            away = self.away.get(key) if key in dropped else None
            if away is None or away.how is not DepartureMode.DROPPED:
                continue
            if cause.kind is IncidentKind.POLL_TIMEOUT and cause.at > away.at + CLOCKS_S:
                del self.away[key]

    def _note_leave(self, causes: Sequence[Cause]) -> Cause | None:
        """Take the leave of a member as the cause of the last round, and return it.

        Its absence there was taken for an expiry: its clock is behind those of the others.
        """
        word = causes[0] if causes else None
        away = None if word is None else self.away.get(word.member.key)
        if word is None or away is None or word.kind is not IncidentKind.MEMBER_LEFT:
            return None
        is_near = word.at <= away.draft.ended_at + CLOCKS_S
        if not (is_near and self._is_expiry_inferred(away)):
            return None
        self._correct_expiry(away, word, DepartureMode.LEFT)
        return word

    def _note_drop(self, causes: Sequence[Cause]) -> Cause | None:
        """Take the drop of a member as the cause of the last round, and return it.

        Its absence there was taken for an expiry, as its line came late: with a logger of its own
        confluent-kafka-python prints what librdkafka has said at the next poll.
        """
        word = causes[0] if causes else None
        away = None if word is None else self.away.get(word.member.key)
        if word is None or away is None or word.kind is not IncidentKind.POLL_TIMEOUT:
            return None
        if not (was_noticed_at_once(word.reason) and self._is_expiry_inferred(away)):
            return None
        self._correct_expiry(away, word, DepartureMode.DROPPED)
        self._forget_step(away)  # its process did not end
        return word

    def _is_expiry_inferred(self, away: _Away) -> bool:
        """Check that the last incident is the expiry of a member, known by its absence alone."""
        draft = away.draft
        is_inferred = draft.certainty is Certainty.INFERRED and away.how is DepartureMode.EXPIRED
        return is_inferred and draft is self.drafts[-1] and list(draft.members) == [away.member]

    def _correct_expiry(self, away: _Away, word: Cause, how: DepartureMode) -> None:
        draft = away.draft
        draft.kind, draft.certainty, draft.reason = word.kind, word.certainty, word.reason
        # a static member that is dropped sends no leave: its session expired behind it
        is_silent = how is DepartureMode.DROPPED and away.member.group_instance_id is not None
        at = draft.started_at
        went = MemberDeparture(member=away.member, how=how, at=at, is_silent=is_silent)
        draft.departures[away.member] = went
        self.away[word.member.key] = replace(away, how=how)

    def _find_lasting_roots(
        self, rebalance: ExplainedRebalance, causes: list[Cause]
    ) -> list[Cause]:
        """Return the causes that can have begun a rebalance; a passing one if there is no other."""
        lasting = [cause for cause in causes if not self._is_passing(cause, rebalance)]
        roots = self._find_roots(rebalance, lasting)
        return (
            roots if roots or len(lasting) == len(causes) else self._find_roots(rebalance, causes)
        )

    def _is_passing(self, cause: Cause, rebalance: ExplainedRebalance) -> bool:
        """Check for metadata without topics that the group reads on with the same partitions.

        A broker that has just started knows them a moment later.
        """
        if cause.kind is not IncidentKind.METADATA_CHANGED or rebalance.round.is_open:
            return False
        kept, is_all = find_kept(self.attributes, cause.at, rebalance.round.ended_at)
        lost = list_lost_topics(cause.reason)
        return bool(kept) and (is_all if lost is None else bool(lost) and kept.issuperset(lost))

    def _find_roots(self, rebalance: ExplainedRebalance, causes: list[Cause]) -> list[Cause]:
        """Return the causes that can have begun a rebalance: none is later than its effect."""
        effects = [
            step.at
            for segment in rebalance.round.consumers
            for step in segment.steps
            if step.code is RebalanceStatus.COORDINATOR_REQUESTED
        ]
        # a member that missed the end of the last round heard of this one there
        last_end = self._last_end()
        own = [at for at in effects if at >= last_end] or effects
        until = min(own, default=float("inf")) + EFFECT_SLACK_S
        if all(cause.at > until or cause.kind in _FOLLOW_UPS for cause in causes):
            new = [*self._infer_joins(rebalance, None), *causes] if self.present else causes
            causes = sorted(new, key=lambda cause: cause.at)
        return causes if any(cause.at <= until for cause in causes[:1]) else []

    def _last_end(self) -> float:
        """Return the end of the group's last rebalance (Unix seconds)."""
        ends = [each.round.ended_at for draft in self.drafts[-1:] for each in draft.rebalances]
        return max(ends, default=float("-inf"))

    def _infer_joins(
        self, rebalance: ExplainedRebalance, among: Container[tuple[str, ...]] | None
    ) -> list[Cause]:
        """Return the joins of members ``among`` some, or of unknown ones, that no line shows."""
        known = {*self.present, *self.away}
        gone = {segment.member.key for segment in rebalance.round.consumers if segment.is_exit}
        return [
            Cause(
                kind=IncidentKind.MEMBER_JOINED,
                at=rebalance.round.started_at,
                member=segment.member,
                reason="it joined without a visible cause",
                certainty=Certainty.INFERRED,
            )
            for segment in rebalance.round.consumers
            if segment.is_round
            and not segment.steps
            and segment.member.key not in gone  # its own return
            and (
                segment.member.key not in known
                if among is None
                else segment.member.key in among or self._has_new_id(segment)
            )
        ]

    def _has_new_id(self, segment: Segment) -> bool:
        """Check that a member has another id than before: it is another process.

        Streams' threads have names of their own, and join again for their instance.
        """
        before = self.member_ids.get(segment.member.key)
        is_other = before is not None and segment.member_id not in {None, before}
        return is_other and streams_thread(segment.member.client_id) is None

    def _find_returns(self, causes: Iterable[Cause]) -> dict[Cause, _Away]:
        """Return the departure that each cause is the return of: one successor for each."""
        found: dict[Cause, _Away] = {}
        successors: dict[MemberRef, MemberRef] = {}
        names = Counter(member.client_id for member in self.present.values())
        for cause in causes:
            away = self._find_away(cause, successors, names)
            if away is not None:
                found[cause] = away
                successors[away.member] = cause.member
        return found

    def _find_away(
        self, cause: Cause, successors: Mapping[MemberRef, MemberRef], names: Mapping[str, int]
    ) -> _Away | None:
        """Return the departure that a cause is the return of; ``successors`` are by who went.

        ``names`` are how many present members have each client id.
        """
        if cause.kind not in _RETURNS:
            return None
        away = self.away.get(cause.member.key)
        if away is None and cause.kind is IncidentKind.MEMBER_JOINED:
            away = self._find_predecessor(cause, successors, names)
        if away is None or not away.at <= cause.at <= away.at + RETURN_S:
            return None
        is_own = away.how is not DepartureMode.LEFT
        return away if is_own or cause.at <= away.at + RESTART_S else None

    def _find_predecessor(
        self, cause: Cause, successors: Mapping[MemberRef, MemberRef], names: Mapping[str, int]
    ) -> _Away | None:
        if cause.member.key in self.present:
            return None
        is_shared = names.get(cause.member.client_id, 0) > 0
        for away in self.away.values():
            in_time = away.at <= cause.at <= away.at + RESTART_S
            is_free = successors.get(away.member, cause.member) == cause.member
            if in_time and is_free and replaces(cause.member, away.member, is_shared=is_shared):
                return away
        return None

    def _find_draft(
        self, rebalance: ExplainedRebalance, roots: Sequence[Cause], returns: dict[Cause, _Away]
    ) -> Draft | None:
        """Return the incident that a rebalance belongs to; None: it begins one."""
        last = self.drafts[-1] if self.drafts else None
        earliest = min([*roots, *returns], key=lambda cause: cause.at, default=None)
        if earliest in returns:
            return returns[earliest].draft
        if earliest is None or last is None:
            return None
        checks = {
            **dict.fromkeys(_FOLLOW_UPS, self._is_announced),
            IncidentKind.TASK_CONFIGURATION: self._fails_again,
        }
        if earliest.kind is IncidentKind.METADATA_CHANGED:
            return last if self._is_noticed(last, earliest, rebalance.round.ended_at) else None
        if earliest.kind in checks:
            return last if checks[earliest.kind](last, earliest) else None
        overlaps = earliest.at < last.ended_at and last.rebalances != []
        is_alone = {cause.kind for cause in roots} == {earliest.kind}
        if overlaps and earliest.kind is last.kind in _MERGED and is_alone:
            last.add_members(cause.member for cause in roots)
            return last
        return None

    def _fails_again(self, last: Draft, cause: Cause) -> bool:
        """Check for one more assignment with an error, of Connect's workers that join again."""
        if not is_failed_assignment(cause.reason) or last.kind is not cause.kind:
            return False
        pause_s = RESTART_S if is_failed_assignment(last.reason) else FOLLOW_S
        return cause.at <= last.ended_at + pause_s

    def _is_in_loop(self, rebalance: ExplainedRebalance) -> bool:
        """Check for a round of Connect's workers right after one whose assignment had an error."""
        last = self.drafts[-1] if self.drafts else None
        is_loop = last is not None and is_failed_assignment(last.reason)
        return is_loop and rebalance.round.started_at <= self.drafts[-1].ended_at + REJOIN_S

    def _is_announced(self, last: Draft, cause: Cause) -> bool:
        """Check that an incident's assignment demanded a follow-up: at once, or at a set time."""
        is_scheduled = cause.kind is IncidentKind.PROBING
        return is_scheduled or cause.at <= last.ended_at + EPOCH_NOTICE_S

    def _is_noticed(self, last: Draft, cause: Cause, until: float) -> bool:
        """Check that a leader notices the topics of a changed subscription, or of a new member.

        A topic that it has known with another number of partitions has changed by itself: its
        words show that, or what the members read before and ``until`` then.
        """
        changed = last.kind is IncidentKind.SUBSCRIPTION_CHANGED or last.kind in _RESTARTS
        if not changed or cause.at > last.ended_at + FOLLOW_S or is_resized(cause.reason):
            return False
        grown = find_growth(self.attributes, cause.at, until)
        return all(topic.before is None for topic in grown)

    def _begin(self, rebalance: ExplainedRebalance, roots: Sequence[Cause]) -> Draft:
        draft = self._draft_of(rebalance, roots)
        is_expiry = draft.kind is IncidentKind.SESSION_EXPIRED
        if is_expiry and all(self._find_close(each, draft.started_at) for each in draft.members):
            # its own last words are better evidence than its absence
            draft.kind, draft.certainty = IncidentKind.MEMBER_LEFT, Certainty.SEEN
            draft.reason = CLOSED
        self.drafts.append(draft)
        return draft

    def _find_close(self, member: MemberRef, at: float) -> float | None:
        """Return the time of a close without a leave of a member that is gone at an instant."""
        since = self.synced_at.get(member.key, float("-inf"))
        closes = self.attributes.closes.get(member.key, ())
        last = max((each for each in closes if since <= each <= at + CLOCKS_S), default=None)
        changes = self.attributes.changes_of_member.get(member.key, ())
        # a static member came back, and its group did not notice
        is_back = last is not None and any(c.owned and last < c.at <= at for c in changes)
        return None if is_back else last

    def _draft_of(self, rebalance: ExplainedRebalance, roots: Sequence[Cause]) -> Draft:
        at, trigger = rebalance.round.started_at, rebalance.trigger
        if rebalance.is_after_failure and trigger.member is not None:
            draft = Draft(IncidentKind.JOIN_FAILED, at, Certainty.SEEN, trigger.reason)
            draft.add_members([trigger.member])
            return draft
        if not roots:
            return self._draft_without_cause(rebalance)
        root = next((each for each in roots if _explains_subscription(each, roots[0])), roots[0])
        roots = [each for each in roots if not _explains_subscription(root, each)]
        draft = Draft(root.kind, min(at, root.at), root.certainty, root.reason)
        same = [cause for cause in roots if cause.kind is root.kind]
        details = (detail_of(cause.kind, cause.reason) for cause in same)
        draft.detail = next(filter(None, details), {})
        if lost := list_lost_topics(root.reason) if self._is_passing(root, rebalance) else None:
            draft.detail = {"unseen_topics": lost}
        if root.kind.is_caused_by_a_member:
            draft.add_members(cause.member for cause in same)
        others = [c for c in roots if c.kind is not root.kind and c.kind not in _DEPARTURES]
        for cause in others:
            if cause.kind is IncidentKind.COORDINATOR_MOVED:
                draft.detail = draft.detail | detail_of(cause.kind, cause.reason)
        kinds = dict.fromkeys(cause.kind for cause in others if cause.kind not in _FOLLOW_UPS)
        draft.also = [
            RelatedCause(kind, tuple(dict.fromkeys(c.member for c in others if c.kind is kind)))
            for kind in kinds
        ]
        return draft

    def _draft_without_cause(self, rebalance: ExplainedRebalance) -> Draft:
        """Return what is known where no cause was seen: an expiry, a failed join, or nothing."""
        round_ = rebalance.round
        is_short = round_.own_seconds <= EXPIRY_WAIT_S
        if rebalance.absent and is_short and not round_.is_open:
            return self._draft_of_expiry(rebalance, rebalance.absent)
        if (removed := self._find_removed(rebalance)) and not round_.is_open:
            return self._draft_of_expiry(rebalance, removed)
        retry = find_retries(rebalance)
        if retry is not None and retry.at <= round_.started_at + STOP_S:
            return self._draft_of_retry(rebalance, retry)
        scan = infer_from_scan(rebalance)
        if scan is not None:
            return Draft(scan.kind, round_.started_at, scan.certainty, scan.reason)
        return Draft(IncidentKind.UNKNOWN, round_.started_at, Certainty.UNKNOWN)

    def _draft_of_expiry(
        self, rebalance: ExplainedRebalance, members: Iterable[MemberRef]
    ) -> Draft:
        at = rebalance.round.started_at
        draft = Draft(IncidentKind.SESSION_EXPIRED, at, Certainty.INFERRED)
        draft.add_members(members)
        return draft

    def _find_removed(self, rebalance: ExplainedRebalance) -> list[MemberRef]:
        """Return the members that learn within a rebalance that they had been removed before it.

        A frozen member may be back before the others have their assignment.
        """
        return [
            cause.member
            for cause in list_causes(rebalance)
            if cause.kind is IncidentKind.SESSION_EXPIRED
            and cause.source not in BROKER_SOURCES
            and cause.member.key in self.present
        ]

    def _draft_of_retry(self, rebalance: ExplainedRebalance, retry: Cause) -> Draft:
        """Return what a join that the coordinator could not serve shows.

        A member that was not there before joins as new. One alone had sent its join for a reason
        that nobody saw; several have met a coordinator that moved.
        """
        at = rebalance.round.started_at
        if retry.member.key not in self.present:
            draft = Draft(IncidentKind.MEMBER_JOINED, at, Certainty.INFERRED, retry.reason)
            draft.add_members([retry.member])
            return draft
        if len({segment.member.key for segment in rebalance.round.consumers}) == 1:
            return Draft(IncidentKind.UNKNOWN, at, Certainty.UNKNOWN, retry.reason)
        draft = Draft(IncidentKind.COORDINATOR_MOVED, at, Certainty.SEEN, retry.reason)
        draft.detail = detail_of(draft.kind, retry.reason)
        return draft

    def _depart(
        self,
        rebalance: ExplainedRebalance,
        draft: Draft,
        causes: Sequence[Cause],
        returns: dict[Cause, _Away],
        rejoined: Container[tuple[str, ...]],
    ) -> None:
        """Add those that went in a rebalance, each once, to its incident; not who ``rejoined``."""
        back = {cause.member.key for cause in returns}
        gone = {c.member: MemberDeparture(member=c.member, how=DepartureMode.REMOVED, at=c.at)
                for c in causes if c.kind is IncidentKind.REMOVED_BY_ADMIN}  # fmt: skip
        new = {c.member.key for c in causes if c.kind is IncidentKind.MEMBER_JOINED}
        new -= self.present.keys() | self.away.keys()
        for went in rebalance.departures:
            key = went.member.key
            if went.kind is DepartureKind.EXPIRED and (key in new or key in rejoined):
                continue  # its first join was lost, or it has another member id now
            gone.setdefault(went.member, _departure(went, draft, rebalance))
        joined = [cause for cause in causes if cause.kind is IncidentKind.MEMBER_JOINED]
        restarted = [(c.member, c.at) for c in filter(self._is_unexpired, joined)]
        gone = {
            c.member: _replacement(c, rebalance) for c in joined if self._is_unexpired(c)
        } | gone
        for member, departure in _match_successors(gone, causes, restarted):
            is_return = member.key in back and departure.how is DepartureMode.EXPIRED
            is_known = departure.returned_at is None and member.key in self.away
            if not (is_return or is_known):
                self._add_departure(draft, departure)
        if draft.kind is IncidentKind.MEMBER_JOINED:  # with the departures: places are counted
            for member, at in restarted:
                self._restarts(draft, member, at)

    def _is_rejoin(self, cause: Cause, noted: Mapping[tuple[str, ...], float]) -> bool:
        """Check for a process that joins again under another member id.

        Its join was refused within this rebalance, as the broker ``noted``, or an error came right
        after its assignment: no process starts again that fast.
        """
        if cause.kind is not IncidentKind.MEMBER_JOINED or not self._is_unexpired(cause):
            return False
        key = cause.member.key
        joined_before = noted.get(key, float("inf")) < cause.at
        return not cause.is_first or joined_before or self._is_repeated(cause)

    def _is_repeated(self, cause: Cause) -> bool:
        """Check for a join right after an assignment: it goes on with what that belonged to."""
        synced_at = self.synced_at.get(cause.member.key, float("-inf"))
        return synced_at <= cause.at <= synced_at + REJOIN_S

    def _is_unexpired(self, cause: Cause) -> bool:
        """Check for a new process of a member that the coordinator still knows."""
        key = cause.member.key
        is_known = key in self.present and self.present_since[key] <= cause.at
        return is_known and key not in self.away

    def _add_departure(self, draft: Draft, departure: MemberDeparture) -> None:
        if departure.how is DepartureMode.EXPIRED:
            closed_at = self._find_close(departure.member, departure.at)
            departure = replace(departure, closed_at=closed_at)
        draft.depart(departure)
        place = place_key(departure.member)
        is_end = departure.how in _ENDS and not is_inferred_leave(draft.reason)
        if departure.how is DepartureMode.LEFT and departure.returned_at is None:
            is_end &= not any(stop.since <= departure.at <= stop.until for stop in self.stops)
        if place not in self.gone_places and is_end:
            self.steps[place].append((departure.at, draft))
        self.gone_places.add(place)
        if departure.returned_at is None:
            self.away[departure.member.key] = _Away(
                member=departure.member,
                how=departure.how,
                at=departure.at,
                draft=draft,
                is_closed=departure.closed_at is not None,
            )
        self._find_loop(departure.member, departure.at)

    def _bring_back_at_once(self, rebalance: ExplainedRebalance) -> None:
        """Note the members that went and came back within one rebalance, and who is still out."""
        for segment in rebalance.round.consumers:
            away = self.away.get(segment.member.key)
            if away is None:
                continue
            if segment.is_exit:
                away.draft.is_pending = away.draft.is_pending or segment.is_out
            elif segment.outcome is Outcome.SYNCED and segment.ended_at > away.at:
                at = segment.ended_at if segment.joined_at is None else segment.joined_at
                self._return(away, away.member, max(at, away.at))

    def _return(self, away: _Away, member: MemberRef, at: float, *, as_new: bool = False) -> None:
        """Note that a member, or its successor, is back: a restart, if it is another process."""
        self.away.pop(away.member.key, None)
        self.replaced.add(member.key)
        away.draft.bring_back(away.member, at, as_new=as_new)
        is_other = place_key(away.member) != place_key(member)
        if away.draft.kind is IncidentKind.MEMBER_LEFT and is_inferred_leave(away.draft.reason):
            away.draft.kind = IncidentKind.RESTART  # its process has gone on: no rollout, no loop
            return
        is_restart = away.how is DepartureMode.LEFT or away.is_closed or is_other
        if is_restart and away.draft.kind in {
            IncidentKind.MEMBER_LEFT,
            IncidentKind.SESSION_EXPIRED,
            *_RESTARTS,
        }:
            self._restarts(away.draft, away.member, away.at)

    def _restarts(self, draft: Draft, member: MemberRef, at: float) -> None:
        """Raise an incident to a restart, and to a rollout with the one before."""
        if draft.kind not in _RESTARTS:
            draft.kind = IncidentKind.RESTART
        if draft.kind is not IncidentKind.CRASH_LOOP:
            draft.add_members([member])
        before, self.restart = self.restart, draft
        if before is None or before is draft or before.kind is IncidentKind.CRASH_LOOP:
            self._rise_to_rollout(draft)
            return
        places = {place_key(each) for each in before.members}
        is_near = at <= before.last_step_at + RESTART_S
        if is_near and places.isdisjoint(place_key(each) for each in draft.members):
            self._merge(before, draft)
            self.restart = before
        self._rise_to_rollout(self.restart)

    def _rise_to_rollout(self, draft: Draft) -> None:
        if draft.kind is not IncidentKind.RESTART:
            return
        back = {place_key(d.member) for d in draft.departures.values() if d.returned_at is not None}
        if len(back) > 1:
            draft.kind = IncidentKind.ROLLOUT

    def _forget_step(self, away: _Away) -> None:
        place = place_key(away.member)
        self.steps[place] = [step for step in self.steps[place] if step[0] != away.at]
        self.gone_places.discard(place)

    def _find_loop(self, member: MemberRef, at: float) -> None:
        """Merge what one place did into a crash loop, from the third time on."""
        place = place_key(member)
        recent = [(when, draft) for when, draft in self.steps[place] if when >= at - RESTART_S]
        self.steps[place] = recent
        if len({round(when, 3) for when, _ in recent}) < LOOP_COUNT:
            return
        drafts = list(dict.fromkeys(draft for _, draft in recent))
        first = drafts[0]
        for other in drafts[1:]:
            self._merge(first, other)
        if first.kind is not IncidentKind.CRASH_LOOP:
            first.members.clear()  # those that came and went once only are no part of the loop
        first.kind = IncidentKind.CRASH_LOOP
        first.add_members([member])

    def _note_surges(self, roots: Iterable[Cause], draft: Draft) -> None:
        """Link a member that leaves with the successor that came shortly before."""
        left = [cause for cause in roots if cause.kind is IncidentKind.MEMBER_LEFT]
        names = Counter(member.client_id for member in self.present.values()) if left else {}
        for cause in left:
            self._note_surge(cause, draft, names)

    def _note_surge(self, cause: Cause, draft: Draft, names: Mapping[str, int]) -> None:
        gone = cause.member
        if cause.at - self.arrived_at.get(gone.key, float("-inf")) <= SURGE_S:
            return
        is_shared = names.get(gone.client_id, 0) - (gone.key in self.present) > 1
        for arrived, at in self.arrived_at.items():
            member = self.present.get(arrived)
            if member is None or arrived == gone.key or not 0 <= cause.at - at <= SURGE_S:
                continue
            if replaces(member, gone, is_shared=is_shared):
                self._surge(member, at, cause, draft)
                return

    def _surge(self, successor: MemberRef, at: float, cause: Cause, draft: Draft) -> None:
        """Make one restart of a successor's join and the leave after it."""
        self.arrived_at.pop(successor.key)
        self.away.pop(cause.member.key, None)
        draft.bring_back(cause.member, cause.at)
        joined = [
            each
            for each in self.drafts
            if each.kind is IncidentKind.MEMBER_JOINED and successor in each.members
        ]
        for each in joined[-1:]:
            each.members.pop(successor)
            if not each.members:
                self._merge(draft, each)
        self._restarts(draft, cause.member, at)

    def _update(self, rebalance: ExplainedRebalance) -> None:
        """Learn who is there now."""
        for departure in rebalance.departures:
            self.present.pop(departure.member.key, None)
        self._note_arrivals(rebalance)
        for segment in rebalance.round.consumers:
            stays = segment.is_open or segment.outcome is Outcome.SYNCED
            if segment.member_id is not None:
                self.member_ids[segment.member.key] = segment.member_id
            if segment.outcome is Outcome.SYNCED:
                self.synced_at[segment.member.key] = segment.ended_at
            if stays and not segment.is_exit:
                if segment.member.key not in self.present:
                    self.present_since[segment.member.key] = segment.started_at
                self.present[segment.member.key] = segment.member
            elif segment.is_exit:
                self.present.pop(segment.member.key, None)

    def _note_arrivals(self, rebalance: ExplainedRebalance) -> None:
        """Learn who came as new, and to no one's place."""
        for arrival in rebalance.arrivals:
            self.gone_places.discard(place_key(arrival.member))
            key = arrival.member.key
            if key in self.replaced:
                self.arrived_at.pop(key, None)  # its place is known: it is nobody else's successor
            elif key not in self.present:
                self.arrived_at[key] = arrival.at
        self.replaced.clear()

    def _merge_stop(self) -> None:
        """Merge the leaves of a group of which no member is left."""
        run: list[Draft] = []
        for draft in reversed(self.drafts):
            is_near = not run or run[0].started_at - draft.started_at <= STOP_S
            if draft.kind is not IncidentKind.MEMBER_LEFT or not is_near:
                break
            run.append(draft)
        first = run[-1] if run else None
        for draft in reversed(run[:-1]):
            if first is not None:
                self._merge(first, draft)

    def _merge(self, first: Draft, other: Draft) -> None:
        if other is first or other not in self.drafts:
            return
        first.absorb(other)
        self.drafts.remove(other)
        if self.restart is other:
            self.restart = first
        for key, away in list(self.away.items()):
            if away.draft is other:
                self.away[key] = replace(away, draft=first)
        for place, steps in self.steps.items():
            self.steps[place] = [(at, first if each is other else each) for at, each in steps]


def _match_successors(
    gone: Mapping[MemberRef, MemberDeparture],
    causes: Sequence[Cause],
    restarted: list[tuple[MemberRef, float]],
) -> Iterator[tuple[MemberRef, MemberDeparture]]:
    """Yield the departures; one whose successor came before it expired is added to restarts."""
    joined = [cause for cause in causes if cause.kind is IncidentKind.MEMBER_JOINED]
    for member, departure in gone.items():
        is_open = departure.how is DepartureMode.EXPIRED and departure.returned_at is None
        if not is_open:
            yield member, departure
            continue
        successor = next(
            (
                cause
                for cause in joined
                if cause.member.key != member.key and replaces(cause.member, member, is_shared=True)
            ),
            None,
        )
        if successor is None:
            yield member, departure
            continue
        joined.remove(successor)
        restarted.append((member, successor.at))
        yield member, replace(departure, returned_at=max(departure.at, successor.at))


def _is_inferred_join(cause: Cause) -> bool:
    return cause.kind is IncidentKind.MEMBER_JOINED and cause.certainty is Certainty.INFERRED


def _explains_subscription(news: Cause, change: Cause) -> bool:
    """Check that the topics that a member adds are new to its leader: its pattern matches them."""
    kinds = (news.kind, change.kind)
    if kinds != (IncidentKind.METADATA_CHANGED, IncidentKind.SUBSCRIPTION_CHANGED):
        return False
    added = detail_of(change.kind, change.reason).get("added")
    return bool(added) and added == list_new_topics(news.reason)


def _find_sources(rebalance: ExplainedRebalance) -> set[str]:
    """Return the sources of what began each member's part, and of what ended it."""
    found = {segment.source for segment in rebalance.round.segments}
    for segment in rebalance.round.segments:
        found |= {step.source for step in (*segment.steps, *segment.notes)}
    return found - {""}


def _find_first_notes(rebalance: ExplainedRebalance) -> dict[tuple[str, ...], float]:
    """Return when the broker first reported each member."""
    found: dict[tuple[str, ...], float] = {}
    for segment in rebalance.round.segments:
        for note in segment.notes:
            if note.source in BROKER_SOURCES:
                key = segment.member.key
                found[key] = min(note.at, found.get(key, note.at))
    return found


def _replacement(cause: Cause, rebalance: ExplainedRebalance) -> MemberDeparture:
    """Return the end of a process that another one replaced before its session expired."""
    return MemberDeparture(
        member=cause.member,
        how=DepartureMode.EXPIRED,
        at=cause.at,
        returned_at=cause.at,
        expired_at=None if rebalance.round.is_open else rebalance.round.ended_at,
    )


def _departure(
    departure: Departure, draft: Draft, rebalance: ExplainedRebalance
) -> MemberDeparture:
    """Return a departure; a member that was removed may have said so later than the others."""
    is_expiry = departure.kind is DepartureKind.EXPIRED and departure.member in draft.members
    is_inferred = is_expiry and draft.certainty is Certainty.INFERRED
    is_absent = departure.member in rebalance.absent
    by_others = is_absent or departure.source in BROKER_SOURCES
    at = min(departure.at, rebalance.round.started_at) if is_inferred else departure.at
    waited = find_vain_wait(rebalance) if is_absent and not is_inferred else None
    return MemberDeparture(
        member=departure.member,
        how=_MODES[departure.kind],
        at=at,
        is_silent=by_others or is_inferred,
        expired_at=None if waited is None else waited[1],
    )
