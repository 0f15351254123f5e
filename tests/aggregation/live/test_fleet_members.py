"""Members that several agents see at a hub: one beside the client, on the wire, at the brokers."""

from collections.abc import Iterable
from dataclasses import replace as replace_config

import msgspec
import pytest
from msgspec.structs import replace

from aggregation.live.fleet import Fleet
from aggregation.live.fleet_member import _MAX_OPEN
from metrics.model.sample import NOT_CONFIRMED, Outcome, Sample, SampleKind, Scope, format_time
from metrics.model.signals import SourceKind
from metrics.model.snapshot import MemberRow
from metrics.tracking.status_track import StatusConfig

CONFIG = StatusConfig()
LOG, WIRE, BROKER, NEXT = "log", "wire", "broker", "next"
HOSTS = {LOG: "pod-a", WIRE: "10.0.0.1", BROKER: "", NEXT: ""}
SOURCES = {
    LOG: SourceKind.LOGS,
    WIRE: SourceKind.WIRE,
    BROKER: SourceKind.BROKER_LOG,
    NEXT: SourceKind.BROKER_LOG,
}
BASE = Sample(
    id="",
    kind=SampleKind.SAMPLE,
    ts="",
    cluster="k",
    app="g",
    group="g",
    scope=Scope.CONSUMER,
    client_id="c",
    member_id="m1",
    source="",
    to=0,
)


class Hub:
    """A fleet whose agents live."""

    def __init__(self) -> None:
        self.fleet = Fleet(CONFIG)
        self._agents: set[str] = set()

    def take(self, agent: str, kind: SampleKind, at: float, **fields: object) -> None:
        """Apply a record of an agent; its host and source are the agent's."""
        self._agents.add(agent)
        self.fleet.record_contact(agent, at)
        source = SOURCES[agent].value
        record = replace(BASE, kind=kind, ts=format_time(at), host=HOSTS[agent], source=source)
        self.fleet.apply(agent, replace(record, **fields))

    def raise_to(self, agent: str, status: int, at: float, **fields: object) -> None:
        before: dict[str, object] = {"from_": 0, "to": status, "episode": f"{agent}-1"}
        self.take(agent, SampleKind.TRANSITION, at, **before | fields)

    def end(
        self, agent: str, at: float, outcome: Outcome = Outcome.SYNCED, **fields: object
    ) -> None:
        before: dict[str, object] = {"from_": 1, "to": 0, "episode": f"{agent}-1"}
        self.take(agent, SampleKind.TRANSITION, at, outcome=outcome, **before | fields)

    def sample(self, at: float, *agents: str, **fields: object) -> None:
        """Apply periodic samples of the member."""
        for agent in agents:
            self.take(agent, SampleKind.SAMPLE, at, **fields)

    def rows(self, at: float, scope: Scope = Scope.CONSUMER) -> list[MemberRow]:
        for agent in self._agents:
            self.fleet.record_contact(agent, at)
        return list(self.fleet.rows(scope, at))

    def statuses(self, at: float) -> list[int]:
        return [int(row.status) for row in self.rows(at)]


def names(rows: Iterable[MemberRow]) -> list[tuple[str, str, str]]:
    return [(row.cluster, row.client_id, row.host) for row in rows]


def test_member_of_three_agents_is_one_with_one_host() -> None:
    hub = Hub()
    hub.sample(10.0, LOG, WIRE, BROKER)

    assert names(hub.rows(11.0)) == [("k", "c", "pod-a")]


def test_broker_names_a_member_by_its_member_id() -> None:
    """KIP-848: its log has no client id."""
    hub = Hub()
    hub.sample(10.0, LOG)
    hub.sample(10.0, BROKER, client_id="m1")

    assert names(hub.rows(11.0)) == [("k", "c", "pod-a")]


