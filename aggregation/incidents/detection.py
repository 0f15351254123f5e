"""Detection of incidents: each rebalance of a group is added to the incident it follows from. Pure.

Theory of operation. Rebalances come in the order of time. The root of a rebalance is the earliest
cause in it that is no consequence. It begins a new incident, unless it is the return of a member
that an earlier incident dropped, expired or removed, half of a restart, part of a rollout or crash
loop, or a follow-up that an earlier one announced. So kinds rise: a leave is `member_left` until a
successor comes, then `restart`, then `rollout`. Other causes in the same rebalance are its
departures, or stand in `also`.

Source: incidents.md 1a and 2.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import islice

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.causes import Cause, list_causes, was_noticed_at_once
from aggregation.incidents.drafts import Draft
from aggregation.incidents.follow_ups import (
    is_delayed,
    is_follow_up,
    is_in_loop,
    is_rejoin_of_changed,
)
from aggregation.incidents.model import DepartureMode, IncidentKind, MemberDeparture
from aggregation.incidents.openings import (
    find_expired,
    is_passing,
    list_others,
    open_draft,
    relate,
)
from aggregation.incidents.places import is_other_release, list_releases, place_key, replaces
from aggregation.incidents.presence import AwayMember, Presence, find_first_notes
from aggregation.incidents.restarts import (
    RESTART_S,
    RESTARTS,
    RestartHistory,
    Stop,
)
from aggregation.incidents.silent_ends import SilentEnd, find_silent_ends, find_unnoticed_ends
from aggregation.incidents.static_leaves import find_static_leave
from aggregation.incidents.waiting import find_vain_wait, find_waits
from aggregation.rebalances.departures import STOP_S, Departure, DepartureKind
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from aggregation.rebalances.root_cause import (
    EFFECT_SLACK_S,
    Certainty,
    find_first_request,
    joined_after,
    may_have_waited,
)
from aggregation.rebalances.segments import MemberRef, is_inferred_leave
from metrics.model.sample import Outcome
from metrics.model.status import RebalanceStatus
from metrics.tracking.source_traits import BROKER_SOURCES

SURGE_S = 120.0
"""A successor that came this soon before a departure makes it a restart, too."""
CLOCKS_S = 2.0
"""Clocks of two hosts differ by less."""
CLOSED = "closed without leaving the group"
LATE_RETURN = "it joined again, long after it had been dropped"

_MODES = {
    DepartureKind.LEFT: DepartureMode.LEFT,
    DepartureKind.ROLLOUT: DepartureMode.LEFT,
    DepartureKind.SCALE_DOWN: DepartureMode.LEFT,
    DepartureKind.STOPPED: DepartureMode.LEFT,
    DepartureKind.DROPPED: DepartureMode.DROPPED,
    DepartureKind.EXPIRED: DepartureMode.EXPIRED,
    DepartureKind.REMOVED: DepartureMode.REMOVED,
}
_MERGED = {IncidentKind.MEMBER_JOINED, IncidentKind.MEMBER_LEFT}
"""Several in a row are one incident while their rebalances overlap."""


@dataclass(slots=True)
class GroupHistory:
    """Incidents and members of one group, between two of its rebalances."""

    attributes: Attributes = field(default_factory=Attributes)
    stops: InitVar[Sequence[Stop]] = ()
    """Times in which its last members left."""
    drafts: list[Draft] = field(default_factory=list)
    members: Presence = field(default_factory=Presence)
    restarts: RestartHistory = field(init=False)

    def __post_init__(self, stops: Sequence[Stop]) -> None:
        self.restarts = RestartHistory(stops)

    def add(self, rebalance: ExplainedRebalance) -> None:
        """Add the next rebalance to the incident that it follows from."""
        self.end_silently(rebalance.round.started_at, rebalance)
        causes = [
            *list_causes(rebalance),
            *self.members.infer_joins(rebalance, self.members.away),
        ]
        if any(map(_is_inferred_join, causes)):  # the others that came with it show no more
            listed = {cause.member for cause in causes}
            came = self.members.infer_joins(rebalance, None)
            causes += [cause for cause in came if cause.member not in listed]
        noted = find_first_notes(rebalance)
        rejoins = {cause for cause in causes if self.members.is_rejoin(cause, noted)}
        causes = [cause for cause in causes if cause not in rejoins]
        self._note_expiry(rebalance, causes)
        self._forget_earlier_drops(rebalance, causes)
        causes = self._name_late_returns(rebalance, causes)
        late = self._note_leave(causes) or self._note_drop(causes)
        causes = [cause for cause in causes if cause is not late]
        if self._is_of_removed_alone(rebalance, causes):
            self._update(rebalance)
            return
        returns = self.members.find_returns(causes)
        roots = self._find_lasting_roots(rebalance, [c for c in causes if c not in returns])
        known = None if rebalance.is_after_failure else self._find_draft(rebalance, roots, returns)
        if known is None and not roots:
            is_more = late is not None or any(map(self.members.is_repeated, rejoins))
            known = self._find_unnamed(rebalance, is_more=is_more)
        draft = known or self._begin(rebalance, roots)
        if (draft is known and returns) or (draft is not known and not roots):
            draft.also += relate(list_others(draft, [c for c in causes if c not in returns]))
        draft.add_rebalances([rebalance])
        draft.sources |= _find_sources(rebalance)
        draft.waits += find_waits(rebalance, self.members.present.values())
        self._depart(
            rebalance,
            draft,
            causes,
            returns,
            {cause.member.key for cause in rejoins if cause.is_first},
        )
        for cause, known_away in returns.items():
            away = self.members.away.get(known_away.member.key)
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
                self.restarts.forget_step(away.member, away.at)
        self._bring_back_at_once(rebalance)
        self._note_surges(roots, draft.whole)
        self._update(rebalance)

    def _update(self, rebalance: ExplainedRebalance) -> None:
        """Note the members and places behind a rebalance."""
        for arrival in rebalance.arrivals:
            self.restarts.note_arrival(arrival.member)
        self.members.update(rebalance)
        if not self.members.present and not rebalance.round.is_open:
            self._merge_stop()

    def end_silently(self, until: float, rebalance: ExplainedRebalance | None = None) -> None:
        """Add the ends of members that nobody noticed by then (Unix seconds).

        If one of them takes part in the next ``rebalance``, that shows what became of it.
        """
        present = self.members.present
        joined = () if rebalance is None else (s.member.key for s in rebalance.round.consumers)
        last = self.drafts[-1].rebalances if self.drafts else ()
        is_open = any(each.round.is_open for each in last)
        if is_open or not present.keys().isdisjoint(joined):
            return
        members, took_part = list(present.values()), self.members.took_part_until
        ends = find_silent_ends(members, took_part, self.attributes, until)
        if not ends and self._may_expire_unnoticed():
            ends = find_unnoticed_ends(present, took_part, self.attributes, until)
        for end in ends:
            draft = self._open_silent_end(end)
            draft.add_members([end.member])
            draft.until = max(draft.until, end.at)
            del present[end.member.key]
            is_silent = not end.is_closed
            how = DepartureMode.EXPIRED
            self._add_departure(
                draft, MemberDeparture(member=end.member, how=how, at=end.at, is_silent=is_silent)
            )
        if members and not present:
            self._merge_stop()

    def _may_expire_unnoticed(self) -> bool:
        """Check for a group in which a member's expiry may change nothing for the others."""
        rebalances = (each for draft in reversed(self.drafts) for each in draft.rebalances)
        return any(
            each.round.group_type in {"consumer", "streams"} for each in islice(rebalances, 1)
        )

    def _open_silent_end(self, end: SilentEnd) -> Draft:
        """Return the last incident if it is of such ends, and recent; else a new one."""
        kind = IncidentKind.MEMBER_LEFT if end.is_closed else IncidentKind.SESSION_EXPIRED
        last = self.drafts[-1] if self.drafts else None
        is_more = last is not None and last.kind is kind and not last.rebalances
        if last is not None and is_more and end.at <= last.ended_at + STOP_S:
            return last
        draft = Draft(kind, end.at, Certainty.SEEN if end.is_closed else Certainty.INFERRED)
        draft.reason = CLOSED if end.is_closed else None
        self.drafts.append(draft)
        return draft

    def _note_expiry(self, rebalance: ExplainedRebalance, causes: Sequence[Cause]) -> None:
        """Make a member's expiry the cause of the last incident, if the member took no part in it.

        The member reports its removal late, by UNKNOWN_MEMBER_ID, or another process joins in its
        place: its agent may have gone with it, as a pod's, so no agent missed it. All members of a
        classic group take part in a rebalance, so the absent one was no member any more. In groups
        of the protocols `consumer` and `streams` a member need not take part; there, its partitions
        show the removal, if it had any.
        """
        last, word = self.drafts[-1] if self.drafts else None, causes[0] if causes else None
        if last is None or word is None:
            return
        is_own = word.kind is IncidentKind.SESSION_EXPIRED or self._is_only_successor(last, word)
        is_own &= word.source not in BROKER_SOURCES
        key, group_type = word.member.key, rebalance.round.group_type
        has_owners = group_type in {"consumer", "streams"}
        had_partitions = bool(self.attributes.count_owned(key, last.started_at))
        away = self.members.away.get(key)
        is_elsewhere = away is not None and away.draft is not last
        is_elsewhere |= self.members.synced_at.get(key, float("-inf")) > last.started_at
        if not is_own or (has_owners and had_partitions) or is_elsewhere:
            return
        since = word.at - RETURN_S
        if group_type == "share" and self._count_open_questions(key, since) > 1:
            return  # another member has expired, too, and no source shows which one at which time
        if last.kind is not IncidentKind.UNKNOWN or last.is_ongoing:
            return
        if key in last.participants or last.ended_at < since:
            return
        is_new = word.kind is IncidentKind.MEMBER_JOINED
        last.kind, last.reason = IncidentKind.SESSION_EXPIRED, None if is_new else word.reason
        last.certainty = Certainty.INFERRED if is_new else word.certainty
        last.add_members([word.member])
        at = last.started_at
        went = MemberDeparture(member=word.member, how=DepartureMode.EXPIRED, at=at, is_silent=True)
        self._add_departure(last, went)

    def _is_only_successor(self, last: Draft, word: Cause) -> bool:
        """Check for a new process of the one member that took no part in the last rebalance."""
        missing = self.members.present.keys() - last.participants
        is_new = word.kind is IncidentKind.MEMBER_JOINED and word.certainty is Certainty.SEEN
        is_near = last.rebalances[-1:] and last.ended_at <= word.at <= last.ended_at + RESTART_S
        is_classic = all(each.round.group_type == "classic" for each in last.rebalances)
        return is_new and is_classic and bool(is_near) and missing == {word.member.key}

    def _count_open_questions(self, key: tuple[str, ...], since: float) -> int:
        """Return the number of incidents without a cause since a member last took part in one.

        ``since`` (Unix seconds) is the earliest end of those that count.
        """
        number = 0
        for draft in reversed(self.drafts):
            if draft.ended_at < since or key in draft.participants:
                break
            number += draft.kind is IncidentKind.UNKNOWN
        return number

    def _forget_earlier_drops(self, rebalance: ExplainedRebalance, causes: Iterable[Cause]) -> None:
        """Let a second drop of a member begin its own incident: its return was not seen.

        A client's log may be limited to warnings: it shows drops, and no joins.
        """
        dropped = {
            segment.member.key
            for segment in rebalance.round.consumers
            if segment.is_exit and segment.outcome is not Outcome.LEFT
        }
        for cause in causes:
            key = cause.member.key
            away = self.members.away.get(key) if key in dropped else None
            if away is None or away.how is not DepartureMode.DROPPED:
                continue
            if cause.kind is IncidentKind.POLL_TIMEOUT and cause.at > away.at + CLOCKS_S:
                del self.members.away[key]

    def _name_late_returns(self, rebalance: ExplainedRebalance, causes: list[Cause]) -> list[Cause]:
        """Return the causes; a member dropped more than `RETURN_S` before joins as any other.

        Its status is that of the drop until then, but it is not dropped again. Where no source
        shows the time of its join, and nobody else began the rebalance, it was the first.
        """
        late = {cause for cause in causes if self._is_late_return(cause)}
        if not late:
            return causes
        exits = {segment.member.key for segment in rebalance.round.consumers if segment.is_exit}
        late = {cause for cause in late if cause.member.key not in exits}
        first_at = rebalance.round.started_at if len(late) == len(causes) else float("inf")
        return [
            replace(
                cause,
                kind=IncidentKind.MEMBER_JOINED,
                at=min(cause.at, first_at),
                reason=LATE_RETURN,
                certainty=Certainty.INFERRED,
            )
            if cause in late
            else cause
            for cause in causes
        ]

    def _is_late_return(self, cause: Cause) -> bool:
        if cause.kind is not IncidentKind.POLL_TIMEOUT:
            return False
        away = self.members.away.get(cause.member.key)
        is_dropped = away is not None and away.how is DepartureMode.DROPPED
        return is_dropped and away is not None and cause.at > away.at + RETURN_S

    def _is_of_removed_alone(self, rebalance: ExplainedRebalance, causes: Sequence[Cause]) -> bool:
        """Check for leaves of expired members alone: nobody rebalances for them a second time."""
        return {cause.kind for cause in causes} == {IncidentKind.MEMBER_LEFT} and all(
            segment.is_exit
            and segment.member.key not in self.members.present
            and (away := self.members.away.get(segment.member.key)) is not None
            and away.how is DepartureMode.EXPIRED
            for segment in rebalance.round.consumers
        )

    def _note_leave(self, causes: Sequence[Cause]) -> Cause | None:
        """Make the leave of a member the cause of the last incident, and return it; else None.

        So far, the incident was an expiry, inferred from the member's absence. The leave has a
        later time, because the member's clock differs from the others'.
        """
        word = causes[0] if causes else None
        away = None if word is None else self.members.away.get(word.member.key)
        if word is None or away is None or word.kind is not IncidentKind.MEMBER_LEFT:
            return None
        is_near = word.at <= away.draft.ended_at + CLOCKS_S
        if not (is_near and self._is_expiry_inferred(away)):
            return None
        self._correct_expiry(away, word, DepartureMode.LEFT)
        return word

    def _note_drop(self, causes: Sequence[Cause]) -> Cause | None:
        """Make the drop of a member the cause of the last incident, and return it; else None.

        So far, the incident was an expiry, inferred from the member's absence. The drop has a
        later time: with a logger of its own, confluent-kafka-python writes librdkafka's log lines
        only at the next poll.
        """
        word = causes[0] if causes else None
        away = None if word is None else self.members.away.get(word.member.key)
        if word is None or away is None or word.kind is not IncidentKind.POLL_TIMEOUT:
            return None
        if not (was_noticed_at_once(word.reason) and self._is_expiry_inferred(away)):
            return None
        self._correct_expiry(away, word, DepartureMode.DROPPED)
        self.restarts.forget_step(away.member, away.at)  # its process did not end
        return word

    def _is_expiry_inferred(self, away: AwayMember) -> bool:
        """Check that the last incident is the expiry of a member, known by its absence alone."""
        draft = away.draft
        is_inferred = draft.certainty is Certainty.INFERRED and away.how is DepartureMode.EXPIRED
        return is_inferred and draft is self.drafts[-1] and list(draft.members) == [away.member]

    def _correct_expiry(self, away: AwayMember, word: Cause, how: DepartureMode) -> None:
        draft = away.draft
        draft.kind, draft.certainty, draft.reason = word.kind, word.certainty, word.reason
        # a static member that is dropped sends no leave: its session expired behind it
        is_silent = how is DepartureMode.DROPPED and away.member.group_instance_id is not None
        at = draft.started_at
        went = MemberDeparture(member=away.member, how=how, at=at, is_silent=is_silent)
        draft.departures[away.member] = went
        self.members.away[word.member.key] = replace(away, how=how)

    def _find_lasting_roots(
        self, rebalance: ExplainedRebalance, causes: list[Cause]
    ) -> list[Cause]:
        """Return the causes that can have begun a rebalance; a passing one if there is no other."""
        lasting = [cause for cause in causes if not is_passing(cause, rebalance, self.attributes)]
        roots = self._find_roots(rebalance, lasting)
        return (
            roots if roots or len(lasting) == len(causes) else self._find_roots(rebalance, causes)
        )

    def _find_roots(self, rebalance: ExplainedRebalance, causes: list[Cause]) -> list[Cause]:
        """Return the causes that can have begun a rebalance: none is later than its effect."""
        until = self._find_effects(rebalance) + EFFECT_SLACK_S
        if all(cause.at > until or cause.kind.is_follow_up for cause in causes):
            is_known = bool(self.members.present or self.members.away)
            new = self.members.infer_joins(rebalance, None) if is_known else []
            if rebalance.absent:  # their end can be the root
                in_time = _list_in_time(rebalance)
                new = [cause for cause in new if cause.member in in_time]
            causes = sorted([*new, *causes], key=lambda cause: cause.at)
        return causes if any(cause.at <= until for cause in causes[:1]) else []

    def _find_effects(self, rebalance: ExplainedRebalance) -> float:
        """Return when the first member was asked to join (Unix seconds); infinity: none was."""
        is_classic = rebalance.round.group_type == "classic"
        effects = [
            step.at
            for segment in rebalance.round.consumers
            if is_classic or not segment.is_exit  # it was asked by the rebalance before
            for step in segment.steps
            if step.code is RebalanceStatus.COORDINATOR_REQUESTED
        ]
        # a member that missed the end of the last round learned of this round during the last one
        last_end = self._last_end()
        own = [at for at in effects if at >= last_end] or effects
        return min(own, default=float("inf"))

    def _last_end(self) -> float:
        """Return the end of the group's last rebalance (Unix seconds)."""
        ends = [each.round.ended_at for draft in self.drafts[-1:] for each in draft.rebalances]
        return max(ends, default=float("-inf"))

    def _find_draft(
        self,
        rebalance: ExplainedRebalance,
        roots: Sequence[Cause],
        returns: dict[Cause, AwayMember],
    ) -> Draft | None:
        """Return the incident that a rebalance belongs to; None: it begins one."""
        last = self.drafts[-1] if self.drafts else None
        earliest = min([*roots, *returns], key=lambda cause: cause.at, default=None)
        if earliest in returns:
            is_later = self._is_within(earliest, rebalance)
            return None if is_later else returns[earliest].draft
        if earliest is None or last is None:
            return None
        if is_follow_up(last, earliest, rebalance.round.ended_at, self.attributes):
            return last
        overlaps = earliest.at < last.ended_at and last.rebalances != []
        is_alone = {cause.kind for cause in roots} == {earliest.kind}
        if overlaps and earliest.kind is last.kind in _MERGED and is_alone:
            last.add_members(cause.member for cause in roots)
            return last
        return None

    def _is_within(self, back: Cause, rebalance: ExplainedRebalance) -> bool:
        """Check for a return within a classic rebalance that another member's expiry began."""
        is_expiry = bool(rebalance.absent) and not may_have_waited(rebalance.round)
        is_classic = rebalance.round.group_type == "classic"
        is_later = back.at > self._find_effects(rebalance) + EFFECT_SLACK_S
        return is_classic and is_expiry and is_later

    def _find_unnamed(self, rebalance: ExplainedRebalance, *, is_more: bool) -> Draft | None:
        """Return the incident that a rebalance without a root belongs to; None: it begins one.

        With ``is_more`` it shows more of the last one.
        """
        last = self.drafts[-1] if self.drafts else None
        if last is not None and (
            is_in_loop(last, rebalance)
            or is_delayed(last, rebalance)
            or is_rejoin_of_changed(last, rebalance, self.attributes)
        ):
            return last
        if is_more:
            return last
        recent = self.members.find_recent(rebalance.round.started_at)
        gone = find_static_leave(recent, rebalance, self.attributes)
        return None if gone is None else gone.draft

    def _begin(self, rebalance: ExplainedRebalance, roots: Sequence[Cause]) -> Draft:
        draft = open_draft(rebalance, roots, self.members.present, self.attributes)
        if draft.kind is IncidentKind.UNKNOWN and rebalance.round.is_open:
            self._name_ended(draft, rebalance)
        is_expiry = draft.kind is IncidentKind.SESSION_EXPIRED
        if is_expiry and all(self._find_close(each, draft.started_at) for each in draft.members):
            # the member's own closing line is better evidence than its absence
            draft.kind, draft.certainty = IncidentKind.MEMBER_LEFT, Certainty.SEEN
            draft.reason = CLOSED
        self.drafts.append(draft)
        return draft

    def _name_ended(self, draft: Draft, rebalance: ExplainedRebalance) -> None:
        """Make the end of a member that has sent no leave the cause of an open rebalance.

        It begins when the member's session ends: after a close, the first if there are several, or
        after the last request of a client whose log does not show its close. It may wait for the
        end of another one's, so it cannot show yet which of them are absent.
        """
        took_part = {segment.member.key for segment in rebalance.round.consumers}
        absent = [each for key, each in self.members.present.items() if key not in took_part]
        at = draft.started_at
        closes = [
            (closed_at, member)
            for member in absent
            if (closed_at := self._find_close(member, at)) is not None
            and self._may_have_expired(member, closed_at, at)
        ]
        if closes:
            closed_at, member = min(closes, key=lambda close: (close[0], close[1].key))
            draft.kind, draft.certainty = IncidentKind.MEMBER_LEFT, Certainty.SEEN
            draft.reason = CLOSED
            self._end_member(draft, member, closed_at)
            return
        for member in find_expired(absent, at, self.attributes):
            draft.kind, draft.certainty = IncidentKind.SESSION_EXPIRED, Certainty.INFERRED
            self._end_member(draft, member, None)

    def _may_have_expired(self, member: MemberRef, closed_at: float, at: float) -> bool:
        """Check that the session of a closed member can have ended at an instant.

        Its last heartbeat may be a third of the session before its close: clients' default.
        """
        session_s = self.attributes.session_of(member.key, at)
        return session_s is None or closed_at + session_s * 2 / 3 <= at

    def _end_member(self, draft: Draft, member: MemberRef, closed_at: float | None) -> None:
        draft.add_members([member])
        del self.members.present[member.key]
        at, how = draft.started_at, DepartureMode.EXPIRED
        self._add_departure(
            draft, MemberDeparture(member=member, how=how, at=at, closed_at=closed_at)
        )

    def _find_close(self, member: MemberRef, at: float) -> float | None:
        """Return the time of a close without a leave of a member that is gone at an instant."""
        since = self.members.synced_at.get(member.key, float("-inf"))
        closes = self.attributes.closes.get(member.key, ())
        last = max((each for each in closes if since <= each <= at + CLOCKS_S), default=None)
        changes = self.attributes.changes_of_member.get(member.key, ())
        # a static member came back, and its group did not notice
        is_back = last is not None and any(c.owned and last < c.at <= at for c in changes)
        return None if is_back else last

    def _depart(
        self,
        rebalance: ExplainedRebalance,
        draft: Draft,
        causes: Sequence[Cause],
        returns: dict[Cause, AwayMember],
        rejoined: Container[tuple[str, ...]],
    ) -> None:
        """Add each departure of a rebalance to its incident, once.

        The members that ``rejoined`` did not depart: they have another member id now.
        """
        back = {cause.member.key for cause in returns}
        gone = {c.member: MemberDeparture(member=c.member, how=DepartureMode.REMOVED, at=c.at)
                for c in causes if c.kind is IncidentKind.REMOVED_BY_ADMIN}  # fmt: skip
        new = {c.member.key for c in causes if c.kind is IncidentKind.MEMBER_JOINED}
        new = {key for key in new if not self.members.is_known(key)}
        over = {cause.member.key for cause in returns if self.members.ends_absence(cause)}
        for went in rebalance.departures:
            key = went.member.key
            if key in over:
                continue
            if went.kind is DepartureKind.EXPIRED and (key in new or key in rejoined):
                continue  # its first join was lost, or it has another member id now
            gone.setdefault(went.member, _departure(went, draft, rebalance))
        joined = [cause for cause in causes if cause.kind is IncidentKind.MEMBER_JOINED]
        restarted = [(c.member, c.at) for c in filter(self.members.is_unexpired, joined)]
        gone = {
            c.member: _replacement(c, rebalance) for c in joined if self.members.is_unexpired(c)
        } | gone
        for member, departure in _match_successors(gone, causes, restarted):
            is_return = member.key in back and departure.how is DepartureMode.EXPIRED
            is_known = departure.returned_at is None and member.key in self.members.away
            if not (is_return or is_known):
                self._add_departure(draft.whole, departure)  # the one before can have merged it
        if draft.whole.kind is IncidentKind.MEMBER_JOINED:  # with the departures: of their places
            for member, at in restarted:
                self.restarts.add_restart(draft.whole, member, at, self._merge)

    def _add_departure(self, draft: Draft, departure: MemberDeparture) -> None:
        if departure.how is DepartureMode.EXPIRED:
            closed_at = self._find_close(departure.member, departure.at)
            departure = replace(departure, closed_at=closed_at)
        draft.depart(departure)
        self.restarts.add_step(departure, draft)
        if departure.returned_at is None:
            away = AwayMember(
                member=departure.member,
                how=departure.how,
                at=departure.at,
                draft=draft,
                is_closed=departure.closed_at is not None,
            )
            self.members.add_away(away)
        self.restarts.find_loop(departure.member, departure.at, self._merge, self._part)

    def _bring_back_at_once(self, rebalance: ExplainedRebalance) -> None:
        """Note the members that came back without a cause, or within the rebalance they left in.

        A member that is still out keeps its incident pending. One that is back too late for a
        return is a new member.
        """
        for segment in rebalance.round.consumers:
            away = self.members.away.get(segment.member.key)
            if away is None:
                continue
            if segment.is_exit:
                away.draft.is_pending = away.draft.is_pending or segment.is_out
            elif segment.outcome is Outcome.SYNCED and segment.ended_at > away.at:
                at = segment.ended_at if segment.joined_at is None else segment.joined_at
                if away.at >= rebalance.round.started_at or away.may_return(at):
                    self._return(away, away.member, max(at, away.at))
                else:
                    self.members.away.pop(away.member.key)

    def _return(
        self, away: AwayMember, member: MemberRef, at: float, *, as_new: bool = False
    ) -> None:
        """Note that a member, or its successor, is back: a restart, if it is another process."""
        self.members.away.pop(away.member.key, None)
        if away.how is DepartureMode.EXPIRED:
            self.members.came_back[away.member.key] = away, at
        self.members.replaced.add(member.key)
        self.members.last_arrival_at = max(self.members.last_arrival_at, at)
        away.draft.bring_back(away.member, at, as_new=as_new)
        is_other = place_key(away.member) != place_key(member)
        if away.draft.kind is IncidentKind.MEMBER_LEFT and is_inferred_leave(away.draft.reason):
            away.draft.kind = IncidentKind.RESTART  # its process has gone on: no rollout, no loop
            return
        is_restart = away.how is DepartureMode.LEFT or away.is_closed or is_other
        if is_restart and away.draft.kind in {
            IncidentKind.MEMBER_LEFT,
            IncidentKind.SESSION_EXPIRED,
            *RESTARTS,
        }:
            self.restarts.add_restart(away.draft, away.member, away.at, self._merge)

    def _note_surges(self, roots: Iterable[Cause], draft: Draft) -> None:
        """Link a member that leaves with the successor that came shortly before."""
        found = [*roots]
        came = {cause.member.key for cause in found if cause.kind is IncidentKind.MEMBER_JOINED}
        left = [
            cause
            for cause in found
            if cause.kind is IncidentKind.MEMBER_LEFT and cause.member.key not in came
        ]
        names = self.members.count_names() if left else {}
        for cause in left:
            self._note_surge(cause, draft, names)

    def _note_surge(self, cause: Cause, draft: Draft, names: Mapping[str, int]) -> None:
        gone = cause.member
        came_at = self.members.arrived_at.get(gone.key, float("-inf"))
        is_young = cause.at - came_at <= SURGE_S
        if is_young and not list_releases(gone):
            return
        is_shared = names.get(gone.client_id, 0) - (gone.key in self.members.present) > 1
        since = self.members.present_since.get(gone.key, float("-inf"))
        for arrived, at in self.members.arrived_at.items():
            member = self.members.present.get(arrived)
            if member is None or arrived == gone.key or not 0 <= cause.at - at <= SURGE_S:
                continue
            if at < since:
                continue  # it was there before the other one
            if is_young and not is_other_release(member, gone):
                continue
            of_client, of_host = self.members.namesakes[arrived]
            if member.host == gone.host and of_host > 1:
                continue  # a machine of several such processes is no place of one
            if replaces(member, gone, is_shared=is_shared or of_client > 1):
                self._surge(member, at, cause, draft)
                return

    def _surge(self, successor: MemberRef, at: float, cause: Cause, draft: Draft) -> None:
        """Make one restart of a successor's join and the leave after it."""
        self.members.arrived_at.pop(successor.key)
        self.members.away.pop(cause.member.key, None)
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
        self.restarts.add_restart(draft, cause.member, at, self._merge)

    def _merge_stop(self) -> None:
        """Merge the leaves of a group without members since its last arrival: they are one stop."""
        run: list[Draft] = []
        for draft in reversed(self.drafts):
            is_near = not run or run[0].started_at - draft.started_at <= STOP_S
            is_near &= draft.started_at >= self.members.last_arrival_at
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
        self.restarts.replace_draft(other, first)
        for key, away in list(self.members.away.items()):
            if away.draft is other:
                self.members.away[key] = replace(away, draft=first)
        for key, (away, at) in list(self.members.came_back.items()):
            if away.draft is other:
                self.members.came_back[key] = replace(away, draft=first), at

    def _part(self, draft: Draft, place: tuple[str, ...]) -> Draft:
        taken = draft.part(place)
        if taken is None:
            return draft
        self.drafts.insert(self.drafts.index(draft), taken)
        self.restarts.replace_step(place, draft, taken)
        for key, away in list(self.members.away.items()):
            if away.draft is draft and place_key(away.member) == place:
                self.members.away[key] = replace(away, draft=taken)
        if len({place_key(member) for member in draft.members}) == 1:
            draft.kind = IncidentKind.RESTART
        return taken


