"""One identity for each group and member, in the records of several sources. Pure.

Not every source knows the cluster, and a member's host may be learned late: the wire shows the
peer's address, the log that is found later the machine's name. A record without a cluster joins the
only known one of its group. Records that share a member id or an episode are one member's, and
have the host of the latest. A name goes before an address, which a second agent on the wire sees;
where all members whose address and name are known have one name, the address is that machine's.
Inspection, which asks the coordinator, comes last. An admin that
removes a static member names its instance alone. Members of one client id and host are separated
by their member ids (`aggregation.rebalances.twins`).

Source: incidents.md 1a.13 and 1a.14.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address

import msgspec

from aggregation.rebalances.twins import number_twins
from metrics.model.sample import DUPLICATE, Sample, SampleKind, Scope
from metrics.model.signals import streams_thread
from metrics.tracking.source_traits import BROKER_SOURCES, POLL_SOURCES

_Label = tuple[str, str, str]
"""Group, client id, host."""
_Rank = tuple[bool, bool, str]
"""Of a host: whether a poll did not give it, whether it is a name, and when it was last seen."""
_NO_RANK: _Rank = (False, False, "")


def unify_identities(records: Iterable[Sample]) -> list[Sample]:
    """Return the records with one cluster a group, and one host a member, where that is known."""
    named = _name_members(_unify_clusters(_drop_repeats(records)))
    return number_twins(_unify_hosts(_add_instances(named)))


def _drop_repeats(records: Iterable[Sample]) -> list[Sample]:
    """Return the records without episodes that another source's records have too.

    A log shows a new process before its member id is known: until then it is a member of its own.
    """
    found = list(records)
    repeats = {r.episode for r in found if r.kind is SampleKind.LOST and r.reason == DUPLICATE}
    repeats.discard(None)
    return [record for record in found if record.episode not in repeats] if repeats else found


def _name_members(records: list[Sample]) -> list[Sample]:
    """Return the records with the client of each member that has another name there.

    An admin's request names the instance of a static member alone, and so does a log of franz-go. A
    broker's log names a member by its instance, or by its member id in the new protocols. There
    that is the client's name, unless another source of the same member knows better.
    """
    if not any(_may_have_other_name(record) for record in records):
        return records
    clients = [record for record in records if not _is_named_by_id(record)]
    clients.sort(key=lambda record: record.source not in BROKER_SOURCES)  # the others know better
    by_instance: dict[tuple[str, str | None], Sample] = {
        (r.group, r.group_instance_id): r for r in clients if r.group_instance_id
    }
    by_id: dict[tuple[str, str | None], Sample] = {
        (r.group, r.member_id): r for r in clients if r.member_id
    }
    owners = {
        (r.group, r.client_id): by_id[r.group, r.member_id]
        for r in records
        if r.client_id and _is_named_by_id(r) and (r.group, r.member_id) in by_id
    }

    def name(record: Sample) -> Sample:
        if not _may_have_other_name(record):
            return record
        own = by_id.get((record.group, record.member_id))  # two processes may have one instance
        if own is None and _is_named_by_id(record):
            if record.client_id:
                own = owners.get((record.group, record.client_id))
            else:
                own = by_instance.get((record.group, record.group_instance_id))
        if own is None:
            return record
        return msgspec.structs.replace(record, client_id=own.client_id, host=own.host)

    return _keep_episodes(records, [name(record) for record in records])


def _keep_episodes(records: Iterable[Sample], named: Iterable[Sample]) -> list[Sample]:
    """Return the named records; one episode has one member.

    A broker's log ends the episode of a static member that was removed by the join of another
    process, which may have another client id.
    """
    firsts: dict[tuple[str, Scope, str], tuple[Sample, Sample]] = {}
    found: list[Sample] = []
    for record, own in zip(records, named, strict=True):
        if record.episode is not None and record.source in BROKER_SOURCES:
            key = record.group, record.scope, record.episode
            first, other = firsts.setdefault(key, (record, own))
            if _label(first) == _label(record) and _label(other) != _label(own):
                name = other.client_id
                own = msgspec.structs.replace(own, client_id=name, host=other.host)  # noqa: PLW2901
        found.append(own)
    return found


def _add_instances(records: list[Sample]) -> list[Sample]:
    """Return the records with each static member's instance id: librdkafka's log has none."""
    instances = {
        (record.group, record.client_id, name): record.group_instance_id
        for record in records
        if record.group_instance_id is not None
        for name in (record.member_id, record.episode)
        if name
    }
    if not instances:
        return records

    def add(record: Sample) -> Sample:
        if record.group_instance_id is not None or record.client_id is None:
            return record
        names = (record.member_id, record.episode)
        keys = ((record.group, record.client_id, name) for name in names if name)
        own = next((instances[key] for key in keys if key in instances), None)
        return record if own is None else msgspec.structs.replace(record, group_instance_id=own)

    return [add(record) for record in records]


def _may_have_other_name(record: Sample) -> bool:
    return _is_named_by_id(record) or record.source in BROKER_SOURCES


def _is_named_by_id(record: Sample) -> bool:
    """Return whether a member is named by its instance id or its member id."""
    instance = record.group_instance_id
    if instance is not None and (record.client_id or instance) == instance:
        return True
    return record.member_id is not None and record.client_id == record.member_id


def _unify_clusters(records: list[Sample]) -> list[Sample]:
    if all(record.cluster for record in records):
        return records
    known: dict[str, set[str]] = defaultdict(set)
    for record in records:
        if record.cluster:
            known[record.group].add(record.cluster)
    only = {group: next(iter(names)) for group, names in known.items() if len(names) == 1}
    return [
        record
        if record.cluster or record.group not in only
        else msgspec.structs.replace(record, cluster=only[record.group])
        for record in records
    ]


def _unify_hosts(records: list[Sample]) -> list[Sample]:
    first: dict[tuple[str, str | None], str] = {}
    if all(first.setdefault((r.group, r.client_id), r.host) == r.host for r in records):
        return records
    parents: dict[_Label, _Label] = {}
    owners: dict[tuple[str, str, str], _Label] = {}
    latest: dict[_Label, _Rank] = {}
    agents: dict[_Label, set[str]] = defaultdict(set)
    for record in records:
        label = _label(record)
        agents[label].add(record.agent)
        parents.setdefault(label, label)
        rank = record.source not in POLL_SOURCES, is_name(record.host), record.ts
        latest[label] = max(rank, latest.get(label, _NO_RANK))
        for name in (record.member_id, record.episode):
            if name:
                owner = owners.setdefault((record.group, label[1], name), label)
                parents[_root(parents, label)] = _root(parents, owner)
    _join_addresses(parents, agents)
    _join_instances(parents)
    _join_without_id(records, parents)
    hosts: dict[_Label, tuple[_Rank, str]] = {}
    for label, rank in latest.items():
        root = _root(parents, label)
        hosts[root] = max(hosts.get(root, (_NO_RANK, "")), (rank, label[2]))
    if len(hosts) == len(latest):
        return records
    return [_at_host(record, hosts[_root(parents, _label(record))][1]) for record in records]


@dataclass(slots=True)
class _LabelTraces:
    """What the records of one label, or of several that are joined, show."""

    first: str
    last: str
    sources: set[str] = field(default_factory=set)
    has_id: bool = False


def _join_without_id(records: Iterable[Sample], parents: dict[_Label, _Label]) -> None:
    """Join a member without an id to the only other one of its client id, of other sources.

    Java's log has the member id from 2.4 on, and a Streams instance has none. Source: decision
    0012.
    """
    seen: dict[_Label, _LabelTraces] = {}
    for record in records:
        if record.client_id:
            root = _root(parents, _label(record))
            own = seen.setdefault(root, _LabelTraces(record.ts, record.ts))
            own.first, own.last = min(own.first, record.ts), max(own.last, record.ts)
            own.sources.add(record.source)
            own.has_id = own.has_id or record.member_id is not None
    names: dict[tuple[str, str], list[_Label]] = defaultdict(list)
    for root in seen:
        names[root[:2]].append(root)
    for roots in names.values():
        without = [root for root in roots if not seen[root].has_id]
        others = [root for root in roots if root not in without[:1]]
        if without and len(others) == 1 and _may_be_one(seen[without[0]], seen[others[0]]):
            parents[without[0]] = others[0]


def _may_be_one(a: _LabelTraces, b: _LabelTraces) -> bool:
    """Check for two members that other sources report at one time."""
    return a.sources.isdisjoint(b.sources) and a.first <= b.last and b.first <= a.last


def _join_addresses(parents: dict[_Label, _Label], agents: dict[_Label, set[str]]) -> None:
    """Join members at an address to those of their client id at the machine of that address.

    A process that ended before its log was found has an address, and the next one a name. Members
    whose records have both show which machine it is: of one agent, as each has a loopback of its
    own, and only where they agree, as a relay's address is that of many machines.
    """
    names: dict[_Label, set[str]] = defaultdict(set)
    for label in parents:
        if is_name(label[2]):
            names[_root(parents, label)].add(label[2])
    addresses = [label for label in parents if label[2] and not is_name(label[2])]
    machines: dict[tuple[str, str], set[str]] = defaultdict(set)
    for label in addresses:
        for agent in agents[label]:
            machines[agent, label[2]] |= names[_root(parents, label)]
    for label in addresses:
        found = set[str]().union(*(machines[agent, label[2]] for agent in agents[label]))
        others = [(label[0], label[1], name) for name in found]
        if len(others) == 1 and others[0] in parents:
            parents[_root(parents, label)] = _root(parents, others[0])


def _join_instances(parents: dict[_Label, _Label]) -> None:
    """Join the labels of a Streams instance, as those of its threads are: it has no member id."""
    first: dict[tuple[str, _Label], _Label] = {}
    for label in list(parents):
        thread = streams_thread(label[1])
        own = None if thread is None else (label[0], thread.instance, label[2])
        if own is not None and own in parents:
            other = first.setdefault((own[1], _root(parents, label)), own)
            parents[_root(parents, own)] = _root(parents, other)


@lru_cache(maxsize=4096)
def is_name(host: str) -> bool:
    """Return whether a host is a name, and no address."""
    try:
        ip_address(host)
    except ValueError:
        return host != ""
    return False


def _label(record: Sample) -> _Label:
    return record.group, record.client_id or "", record.host


def _root(parents: dict[_Label, _Label], label: _Label) -> _Label:
    while parents[label] != label:
        parents[label] = label = parents[parents[label]]
    return label


def _at_host(record: Sample, host: str) -> Sample:
    return record if record.host == host else msgspec.structs.replace(record, host=host)
