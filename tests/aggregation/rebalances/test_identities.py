"""One member is one, whatever its agents call it: a broker's log names it by an id."""

from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.rebalances.identities import unify_identities
from aggregation.rebalances.rebalances import explain_rebalances
from metrics.model.sample import Sample, Scope, format_time, parse_time
from metrics.model.signals import SignalKind, SourceKind
from tests.aggregation.rebalances.test_rebalances import (
    NEW,
    START,
    A,
    B,
    C,
    records,
    round_of,
)
from tests.metrics.given import raised, seen, signal

WHOLE = records(*START, *round_of(2, 100.0, A, B, C))
IDS = {"a": "tff9Ab8hTqGFJ8hMf6CtXw", "b": "2XSAlwd7QA6_62BoCDp_rg", "c": "lTAGqx7wRauM5t2XYWQF3w"}


def of_client(record: Sample) -> Sample:
    own = record.client_id or ""
    return replace(record, agent=f"pod-{own}", member_id=IDS[own], source=SourceKind.LOGS.value)


def of_broker(record: Sample, client_id: str | None = None) -> Sample:
    own = of_client(record)
    return replace(
        own,
        id=f"b{own.id}",
        agent="broker",
        client_id=client_id or own.member_id,
        host="",
        episode=own.episode and f"b{own.episode}",
        source=SourceKind.BROKER_LOG.value,
    )


def names(found: list[Sample]) -> set[tuple[str | None, str]]:
    return {(record.client_id, record.host) for record in found}


def test_a_member_id_in_place_of_a_name_is_the_clients() -> None:
    clients = [of_client(record) for record in WHOLE]
    both = [*clients, *(of_broker(record) for record in WHOLE)]

    assert names(unify_identities(both)) == names(clients)
    assert [each.members for each in analyze(both).incidents] == [
        each.members for each in analyze(clients).incidents
    ]


def test_a_member_that_a_broker_alone_knows_keeps_its_name() -> None:
    alone = [of_broker(record) for record in WHOLE]

    assert names(unify_identities(alone)) == {(name, "") for name in IDS.values()}


def test_two_processes_of_one_instance_are_told_apart_by_their_member_ids() -> None:
    """The second process comes later, with the same instance id."""
    clients = [replace(of_client(record), group_instance_id="i") for record in WHOLE]
    brokers = [replace(of_broker(record, "i"), group_instance_id="i") for record in WHOLE]
    refused = [replace(record, group_instance_id=None) for record in brokers]

    for others in (brokers, refused):
        found = unify_identities([*clients, *others])
        assert names(found) == names(clients)
        assert all(IDS[each.client_id or ""] == each.member_id for each in found)


def test_streams_instance_has_the_host_of_its_threads() -> None:
    """It has no member id: its log, the wire and a broker's log name three hosts."""
    threads = [replace(of_client(r), client_id="s-StreamThread-1-consumer") for r in WHOLE[:4]]
    threads = [replace(r, member_id=IDS["a"], host="pod") for r in threads]
    wire = [replace(r, host="10.0.0.1", source=SourceKind.WIRE.value) for r in threads]
    broker = [replace(r, host="", source=SourceKind.BROKER_LOG.value) for r in threads]
    every = [*threads, *wire, *broker]
    instances = [
        replace(r, scope=Scope.STREAMS, client_id="s", member_id=None, episode=None) for r in every
    ]

    found = unify_identities([*every, *instances])

    assert names(found) == {("s-StreamThread-1-consumer", "pod"), ("s", "pod")}


def test_member_without_an_id_is_the_only_other_one_at_its_time() -> None:
    """Java's log up to 2.3 has no member id before the leave."""
    log = [replace(of_client(r), member_id=None) for r in WHOLE if r.client_id == "a"]
    wire = [
        replace(r, host="10.0.0.1", source=SourceKind.WIRE.value, member_id="m", episode=None)
        for r in log
    ]
    later = [replace(r, ts=format_time(parse_time(r.ts) + 9_000.0)) for r in wire]
    second = [replace(r, host="pod-b", episode=r.episode and f"2{r.episode}") for r in log]

    assert names(unify_identities([*log, *wire])) == {("a", log[0].host)}
    assert len(names(unify_identities([*log, *later]))) == 2
    assert len(names(unify_identities([*log, *second, *wire]))) == 3