def test_member_id_is_that_of_the_agent_that_knows_it() -> None:
    """The log of Java 2.3 names none at a join; the traffic does."""
    hub = Hub()
    hub.raise_to(WIRE, 2, 10.0, generation=1)
    hub.raise_to(LOG, 2, 10.1, generation=2, member_id=None)

    assert [(row.member_id, row.generation) for row in hub.rows(11.0)] == [("m1", 2)]


def test_two_processes_of_one_instance_are_one_member() -> None:
    """A static member came back under another client id; the log of the first is still there."""
    hub = Hub()
    for agent, client_id, member_id in ((LOG, "d", "m2"), (LOG, "e", "m3"), (BROKER, "i", "m3")):
        own = {"client_id": client_id, "member_id": member_id, "group_instance_id": "i"}
        hub.take(agent, SampleKind.CHANGE, 10.0, joined_ts=format_time(10.0), **own)
    hub.sample(11.0, LOG, client_id="d", member_id="m2", group_instance_id="i")
    hub.raise_to(LOG, 1, 12.0, client_id="e", member_id="m3", group_instance_id="i")

    assert [(row.client_id, int(row.status)) for row in hub.rows(13.0)] == [("e", 1)]


def test_process_that_is_refused_is_not_the_member_of_its_instance() -> None:
    """KIP-848: the instance id is in use. The member that has it then leaves."""
    hub = Hub()
    own: dict[str, object] = {"group_instance_id": "i", "member_id": "m2", "client_id": "d"}
    reason = "joined without a visible cause"
    hub.take(LOG, SampleKind.SIGNAL, 9.0, reason=reason, generation=4, **own)
    second = own | {"member_id": "m3", "client_id": "e", "episode": "e"}
    hub.raise_to(LOG, 2, 10.0, **second)
    hub.end(LOG, 10.5, Outcome.FAILED, **second)
    hub.raise_to(LOG, 6, 12.0, **own)
    hub.end(LOG, 12.0, Outcome.LEFT, **own)

    assert [(row.client_id, int(row.status)) for row in hub.rows(13.0)] == [("d", 6)]


def test_member_without_an_id_is_the_only_other_one_of_its_client_id() -> None:
    """Java's log up to 2.3 has the member id in the line of the leave alone."""
    hub = Hub()
    hub.sample(10.0, WIRE)
    hub.sample(25.0, LOG, member_id=None)
    hub.sample(25.0, WIRE)

    assert names(hub.rows(26.0)) == [("k", "c", "pod-a")]


def test_two_pods_of_one_client_id_and_no_member_id_are_two() -> None:
    hub = Hub()
    hub.sample(10.0, LOG, member_id=None)
    hub.sample(10.0, LOG, member_id=None, host="pod-b")
    hub.sample(10.0, WIRE)

    assert len(hub.rows(11.0)) == 3


def test_group_of_an_agent_without_a_cluster_is_that_of_the_others() -> None:
    hub = Hub()
    hub.sample(10.0, LOG, WIRE)
    hub.sample(10.0, BROKER, cluster="")

    assert names(hub.rows(11.0)) == [("k", "c", "pod-a")]
    assert [(key.cluster, key.group) for key in hub.fleet.groups()] == [("k", "g")]


def test_member_has_its_cluster_back_when_a_second_one_is_there() -> None:
    """Of two clusters nothing shows the one that the agent without a name is in."""
    hub = Hub()
    hub.sample(10.0, BROKER, cluster="")
    hub.sample(10.0, LOG)
    shown = [{row.cluster for row in hub.rows(11.0)}]
    hub.sample(12.0, WIRE, cluster="other", client_id="d", member_id="m9")
    shown.append({row.cluster for row in hub.rows(13.0)})

    assert shown == [{"k"}, {"", "k", "other"}]


def test_equal_names_in_two_clusters_are_two_members() -> None:
    hub = Hub()
    hub.sample(10.0, LOG)
    hub.sample(10.0, WIRE, cluster="other", member_id="m9")
    hub.sample(10.0, BROKER, cluster="", member_id="m8")

    assert sorted(row.cluster for row in hub.rows(11.0)) == ["", "k", "other"]


