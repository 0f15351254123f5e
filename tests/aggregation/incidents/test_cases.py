"""Cases that users reported: the test of each case, and the histories that no other test has."""

import ast
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from aggregation.incidents.incidents import Analysis, analyze
from aggregation.incidents.model import IncidentKind
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time

_TESTS = Path(__file__).parents[2]
_RECORDED = "aggregation/incidents/test_recorded.py"
_GROUPS = "aggregation/explain/test_recorded_groups.py"
_CASES = "aggregation/incidents/test_cases.py"
_LIVE = "system/test_live_incidents.py"
_FIGURES = "aggregation/spark/test_figures.py"
_DOUBLED = "aggregation/spark/rollups/test_doubled_groups.py"
_TRUTH = "agent/sources/test_truth.py"


class CaseTest(NamedTuple):
    """The test of a case: its source contains ``reads``, a recording or the cause of the case."""

    file: str
    test: str
    reads: str


TABLE = {
    "incidents/dropped-member-still-out": CaseTest(
        _RECORDED, "test_dropped_member_that_is_not_back", "dropped-member-still-out"
    ),
    "incidents/kill-told-as-rollout": CaseTest(
        _RECORDED, "test_killed_member_has_expired", "kill-told-as-rollout"
    ),
    "incidents/one-group-two-clusters": CaseTest(
        _RECORDED, "test_group_of_which_some_logs_name_no_cluster", "one-group-two-clusters"
    ),
    "incidents/one-ongoing-told-as-three": CaseTest(
        _RECORDED, "test_rebalance_that_runs_is_one", "one-ongoing-told-as-three"
    ),
    "ux/dead-member-green": CaseTest(_LIVE, "test_killed_member", "end of the dead member"),
    "ux/departure-counted-twice": CaseTest(
        _GROUPS, "test_each_departure_is_counted_once", "departure-counted-twice"
    ),
    "ux/headline-tie": CaseTest(_GROUPS, "test_ties_are_counted_by_member", "headline-tie"),
    "ux/host-flip-lane": CaseTest(_GROUPS, "test_host_that_is_learned_late", "host-flip-lane"),
    "ux/invalid-request-newmember": CaseTest(
        _GROUPS, "test_join_after_a_failed_sync", "invalid-request-newmember"
    ),
    "ux/lost-time-two-answers": CaseTest(
        _GROUPS, "test_time_of_the_members_is_one_number", "lost-time-two-answers"
    ),
    "ux/silent-empty-glob": CaseTest(
        "agent/terminal/test_app.py", "test_source_without_a_file_is_named", "/none/*.log"
    ),
    "groups/admin-removal": CaseTest(
        _GROUPS, "test_connection_of_an_admin_alone", "admin-conn.pcap"
    ),
    "groups/cluster-label": CaseTest(_LIVE, "test_sources_share_the_id", "type: groups"),
    "truth/leave-while-joining": CaseTest(_TRUTH, "CASES", "leave-while-joining"),
    "spark/open-rebalance-splits": CaseTest(_CASES, "test_rebalance_that_is_under_way", "None, 7"),
    "spark/straggler-848": CaseTest(_CASES, "test_nobody_waits_in_the_new_protocol", "consumer"),
    "spark/lost-excludes-5": CaseTest(_CASES, "test_time_of_a_dropped_member", "1600.7, 5"),
    "spark/two-agents": CaseTest(_DOUBLED, "test_seconds_and_episodes_of_a_member", "two_rounds"),
    "spark/clock-skew": CaseTest(
        "aggregation/spark/rollups/test_clock_offsets.py", "test_clock_that_is_ahead", "skewed"
    ),
    "spark/end-of-group": CaseTest(_FIGURES, "test_end_of_a_group_is_a_departure", "ending"),
    "spark/storm-window": CaseTest(_FIGURES, "test_storm_is_found_at_any_time", "midnight"),
    "spark/rolling-deploy-quadratic": CaseTest(
        "benchmarks/test_short_forms.py", "test_root_causes_of_a_deploy", "incidents.py"
    ),
}
_GOLDEN = {path.name for path in (_TESTS / "golden").rglob("*")}


