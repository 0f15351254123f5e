from dataclasses import replace

from agent.inspection.group_configs import WITH_SESSION
from agent.inspection.membership_diff import (
    AttributeChange,
    MembershipChange,
    MembershipTracker,
    snapshot_of,
)
from agent.inspection.model import (
    Assignment,
    Description,
    GroupState,
    GroupType,
    Listing,
    MemberDescription,
    Node,
)
from metrics.model.change_fields import GROUP_FIELDS
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
    """Return the reported changes of the polls after the first."""
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


def test_each_attribute_of_a_group_that_changes_has_a_name_in_the_reference() -> None:
    known = snapshot_of(CLASSIC)._replace(
        members=NOBODY, protocol="classic", assignor="range", leader="a", subscription=("t",)
    )
    other = known._replace(
        protocol="connect", assignor="sticky", leader="b", subscription=("u",), epoch=9
    )
    watch = MembershipTracker()

    found = [change for each in (known, other) for change in watch.update([each], [])]

    # lag and session timeout of a group are recorded by its source, not by this comparison
    others = {"lag", *(f"{kind.lower()}.session.timeout.ms" for kind in WITH_SESSION)}
    assert {each.field for each in found[0].attributes} == GROUP_FIELDS.keys() - others


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

    change = AttributeChange("assignor", "range", "cooperative-sticky")
    assert found == [MembershipChange("g", "classic", NOBODY, NOBODY, 0, (change,))]


def test_a_first_assignor_is_no_change_of_it() -> None:
    group = replace(CLASSIC, members=(member("a"),))

    assert changes(replace(group, assignor=None), group) == []


def test_changed_attributes_of_a_group_are_told() -> None:
    worker = MemberDescription(
        member_id="w-1", instance_id=None, client_id="w", host="/h", url="http://a:8083"
    )
    before = replace(CLASSIC, protocol="connect", members=(worker,), leader="w-1")
    other = replace(worker, member_id="w-2", url="http://b:8083")
    topics = replace(member("a"), subscription=("t",))
    more = replace(topics, subscription=("t", "u"), subscription_regex="v.*")

    (leader,) = changes(before, replace(before, members=(other,), leader="w-2"))
    (subscribed,) = changes(replace(CLASSIC, members=(topics,)), replace(CLASSIC, members=(more,)))
    (upgraded,) = changes(CLASSIC, CONSUMER)

    assert leader.attributes == (AttributeChange("leader", "w http://a:8083", "w http://b:8083"),)
    assert subscribed.attributes == (AttributeChange("subscription", "t", "re:v.*,t,u"),)
    assert upgraded.attributes == (AttributeChange("protocol", "classic", "consumer"),)


def test_a_rebalance_hides_attributes_and_changes_none() -> None:
    topics = replace(member("a"), subscription=("t",))
    stable = replace(CLASSIC, members=(topics,))
    going_on = replace(
        stable,
        state=GroupState.PREPARING_REBALANCE,
        assignor=None,
        members=(replace(topics, subscription=None),),
    )
    after = replace(stable, assignor="sticky", members=(replace(topics, subscription=("u",)),))

    (change,) = changes(stable, going_on, after)

    assert change.attributes == (
        AttributeChange("assignor", "range", "sticky"),
        AttributeChange("subscription", "t", "u"),
    )


def test_a_long_subscription_is_cut_in_its_record() -> None:
    long = tuple(f"topic-{number:04d}" for number in range(500))
    before, after = (
        replace(CLASSIC, members=(replace(member("a"), subscription=topics),))
        for topics in (("t",), long)
    )

    ((change,),) = (each.attributes for each in changes(before, after))

    assert change.after.endswith("... (500)")
    assert len(change.after) < 1100


def test_a_group_that_could_not_be_described_is_as_before_when_it_can_again() -> None:
    """An equal response is the same object; the listing between the two had another state."""
    tracker, polled = MembershipTracker(), snapshot_of(replace(CONSUMER, members=(member("a"),)))
    listing = Listing(
        group="g",
        type=GroupType.CONSUMER,
        protocol="consumer",
        state=GroupState.RECONCILING,
        coordinator=CONSUMER.coordinator,
    )
    states = list[GroupState]()
    for _ in range(2):
        assert list(tracker.update([polled], [])) == []
        states.append(tracker.groups["g"].snapshot.state)
        tracker.update_listed([listing])
        states.append(tracker.groups["g"].snapshot.state)

    assert states == [GroupState.STABLE, GroupState.RECONCILING] * 2
