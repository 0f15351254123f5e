"""Names of the rows that several agents have for one member, as its history has them: pure.

Each row stands for a record of each member id that it had lately, and the functions that join
records (`aggregation.rebalances`) join these. So the members now are those of the history.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.live.fleet_member import SAMPLED_S, FleetMember, FleetMemberKey
from aggregation.rebalances.identities import unify_identities
from aggregation.rebalances.moved_groups import end_moved_episodes
from aggregation.rebalances.unconfirmed import end_unconfirmed_episodes
from metrics.model.sample import (
    NOT_CONFIRMED,
    Outcome,
    Sample,
    SampleKind,
    format_time,
)
from metrics.model.signals import streams_thread

_Row = tuple[FleetMemberKey, FleetMember]
_LOST = "lost"
"""Name of a lost episode: that of an agent is hexadecimal."""


class MemberName(NamedTuple):
    """Labels that all rows of a member have in common."""

    cluster: str
    group: str
    client_id: str
    group_instance_id: str
    host: str


def own_name(key: FleetMemberKey) -> MemberName:
    """Return the name that one agent has for a member."""
    return MemberName(key.cluster, key.group, key.client_id, key.group_instance_id, key.host)


def list_words(key: FleetMemberKey, row: FleetMember) -> Iterator[str]:
    """Yield the names that a row can have in common with others of its member or instance."""
    yield key.client_id
    if key.group_instance_id:
        yield key.group_instance_id
    yield from row.ids
    thread = streams_thread(key.client_id)
    if thread is not None:
        yield thread.instance


def name_rows(
    rows: Mapping[FleetMemberKey, FleetMember], words: Iterable[str]
) -> dict[FleetMemberKey, MemberName]:
    """Return the names of a group's rows with these words, and of all that are joined to them."""
    wanted = _find_related(rows, words)
    found: dict[FleetMemberKey, MemberName] = {}
    several: dict[FleetMemberKey, FleetMember] = {}
    for related in wanted:
        if len(related) == 1 and related[0].cluster:
            found[related[0]] = own_name(related[0])
        else:
            several.update((key, rows[key]) for key in related)
    if not several:
        return found
    others: dict[FleetMemberKey, FleetMember] = {}
    if any(not key.cluster for key in several):
        # one of each cluster shows whether there is only one
        others = {key: rows[key] for key in {key.cluster: key for key in rows}.values()}
    named = _name_all(several | others)
    return found | {key: named[key] for key in several}


def _find_related(
    rows: Mapping[FleetMemberKey, FleetMember], words: Iterable[str]
) -> Sequence[Sequence[FleetMemberKey]]:
    """Return sets of rows that are joined by words, for each of these words."""
    by_word: dict[str, list[FleetMemberKey]] = defaultdict(list)
    for key, row in rows.items():
        for word in list_words(key, row):
            by_word[word].append(key)
    found: list[list[FleetMemberKey]] = []
    seen: set[FleetMemberKey] = set()
    for first in words:
        waiting, related = [first], list[FleetMemberKey]()
        while waiting:
            for key in by_word.pop(waiting.pop(), ()):
                if key not in seen:
                    seen.add(key)
                    related.append(key)
                    waiting += list_words(key, rows[key])
        if related:
            found.append(related)
    return found


def _name_all(rows: Mapping[FleetMemberKey, FleetMember]) -> dict[FleetMemberKey, MemberName]:
    keys: list[FleetMemberKey] = []
    records: list[Sample] = []
    # of two names the latest wins
    by_time = sorted(rows.items(), key=lambda item: (item[1].seen_at or 0.0, item[0]))
    latest_at = by_time[-1][1].seen_at or 0.0
    for key, row in by_time:
        for record in _list_samples(key, row, latest_at):
            keys.append(key)
            records.append(record)
    found: dict[FleetMemberKey, MemberName] = {}
    for key, record in zip(keys, unify_identities(records), strict=True):
        found.setdefault(key, _name_of(record))
    return found