def test_streams_instance_has_the_host_of_its_threads() -> None:
    hub = Hub()
    for agent in (LOG, WIRE, BROKER):
        hub.sample(10.0, agent, client_id="s-StreamThread-1-consumer")
        hub.sample(10.0, agent, client_id="s", member_id=None, scope=Scope.STREAMS)

    assert names(hub.rows(11.0, Scope.STREAMS)) == [("k", "s", "pod-a")]


@pytest.mark.parametrize("restart", [False, True])
def test_episode_of_a_member_whose_labels_change_is_not_open_twice(*, restart: bool) -> None:
    """One agent: the wire shows the member before its log, with another host; the log the end.

    The first row kept its status until the agent was gone.
    """
    hub = Hub()
    hub.raise_to(LOG, 2, 10.0, host="10.0.0.1")
    if restart:
        hub.fleet = Fleet(CONFIG, hub.fleet.state())
    hub.end(LOG, 11.0)

    assert hub.statuses(12.0) == [0]
    assert names(hub.rows(12.0)) == [("k", "c", "pod-a")]


def test_status_ends_with_the_next_coordinators_assignment() -> None:
    """The broker of the first log stops in a rebalance, another one finishes it."""
    hub = Hub()
    for agent in (LOG, BROKER):
        hub.raise_to(agent, 1, 10.0, generation=4)
    shown = [hub.statuses(11.0)]
    hub.end(NEXT, 12.0, generation=5)
    hub.end(LOG, 12.0, generation=5)
    shown.append(hub.statuses(13.0))

    assert shown == [[1], [0]]


def test_dropped_member_is_out_until_its_own_assignment() -> None:
    hub = Hub()
    hub.raise_to(BROKER, 5, 10.0, generation=4)
    hub.end(NEXT, 12.0, generation=5, client_id="other", member_id="m2")
    shown = [sorted(hub.statuses(13.0))]
    hub.end(NEXT, 14.0, generation=6)
    shown.append(sorted(hub.statuses(15.0)))

    assert shown == [[0, 5], [0, 0]]


def test_leave_lingers_once_and_the_member_is_forgotten_by_all() -> None:
    """A log without a line for the close still has the member in its samples."""
    hub = Hub()
    hub.sample(9.0, LOG, WIRE)
    hub.raise_to(WIRE, 6, 10.0)
    hub.end(WIRE, 10.0, Outcome.LEFT)
    shown = []
    for at in (11.0, 75.0, 315.0, 330.0, 900.0, 2_000.0):
        hub.sample(at, LOG)
        shown.append(hub.statuses(at))

    assert shown == [[6], [0], [], [], [], []]
    assert hub.fleet.unseen(2_000.0) == frozenset()


def test_member_that_comes_back_is_shown_by_the_agent_that_sees_it() -> None:
    hub = Hub()
    hub.sample(9.0, LOG, WIRE)
    hub.raise_to(WIRE, 6, 10.0)
    hub.end(WIRE, 10.0, Outcome.LEFT)
    hub.take(LOG, SampleKind.CHANGE, 20.0, field="joined", joined_ts=format_time(20.0))
    shown = [hub.statuses(21.0)]
    hub.sample(400.0, LOG)
    shown.append(hub.statuses(400.0))

    assert shown == [[0], [0]]


def test_member_is_back_although_its_agents_clock_is_behind() -> None:
    """A pod that restarts on another host has its name and another clock."""
    hub = Hub()
    hub.raise_to(WIRE, 6, 100.0)
    hub.end(WIRE, 100.0, Outcome.LEFT)
    hub.fleet.record_contact(LOG, 105.0)
    own = {"host": HOSTS[LOG], "source": "logs", "member_id": "m1", "from_": 0}
    back = replace(BASE, kind=SampleKind.TRANSITION, ts=format_time(60.0), to=2, episode="e", **own)
    hub.fleet.apply(LOG, back)
    hub.fleet.apply(LOG, replace(back, to=0, from_=2, outcome=Outcome.SYNCED))
    hub.sample(450.0, LOG)

    assert hub.statuses(450.0) == [0]


