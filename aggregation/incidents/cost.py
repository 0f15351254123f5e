"""Time that partitions could not be read, by the incident that caused it. Pure.

Theory of operation. Records of changed partitions show the owner of each partition. A partition is
unread from the moment at which its owner gives it up or departs until a member owns it again.

- A dropped member stopped reading at its last poll if its poll interval is known, else at its drop.
- A dead member stopped reading one session timeout before it expired.
- A member of librdkafka stopped at its revoke callback (`aggregation.incidents.revocations`).
- A partition without an owner before costs nothing, nor does one that stays with its owner.
- If no source shows the next owner, the partition counts until the end of the rebalance. That also
  holds if a member has it again later that a source sees (`aggregation.incidents.unseen_takers`).
- If nobody reads a topic any more, although the group lives on, its partitions count until a member
  is back, for the time within which that is a part of the incident: an hour, and a day for a
  dropped member. After a leave it is no topic of the group any more.
- A group that has gone, for more than ten minutes, costs nothing more.

Each second counts for one incident. If a member departed, it is the incident of the departure.
Else it is the incident of the rebalance in which the partition was given up, or of the next one.

Source: incidents.md sections 4 and 1a.8.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes, Ownership
from aggregation.incidents.details import list_dropped_topics
from aggregation.incidents.drafts import Draft
from aggregation.incidents.model import DepartureMode, IncidentKind, MemberDeparture
from aggregation.incidents.readers import GONE_S, LivingSpan, Readers
from aggregation.incidents.revocations import Revocations
from aggregation.incidents.unseen_takers import CompleteRebalances, IdleSpan
from aggregation.rebalances.departures import STOP_S
from aggregation.rebalances.rebalances import RETURN_S, ExplainedRebalance
from metrics.model.sample import Outcome
from metrics.model.status import RebalanceStatus

DAY_S = 86_400.0
"""A partition without an owner counts for so long at most."""
_ENDED = {DepartureMode.EXPIRED, DepartureMode.REMOVED, DepartureMode.LEFT}
"""A member that is back more than `RETURN_S` after such a departure is another incident."""
_NOTHING = frozenset[str]()
_CONSUMER = "consumer"
"""Groups of KIP-848."""
SLACK_S = 1.0
"""A revocation may be dated shortly before the first member's status rose."""


class _Loss(NamedTuple):
    """A partition's loss of its owner. Instants are Unix seconds."""

    since: float
    """The owner stopped reading: a dropped or dead one before it departed."""
    at: float
    draft: Draft | None
    """The incident in which its owner departed; None: the owner gave it up."""
    owner: tuple[str, ...]
    is_kept: bool = False
    """The coordinator keeps it for its owner, which is paused or comes back within its session."""
    how: DepartureMode | None = None
    """How the owner departed; None: it gave the partition up, or is paused."""


class Gap(NamedTuple):
    """A partition without an owner. ``until`` is Unix seconds; open: None."""

    topic: str
    loss: _Loss
    until: float | None
    is_taken: bool = False
    """An open gap of a topic that the group still reads: a member that no source sees owns it."""


class _Exit(NamedTuple):
    """Loss of all partitions of a member. Instants are Unix seconds."""

    stopped_at: float
    at: float
    member: tuple[str, ...]
    draft: Draft
    is_kept: bool = False
    how: DepartureMode | None = None
    closed_at: float | None = None
    """The member's own close, if it left no group by it: its session expired later."""


def count_unread(drafts: Sequence[Draft], attributes: Attributes, now: float) -> dict[Draft, float]:
    """Return the unread seconds of each incident; empty if no source shows partitions."""
    if not attributes.ownership:
        return {}
    spans = sorted(
        (rebalance.round.started_at, rebalance.round.ended_at, number, draft)
        for number, draft in enumerate(drafts)
        for rebalance in draft.rebalances
    )  # fmt: skip
    starts = [span[0] for span in spans]
    costs = dict.fromkeys(drafts, 0.0)
    gone = _GoneTopics(drafts, attributes)
    exits = list(_exits(drafts, attributes))
    changes = _list_changes(attributes, exits, _returns(drafts, attributes))
    gaps = _gaps(changes, exits, _Stops(_list_targets(drafts), Revocations(drafts, attributes)))
    complete = CompleteRebalances(drafts, attributes, [*_idle_spans(exits, drafts)])
    ends = _LongGaps(changes, [LivingSpan(each[0], each[1]) for each in spans], now)
    for gap in map(ends.limit, _end_by_unseen(gaps, complete)):
        if gap is None:
            continue
        found = _incident_of(gap, spans, starts)
        if found is None:
            continue
        draft, ended_at = found
        until = ended_at if gap.until is None else gap.until
        if until > ended_at + SLACK_S:
            if gap.topic in gone.list_of(draft):
                continue  # the topic is deleted, or no member subscribes to it any more
            until = min(until, gone.find_drop(gap))
        if gap.until is not None or draft.is_ongoing or gap.is_taken:
            costs[draft] += max(0.0, until - gap.loss.since)
    return {draft: cost for draft, cost in costs.items() if cost or _has_stayed(draft)}


