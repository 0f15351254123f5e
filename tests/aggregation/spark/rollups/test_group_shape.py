"""Number of members and partitions, and hosts, as changes of a group."""

from datetime import date, timedelta

from msgspec.structs import replace

from aggregation.spark.rollups.daily_rebalances import Carried, GroupDays
from aggregation.spark.rollups.group_shape import Shape, describe_changes
from metrics.model.sample import Outcome, Sample, SampleKind
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT, Client, rebalance

MONDAY = date(2025, 11, 24)


class Group:
    """A group whose members share some partitions."""

    def __init__(self, *hosts: str, partitions: int = 12) -> None:
        self.members = [Client(group="g", client_id="c", host=host) for host in hosts]
        self.partitions = partitions

    def start(self, *hosts: str) -> None:
        self.members += [Client(group="g", client_id="c", host=host) for host in hosts]

    def rebalance(self, day: int, hour: int = 10) -> list[Sample]:
        """Return the records of a rebalance that shares the partitions among the members."""
        at = START_AT + day * DAY_S + hour * 3600
        rebalance(self.members, at, S.NEW_MEMBER, 3.0)
        for n, member in enumerate(self.members):
            owned = ",".join(str(p) for p in range(n, self.partitions, len(self.members)))
            member.record(
                at + 3.1,
                kind=SampleKind.CHANGE,
                subject="member",
                field="partitions",
                after=f"t:{owned}",
                to=None,
                episode=None,
            )
        return self.take()

    def take(self) -> list[Sample]:
        found = [record for member in self.members for record in member.written]
        for member in self.members:
            member.written.clear()
        return found


def shapes(*days: list[Sample]) -> list[dict[str, str]]:
    """Return what is new on each of some days in a row."""
    found, carried = [], Carried()
    for n, events in enumerate(days):
        group = GroupDays(carried)
        group.day(MONDAY + timedelta(n), events, {})
        new = {} if group.shape is None else describe_changes(group.shape, carried.shapes)
        found.append(dict(new))
        carried = Carried.decode(group.carried.encode())
    return found


def test_more_members_and_their_hosts_are_a_change() -> None:
    group = Group("n1", "n2")
    first = group.rebalance(0)
    group.start("n3")

    found = shapes(first, [], group.rebalance(2))

    assert found == [{}, {}, {"members": "2 → 3", "hosts": "with n3"}]


def test_a_replaced_host_is_a_change_and_the_number_of_members_is_none() -> None:
    group = Group("n1", "n2")
    first = group.rebalance(0)
    gone = group.members.pop()
    at = START_AT + DAY_S + 9 * 3600
    gone.move(at, S.USER_REQUESTED)
    gone.settle(at + 1, Outcome.LEFT)
    group.start("n3")

    assert shapes(first, gone.written + group.rebalance(1))[1] == {"hosts": "n2 → n3"}


def test_a_member_that_vanished_owns_nothing_once_others_do() -> None:
    group = Group("n1", "n2", "n3")
    first = group.rebalance(0)
    del group.members[2]

    assert shapes(first, group.rebalance(1))[1] == {"members": "3 → 2"}


def test_a_member_that_a_rebalance_does_not_touch_is_one() -> None:
    """Under KIP-848 only those rebalance that get or lose partitions."""
    group = Group("n1", "n2", "n3")
    first = group.rebalance(0)
    at = START_AT + DAY_S + 9 * 3600
    rebalance(group.members[:2], at, S.COORDINATOR_REQUESTED, 3.0)

    assert shapes(first, group.take())[1] == {}


def test_more_partitions_are_a_change() -> None:
    group = Group("n1", "n2")
    first = group.rebalance(0)
    group.partitions = 24

    assert shapes(first, group.rebalance(1))[1] == {"partitions": "12 → 24"}


def test_a_group_that_grows_and_shrinks_daily_has_no_news() -> None:
    small, large = Shape(1.0, 3, 12, ("n1",)), Shape(2.0, 5, 12, ("n1",))  # on two days

    assert describe_changes(small, (small, large)) == {}
    assert describe_changes(Shape(3.0, 6, 12, ("n1",)), (small, large)) == {"members": "5 → 6"}


def test_a_number_that_was_another_one_for_a_week_is_a_change_again() -> None:
    small, large = Shape(1.0, 4, None, ("n1",)), Shape(2.0, 6, None, ("n1",))
    later = Shape(20 * DAY_S, 4, None, ("n1",))

    assert describe_changes(later, (small, large)) == {"members": "6 → 4"}


def test_a_deploy_of_pods_is_no_change_of_hosts() -> None:
    group = Group("pay-795699cgb-27cpb", "pay-795699cgb-667gz")
    first = group.rebalance(0)
    group.members.clear()
    group.start("pay-8mlrp2ntj-2rslg", "pay-8mlrp2ntj-5vmcs")

    assert shapes(first, group.rebalance(1)) == [{}, {}]


def test_kip_848_without_assignments_has_no_shape() -> None:
    group = Group("n1", "n2", "n3")
    first = [replace(record, group_type="consumer") for record in group.rebalance(0)]
    rebalance(group.members[:2], START_AT + DAY_S + 3600, S.COORDINATOR_REQUESTED, 3.0)
    second = [replace(record, group_type="consumer") for record in group.take()]
    hidden = [[r for r in day if r.field != "partitions"] for day in (first, second)]

    assert shapes(*hidden) == [{}, {}]
    assert shapes(first, second) == [{}, {}]


def test_many_hosts_are_named_in_part() -> None:
    before = Shape(1.0, 5, None, tuple(f"a{n}" for n in range(5)))
    after = Shape(2.0, 5, None, tuple(f"b{n}" for n in range(5)))

    found = describe_changes(after, (before,))

    assert found == {"hosts": "a0, a1, a2 and 2 more → b0, b1, b2 and 2 more"}


def test_a_rebalance_that_another_one_follows_has_no_shape() -> None:
    """At midnight a member may just be away."""
    group = Group("n1", "n2")
    first = group.rebalance(0)
    del group.members[1]
    at = START_AT + 2 * DAY_S - 40.0
    rebalance(group.members, at, S.COORDINATOR_REQUESTED, 3.0)
    group.start("n2")
    rebalance(group.members, at + 20.0, S.NEW_MEMBER, 10.0)

    assert shapes(first, group.take()) == [{}, {}]
