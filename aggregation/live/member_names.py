"""Names of the rows that several agents have for one member, as its history has them: pure.

Each row stands for a record of each member id that it had lately, and the functions that join
records (`aggregation.rebalances`) join these. So the members now are those of the history.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from aggregation.live.fleet_member import FleetMember, FleetMemberKey
from aggregation.rebalances.identities import unify_identities
from aggregation.rebalances.moved_groups import end_moved_episodes
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time

_Row = tuple[FleetMemberKey, FleetMember]


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


def name_rows(rows: Mapping[FleetMemberKey, FleetMember]) -> dict[FleetMemberKey, MemberName]:
    """Return the names of the rows of a group; rows of one member have the same."""
    keys: list[FleetMemberKey] = []
    records: list[Sample] = []
    latest_at = max(row.seen_at or 0.0 for row in rows.values())
    for key, row in rows.items():
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


def _list_samples(key: FleetMemberKey, row: FleetMember, latest_at: float) -> Iterator[Sample]:
    """Yield a sample for each member id, and one of the time at which the row began.

    One without a member id is compared by time: it is there until ``latest_at``.
    """
    own = _make_record(key, row)
    for member_id in row.ids:
        yield replace(own, member_id=member_id)
    if not row.ids:
        yield replace(own, ts=format_time(latest_at))
    if row.first_at is not None:
        first_id = row.ids[0] if row.ids else None
        yield replace(own, ts=format_time(row.first_at), member_id=first_id)


def _list_moves(
    key: FleetMemberKey, row: FleetMember, names: Mapping[FleetMemberKey, MemberName]
) -> Iterator[Sample]:
    """Yield the last move of each open episode, and the last assignment."""
    own = _make_record(key, row)
    labels = names.get(key, own_name(key))._asdict()
    named = replace(own, **labels | {"group_instance_id": labels["group_instance_id"] or None})
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
        scope=Scope(key.scope),
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
