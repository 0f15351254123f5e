from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from aggregation.live.group_views import group_views
from aggregation.live.live import live
from metrics.exporters.exposition import AppRow, DurationKey, GroupRow
from metrics.model.snapshot import (
    Durations,
    GroupKey,
    InspectedGroup,
    MemberRow,
    Snapshot,
    StatusCounts,
)
from metrics.model.status import RebalanceStatus as Status

NONE = Status.NONE
INSPECTED = InspectedGroup(
    cluster="k",
    group="g",
    group_type="classic",
    state="Stable",
    members=2,
    generation=None,
    changes=0,
)


def row(
    status: Status = NONE,
    *,
    client_id: str = "c1",
    group: str = "g",
    app: str = "a",
    peak: Status | None = None,
    counts: StatusCounts | None = None,
    since_at: float = 0.0,
) -> MemberRow:
    return MemberRow(
        cluster="k",
        app=app,
        group=group,
        group_type="classic",
        client_id=client_id,
        host="h",
        status=status,
        peak=status if peak is None else peak,
        since_at=since_at,
        counts=counts or StatusCounts({}, {}, {}),
    )


def test_members_with_equal_labels_become_their_max_and_their_counts_add_up() -> None:
    calm = row(
        peak=Status.STALE_MEMBER,
        counts=StatusCounts({Status.NEW_MEMBER: 1}, {Status.NEW_MEMBER: 2}, {NONE: 1.5}),
    )
    busy = row(
        Status.NEW_MEMBER,
        counts=StatusCounts({Status.NEW_MEMBER: 2}, {}, {NONE: 1.0, Status.NEW_MEMBER: 0.5}),
    )

    rows = live(Snapshot(at=1.0, consumers=(calm, busy)))

    counts = StatusCounts(
        {Status.NEW_MEMBER: 3}, {Status.NEW_MEMBER: 2}, {NONE: 2.5, Status.NEW_MEMBER: 0.5}
    )
    assert rows.consumers == (replace(busy, peak=Status.STALE_MEMBER, counts=counts),)
    assert rows.members == (calm, busy)


def test_among_equals_the_longest_held_status_is_shown() -> None:
    late, early = row(Status.NEW_MEMBER, since_at=2.0), row(Status.NEW_MEMBER, since_at=1.0)

    assert live(Snapshot(at=3.0, consumers=(late, early))).consumers == (early,)


def test_a_group_is_the_max_of_members_and_instances() -> None:
    snapshot = Snapshot(
        at=1.0,
        consumers=(row(Status.USER_REQUESTED), row(client_id="c2", peak=Status.RETRY_ON_ERROR)),
        instances=(row(Status.ASSIGNMENT_PROBING, client_id="i"),),
    )

    assert live(snapshot).groups == (
        GroupRow(
            cluster="k",
            group="g",
            group_type="classic",
            status=Status.ASSIGNMENT_PROBING,
            peak=Status.ASSIGNMENT_PROBING,
        ),
    )


def test_a_known_group_without_members_stays_at_zero_and_so_does_its_app() -> None:
    rows = live(Snapshot(at=1.0, groups=(GroupKey("k", "a", "g", "classic"),)))

    assert rows.groups == (
        GroupRow(cluster="k", group="g", group_type="classic", status=NONE, peak=NONE),
    )
    assert rows.apps == (AppRow(cluster="k", app="a", status=NONE, peak=NONE),)


def test_a_group_of_whose_members_nothing_is_known_has_no_status() -> None:
    known = (GroupKey("k", "a", "g", "classic"), GroupKey("k", "b", "g2", "classic"))
    unseen = frozenset({("k", "g"), ("k", "g2")})
    rows = live(Snapshot(at=1.0, consumers=(row(Status.NEW_MEMBER),), groups=known, unseen=unseen))

    assert [(each.group, each.status) for each in rows.groups] == [("g", Status.NEW_MEMBER)]
    assert [each.app for each in rows.apps] == ["a"]
    assert rows.unseen == known[1:]
    assert [(view.group, view.status) for view in group_views(rows)][1] == ("g2", None)


def test_a_group_whose_app_was_renamed_is_one_row() -> None:
    known = (GroupKey("k", "old", "g", "classic"), GroupKey("k", "a", "g", "classic"))

    rows = live(Snapshot(at=1.0, consumers=(row(Status.NEW_MEMBER),), groups=known))

    assert [(each.group, each.status) for each in rows.groups] == [("g", Status.NEW_MEMBER)]
    assert [(each.app, each.status) for each in rows.apps] == [("a", Status.NEW_MEMBER)]


def test_an_app_is_the_max_over_its_groups() -> None:
    snapshot = Snapshot(
        at=1.0, consumers=(row(Status.NEW_MEMBER), row(Status.STALE_MEMBER, group="g2"))
    )

    assert live(snapshot).apps == (
        AppRow(cluster="k", app="a", status=Status.STALE_MEMBER, peak=Status.STALE_MEMBER),
    )


def test_histograms_of_a_group_that_changed_its_type_add_up() -> None:
    snapshot = Snapshot(
        at=1.0,
        durations={
            GroupKey("k", "a", "g", "classic"): Durations((1, 0), 0.5),
            GroupKey("k", "a", "g", "consumer"): Durations((1, 2), 1.0),
        },
    )

    assert live(snapshot).durations == {DurationKey("k", "a", "g"): Durations((2, 2), 1.5)}


rows_strategy = st.lists(
    st.builds(
        row,
        st.sampled_from(Status),
        client_id=st.sampled_from(["c1", "c2"]),
        group=st.sampled_from(["g1", "g2"]),
        peak=st.sampled_from(Status),
    )
)


@given(rows_strategy, rows_strategy)
def test_a_group_equals_the_max_over_the_exported_rows(
    consumers: list[MemberRow], instances: list[MemberRow]
) -> None:
    rows = live(Snapshot(at=1.0, consumers=tuple(consumers), instances=tuple(instances)))

    exported = rows.consumers + rows.instances
    expected = {
        group: max(row.status for row in exported if row.group == group)
        for group in {row.group for row in exported}
    }
    assert {each.group: each.status for each in rows.groups} == expected


def test_a_classic_groups_generation_comes_from_its_observed_members() -> None:
    members = (
        replace(row(client_id="c1"), generation=4),
        replace(row(client_id="c2"), generation=5),
        replace(row(group="other"), generation=9),
    )
    got = replace(INSPECTED, group="epochs", group_type="consumer", generation=7)
    unseen = replace(INSPECTED, group="unseen")

    rows = live(Snapshot(at=1.0, consumers=members, inspected=(INSPECTED, got, unseen)))

    assert [each.generation for each in rows.inspected] == [5, 7, None]