@pytest.mark.parametrize("dropped_at", [9.9, 10.1])
def test_drop_in_the_log_is_no_leave_of_the_wire(dropped_at: float) -> None:
    """A leave without a reason on the wire is 6; the log knows better."""
    hub = Hub()
    hub.sample(9.0, LOG, WIRE)
    hub.raise_to(WIRE, 6, 10.0)
    hub.end(WIRE, 10.0, Outcome.LEFT)
    hub.raise_to(LOG, 5, dropped_at)

    assert hub.statuses(11.0) == [5]


def test_member_that_leaves_in_a_rebalance_has_left() -> None:
    """The brokers' log still has it in the rebalance that runs."""
    hub = Hub()
    hub.raise_to(BROKER, 1, 9.0)
    hub.raise_to(WIRE, 6, 10.0)
    hub.end(WIRE, 10.0, Outcome.LEFT)

    assert [hub.statuses(at) for at in (11.0, 71.0)] == [[6], [0]]


def test_removed_member_is_out_until_its_client_is_back() -> None:
    """The broker's log ends its episode when the others have their assignment."""
    hub = Hub()
    hub.end(WIRE, 9.0)
    hub.raise_to(BROKER, 3, 10.0)
    hub.end(BROKER, 11.0, Outcome.FAILED, from_=3)
    hub.sample(15.0, WIRE, BROKER)
    shown = [hub.statuses(16.0)]
    hub.raise_to(WIRE, 3, 20.0)
    hub.end(WIRE, 21.0)
    shown.append(hub.statuses(22.0))

    assert shown == [[3], [0]]


def test_removed_member_whose_process_is_gone_is_forgotten() -> None:
    """Its connection has ended, so its agent samples it no more; the broker's does."""
    hub = Hub()
    hub.end(WIRE, 9.0)
    hub.raise_to(BROKER, 3, 10.0)
    hub.end(BROKER, 11.0, Outcome.FAILED, from_=3)
    hub.sample(15.0, WIRE, BROKER)
    other = {"client_id": "d", "member_id": "m2"}
    shown = []
    for at in (30.0, 311.0, 330.0, 1_000.0):
        hub.sample(at, BROKER)
        hub.sample(at, WIRE, **other)
        shown.append([row.client_id for row in hub.rows(at)])

    assert shown == [["c", "d"], ["d"], ["d"], ["d"]]


def test_last_member_of_an_agent_is_forgotten() -> None:
    """Its process is gone, so its agent has no samples any more."""
    hub = Hub()
    hub.end(WIRE, 9.0)
    hub.sample(15.0, WIRE)
    hub.sample(30.0, WIRE)
    shown = []
    for at in (45.0, 300.0, 356.0):
        hub.fleet.record_idle(WIRE, at)
        shown.append(hub.statuses(at))
    restarted = Fleet(CONFIG, hub.fleet.state())
    restarted.record_contact(WIRE, 357.0)

    assert shown == [[0], [0], []]
    assert list(restarted.rows(Scope.CONSUMER, 357.0)) == []


def test_lost_status_stays_lost_when_its_agent_forgets_the_member() -> None:
    """The log does not show how long a status is valid; the wire does, and samples others."""
    hub = Hub()
    hub.sample(9.0, LOG, WIRE)
    hub.raise_to(WIRE, 3, 10.0)
    hub.raise_to(LOG, 3, 10.0)
    lost = {"from_": 3, "to": None, "episode": f"{WIRE}-1", "reason": NOT_CONFIRMED}
    hub.take(WIRE, SampleKind.LOST, 30.0, **lost)
    shown = []
    for at in (45.0, 400.0):
        hub.sample(at, WIRE, client_id="d", member_id="m2")
        hub.sample(at, LOG, to=3, episode=f"{LOG}-1")
        shown.append([row.client_id for row in hub.rows(at)])

    assert shown == [["d"], ["d"]]


