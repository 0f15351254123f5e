"""All views, second by second, during incidents of a group of real consumers."""

import time
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from agent.client.api_client import ask
from agent.lab.clients import Clients
from agent.lab.lab import Lab
from aggregation.incidents.amounts import LATE_S
from tests.system.live_scene import (
    NOTHING,
    PARTITIONS,
    LiveGroup,
    Looker,
    Ongoing,
    Phase,
    check,
    check_cost,
    going,
    live_group,
    pass_by,
    shown_after,
    unread_seconds,
    until,
)
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600)]

UNREAD_OFF_S, UNREAD_OFF_SHARE = 1.5, 0.05
"""Wire and callbacks may differ by this, and by this share."""
UNKNOWN = going("unknown")
PROCESS_S = 4.0
"""No process lives for a shorter time."""


def test_stuck_member(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            members["m2"].send("stall 10")
            stalled = group.wait("stalled", "m2", begun).at
            dropped = stalled + 4.0
            others = group.settle(["m1", "m3"], PARTITIONS)
            polls = group.wait("polls", "m2", others).at
            back = group.settle(members, PARTITIONS)
            looker.wait_past(back + 7.0)
        phases = [
            Phase(name="before the drop", start=begun, end=dropped, ongoing=NOTHING, status=0),
            Phase(
                name="out",
                start=others,
                end=polls,
                ongoing=going("poll_timeout", "m2"),
                status=5,
                waiting=frozenset(),
                # the wire shows the leave, and the log a moment later why
                on_the_way=frozenset({UNKNOWN, going("member_left", "m2")}),
            ),
            Phase(name="back", start=back, end=back + 5.0, ongoing=NOTHING, status=0),
        ]
    _assert_true(group, looker, phases, {"m2": stalled})


@pytest.mark.field
def test_revoke_callback_that_blocks(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        patient = {"max_poll_interval_ms": "60000"}
        members = {name: group.start(name, **patient) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            looker.wait_past(begun + 4.0)
            members["m2"].send("block 10")
            started = time.time()
            group.start("m4", **patient)
            blocks = group.wait("blocks", "m2", begun).at
            free = group.wait("unblocks", "m2", blocks).at
            whole = group.settle([*members, "m4"], PARTITIONS)
            looker.wait_past(whole + 8.0)
        joined = going("member_joined", "m4")
        phases = [
            Phase(name="before", start=begun, end=started, ongoing=NOTHING, status=0),
            Phase(
                name="blocked",
                start=blocks,
                end=free,
                ongoing=joined,
                status=2,
                waiting=frozenset({"m2"}),
            ),
            Phase(
                name="after",
                start=whole,
                end=whole + 5.0,
                ongoing=NOTHING,
                status=0,
                last=("member_joined", frozenset({"m4"})),
            ),
        ]
    _assert_true(group, looker, phases, {})
    (incident, *_) = looker.looks[-1].incidents
    (wait,) = incident.waiting_for
    assert wait.client_id == "m2"
    assert wait.seconds == pytest.approx(10.0, abs=1.5)


@pytest.mark.field
def test_killed_member(lab: Lab, tmp_path: Path) -> None:
    long = {"session_timeout_ms": "15000", "max_poll_interval_ms": "60000"}  # time to look
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name, **long) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            looker.wait_past(begun + 4.0)
            killed = members.pop("m3").kill()
            noticed = group.wait("revoked", "m1", killed).at
            whole = group.settle(members, PARTITIONS)
            looker.wait_past(whole + 8.0)
        phases = [
            Phase(name="before", start=begun, end=killed, ongoing=NOTHING, status=0),
            Phase(name="silent", start=killed, end=noticed - 0.5, ongoing=NOTHING, status=0),
            Phase(
                name="after",
                start=whole,
                end=whole + 8.0,
                ongoing=NOTHING,
                status=0,
                last=("session_expired", frozenset({"m3"})),
                on_the_way=frozenset({UNKNOWN}),  # who took no part is known at the end
            ),
        ]
        until(lambda: names_of(url, group) == {"m1", "m2"} or None, "end of the dead member")
    _assert_true(group, looker, phases, {"m3": killed})
    (incident, *_) = looker.looks[-1].incidents
    assert [each.client_id for each in incident.members_out] == ["m3"]


@pytest.mark.field
def test_rolling_restart_of_six(lab: Lab, tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(1, 7)]
    phases: list[Phase] = []
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in names}
        group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            for number, name in enumerate(names, 1):
                members[name].close()
                members[name] = group.start(name)
                whole = group.settle(members, PARTITIONS)
                looker.wait_past(whole + 5.0)
                phases.append(
                    Phase(
                        name=f"after {name}",
                        start=whole,
                        end=looker.looks[-1].end,
                        ongoing=NOTHING,
                        status=0,
                        last=("restart" if number == 1 else "rollout", frozenset(names[:number])),
                        on_the_way=steps_of(names[:number]),
                    )
                )
            looker.wait_past(whole + LATE_S + 10.0)  # counters show what grows so much later
    # two rebalances a member; the callbacks and the requests of one differ by some 40 ms
    off = 2 * len(names) * PARTITIONS * 0.05
    _assert_true(group, looker, phases, {}, off)
    assert [each.kind for each in looker.looks[-1].incidents] == ["rollout", "member_joined"]


@pytest.mark.field
def test_added_partition(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            looker.wait_past(begun + 4.0)
            added = time.time()
            lab.admin.do(f"set-partitions {group.topic} {PARTITIONS + 1}")
            whole = group.settle(members, PARTITIONS + 1)
            looker.wait_past(whole + 8.0)
        phases = [
            Phase(name="before", start=begun, end=added, ongoing=NOTHING, status=0),
            Phase(
                name="after",
                start=whole,
                end=whole + 5.0,
                ongoing=NOTHING,
                status=0,
                last=("metadata_changed", frozenset()),
                on_the_way=frozenset({UNKNOWN}),  # the wire shows it before the leader's log
            ),
        ]
    _assert_true(group, looker, phases, {})


@pytest.mark.field
def test_removal_by_an_admin(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url), ExitStack() as stack:
        clients = stack.enter_context(Clients(group.bootstrap, tmp_path / "admin", lab.cache))
        admin = clients.admin()
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            looker.wait_past(begun + 4.0)
            begun_at = time.time()
            admin.do(f"remove-members {group.group}")
            removed = time.time()
            group.wait("lost", "m1", begun_at)
            whole = group.settle(members, PARTITIONS)
            looker.wait_past(whole + 8.0)
        phases = [
            Phase(name="before", start=begun, end=begun_at, ongoing=NOTHING, status=0),
            Phase(
                name="after",
                start=whole,
                end=whole + 5.0,
                ongoing=NOTHING,
                status=0,
                last=("removed_by_admin", frozenset(members)),
            ),
        ]
    between = (removed - begun_at) * PARTITIONS
    _assert_true(group, looker, phases, dict.fromkeys(members, removed), between)
    assert len(looker.looks[-1].incidents) == 2


@pytest.mark.field
def test_stale_member(lab: Lab, tmp_path: Path) -> None:
    """A static member that the network holds up keeps its place, but not its generation.

    The agent reads only its log: it cannot know the trigger of the rebalance that it missed.
    """
    lab.admin.do(f"create-topic stale {PARTITIONS}")
    logs, bootstrap = tmp_path / "clients", lab.cluster.bootstrap
    hurried = {"session.timeout.ms": "60000", "max.poll.interval.ms": "5000"}
    through_proxy = {"bootstrap.servers": lab.proxy.address, "group.instance.id": "i1"}
    with (
        Observer(logs, tmp_path / "agent", role="standalone") as agent,
        Clients(bootstrap, logs, lab.cache) as clients,
        Clients(bootstrap, tmp_path / "others", lab.cache) as others,
    ):
        agent.wait_ready()
        held = clients.consumer("4.3.0", "m1", "stale", ["stale"], hurried | through_proxy)
        held.wait_for("assigned")
        other = others.consumer("4.3.0", "m2", "stale", ["stale"], hurried)
        other.wait_for("assigned")
        held.wait_for("assigned")
        until(lambda: ask(agent.url, "incidents", group="stale") or None, "join of m2")
        begun = time.time()
        with Looker(agent.url, "stale") as looker:
            looker.wait_past(begun + 4.0)
            lab.proxy.hold()
            other.do("enforce the held member misses this one")
            other.wait_for("assigned")
            released = time.time()
            lab.proxy.release()
            held.wait_for("assigned")
            whole = time.time()
            looker.wait_past(whole + 8.0)
    stale = ("stale_member", frozenset({"m1"}))
    phases = [
        Phase(name="before", start=begun, end=released, ongoing=NOTHING, status=0),
        Phase(name="after", start=whole, end=whole + 8.0, ongoing=NOTHING, status=0, last=stale),
    ]
    assert looker.faults == []
    wrong = check(looker.looks, phases)
    assert not wrong, "\n".join(wrong)


@pytest.mark.field
def test_member_that_crashes_four_times(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        for _ in range(4):
            pass_by(begun + PROCESS_S)
            members["m3"].kill()
            group.forget("m3")
            members["m3"] = group.start("m3")
            begun = group.settle(members, PARTITIONS)
        assert shown_after(url, group, begun) == ("crash_loop", ["m3"])


@pytest.mark.field
def test_process_that_is_killed_and_back_before_its_session_expires(
    lab: Lab, tmp_path: Path
) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        pass_by(group.settle(members, PARTITIONS) + PROCESS_S)
        members["m3"].kill()
        group.forget("m3")
        members["m3"] = group.start("m3")
        back = group.settle(members, PARTITIONS)
        assert shown_after(url, group, back) == ("restart", ["m3"])


@pytest.mark.field
def test_member_that_dies_while_another_one_works_long(lab: Lab, tmp_path: Path) -> None:
    patient = {"max_poll_interval_ms": "60000"}
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name, **patient) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        with Looker(url, group.group) as looker:
            looker.wait_past(begun + 4.0)
            members["m2"].send("stall 40")
            stalled = group.wait("stalled", "m2", begun).at
            killed = members.pop("m3").kill()
            noticed = group.wait("revoked", "m1", killed).at
            polls = group.wait("polls", "m2", noticed).at
            whole = group.settle(members, PARTITIONS)
            looker.wait_past(whole + 8.0)
        expired = going("session_expired", "m3")
        phases = [
            Phase(name="before", start=begun, end=stalled, ongoing=NOTHING, status=0),
            Phase(
                name="waits",
                start=noticed + 12.0,  # by then each member that lives has been asked
                end=polls,
                ongoing=expired,
                status=1,
                waiting=frozenset({"m2"}),
                on_the_way=frozenset({UNKNOWN}),
            ),
            Phase(
                name="after",
                start=whole,
                end=whole + 4.0,
                ongoing=NOTHING,
                status=0,
                last=("session_expired", frozenset({"m3"})),
            ),
        ]
    _assert_true(group, looker, phases, {"m2": stalled, "m3": killed})


@pytest.mark.field
def test_whole_group_stops(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        group.settle(members, PARTITIONS)
        for member in members.values():
            member.close()
        assert shown_after(url, group, time.time()) == ("member_left", ["m1", "m2", "m3"])


@pytest.mark.field
def test_whole_group_is_killed(lab: Lab, tmp_path: Path) -> None:
    """Nobody is left who could rebalance: the ends of their connections show it."""
    long = {"session_timeout_ms": "15000", "max_poll_interval_ms": "60000"}
    with live_group(lab, tmp_path) as (group, url):
        names = ("m1", "m2", "m3")
        members = {name: group.start(name, **long) for name in names}
        group.settle(members, PARTITIONS)
        killed = [member.kill() for member in members.values()]

        incident = until(lambda: _find_expiry(url, group), "incident of the killed members")

        assert {each["client_id"] for each in incident["members"]} == {*names}
        began = datetime.fromisoformat(incident["started_at"]).timestamp()
        assert began == pytest.approx(min(killed) + 15.0, abs=4.0)
        assert (incident["rebalances"], incident["ongoing"]) == ([], False)


def _find_expiry(url: str, group: LiveGroup) -> dict[str, Any] | None:
    found: list[dict[str, Any]] = ask(url, "incidents", group=group.group)
    return next((each for each in found if each["kind"] == "session_expired"), None)


@pytest.mark.field
def test_drop_within_the_rebalance_of_another(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        members = {name: group.start(name) for name in ("m1", "m2", "m3")}
        begun = group.settle(members, PARTITIONS)
        members["m2"].send("block 12")
        members["m4"] = group.start("m4")
        group.wait("unblocks", "m2", begun)
        whole = group.settle(members, PARTITIONS)
        assert shown_after(url, group, whole) == ("member_joined", ["m4"])
        (incident, *_) = ask(url, "incidents", group=group.group)
        assert "m2" in {each["client_id"] for each in incident["waiting_for"]}


@pytest.mark.field
def test_revoke_callback_that_blocks_in_the_new_protocol(lab: Lab, tmp_path: Path) -> None:
    with live_group(lab, tmp_path) as (group, url):
        new = {"group_protocol": "consumer", "max_poll_interval_ms": "60000"}
        members = {name: group.start(name, **new) for name in ("m1", "m2")}
        begun = group.settle(members, PARTITIONS)
        members["m1"].send("block 15")
        members["m2"].send("block 15")
        members["m3"] = group.start("m3", **new)
        blocks = until(lambda: group.find("blocks", "m1", begun), "block of m1")
        whole = group.settle(members, PARTITIONS)
        assert whole > blocks.at + 10.0
        assert shown_after(url, group, whole) == ("member_joined", ["m3"])
        (incident, *_) = ask(url, "incidents", group=group.group)
        assert {each["client_id"] for each in incident["waiting_for"]} == {"m1", "m2"}


@pytest.mark.field
def test_sources_share_the_id_of_the_cluster(lab: Lab, tmp_path: Path) -> None:
    """Clients that were connected before the agent show their cluster to nobody."""
    lab.admin.do(f"create-topic labelled {PARTITIONS}")
    logs, bootstrap = tmp_path / "clients", lab.cluster.bootstrap
    logs.mkdir()
    port = lab.cluster.brokers[0].node.port
    with ExitStack() as stack:
        group = LiveGroup(stack, logs, bootstrap, "labelled", "labelled")
        members = {name: group.start(name) for name in ("m1", "m2")}
        begun = group.settle(members, PARTITIONS)
        sources = (
            f"{{type: capture, interface: lo, ports: [{port}]}}\n  - {{type: groups, interval: 2s}}"
        )
        role = f'standalone\ncluster: {{bootstrap_servers: ["{bootstrap}"]}}'
        agent = stack.enter_context(Observer(tmp_path / "none", tmp_path / "agent", sources, role))
        agent.wait_ready()
        members["m2"].send("stall 6")
        group.wait("lost", "m2", begun)
        group.settle(members, PARTITIONS)

        def label() -> str | None:
            (row, *more) = ask(agent.url, "groups", group="labelled") or [None]
            is_whole = not more and row and row["status"] is not None and row["state"]
            return row["cluster"] if is_whole else None

        assert until(label, "one row of state and status")
        clusters = {row["cluster"] for row in ask(agent.url, "members", group="labelled")}
        assert clusters == {label()}


def steps_of(restarted: list[str]) -> frozenset[Ongoing]:
    """Return the possible ongoing incidents during the restart of the last member: kinds rise."""
    *before, last = restarted
    older = going("rollout" if len(before) > 1 else "restart", *before)
    return frozenset({going("member_left", last), going("restart", last), older})


def names_of(url: str, group: LiveGroup) -> set[str]:
    """Return the client ids that the agent shows."""
    return {row["client_id"] for row in ask(url, "members", group=group.group)}


def _assert_true(
    group: LiveGroup,
    looker: Looker,
    phases: list[Phase],
    stops: dict[str, float],
    off: float = 0.0,
) -> None:
    """Check all views at every second, and the cost.

    ``stops`` is as in `unread_seconds`, ``off`` its error.
    """
    assert looker.faults == []
    wrong = check(looker.looks, phases)
    unread = unread_seconds(group.happened, stops, phases[0].start)
    off += UNREAD_OFF_S + UNREAD_OFF_SHARE * unread
    wrong += check_cost(looker.looks[-1], unread, off)
    assert not wrong, "\n".join(wrong)