@pytest.mark.parametrize("case", TABLE)
def test_each_case_has_a_test_that_brings_it_about(case: str) -> None:
    """The test, or the table of a parametrized one, names the recording, and asserts something."""
    holder, name = TABLE[case], case.rpartition("/")[2]
    text = (_TESTS / holder.file).read_text()
    found = [
        ast.get_source_segment(text, node) or ""
        for node in ast.walk(ast.parse(text))
        if _name_of(node).startswith(holder.test)
    ]

    assert found, f"no {holder.test} in {holder.file}"
    assert any(holder.reads in part for part in found), (holder, found)
    tests = [part for part in found if part.startswith("def ")]
    assert all("assert " in part or "await until(" in part for part in tests), holder
    is_recorded = any(name in path for path in _GOLDEN)
    assert not is_recorded or name in holder.reads, f"{name} is recorded, but not read"


def _name_of(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def record(
    member: str, at: float, change: tuple[int, int], generation: int, *, agent: str,
    host: str, outcome: Outcome | None, group_type: str, episode: str,
) -> Sample:  # fmt: skip
    before, to = change
    return Sample(
        id=f"{agent}{member}{at}{to}", kind=SampleKind.TRANSITION, ts=format_time(at), agent=agent,
        cluster="k", app="g", group="g", group_type=group_type, scope=Scope.CONSUMER,
        client_id=member, member_id=f"{member}-id", host=host, from_=before, to=to,
        generation=generation, episode=episode, outcome=outcome, source="logs",
    )  # fmt: skip


def episode(
    member: str, at: float, until: float | None, code: int, generation: int, *, agent: str = "a",
    host: str = "h", group_type: str = "classic",
) -> list[Sample]:  # fmt: skip
    """Return a status and its end by a sync; without ``until`` it is open."""
    name = f"{agent}-{member}-{at}"
    changes: list[tuple[float, tuple[int, int], int, Outcome | None]] = [
        (at, (0, code), generation - 1, None)
    ]
    changes += [(until, (code, 0), generation, Outcome.SYNCED)] if until is not None else []
    return [
        record(member, when, change, number, agent=agent, host=host, outcome=outcome,
               group_type=group_type, episode=name)
        for when, change, number, outcome in changes
    ]  # fmt: skip


def whole(
    generation: int, at: float, members: list[str], group_type: str = "classic"
) -> list[Sample]:
    return [
        each
        for number, name in enumerate(members)
        for each in episode(name, at + 0.1 * number, at + 2.0, 2 if generation == 1 else 1,
                            generation, group_type=group_type)
    ]  # fmt: skip


def kinds(found: Analysis) -> list[IncidentKind]:
    return [each.kind for each in found.incidents]


def test_rebalance_that_is_under_way_is_one_with_all_its_members() -> None:
    """Open pieces have no generation yet, and last until now."""
    members = [f"m{number}" for number in range(8)]
    waiting = [
        each
        for number, name in enumerate(members)
        for each in episode(name, 7200 + 0.35 * number, None, 7 if number == 0 else 1, 2)
    ]

    found = analyze([*whole(1, 0.0, members), *waiting], now=7210.0)

    assert len(found.rebalances) == 2
    assert kinds(found) == [IncidentKind.MEMBER_JOINED, IncidentKind.METADATA_CHANGED]
    last = found.rebalances[-1]
    assert last.round.is_open
    assert last.seconds == pytest.approx(10.0)
    assert {segment.member.client_id for segment in last.round.consumers} == set(members)


@pytest.mark.parametrize(("slow_s", "waits"), [(4.5, 0), (9.0, 1)])
def test_nobody_waits_in_the_new_protocol_but_for_a_slow_revocation(
    slow_s: float, waits: int
) -> None:
    members = ["a", "b"]
    start = whole(1, 0.0, members, group_type="consumer")
    joined = episode("c", 1000.0, 1001.0, 2, 2, group_type="consumer")
    gives_up = episode("a", 1000.2, 1000.2 + slow_s, 10, 2, group_type="consumer")
    follows = episode("b", 1001.0, 1004.9, 1, 2, group_type="consumer")

    found = analyze([*start, *joined, *gives_up, *follows], now=1100.0)

    assert [w.member.client_id for i in found.incidents for w in i.waiting_for] == ["a"] * waits


def test_time_of_a_dropped_member_is_time_of_its_group() -> None:
    out = episode("m0", 1000.0, 1600.7, 5, 3)
    others = episode("m1", 1000.1, 1000.5, 1, 2)
    again = episode("m1", 1599.6, 1600.7, 1, 3)

    found = analyze([*whole(1, 0.0, ["m0", "m1"]), *out, *others, *again], now=2000.0)

    costs = [each.cost.member_seconds for each in found.incidents[1:]]
    assert sum(costs) == pytest.approx(600.7 + 0.4 + 1.1)


def test_member_that_two_agents_see_counts_once() -> None:
    members = ["m0", "m1"]
    sidecar = episode("m0", 1000.0, 1010.0, 7, 2, agent="sidecar", host="pod-0")
    proxy = episode("m0", 1000.002, 1010.004, 7, 2, agent="proxy", host="10.0.0.7")

    found = analyze([*whole(1, 0.0, members), *sidecar, *proxy], now=1100.0)

    (incident,) = [each for each in found.incidents if each.kind is IncidentKind.METADATA_CHANGED]
    assert incident.cost.member_seconds == pytest.approx(10.004)
    (rebalance,) = found.rebalances[1:]
    assert len({segment.member for segment in rebalance.round.consumers}) == 1


def test_static_member_that_its_log_names_by_its_instance_counts_once() -> None:
    """franz-go logs a static member's instance, not its client id; the wire shows both."""
    log = episode("i-m0", 1000.0, 1010.0, 7, 2, agent="sidecar", host="pod-0")
    wire = episode("m0", 1000.002, 1010.004, 7, 2, agent="proxy", host="10.0.0.7")
    both = [
        msgspec.structs.replace(each, member_id="i-m0-1f2e", group_instance_id="i-m0")
        for each in (*log, *wire)
    ]

    found = analyze([*whole(1, 0.0, ["m1"]), *both], now=1100.0)

    (incident,) = [each for each in found.incidents if each.kind is IncidentKind.METADATA_CHANGED]
    assert incident.cost.member_seconds == pytest.approx(10.004)
    (rebalance,) = found.rebalances[1:]
    assert {segment.member.client_id for segment in rebalance.round.consumers} == {"m0"}


def test_leave_and_join_that_two_agents_see_in_the_new_protocol_are_one_each() -> None:
    """The client logs its join before it sends it, and an epoch that the wire does not show."""
    start = whole(1, 0.0, ["a", "b"], group_type="consumer")
    joins = [
        *episode("c", 100.0, 101.0, 2, 2, agent="sidecar", group_type="consumer"),
        *episode("c", 101.4, 101.5, 2, 3, agent="node", group_type="consumer"),
    ]
    left = [
        record("c", at, change, 3, agent=agent, host="h", outcome=outcome, group_type="consumer",
               episode=f"{agent}-c-out")
        for agent, at in (("sidecar", 500.0), ("node", 500.001))
        for change, outcome in (((0, 6), None), ((6, 0), Outcome.LEFT))
    ]  # fmt: skip
    follows = [
        each
        for agent in ("sidecar", "node")
        for each in episode("a", 500.8, 501.0, 1, 4, agent=agent, group_type="consumer")
    ]

    found = analyze([*start, *joins, *left, *follows], now=600.0)

    assert [(i.kind, len(i.rebalances)) for i in found.incidents[1:]] == [
        (IncidentKind.MEMBER_JOINED, 1),
        (IncidentKind.MEMBER_LEFT, 1),
    ]
    assert [d.member.client_id for i in found.incidents for d in i.departures] == ["c"]
