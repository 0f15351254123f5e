"""Members that cannot join, or that another process replaced: incidents without a code. Pure.

Theory of operation. A fatal join error sets no status (semantics.md 3), so it is recorded as an end
or as a signal with the outcome `failed`. Errors of one member within `QUIET_S` are one incident. It
lasts until the member has joined, or nothing has failed for `QUIET_S`.

A member may lose a right while it is in the group:

- to its group: the broker refuses its heartbeats and commits. It reads until its next join or
  lookup of the coordinator fails;
- to its topics: it stays a member, but its polls fail. A member that polls again reads after its
  last error; one that does not has ended with the first error;
- to the cluster, by its credentials: it stops reading if it has to join again. Else the
  credentials were refused only for a moment.

Members that lose a right together are one incident, and threads of a Kafka Streams application that
fail by one error.

Source: incidents.md 1a.6 and 2.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from aggregation.incidents.attributes import Attributes
from aggregation.incidents.drafts import Draft, Pause
from aggregation.incidents.error_names import name_error
from aggregation.incidents.model import DepartureMode, IncidentKind, MemberDeparture
from aggregation.rebalances.failures import AGAIN_S
from aggregation.rebalances.grouping import GroupRef
from aggregation.rebalances.rebalances import ExplainedRebalance
from aggregation.rebalances.segments import MemberRef, is_unexplained, member_of, segments
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, parse_time
from metrics.model.signals import streams_thread
from metrics.tracking.source_traits import BROKER_SOURCES

QUIET_S = 600.0
RETRY_S = 1.0
"""Two lines of one error are nearer than this, two joins are not."""
VIEWS_S = 2.0
"""Log and wire of two agents show one error this near to each other."""
_RIGHTS = {
    "GROUP_AUTHORIZATION_FAILED": "group",
    "SASL_AUTHENTICATION_FAILED": "cluster",
    "TOPIC_AUTHORIZATION_FAILED": "topics",
}
"""The right that a member has lost, by error."""
_OF_MEMBERS = {"group", "cluster"}
_OF_READERS = re.compile(r"^(?:Heartbeat|OffsetCommit) answered|(?i:^offset ?commit failed)")
"""Refused requests of a member that still reads, if it has lost the right to its group."""
_FENCED = {"FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"}


class Refusal(NamedTuple):
    """One error that a member met. ``at`` is Unix seconds."""

    at: float
    member: MemberRef
    reason: str
    source: str
    seconds: float = 0.0
    """Length of the episode that it ended, if that is part of no rebalance."""
    member_id: str | None = None


class _ProcessNames(NamedTuple):
    """One process of a member, with the time of its first record (Unix seconds)."""

    at: float
    client_id: str
    host: str
    member_id: str


class _JoinHistory(NamedTuple):
    errors: list[Refusal]
    joins: list[tuple[float, str]]
    """Time and client id: two clients may share an instance id."""
    processes: dict[str, _ProcessNames]
    """Processes of a static member by member id."""
    ends: list[float]
    """Times of its leaves."""

    def add(self, record: Sample) -> None:
        """Take a record of the member: its joins, and its processes."""
        ref, at = member_of(record), parse_time(record.ts)
        if record.outcome is Outcome.SYNCED or is_unexplained(record.reason):
            self.joins.append((at, ref.client_id))
        elif record.outcome is Outcome.LEFT or record.field == "closed":
            self.ends.append(at)
        if ref.group_instance_id and record.member_id:
            names = _ProcessNames(at, ref.client_id, ref.host, record.member_id)
            self.processes[names.member_id] = min(names, self.processes.get(names.member_id, names))


def find_refusals(
    records: Sequence[Sample],
    attributes: Mapping[tuple[str, str], Attributes],
    rebalances: Iterable[ExplainedRebalance],
    now: float,
) -> dict[GroupRef, list[Draft]]:
    """Return the incidents of members that could not join, by group; ``now`` is Unix seconds.

    Time that is part of one of the ``rebalances`` is no cost of theirs.
    """
    members: dict[GroupRef, dict[tuple[str, ...], _JoinHistory]] = defaultdict(
        lambda: defaultdict(lambda: _JoinHistory([], [], {}, []))
    )
    refused = [record for record in records if _is_refusal(record)]
    ends = {r.episode for r in refused if r.kind is SampleKind.TRANSITION} - {None}
    seconds = _measure_refused(records, ends, rebalances)
    found: dict[GroupRef, list[Refusal]] = defaultdict(list)
    for record in refused:
        at = parse_time(record.ts)
        is_end = record.kind is SampleKind.TRANSITION
        cost = seconds.get(record.episode or "", 0.0) if is_end else 0.0
        member, reason = member_of(record), record.reason or ""
        error = Refusal(at, member, reason, record.source, cost, record.member_id)
        found[GroupRef(record.cluster, record.group)].append(error)
    for group, errors in found.items():
        for error in _drop_second_views(sorted(_drop_nameless(errors), key=_order)):
            members[group][error.member.key].errors.append(error)
    for record in records if members else ():
        of_group = members.get(GroupRef(record.cluster, record.group))
        if of_group is None or record.scope is not Scope.CONSUMER:
            continue
        history = of_group.get(member_of(record).key)
        if history is not None:
            history.add(record)
    return {
        ref: _merge_losses(
            draft for member in of_group.values() for draft in _drafts(member, attributes[ref], now)
        )
        for ref, of_group in members.items()
    }


def _merge_losses(drafts: Iterable[Draft]) -> list[Draft]:
    """Return the incidents; members that lose one right together are one.

    So are threads of a Kafka Streams application that fail by one error, such as an internal topic
    with too few partitions: each fails as soon as it leads the group.
    """
    out: list[Draft] = []
    for draft in sorted(drafts, key=lambda each: each.started_at):
        right, error = draft.lost_right, _error_of_threads(draft)
        first = next(
            (
                each
                for each in out
                if (right and each.lost_right == right)
                or (error and _error_of_threads(each) == error)
            ),
            None,
        )
        pause_s = AGAIN_S if error is None else QUIET_S
        if first is None or draft.started_at > first.until + pause_s:
            out.insert(0, draft)
            continue
        numbers = [each.detail["errors"] for each in (first, draft)]
        first.absorb(draft)
        first.detail["errors"] = sum(each for each in numbers if isinstance(each, int))
    return out[::-1]


def _error_of_threads(draft: Draft) -> str | None:
    """Return the error's name or words, if threads of Kafka Streams failed by it.

    A lost right has its own rule.
    """
    is_failure = draft.kind is IncidentKind.JOIN_FAILED and not draft.lost_right
    is_streams = all(streams_thread(member.client_id) for member in draft.members)
    if not (is_failure and is_streams):
        return None
    name = draft.detail.get("error")
    return name if isinstance(name, str) else draft.reason


def _order(error: Refusal) -> tuple[float, tuple[str, ...], str]:
    """Return the sort key of an error: members may lack some of their names."""
    return error.at, error.member.key, error.reason


def _drop_nameless(errors: Iterable[Refusal]) -> Iterator[Refusal]:
    """Yield the errors without those of a log without names that another source shows with one."""
    named: dict[str | None, list[Refusal]] = defaultdict(list)
    nameless: list[Refusal] = []
    for error in errors:
        if error.member.client_id or error.member.group_instance_id:
            named[name_error(error.reason)].append(error)
            yield error
        else:
            nameless.append(error)
    for alike in named.values():
        alike.sort(key=_order)
    for error in nameless:
        alike = named[name_error(error.reason)]
        begin = bisect_left(alike, error.at - VIEWS_S, key=_at)
        end = bisect_right(alike, error.at + VIEWS_S, key=_at)
        if all(each.source == error.source for each in alike[begin:end]):
            yield error


def _at(error: Refusal) -> float:
    return error.at


def _drop_second_views(errors: Iterable[Refusal]) -> Iterator[Refusal]:
    """Yield the errors by time, without the second report of an error.

    Two agents may report one error, from log and wire. No member id links the two reports, because
    a member that cannot join has none.
    """
    pending: dict[tuple[str, str | None], list[Refusal]] = defaultdict(list)
    for error in errors:
        alike = pending[error.member.client_id, name_error(error.reason)]
        alike[:] = [each for each in alike if error.at - each.at <= VIEWS_S]
        first = next((each for each in alike if _is_other_view(each, error)), None)
        if first is None:
            alike.append(error)
            yield error
        else:
            alike.remove(first)


def _is_other_view(first: Refusal, second: Refusal) -> bool:
    is_other = first.member.key != second.member.key
    return is_other and first.source != second.source and bool(second.member.client_id)


def _measure_refused(
    records: Sequence[Sample],
    refused: Collection[str | None],
    rebalances: Iterable[ExplainedRebalance],
) -> dict[str, float]:
    """Return the seconds of each ``refused`` episode that are part of no rebalance."""
    shared = {
        (segment.member.key, segment.started_at)
        for each in (rebalances if refused else ())
        for segment in each.round.segments
        if segment.is_refused
    }
    chains: dict[str, list[Sample]] = defaultdict(list)
    for record in records if refused else ():
        if record.episode is not None and record.episode in refused:
            chains[record.episode].append(record)
    return {
        episode: sum(
            s.ended_at - s.started_at
            for s in segments(chain, 0.0)
            if s.is_refused and (s.member.key, s.started_at) not in shared
        )
        for episode, chain in chains.items()
    }


def _is_refusal(record: Sample) -> bool:
    if record.outcome is not Outcome.FAILED or record.scope is not Scope.CONSUMER:
        return False
    is_event = record.kind in {SampleKind.TRANSITION, SampleKind.SIGNAL}
    is_removal = record.source in BROKER_SOURCES and name_error(record.reason or "") not in _FENCED
    return is_event and not is_removal and bool(record.reason)


def _drafts(member: _JoinHistory, attributes: Attributes, now: float) -> Iterable[Draft]:
    ordered, joins = sorted(member.errors, key=_order), sorted(member.joins)
    joined_at = min(joins, default=(float("inf"), ""))[0]
    of_topics = [e for e in ordered if e.at > joined_at and _right_of(e) == "topics"]
    yield from _losses_of_topics(of_topics, member, attributes, now)
    errors = [error for error in ordered if error not in of_topics]
    while errors:
        first = errors[0].at
        client_id = errors[0].member.client_id
        own = [at for at, name in joins if name == client_id]
        success = next((at for at in own if at > first), float("inf"))
        run, until = [errors[0]], first
        for error in errors[1:]:
            if error.at > success or error.at > until + QUIET_S:
                break
            run.append(error)
            until = error.at
        errors = errors[len(run) :]
        was_member = any(at < first for at in own)
        draft = _draft(run, success, now, was_member=was_member)
        rights = [right for error in run if (right := _right_of(error)) in _OF_MEMBERS]
        if was_member and rights:
            draft.lost_right = rights[0]
            stop = next((error.at for error in run if not _OF_READERS.search(error.reason)), None)
            is_over = success != float("inf") or any(at >= first for at in member.ends)
            if rights[0] == "cluster" and success > run[-1].at + QUIET_S:
                stop = None
                draft.until = until
            if stop is not None:
                draft.pauses.append(Pause(run[0].member.key, stop, None))
            draft.is_pending = stop is not None and not is_over and now - run[-1].at < QUIET_S
        if draft.kind is IncidentKind.FENCED:
            draft.detail |= _name_processes(run[0], member.processes)
        yield draft


def _right_of(error: Refusal) -> str | None:
    """Return the right that a member has lost, by its error; None if it is another error."""
    return _RIGHTS.get(name_error(error.reason) or "")


def _losses_of_topics(
    errors: list[Refusal], member: _JoinHistory, attributes: Attributes, now: float
) -> Iterator[Draft]:
    """Yield the incidents of a member that could not read its topics; a sync ends none of them."""
    while errors:
        ends = [after.at > each.at + QUIET_S for each, after in pairwise(errors)]
        size = ends.index(True) + 1 if any(ends) else len(errors)
        run, errors = errors[:size], errors[size:]
        last, is_retried = run[-1], _is_retried(run)
        changes = attributes.changes_of_member.get(last.member.key, ())
        back = next((c.at for c in changes if c.owned and c.at > last.at), float("inf"))
        is_over = back != float("inf") or any(at > last.at for at in member.ends)
        draft = _draft(run, float("inf") if is_retried else back, now, was_member=True)
        draft.lost_right = "topics"
        draft.is_pending = not is_over and now - last.at < QUIET_S
        draft.pauses.append(Pause(last.member.key, run[0].at, last.at if is_retried else None))
        yield draft


def _draft(run: list[Refusal], success: float, now: float, *, was_member: bool) -> Draft:
    first, last = run[0], run[-1]
    is_fenced = any(name_error(error.reason) in _FENCED for error in run)
    draft = Draft(
        IncidentKind.FENCED if is_fenced else IncidentKind.JOIN_FAILED,
        first.at,
        reason=first.reason,
        members={error.member: None for error in run},
        until=last.at if success == float("inf") else success,
        is_pending=success == float("inf") and _is_retried(run) and now - last.at < QUIET_S,
        sources={error.source for error in run},
    )
    draft.refused_seconds = sum(error.seconds for error in run)
    draft.detail = {"errors": _count_errors(run), **_error_name(run)}
    if is_fenced and was_member:
        draft.depart(MemberDeparture(member=first.member, how=DepartureMode.FENCED, at=first.at))
    return draft


def _name_processes(error: Refusal, processes: Mapping[str, _ProcessNames]) -> dict[str, object]:
    """Return the process that met an error, and the one that has its instance id."""
    known = [each for each in processes.values() if each.at <= error.at + VIEWS_S]
    own = processes.get(error.member_id or "")
    others = [each for each in known if own is not None and each.member_id != own.member_id]
    if own is None or not others:
        return {}
    both = (own, max(others))
    return {"processes": [{n: v for n, v in each._asdict().items() if n != "at"} for each in both]}


def _is_retried(run: list[Refusal]) -> bool:
    """Check that the member tries again: a client that does not has ended with its error."""
    return run[-1].at - run[0].at >= RETRY_S


def _count_errors(run: list[Refusal]) -> int:
    """Return the number of refused joins: of one, a client may print several lines."""
    count, last = 0, run[0]._replace(at=float("-inf"))
    for error in run:
        is_same = error.at - last.at < RETRY_S and error.reason != last.reason
        if not is_same:
            count, last = count + 1, error
    return count


def _error_name(run: list[Refusal]) -> dict[str, object]:
    found = next(filter(None, (name_error(error.reason) for error in run)), None)
    return {} if found is None else {"error": found}