def note_exits(drafts: Iterable[Draft], attributes: Attributes) -> None:
    """Add the times at which a group's members departed to its attributes."""
    for draft in drafts:
        for departure in draft.all_departures:
            if departure.how is not DepartureMode.FENCED and not draft.is_paused(departure):
                insort(attributes.exits[departure.member.key], departure.at)


def count_away(draft: Draft, attributes: Attributes) -> float:
    """Return the partition seconds that the owners' absence took, for members that came back."""
    spans = (
        (departure.returned_at - stopped_at)
        * attributes.count_owned(departure.member.key, stopped_at)
        for departure in draft.all_departures
        if departure.returned_at is not None
        for stopped_at in [attributes.stop_of(departure)]
    )
    return sum(spans, start=0.0)


class NeededMoves(NamedTuple):
    """Moves that no assignor avoids, and their partition seconds."""

    number: int
    seconds: float
    handed_over: int
    """The part that members which stay give to others; the rest belonged to members that left."""


def count_moves(draft: Draft, attributes: Attributes) -> NeededMoves:
    """Return the moves that no assignor avoids.

    A member that has more partitions after a rebalance than before gained at least the difference.
    Members that read the same topics may change places: one of them that had most has most again.
    Each move counts for the length of the rebalance: from its first member's start, or from the
    leave that began it, if that is earlier.
    """
    count, seconds, handed_over, before = 0, 0.0, 0, float("-inf")
    for since, each in spans_of(draft):
        until = each.round.ended_at
        gained = _count_gained(attributes, since, until + SLACK_S)
        freed = sum(
            attributes.count_owned(each.member.key, attributes.stop_of(each))
            for each in draft.all_departures
            if before < each.at <= until
        )
        count, seconds = count + gained, seconds + gained * (until - since)
        handed_over, before = handed_over + max(0, gained - freed), until
    return NeededMoves(count, seconds, handed_over)


def spans_of(draft: Draft) -> Iterator[tuple[float, ExplainedRebalance]]:
    """Yield the rebalances of an incident, each with its start or the leave before it."""
    leaves = [each.at for each in draft.all_departures if each.how is DepartureMode.LEFT]
    before = float("-inf")
    for each in draft.rebalances:
        since = each.round.started_at
        yield min([since, *(at for at in leaves if before < at < since)]), each
        before = each.round.ended_at


def _count_gained(attributes: Attributes, since: float, until: float) -> int:
    """Return the fewest partitions that the members gained between two instants."""
    alike: dict[frozenset[str], list[tuple[int, int]]] = defaultdict(list)
    for member in attributes.changes_of_member:
        owned = attributes.owned_at(member, until)
        if owned:
            topics = frozenset(map(_topic_of, owned))
            alike[topics].append((attributes.count_owned(member, since), len(owned)))
    return sum(
        max(0, after - before)
        for pairs in alike.values()
        for before, after in zip(*map(sorted, zip(*pairs, strict=True)), strict=True)
    )