def find_moved(
    rows: Iterable[_Row], names: Mapping[FleetMemberKey, MemberName]
) -> set[tuple[str, str]]:
    """Return spool and name of each episode that another broker's log has ended."""
    records = [record for key, row in rows for record in _list_moves(key, row, names)]
    return {
        (record.agent, record.episode or "")
        for record in end_moved_episodes(records)
        if record.kind is SampleKind.LOST
    }


def find_unconfirmed(
    rows: Iterable[_Row], names: Mapping[FleetMemberKey, MemberName], now: float
) -> set[tuple[str, str]]:
    """Return spool and name of each episode that another agent of its member has lost.

    ``now`` is Unix seconds.
    """
    records = [record for key, row in rows for record in _list_confirmations(key, row, names)]
    return {
        (record.agent, record.episode or "")
        for record in end_unconfirmed_episodes(records, now)
        if record.kind is SampleKind.LOST and record.reason != NOT_CONFIRMED
    }


def _list_samples(key: FleetMemberKey, row: FleetMember, latest_at: float) -> Iterator[Sample]:
    """Yield a sample for each member id, and one of the time at which the row began.

    One without a member id is compared by time. A quiet member is there until its next sample.
    """
    own = _make_record(key, row)
    ids = row.ids or (None,)
    until = latest_at if not row.ids else min(latest_at, (row.seen_at or 0.0) + SAMPLED_S)
    for member_id in ids:
        yield replace(own, member_id=member_id, ts=format_time(until))
    if row.first_at is not None:
        yield replace(own, member_id=ids[0], ts=format_time(row.first_at))


def _list_moves(
    key: FleetMemberKey, row: FleetMember, names: Mapping[FleetMemberKey, MemberName]
) -> Iterator[Sample]:
    """Yield the last move of each open episode, and the last assignment."""
    named = _make_named(key, row, names)
    for episode, held in row.open.items():
        yield replace(
            named,
            kind=SampleKind.TRANSITION,
            ts=format_time(held.since_at),
            episode=episode,
            to=int(held.status),
            generation=held.generation,
        )
    if row.synced_in is not None:
        yield replace(
            named,
            kind=SampleKind.TRANSITION,
            ts=format_time(row.synced_at),
            to=0,
            outcome=Outcome.SYNCED,
            generation=row.synced_in,
        )


def _list_confirmations(
    key: FleetMemberKey, row: FleetMember, names: Mapping[FleetMemberKey, MemberName]
) -> Iterator[Sample]:
    """Yield the last confirmation, the last move of each open episode, and what was lost."""
    own = replace(_make_named(key, row, names), kind=SampleKind.TRANSITION, reason=None)
    held = dict(row.open) if row.lost_status is None else row.open | {_LOST: row.lost_status}
    for episode, each in held.items():
        ts = format_time(each.since_at)
        yield replace(own, ts=ts, episode=episode, to=int(each.status))
    if row.confirmed_at:
        yield replace(own, kind=SampleKind.SIGNAL, ts=format_time(row.confirmed_at))
    if row.lost_at is not None:
        lost = replace(own, kind=SampleKind.LOST, ts=format_time(row.lost_at), episode=_LOST)
        yield replace(lost, reason=NOT_CONFIRMED)


def _make_named(
    key: FleetMemberKey, row: FleetMember, names: Mapping[FleetMemberKey, MemberName]
) -> Sample:
    """Return a periodic sample of a row, with the name that all agents have for its member."""
    labels = names.get(key, own_name(key))._asdict()
    labels["group_instance_id"] = labels["group_instance_id"] or None
    return replace(_make_record(key, row), **labels)


def _make_record(key: FleetMemberKey, row: FleetMember) -> Sample:
    """Return a periodic sample of a row."""
    return Sample(
        id="",
        kind=SampleKind.SAMPLE,
        ts=format_time(row.seen_at or row.since_at),
        agent=key.spool,
        cluster=key.cluster,
        app=row.app,
        group=key.group,
        scope=key.scope,
        client_id=key.client_id,
        group_instance_id=key.group_instance_id or None,
        host=key.host,
        source=row.source,
    )


def _name_of(record: Sample) -> MemberName:
    return MemberName(
        record.cluster,
        record.group,
        record.client_id or "",
        record.group_instance_id or "",
        record.host,
    )