def test_member_of_an_agent_that_samples_seldom_stays() -> None:
    hub = Hub()
    hub.end(WIRE, 9.0)
    for at in (600.0, 1_200.0):
        hub.sample(at, WIRE)
    hub.fleet = Fleet(CONFIG, hub.fleet.state())
    hub.fleet.record_idle(WIRE, 1_790.0)

    assert hub.statuses(1_790.0) == [0]


def test_removed_member_of_an_agent_without_others_is_not_shown_as_out() -> None:
    hub = Hub()
    hub.end(WIRE, 9.0)
    hub.sample(15.0, WIRE)
    hub.raise_to(BROKER, 3, 20.0)
    hub.end(BROKER, 21.0, Outcome.FAILED, from_=3)
    shown = []
    for at in (30.0, 45.0):
        hub.sample(at, BROKER)
        hub.fleet.record_idle(WIRE, at)
        shown.append(hub.statuses(at))

    assert shown == [[3], [0]]


def test_removed_member_of_a_silent_client_is_stale_in_the_end() -> None:
    hub = Hub()
    hub.end(LOG, 9.0)
    hub.raise_to(BROKER, 3, 10.0)
    hub.end(BROKER, 11.0, Outcome.FAILED, from_=3)
    hub.sample(600.0, LOG, BROKER)
    shown = [hub.statuses(600.0)]
    hub.sample(615.0, LOG, BROKER)
    shown.append(hub.statuses(615.0))

    assert shown == [[3], [0]]


def test_member_that_its_agent_has_forgotten_is_gone() -> None:
    """Its file is gone; the agent lives and samples the others."""
    hub = Hub()
    hub.sample(10.0, LOG)
    for at in (25.0, 295.0, 310.0):
        hub.sample(at, LOG, client_id="d", member_id="m2")

    assert [row.client_id for row in hub.rows(311.0)] == ["d"]


def test_open_episodes_of_a_row_are_bounded() -> None:
    """A hostile agent begins episodes and ends none."""
    hub = Hub()
    for number in range(2 * _MAX_OPEN):
        hub.raise_to(LOG, 1, 10.0, episode=f"e{number}")

    assert hub.statuses(11.0) == [1]
    (row,) = hub.fleet._rows.values()
    assert len(row.open) == _MAX_OPEN


def test_open_episodes_of_all_rows_are_bounded() -> None:
    hub = Hub()
    hub.fleet = Fleet(replace_config(CONFIG, members=3))
    for number in range(20):
        hub.raise_to(LOG, 1, 10.0, client_id=f"c{number % 2}", episode=f"e{number}")

    assert sum(len(row.open) for row in hub.fleet._rows.values()) == 6
    assert hub.fleet.evicted == 14


def test_of_two_equal_statuses_one_has_no_reason() -> None:
    """Two members share a row: both begin at one instant, and one of them names no reason."""
    hub = Hub()
    hub.raise_to(WIRE, 6, 10.0, reason="closed")
    hub.raise_to(WIRE, 6, 10.0, reason=None, episode="other")
    hub.raise_to(WIRE, 6, 11.0, reason=None, episode="third")

    assert hub.statuses(12.0) == [6]


def test_state_with_a_scope_that_is_none_is_refused() -> None:
    hub = Hub()
    hub.sample(10.0, LOG)
    text = msgspec.json.encode(hub.fleet.state())

    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'x'"):
        Fleet(CONFIG, msgspec.json.decode(text.replace(b'"consumer"', b'"x"')))