class _GoneTopics:
    """Topics that changed subscriptions, or a changed cluster, take away from a group."""

    def __init__(self, drafts: Sequence[Draft], attributes: Attributes) -> None:
        self._drafts, self._attributes = drafts, attributes
        self._of: dict[Draft, set[str]] = {}
        self._drops: dict[tuple[tuple[str, ...], str], list[float]] | None = None

    def list_of(self, draft: Draft) -> set[str]:
        """Return the topics that went within an incident, also by another cause than its own."""
        if draft not in self._of:
            dropped = (topic for _, topic, _ in self._list_dropped(draft))
            self._of[draft] = {*_list_deleted(draft), *dropped}
        return self._of[draft]

    def find_drop(self, gap: Gap) -> float:
        """Return when a partition's former owner subscribed to its topic no more, or infinity."""
        if self._drops is None:
            self._drops = defaultdict(list)
            for draft in self._drafts:
                for member, topic, at in self._list_dropped(draft):
                    insort(self._drops[member, topic], at)
        found = self._drops.get((gap.loss.owner, gap.topic), ())
        index = bisect_left(found, gap.loss.since)
        return found[index] if index < len(found) else inf

    def _list_dropped(self, draft: Draft) -> Iterator[tuple[tuple[str, ...], str, float]]:
        """Yield the members, and the topics that they dropped, with the time (Unix seconds)."""
        rounds = (each.round.consumers for each in draft.rebalances)
        for step in (step for found in rounds for segment in found for step in segment.steps):
            if step.code is RebalanceStatus.SUBSCRIPTION_CHANGED:
                member = step.member.key
                owned = map(_topic_of, self._attributes.owned_at(member, step.at))
                for topic in list_dropped_topics(step.reason, owned):
                    yield member, topic, step.at


def _list_deleted(draft: Draft) -> list[str]:
    rows = draft.detail.get("topics")
    if draft.kind is not IncidentKind.METADATA_CHANGED or not isinstance(rows, list):
        return []
    return [row["topic"] for row in rows if not row["after"]]


def _topic_of(partition: str) -> str:
    """Return the topic of a partition such as `orders-3`."""
    return partition.rpartition("-")[0]


def _incident_of(
    gap: Gap, spans: Sequence["_Span"], starts: Sequence[float]
) -> tuple[Draft, float] | None:
    """Return the incident that a gap counts for, and the end of the rebalance that fills it."""
    draft = gap.loss.draft
    if draft is not None:
        ends = [each.round.ended_at for each in draft.rebalances]
        return draft, next((end for end in ends if end >= gap.loss.at), draft.ended_at)
    index = _rebalance_of(gap, spans, starts)
    return None if index is None else (spans[index][3], spans[index][1])


_OF_LAST_MEMBERS = {IncidentKind.MEMBER_LEFT, IncidentKind.SESSION_EXPIRED}
_Targets = dict[tuple[str, ...], list[tuple[float, float]]]
_Span = tuple[float, float, int, Draft]
_Leaves = dict[tuple[str, ...], list[_Exit]]


def _has_stayed(draft: Draft) -> bool:
    """Check that the group still has members: the leave of its last member has no cost."""
    rounds = [s for each in draft.rebalances for s in each.round.consumers if s.is_round]
    is_end = not draft.rebalances and draft.kind in _OF_LAST_MEMBERS
    return bool(rounds) or draft.is_ongoing or not (draft.rebalances or is_end)


def _rebalance_of(gap: Gap, spans: Sequence[_Span], starts: Sequence[float]) -> int | None:
    """Return the rebalance during which a partition was given up, or the next one."""
    index = bisect_right(starts, gap.loss.since + SLACK_S) - 1
    if index >= 0 and spans[index][1] + SLACK_S >= gap.loss.since:
        while index > 0 and spans[index - 1][1] >= gap.loss.since:
            index -= 1
        return index
    index = bisect_left(starts, gap.loss.since)
    until = float("inf") if gap.until is None else gap.until + SLACK_S
    return index if index < len(starts) and starts[index] <= until else None


def _exits(drafts: Sequence[Draft], attributes: Attributes) -> Iterator[_Exit]:
    """Yield the loss of all partitions for each member that departed or paused.

    A fenced member costs nothing: another process has its instance id, and with it its partitions.
    """
    for draft in drafts:
        for departure in draft.all_departures:
            if departure.how is DepartureMode.FENCED or draft.is_paused(departure):
                continue
            at, member = attributes.stop_of(departure), departure.member.key
            is_kept, how = _is_kept(departure), departure.how
            yield _Exit(at, departure.at, member, draft, is_kept, how, departure.closed_at)
        for pause in draft.pauses:
            yield _Exit(pause.since, pause.since, pause.member, draft, is_kept=True)


def _is_kept(departure: MemberDeparture) -> bool:
    """Check that a departed member may have its partitions still, as a static one (KIP-345)."""
    is_removed = departure.how in {DepartureMode.EXPIRED, DepartureMode.REMOVED}
    return departure.member.group_instance_id is not None and not is_removed


