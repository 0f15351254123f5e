"""A group whose coordinator stops in a rebalance: each broker's log is read by its own agent."""

from msgspec.structs import replace

from aggregation.rebalances.moved_groups import end_moved_episodes
from aggregation.rebalances.rebalances import explain_rebalances
from metrics.model.sample import Sample, SampleKind, Scope, format_time, parse_time
from metrics.model.signals import SourceKind
from metrics.model.status import RebalanceStatus
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, records, round_of

WHOLE = records(*START, *round_of(2, 100.0, A, B, C), *round_of(3, 200.0, A, B, C))
STOPPED_AT = format_time(parse_time(WHOLE[0].ts) + 100.3)


def by(agent: str, found: list[Sample]) -> list[Sample]:
    return [
        replace(r, agent=agent, id=f"{agent}{r.id}", source=SourceKind.BROKER_LOG.value)
        for r in found
    ]


def stale(opened: Sample) -> Sample:
    """What the first agent writes ten minutes later."""
    ts = format_time(parse_time(opened.ts) + 600.0)
    return replace(
        opened, kind=SampleKind.LOST, from_=opened.to, to=None, ts=ts, id=f"l{opened.id}"
    )


FIRST = by("first", [record for record in WHOLE if record.ts < STOPPED_AT])
OPEN = [record for record in FIRST if record.to and record.ts > WHOLE[0].ts[:17] + "30"]
NEXT = by("next", [record for record in WHOLE if record.ts >= STOPPED_AT])


def test_rebalance_ends_with_the_next_coordinators_assignment() -> None:
    assert len(OPEN) == 3
    for lost in ([], [stale(record) for record in OPEN]):
        found = explain_rebalances([*FIRST, *lost, *NEXT])

        assert [each.round.is_open for each in found] == [False, False, False]
        assert [each.seconds for each in found] == [e.seconds for e in explain_rebalances(WHOLE)]


def test_an_agent_that_saw_the_assignment_itself_knows_its_members() -> None:
    """Two agents read the same log, and one member is stuck in both."""
    stuck = [r for r in WHOLE if r.client_id != "b" or r.generation != 2 or r.to]
    both = [*by("first", stuck), *by("next", stuck)]

    assert end_moved_episodes(both) == both


def test_dropped_member_is_out_of_its_group_until_it_is_back_itself() -> None:
    five = RebalanceStatus.DROPPED_GROUP.value
    dropped = [replace(r, to=five) if r in OPEN and r.client_id == "b" else r for r in FIRST]
    away = [r for r in NEXT if r.client_id != "b" or r.generation != 2]
    found = [r for r in end_moved_episodes([*dropped, *away]) if r.kind is SampleKind.LOST]
    ends = {r.client_id: r.ts for r in found}
    of_b = min(r.ts for r in away if r.client_id == "b" and r.outcome)

    assert ends == {"a": NEXT[0].ts, "b": of_b, "c": NEXT[0].ts}


def test_first_broker_need_not_have_seen_an_assignment() -> None:
    """Its agent began in the rebalance."""
    found = end_moved_episodes([*OPEN, *NEXT])

    assert [r.ts for r in found if r.kind is SampleKind.LOST] == [NEXT[0].ts] * 3


def test_streams_instance_moves_with_its_threads() -> None:
    def of_instance(record: Sample) -> Sample:
        episode = record.episode and f"i{record.episode}"
        return replace(
            record, id=f"i{record.id}", scope=Scope.STREAMS, client_id="s", episode=episode
        )

    first = [each for r in FIRST if r.client_id == "a" for each in (r, of_instance(r))]
    after = [each for r in NEXT if r.client_id == "a" for each in (r, of_instance(r))]
    found = [r for r in end_moved_episodes([*first, *after]) if r.kind is SampleKind.LOST]

    assert {(r.scope, r.client_id): r.ts for r in found} == {
        (Scope.CONSUMER, "a"): NEXT[0].ts,
        (Scope.STREAMS, "s"): NEXT[0].ts,
    }


def test_assignment_that_a_client_logs_ends_the_brokers_episode() -> None:
    """The agent of the next broker is not there."""
    clients = [replace(r, agent=f"pod-{r.client_id}", id=f"p{r.id}") for r in WHOLE]
    after = [r for r in clients if r.outcome and r.generation == 2]
    found = end_moved_episodes([*FIRST, *clients])

    assert [r.ts for r in found if r.kind is SampleKind.LOST] == [min(r.ts for r in after)] * 3


def test_static_and_dynamic_member_of_one_name_have_their_assignments_at_one_instant() -> None:
    """A name that is None has no order."""
    both = [
        replace(r, id=f"{name}{r.id}", client_id="a", host="h", group_instance_id=name)
        for r in NEXT
        for name in (None, "i-1")
    ]

    found = end_moved_episodes([*OPEN, *both])

    assert [r.ts for r in found if r.kind is SampleKind.LOST] == [NEXT[0].ts] * 3
