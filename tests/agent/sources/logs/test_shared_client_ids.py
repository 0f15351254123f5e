"""Consumers of one process that share a client id and a log."""

from collections.abc import Sequence

from metrics.model.signals import Signal
from tests.agent.sources.lines.spoken import JOINING, REBALANCING, got, is_report, says, signals

_GENERATION = "Generation{{generationId={}, memberId='{}', protocol='range'}}"


def _joins(member_id: str, generation: int, partitions: str, **names: str) -> list[str]:
    """Return the lines of one rebalance."""
    text = _GENERATION.format(generation, member_id)
    return [
        says(JOINING, **names),
        says(f"Successfully joined group with generation {text}", **names),
        says(f"Successfully synced group in generation {text}", **names),
        says(f"Adding newly assigned partitions: {partitions}", **names),
    ]


def _alternate(*lines: Sequence[str]) -> list[str]:
    return [line for each in zip(*lines, strict=True) for line in each]


def _of(found: Sequence[Signal], group: str) -> list[Signal]:
    return [each for each in found if each.member.group == group]


def _assigned(found: Sequence[Signal]) -> list[tuple[str, ...] | None]:
    return [each.assigned for each in found if is_report(each)]


def test_two_groups_of_one_client_id_keep_their_states() -> None:
    one = [*_joins("c-1", 1, "t-0", group="g"), says(REBALANCING, group="g")]
    two = [*_joins("c-2", 7, "u-0", group="h"), says(REBALANCING, group="h")]

    found = signals(*_alternate(one, two))

    for group, member_id, generation in (("g", "c-1", 1), ("h", "c-2", 7)):
        own = _of(found, group)
        assert got(own) == ["join", "sync", "1"]
        assert _assigned(own) == [(("t-0" if group == "g" else "u-0"),)]
        assert (own[-1].member.member_id, own[-1].generation) == (member_id, generation)


def test_static_members_of_one_client_id_keep_their_states() -> None:
    one = [*_joins("i1-1", 1, "t-0"), says(REBALANCING)]
    two = [*_joins("i2-1", 1, "t-1"), says(REBALANCING)]

    found = signals(
        *_alternate(
            [line.replace("[Consumer ", "[Consumer instanceId=i1, ") for line in one],
            [line.replace("[Consumer ", "[Consumer instanceId=i2, ") for line in two],
        )
    )

    for instance, partition in (("i1", "t-0"), ("i2", "t-1")):
        own = [each for each in found if each.member.group_instance_id == instance]
        assert got(own) == ["join", "sync", "1"]
        assert _assigned(own) == [(partition,)]
        assert own[-1].member.member_id == f"{instance}-1"


def test_a_held_sync_does_not_hold_signals_of_another_group() -> None:
    held = _joins("c-1", 1, "t-0", group="g")[:3]

    found = signals(*held, *_joins("c-2", 7, "u-0", group="h"), says("x"))

    assert [(each.member.group, got([each])) for each in found] == [
        ("g", ["join"]),
        ("h", ["join"]),
        ("h", ["sync"]),
        ("h", []),
        ("g", ["sync"]),
    ]