def _idle_spans(exits: Iterable[_Exit], drafts: Iterable[Draft]) -> Iterator[IdleSpan]:
    """Yield the spans in which a member did not read what the coordinator kept for it."""
    for each in exits:
        if each.stopped_at < each.at:
            yield IdleSpan(each.member, each.stopped_at, each.at)
    for pause in (each for draft in drafts for each in draft.pauses):
        yield IdleSpan(
            pause.member, pause.since, float("inf") if pause.until is None else pause.until
        )


def _end_by_unseen(gaps: Iterable[Gap], complete: CompleteRebalances) -> Iterator[Gap]:
    """Yield each gap, up to the rebalance in which an unseen member took the partition."""
    for gap in gaps:
        loss, until = gap.loss, gap.until
        taken_at = None
        if until is not None and not loss.is_kept:
            taken_at = complete.find_takeover(gap.topic, loss.owner, loss.at, until)
        yield gap if taken_at is None else gap._replace(until=taken_at)


def _returns(drafts: Iterable[Draft], attributes: Attributes) -> Iterator[Ownership]:
    """Yield each member's partitions at the end of its pause, unless they changed during it."""
    for pause in (each for draft in drafts for each in draft.pauses):
        changes = attributes.changes_of_member.get(pause.member, [])
        index = bisect_right(changes, pause.since, key=lambda each: each.at) - 1
        is_last = changes[index + 1 :] == [] or changes[index + 1].at > (pause.until or 0.0)
        if pause.until is not None and index >= 0 and is_last:
            yield changes[index]._replace(at=pause.until)


def _list_targets(drafts: Iterable[Draft]) -> _Targets:
    """Return the spans between a member's new target and its acknowledgement, by member.

    A member of a KIP-848 group revokes partitions at its next poll. A member that does not poll
    reads none of them, and its log shows the revocation only when it polls again.
    """
    found: _Targets = defaultdict(list)
    rounds = (each.round for draft in drafts for each in draft.rebalances)
    for segment in (s for each in rounds if each.group_type == _CONSUMER for s in each.consumers):
        codes = {step.code: step.at for step in reversed(segment.steps)}
        since = codes.get(RebalanceStatus.COORDINATOR_REQUESTED)
        is_over = segment.outcome is Outcome.SYNCED
        if since is not None and is_over and RebalanceStatus.REVOCATION_NEEDED in codes:
            found[segment.member.key].append((since, segment.ended_at))
    return found


@dataclass(frozen=True, slots=True)
class _Stops:
    """Times at which members stopped reading partitions that they gave up later, or earlier."""

    targets: _Targets
    revocations: Revocations

    def find(self, change: Ownership, before_at: float) -> float:
        """Return the time for a change; the member had the partitions since ``before_at``."""
        spans = self.targets.get(change.member, ())
        since = [since for since, until in spans if since <= change.at <= until + SLACK_S]
        begun_at = self.revocations.find_begin(change)
        return min(begun_at, max(*since, before_at)) if since else begun_at


def _loss_of(change: Ownership | _Exit, before_at: float, stops: _Stops) -> _Loss:
    """Return the loss of partitions by a change; the member had them since ``before_at``."""
    if isinstance(change, _Exit):
        return _loss_by(change, change.stopped_at)
    return _Loss(stops.find(change, before_at), change.at, None, change.member)


def _loss_by(gone: _Exit, stopped_at: float) -> _Loss:
    return _Loss(stopped_at, gone.at, gone.draft, gone.member, gone.is_kept, gone.how)


def _list_leaves(exits: Iterable[_Exit]) -> _Leaves:
    found: _Leaves = defaultdict(list)
    for each in exits:
        found[each.member].append(each)
    return found


def _find_leave(change: Ownership | _Exit, leaves: _Leaves, owns_again_at: float) -> _Loss | None:
    """Return the loss by a leave or a close, if a member gives all up right before it.

    Or by an expiry, if it gave all up behind its last request.
    """
    if isinstance(change, _Exit) or change.owned:
        return None
    until = min(change.at + SLACK_S, owns_again_at)
    near = (
        each
        for each in leaves.get(change.member, ())
        if change.at <= each.at <= until
        or change.at <= (each.closed_at or 0.0) <= until
        or change.at == each.stopped_at
    )
    left = next(near, None)
    return None if left is None else _loss_by(left, change.at)


def _list_returns(changes: Sequence[tuple[float, Ownership | _Exit]]) -> list[float]:
    """Return for each change when its member has partitions again (Unix seconds), or never."""
    found, later = list[float](), dict[tuple[str, ...], float]()
    for at, change in reversed(changes):
        found.append(later.get(change.member, inf))
        if isinstance(change, Ownership) and change.owned:
            later[change.member] = at
    return found[::-1]


