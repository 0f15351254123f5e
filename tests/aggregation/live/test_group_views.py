from dataclasses import replace

from aggregation.live.group_views import GroupView, group_views
from aggregation.live.live import live
from metrics.model.snapshot import GroupKey, InspectedGroup, MemberRow, Snapshot
from metrics.model.status import RebalanceStatus as Status
from tests.aggregation.live.test_live import INSPECTED, row


def views(*rows: MemberRow, inspected: tuple[InspectedGroup, ...] = ()) -> list[GroupView]:
    return group_views(live(Snapshot(at=1.0, consumers=rows, inspected=inspected)))


def test_a_group_shows_its_gravest_member() -> None:
    busy = row(Status.USER_REQUESTED, client_id="c2")

    (view,) = views(row(Status.NEW_MEMBER), busy)

    assert (view.status, view.peak, view.highest_member, view.members) == (6, 6, busy, 2)
    assert view.state is None


def test_a_group_that_only_its_coordinator_tells_of_has_no_status() -> None:
    (view,) = views(inspected=(INSPECTED,))

    assert view == GroupView(
        cluster="k", group="g", group_type="classic", members=2, state="Stable"
    )


def test_members_and_coordinator_make_one_row() -> None:
    (view,) = views(replace(row(), generation=7), inspected=(INSPECTED,))

    assert (view.status, view.members, view.state, view.generation) == (0, 2, "Stable", 7)


def test_members_that_name_no_cluster_are_of_the_inspected_one() -> None:
    (view,) = views(replace(row(), cluster=""), inspected=(INSPECTED,))

    assert (view.cluster, view.status, view.state) == ("", 0, "Stable")


def test_the_gravest_group_is_first_and_the_unseen_last() -> None:
    calm, busy = row(group="a"), row(Status.NEW_MEMBER, group="b")
    found = views(calm, busy, inspected=(replace(INSPECTED, group="0"),))

    assert [view.group for view in found] == ["b", "a", "0"]


def test_a_group_whose_members_are_gone_stays() -> None:
    snapshot = Snapshot(at=1.0, groups=(GroupKey("k", "a", "g", "classic"),))

    (view,) = group_views(live(snapshot))

    assert (view.status, view.highest_member, view.members) == (0, None, 0)
