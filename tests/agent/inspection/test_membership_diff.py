from dataclasses import replace

from agent.inspection.membership_diff import (
    MembershipChange,
    MembershipTracker,
    snapshot_of,
)
from agent.inspection.model import (
    Assignment,
    Description,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from metrics.model.snapshot import InspectedMember

CLASSIC = Description(
    group="g",
    type=GroupType.CLASSIC,
    protocol="consumer",
    state=GroupState.STABLE,
    coordinator=Node(1, "h", 9092),
    assignor="range",
    simple=False,
)
CONSUMER = replace(CLASSIC, type=GroupType.CONSUMER, epoch=3)
NOBODY = frozenset[InspectedMember]()
OWNED: Assignment = {"t": (0,)}


def member(member_id: str, owned: Assignment = OWNED) -> MemberDescription:
    return MemberDescription(
        member_id=member_id, instance_id=None, client_id="c", host="/h", owned=owned
    )


def who(member_id: str) -> InspectedMember:
    return InspectedMember(member_id, "c", "h")


def changes(*seen: Description) -> list[MembershipChange]:
    """Return what was told of the polls after the first."""
    watch = MembershipTracker()
    return [change for each in seen for change in watch.update([snapshot_of(each)], [])]


def test_what_is_the_same_is_no_change() -> None:
    group = replace(CLASSIC, members=(member("a"), member("b")))

    assert changes(group, replace(group, members=group.members[::-1])) == []


def test_a_rebalance_between_two_polls_left_another_epoch() -> None:
    assert changes(CONSUMER, replace(CONSUMER, epoch=5)) == [
        MembershipChange("g", "consumer", NOBODY, NOBODY, 0)
    ]


def test_partitions_that_moved_are_counted_once_the_group_is_stable() -> None:
    three: Assignment = {"t": (0, 1, 2)}
    before = replace(CONSUMER, members=(member("a", three),))
    going_on = replace(before, state=GroupState.RECONCILING, epoch=4)
    after = replace(
        CONSUMER, epoch=4, members=(member("a", {"t": (0,)}), member("b", {"t": (1, 2)}))
    )

    assert [each.moved for each in changes(before, going_on, after)] == [None, 2]


def test_members_that_came_and_went_are_told() -> None:
    before = replace(CLASSIC, members=(member("a"), member("b")))
    after = replace(CLASSIC, members=(member("b"), member("c")))

    assert changes(before, after) == [
        MembershipChange("g", "classic", frozenset({who("c")}), frozenset({who("a")}), 1)
    ]


def test_a_classic_rebalance_between_two_polls_left_other_assignments() -> None:
    before = replace(CLASSIC, members=(member("a", {"t": (0,)}), member("b", {"t": (1,)})))
    after = replace(CLASSIC, members=(member("a", {"t": (1,)}), member("b", {"t": (0,)})))

    assert changes(before, after) == [MembershipChange("g", "classic", NOBODY, NOBODY, 2)]


def test_a_classic_group_is_compared_over_a_rebalance_that_a_poll_has_seen() -> None:
    stable = replace(CLASSIC, members=(member("a", {"t": (0,)}),))
    going_on = replace(stable, state=GroupState.PREPARING_REBALANCE)
    other = replace(CLASSIC, members=(member("a", {"t": (1,)}),))

    assert changes(stable, going_on, stable) == []
    assert len(changes(stable, going_on, other)) == 1


def test_an_upgrade_to_another_type_is_a_change() -> None:
    assert len(changes(CLASSIC, CONSUMER)) == 1


def test_a_group_that_is_gone_and_comes_back_begins_anew() -> None:
    watch = MembershipTracker()
    list(watch.update([snapshot_of(CONSUMER)], []))
    list(watch.update([snapshot_of(replace(CONSUMER, epoch=4))], []))

    assert watch.groups["g"].changes == 1
    assert list(watch.update([], ["g"])) == []
    assert watch.groups == {}


def test_another_assignor_is_a_change_with_both_names_once_the_upgrade_has_ended() -> None:
    group = replace(CLASSIC, members=(member("a"), member("b")))
    joining = replace(group, state=GroupState.PREPARING_REBALANCE, assignor=None)
    upgraded = replace(group, assignor="cooperative-sticky")

    found = changes(group, joining, upgraded, upgraded)

    assert found == [
        MembershipChange("g", "classic", NOBODY, NOBODY, 0, ("range", "cooperative-sticky"))
    ]


def test_a_first_assignor_is_no_change_of_it() -> None:
    group = replace(CLASSIC, members=(member("a"),))

    assert changes(replace(group, assignor=None), group) == []