def _match_successors(
    gone: Mapping[MemberRef, MemberDeparture],
    causes: Sequence[Cause],
    restarted: list[tuple[MemberRef, float]],
) -> Iterator[tuple[MemberRef, MemberDeparture]]:
    """Yield the departures; append members with a successor before their expiry to restarts.

    A member that comes back itself is no other one's successor.
    """
    own = {member.key for member in gone}
    joined = [
        cause
        for cause in causes
        if cause.kind is IncidentKind.MEMBER_JOINED and cause.member.key not in own
    ]
    for member, departure in gone.items():
        is_open = departure.how is DepartureMode.EXPIRED and departure.returned_at is None
        if not is_open:
            yield member, departure
            continue
        successor = next(
            (cause for cause in joined if replaces(cause.member, member, is_shared=True)),
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


def _list_in_time(rebalance: ExplainedRebalance) -> set[MemberRef]:
    """Return the members whose join can have begun a rebalance: before others were asked to."""
    asked_at = find_first_request(rebalance.round)
    return {each.member for each in rebalance.round.consumers if not joined_after(each, asked_at)}


def _find_sources(rebalance: ExplainedRebalance) -> set[str]:
    """Return the sources that show the begin or the end of a member's part in a rebalance."""
    found = {segment.source for segment in rebalance.round.segments}
    for segment in rebalance.round.segments:
        found |= {step.source for step in (*segment.steps, *segment.notes)}
    return found - {""}


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
    """Return a departure; the time of an inferred expiry is at latest the rebalance's begin."""
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