def on_wire(record: Sample, agent: str = "agent") -> Sample:
    """The proxy sees the address before the log is found; the process has another id then."""
    own = record.client_id or ""
    episode = record.episode and f"w{record.episode}"
    source = SourceKind.WIRE.value
    found = replace(of_client(record), id=f"w{record.id}", episode=episode, source=source)
    return replace(found, agent=agent, host="127.0.0.1", member_id=f"before-{IDS[own]}")


def on_machine(record: Sample, host: str = "pod") -> Sample:
    return replace(of_client(record), agent="agent", host=host)


def test_an_address_that_other_members_name_is_that_machine() -> None:
    """The processes of `a` share no id; those of `b` and `c` do, so that both hosts are one."""
    first = [on_wire(r) for r in WHOLE]
    second = [on_machine(r) for r in WHOLE]
    alone = replace(first[0], client_id="d", member_id="d")
    known = [replace(r, member_id=f"before-{IDS[r.client_id or '']}") for r in second]
    known = [r for r in known if r.client_id != "a"]

    found = unify_identities([*first, alone, *known, *second])

    assert names(found) == {("a", "pod"), ("b", "pod"), ("c", "pod"), ("d", "127.0.0.1")}


def test_an_address_of_several_machines_is_none_of_them() -> None:
    """A relay's address is that of all its clients; each agent's own loopback is another one."""
    known = [
        replace(on_machine(r, f"pod-{r.client_id}"), member_id=f"before-{IDS[r.client_id or '']}")
        for r in WHOLE
        if r.client_id != "a"
    ]
    second = [on_machine(r, "pod-b") for r in WHOLE if r.client_id == "a"]
    relay = unify_identities([*(on_wire(r) for r in WHOLE), *known, *second])
    of_b = [r for r in known if r.client_id == "b"]
    beside = [on_wire(r, "first" if r.client_id == "b" else "other") for r in WHOLE]

    for found in (relay, unify_identities([*beside, *of_b, *second])):
        assert {("a", "127.0.0.1"), ("a", "pod-b")} <= names(found)


def test_removed_static_member_that_comes_back_under_another_client_id() -> None:
    """A broker's log ends its episode with the assignment of the process that has its place."""
    static = {"group_instance_id": "i", "host": "h"}
    first = replace(A, client_id="d", origin="d", member_id="i-x", **static)
    second = replace(A, client_id="e", origin="e", member_id="i-y", **static)
    named = replace(A, client_id="i", origin="broker", group_instance_id="i", host="")
    old, new = replace(named, member_id="i-x"), replace(named, member_id="i-y")
    broker = SourceKind.BROKER_LOG
    found = explain_rebalances(
        records(
            *round_of(1, 0.0, A, first, causes={"a": NEW, "d": NEW}),
            seen(1.0, old, broker),
            raised(3, 100.0, old, source=broker, reason="expired"),
            *round_of(2, 100.0, A),
            signal(SignalKind.JOIN, 110.0, new, source=broker),
            *round_of(3, 110.0, A),
            signal(SignalKind.SYNC, 110.5, new, source=broker, generation=3),
            signal(SignalKind.JOIN, 110.6, second),
            signal(SignalKind.SYNC, 110.7, second, generation=3),
        ),
        lambda _: 1000.0,
        1000.0,
    )

    (_, removed, back) = found
    assert removed.trigger.member is not None
    assert removed.trigger.member.client_id == "d"
    assert [sorted(each.round.generations) for each in found] == [[1], [2], [3]]
    assert removed.member_seconds < 15
    assert back.round.ended_at - back.round.started_at < 2