def _list_changes(
    attributes: Attributes, exits: Iterable[_Exit], returns: Iterable[Ownership]
) -> list[tuple[float, Ownership | _Exit]]:
    """Return all changes of owners in the order of time."""
    changes: list[tuple[float, Ownership | _Exit]] = [
        (each.at, each) for each in (*attributes.ownership, *returns)
    ]
    changes += [(each.stopped_at, each) for each in exits]
    return sorted(changes, key=lambda pair: pair[0])


def _gaps(
    changes: Sequence[tuple[float, Ownership | _Exit]], exits: Iterable[_Exit], stops: _Stops
) -> Iterator[Gap]:
    """Yield the spans in which a partition had no owner, after it had one."""
    owners: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    owned: dict[tuple[str, ...], frozenset[str]] = {}
    lost: dict[str, _Loss] = {}
    gained_at: dict[str, float] = {}
    changed_at: dict[tuple[str, ...], float] = {}
    leaves = _list_leaves(exits)
    for (at, change), owns_again_at in zip(changes, _list_returns(changes), strict=True):
        now_owned = change.owned if isinstance(change, Ownership) else frozenset[str]()
        loss = _find_leave(change, leaves, owns_again_at) or _loss_of(
            change, changed_at.get(change.member, at), stops
        )
        changed_at[change.member] = at
        before = owned.get(change.member, frozenset())
        owned[change.member] = now_owned
        for partition in before - now_owned:
            owners[partition].discard(change.member)
            if not owners[partition]:
                lost.setdefault(partition, loss)
        for partition in now_owned - before:
            gap = lost.pop(partition, None)
            owners[partition].add(change.member)
            gained_at[_topic_of(partition)] = at
            if gap is not None:
                yield Gap(_topic_of(partition), gap, at)
    for partition, gap in lost.items():
        is_taken = gained_at.get(_topic_of(partition), 0.0) >= gap.since
        yield Gap(_topic_of(partition), gap, None, is_taken)


class _LongGaps:
    """Ends of gaps that no owner has ended, or only later than `GONE_S`.

    Source: incidents.md 1a.8: a group that is gone counts only if it is back within that time.
    """

    def __init__(
        self,
        changes: Iterable[tuple[float, Ownership | _Exit]],
        rounds: Iterable[LivingSpan],
        now: float,
    ) -> None:
        self._changes, self._rounds, self._now = changes, rounds, now
        self._readers: Readers | None = None

    def limit(self, gap: Gap) -> Gap | None:
        """Return a gap with the end of its time that counts; None: nothing of it counts."""
        until = self._now if gap.until is None else gap.until
        loss, is_short = gap.loss, until - gap.loss.at <= GONE_S
        if gap.is_taken or (is_short and gap.until is not None):
            return gap
        gone_at = self._read().gone_at(loss.at, until)
        if gone_at is not None and self._is_of_stop(loss, gone_at):
            return None
        until = min(until, inf if gone_at is None else gone_at, loss.at + _limit_of(loss))
        if not loss.is_kept and self._read().has_reader(gap.topic, min(until, loss.at + GONE_S)):
            return gap if is_short else gap._replace(until=None, is_taken=True)
        if loss.how is DepartureMode.LEFT and not loss.is_kept:
            return gap if is_short else None
        if is_short and not self._read().has_owner(until):
            lived_until = self._read().lived_until(until)
            if self._is_of_stop(loss, lived_until):
                return gap  # its only member may be back within the time that counts
            until = lived_until
        return gap._replace(until=until)

    def _is_of_stop(self, loss: _Loss, gone_at: float) -> bool:
        """Check that a member departed as the whole group stopped: nobody came after it."""
        is_near = gone_at - loss.at <= STOP_S
        return is_near and not self._read().has_arrival(loss.at, gone_at)

    def _read(self) -> Readers:
        """Return the group's readers; they are computed if a gap is long."""
        if self._readers is None:
            owned = [
                Ownership(at, each.member, each.owned if isinstance(each, Ownership) else _NOTHING)
                for at, each in self._changes
            ]
            self._readers = Readers(owned, self._rounds, self._now)
        return self._readers


def _limit_of(loss: _Loss) -> float:
    """Return for how long a partition's lack of an owner counts (seconds)."""
    return RETURN_S if loss.how in _ENDED else DAY_S
