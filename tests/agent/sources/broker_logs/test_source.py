"""Brokers' logs: whole recordings (`--update-golden` writes), and the meaning of single lines."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.replay import replay
from agent.sources.broker_logs import coordinator_interpreter as broker_log_view
from agent.sources.broker_logs import membership as broker_log_groups
from agent.sources.broker_logs.config import BrokerLogConfig
from agent.sources.broker_logs.coordinator_interpreter import DROPPED_S, CoordinatorInterpreter
from agent.sources.broker_logs.replay import read
from agent.sources.broker_logs.source import BrokerLogSource, create_broker_dialects
from agent.sources.lines.dialects.dialect_loader import list_codes, load_broker_dialects
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.source_type import ReplayOptions
from aggregation.explain.incident_words import summarize
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import IncidentKind
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.sources.broker_logs.broker_lines import Broker
from tests.agent.sources.lines import layouts
from tests.metrics.given import run

_GOLDEN = Path(__file__).parents[3] / "golden" / "broker_log"
_FOLDERS = sorted(path.parent for path in _GOLDEN.glob("*/input.log"))
_ARRIVAL_AT = 1_900_000_000.0
_UUID = "9d747722-1881-4527-b066-574f116c89d{}"


def _parser() -> LineParser:
    return LineParser(create_broker_dialects(), CoordinatorInterpreter(), "UTC")


def _read(data: bytes, piece_bytes: int = 1 << 20) -> list[Signal]:
    parser = _parser()
    pieces = (data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes))
    return [s for piece in pieces for s in parser.feed(piece, _ARRIVAL_AT)] + parser.flush()


def _rows(signals: list[Signal]) -> Iterator[dict[str, Any]]:
    for signal in signals:
        follow_up, member = signal.streams_follow_up, signal.member
        yield {
            "at": round(signal.at, 3),
            "kind": signal.kind.value,
            "group": member.group,
            "group_type": member.group_type,
            "client_id": member.client_id,
            "instance_id": member.group_instance_id,
            "member_id": member.member_id,
            "stream": member.origin,
            "status": signal.status.label,
            "streams_follow_up": None if follow_up is None else follow_up.status.label,
            "generation": signal.generation,
            "reason": signal.reason,
        }


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
class TestRecordedBrokers:
    def test_the_recorded_groups_are_read_as_they_acted(
        self, folder: Path, request: pytest.FixtureRequest
    ) -> None:
        expected = folder / "expected.jsonl"
        rows = list(_rows(_read((folder / "input.log").read_bytes())))

        if request.config.getoption("--update-golden"):
            expected.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

        assert rows == [json.loads(line) for line in expected.read_text().splitlines()]

    def test_a_layout_that_ends_with_the_thread_changes_nothing(self, folder: Path) -> None:
        data = (folder / "input.log").read_bytes()

        assert _read(layouts.as_strimzi(data)) == _read(data)

    @pytest.mark.parametrize("shift", layouts.BEHIND_SHIFTS)
    def test_what_a_layout_puts_behind_changes_no_more_than_a_reasons_end(
        self, folder: Path, shift: int
    ) -> None:
        data = (folder / "input.log").read_bytes()

        found, wanted = _read(layouts.with_behind(data, shift)), _read(data)

        layouts.assert_same_but_for_the_ends_of_reasons(found, wanted)

    def test_json_lines_change_nothing(self, folder: Path) -> None:
        data = (folder / "input.log").read_bytes()
        lines = (json.dumps({"message": line}) for line in data.decode().splitlines())

        assert _read("".join(line + "\n" for line in lines).encode()) == _read(data)

    def test_pieces_change_nothing(self, folder: Path) -> None:
        data = (folder / "input.log").read_bytes()

        assert _read(data, piece_bytes=997) == _read(data)

    def test_junk_between_the_lines_changes_nothing(self, folder: Path) -> None:
        data = (folder / "input.log").read_bytes()
        junk = b"\n\xff\xfe\x00 [GroupCoordinator 1]: Stabilized group \xe6\x97 generation x\n{\n"

        assert _read(data.replace(b"\n", junk)) == _read(data)

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
    def test_a_restart_changes_nothing(self, folder: Path, share: float) -> None:
        data = (folder / "input.log").read_bytes()
        cut = data.index(b"\n", int(len(data) * share)) + 1
        before, after = _parser(), _parser()

        found = before.feed(data[:cut], _ARRIVAL_AT)
        after.restore(json.loads(json.dumps(before.state())))
        found += after.feed(data[cut:], _ARRIVAL_AT) + after.flush()

        assert found == _read(data)

    def test_every_member_ends_at_zero(self, folder: Path) -> None:
        status: dict[tuple[str, ...], RebalanceStatus] = {}
        for signal in _read((folder / "input.log").read_bytes()):
            if signal.kind is SignalKind.RAISE:
                status[signal.member.key] = signal.status
            elif signal.kind in {SignalKind.SYNC, SignalKind.LEAVE, SignalKind.FAIL}:
                status[signal.member.key] = RebalanceStatus.NONE

        assert set(status.values()) == {RebalanceStatus.NONE}

    def test_no_code_is_shown_that_the_dialects_do_not_own_to(self, folder: Path) -> None:
        known = load_broker_dialects()
        shown = {s.status for s in _read((folder / "input.log").read_bytes()) if s.status}

        assert shown <= {code for dialect in known for code in list_codes(dialect, known)}

    def test_the_recording_says_how_it_was_made(self, folder: Path) -> None:
        assert (folder / "README.md").read_text().startswith("# ")


_LINES = [
    line
    for folder in _FOLDERS
    for line in (folder / "input.log").read_bytes().splitlines(keepends=True)
]


@given(st.lists(st.sampled_from(_LINES), max_size=80), st.data())
def test_lines_in_any_order_or_cut_off_break_nothing(
    lines: list[bytes], data: st.DataObject
) -> None:
    cut = [line[: data.draw(st.integers(0, len(line)))] + b"\n" for line in lines[:3]]
    parser = _parser()

    found = parser.feed(b"".join(lines + cut), _ARRIVAL_AT)

    assert all(signal.member.group and signal.member.client_id for signal in found)
    again = _parser()
    again.restore(json.loads(json.dumps(parser.state())))
    assert again.state() == parser.state()


def _got(signals: Sequence[Signal]) -> list[tuple[str, str, int]]:
    return [(s.kind.value, s.member.client_id, int(s.status)) for s in signals]


@pytest.fixture
def broker() -> Broker:
    return Broker()


def test_who_joins_gets_the_two_and_the_others_the_one(broker: Broker) -> None:
    first, second = f"m1-{_UUID.format(1)}", f"m2-{_UUID.format(2)}"
    broker.joins(first)
    broker.settles(first, 1)

    assert _got(broker.joins(second)) == [("raise", "m2", 2), ("raise", "m1", 1)]


def test_members_of_one_name_are_kept_apart(broker: Broker) -> None:
    ids = [f"rdkafka-{_UUID.format(n)}" for n in (1, 2, 3)]

    streams = [broker.joins(member_id)[0].member.origin for member_id in ids]

    assert len(set(streams)) == 3


def test_a_member_that_was_removed_comes_back_as_itself(broker: Broker) -> None:
    first, again = f"m1-{_UUID.format(1)}", f"m1-{_UUID.format(2)}"
    before = broker.joins(first)[0].member
    broker.settles(first, 1)
    broker.prints(f"Member {first} in group g has failed, removing it from the group.")

    back = broker.joins(again)[0].member

    assert (back.key, back.member_id) == (before.key, again)
    assert broker.gone == []


_LEFT = "[Group g] Member {} has left group through explicit `LeaveGroup` request; "


@pytest.mark.parametrize(
    "words",
    ["Member {} in group g has failed, removing it from the group", f"{_LEFT}client reason: ops"],
)
def test_members_of_one_name_that_go_one_after_another_are_several(
    broker: Broker, words: str
) -> None:
    ids = [f"w-{_UUID.format(n)}" for n in (1, 2, 3)]

    got = [signal for member_id in ids for signal in broker.prints(words.format(member_id))]

    gone = [signal.member for signal in got if signal.status is RebalanceStatus.UNKNOWN_MEMBER]
    assert [member.member_id for member in gone] == ids
    assert len({member.key for member in gone}) == 3


def test_a_failed_member_has_gone_when_the_group_has_settled_without_it(broker: Broker) -> None:
    first, second = f"m1-{_UUID.format(1)}", f"m2-{_UUID.format(2)}"
    gone = broker.joins(first)[0].member
    broker.joins(second)
    broker.settles(second, 2)
    broker.prints(f"Member {first} in group g has failed, removing it from the group.")

    got = broker.settles(second, 1)

    assert _got(got) == [("fail", "m1", 0), ("sync", "m2", 0)]
    assert broker.gone == [gone.origin]


def test_a_member_that_dropped_out_holds_its_five_for_a_while(broker: Broker) -> None:
    member_id = f"m1-{_UUID.format(1)}"
    gone = broker.joins(member_id)[0].member
    broker.settles(member_id, 1)

    got = broker.leaves(member_id, "consumer poll timeout has expired.")

    assert _got(got) == [("raise", "m1", 5)]
    broker.prints("Group g with generation 3 is now empty.")
    assert broker.gone == []
    broker.seconds += int(DROPPED_S)
    broker.joins(f"m2-{_UUID.format(2)}")
    assert broker.gone == [gone.origin]


def test_an_admins_words_are_no_six(broker: Broker) -> None:
    member_id = f"m1-{_UUID.format(1)}"
    broker.joins(member_id)
    broker.settles(member_id, 1)

    got = broker.leaves(member_id, "ops: bad host")

    assert _got(got) == [("note", "m1", 0), ("raise", "m1", 3)]
    assert {signal.reason for signal in got} == {"ops: bad host"}


def test_an_admin_may_name_a_static_member_by_its_instance_id_alone(broker: Broker) -> None:
    broker.prints("Static member with groupInstanceId=i1 and unknown member id joins group g in "
                  "Stable state. Created a new member id i1-x for this member and added to the "
                  "group.")  # fmt: skip

    got = broker.prints(
        "[Group g] Static member  with instance id i1 has left group through explicit `LeaveGroup` "
        "request; client reason: ops: bad host"
    )

    assert _got(got) == [("note", "i1", 0), ("raise", "i1", 3)]
    assert {signal.member.member_id for signal in got} == {"i1-x"}


@pytest.mark.parametrize("words", ["the consumer is being closed", "not provided"])
def test_two_lines_about_one_leave_count_once(broker: Broker, words: str) -> None:
    member_id = f"m1-{_UUID.format(1)}"
    broker.joins(member_id)
    broker.settles(member_id, 1)

    got = broker.prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 2 "
        f"(__consumer_offsets-2) (reason: Removing member {member_id} on LeaveGroup; "
        f"client reason: {words})",
        "Group g with generation 3 is now empty (__consumer_offsets-2)",
    ) + broker.leaves(member_id, words)

    assert _got(got) == [("leave", "m1", 0)]


def test_a_3_0_broker_tells_a_leave_without_its_reason(broker: Broker) -> None:
    got = broker.prints(
        f"Member MemberMetadata(memberId=m1-{_UUID.format(1)}, groupInstanceId=Some(i1), "
        "clientId=m1, clientHost=/10.0.0.7, sessionTimeoutMs=10000, rebalanceTimeoutMs=300000, "
        "supportedProtocols=List(range)) has left group g through explicit `LeaveGroup` request"
    )

    assert _got(got) == [("leave", "m1", 0)]
    assert (got[0].member.group_instance_id, got[0].member.host) == ("i1", "10.0.0.7")


def test_a_join_without_a_visible_cause_has_no_code(broker: Broker) -> None:
    member_id = f"m1-{_UUID.format(1)}"
    broker.joins(member_id)
    broker.settles(member_id, 1)

    got = broker.prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 2 "
        f"(reason: Leader {member_id} re-joining group during Stable; client reason: not provided)."
    )

    assert _got(got) == [("note", "m1", 0), ("join", "m1", 0)]


def test_an_old_client_joins_without_a_two(broker: Broker) -> None:
    member_id = f"m1-{_UUID.format(1)}"

    got = broker.prints(
        "Dynamic Member with unknown member id joins group g in Empty state. Created a new "
        f"member id {member_id} for this member and add to the group.",
        "Preparing to rebalance group g in state PreparingRebalance with old generation 0 "
        f"(reason: Adding new member {member_id} with group instance id None)",
    )

    assert _got(got) == [("note", "m1", 0), ("join", "m1", 0)]


def test_a_streams_follow_up_is_the_instances(broker: Broker) -> None:
    client_id = "app-StreamThread-1-consumer"
    member_id = f"{client_id}-{_UUID.format(1)}"

    got = broker.prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 2 "
        f"(reason: Updating metadata for member {member_id} during Stable; "
        "client reason: triggered followup rebalance scheduled for 1795243000694)."
    )

    assert _got(got) == [("raise", client_id, 6)]
    assert got[0].streams_follow_up is not None
    assert got[0].streams_follow_up.due_at == pytest.approx(1795243000.694)


def test_what_streams_follows_up_at_once_has_no_code_of_the_brokers(broker: Broker) -> None:
    member_id = f"app-StreamThread-1-consumer-{_UUID.format(1)}"
    words = "triggered followup rebalance scheduled for 0"

    got = broker.prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 2 "
        f"(reason: Leader {member_id} re-joining group during Stable; client reason: {words})."
    )

    assert [(s.kind, s.reason) for s in got] == [
        (SignalKind.NOTE, words),
        (SignalKind.JOIN, None),
    ]


def test_a_classic_member_that_joins_a_new_groups_rebalance_is_no_new_member(
    broker: Broker,
) -> None:
    """While a group goes over to KIP-848, a broker prints the same line for each of its joins."""
    known = "a-2b1d0c0e-3d2f-4a55-9b3c-5f0d5f4b6a11"
    broker.joins(known)
    broker.settles(known, 1)
    joins = "[GroupId g] Member {} joins the consumer group using the {} protocol."
    epoch = ["Bumped group epoch to 3 with metadata hash 1.", "Computed a new target assignment "]
    new = broker.prints(
        "[GroupId g] Converted the classic group to a consumer group.",
        joins.format("yfpEJ42MSue9q5IiSigcEA", "consumer"),
        f"[GroupId g] {epoch[0]}",
        f"[GroupId g] {epoch[1]}for epoch 3 with 'uniform' assignor in 0ms.",
    )
    assert RebalanceStatus.NEW_MEMBER in [signal.status for signal in new]

    assert broker.prints(joins.format(known, "classic")) == []
    other = broker.prints(joins.format("b-7a2b8f9e-5e8a-4f43-8a1f-0c3cf12e5f47", "classic"))
    assert [signal.status for signal in other] == [RebalanceStatus.NEW_MEMBER]


def test_an_epoch_without_a_cause_is_everybodys(broker: Broker) -> None:
    broker.prints(
        "[GroupId g] Member A joins the consumer group using the consumer protocol.",
        "[GroupId g] Bumped group epoch to 2 with metadata hash 5.",
        "[GroupId g] Computed a new target assignment for epoch 2 with 'uniform' assignor in 1ms.",
    )

    got = broker.prints(
        "[GroupId g] Bumped group epoch to 3 with metadata hash 6.",
        "[GroupId g] Computed a new target assignment for epoch 3 with 'uniform' assignor in 1ms.",
    )

    assert _got(got) == [("raise", "A", 1), ("sync", "A", 0)]


def test_what_is_remembered_of_a_group_is_bounded(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_log_groups, "_PARTIES", 2)

    for name in "ABC":
        broker.prints(f"[GroupId g] Member {name} joins the share group using the share protocol.")

    assert list(broker.view.groups["g"].parties) == ["B", "C"]


def _meet(broker: Broker, *groups: str) -> None:
    for number, group in enumerate(groups):
        text = f"[GroupId {group}] Member {number} joins the share group using the share protocol."
        broker.prints(text)


def test_members_of_the_longest_silent_group_go_first(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_log_view, "_PARTY_LIMIT", 3)

    _meet(broker, "a", "b", "b", "a", "c")

    assert {name: len(group.parties) for name, group in broker.view.groups.items()} == {
        "a": 2,
        "c": 1,
    }
    assert broker.view.eviction_count == 2


def test_they_are_counted_anew_after_a_restart(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_log_view, "_PARTY_LIMIT", 2)
    _meet(broker, "a", "b")
    broker.view.restore(broker.view.state())

    _meet(broker, "c")

    assert list(broker.view.groups) == ["b", "c"]


def test_those_that_dropped_out_are_as_many_at_most(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_log_view, "_PARTY_LIMIT", 2)

    for number in range(3):
        broker.leaves(f"m{number}-{_UUID.format(number)}", "consumer poll timeout has expired.")

    assert [each.member_id[:2] for each in broker.view.dropped] == ["m1", "m2"]


def test_a_group_that_moves_to_another_broker_is_forgotten(broker: Broker) -> None:
    first = f"m1-{_UUID.format(1)}"
    broker.joins(first)
    broker.settles(first, 1)

    broker.prints("[GroupId=g] Unloading group metadata for generation 2.")

    assert _got(broker.joins(f"m2-{_UUID.format(2)}")) == [("raise", "m2", 2)]


def test_a_group_that_moves_between_two_logs_keeps_its_members(broker: Broker) -> None:
    first, second, third = (f"m{n}-{_UUID.format(n)}" for n in (1, 2, 3))
    other = Broker()
    other.view.table = broker.view.table
    broker.joins(first)
    broker.settles(first, 1)

    broker.prints("[GroupId=g] Unloading group metadata for generation 2.")
    assert _got(other.joins(second)) == [("raise", "m2", 2), ("raise", "m1", 1)]
    other.settles(first, 2)
    other.prints("[GroupId=g] Unloading group metadata for generation 2.")

    assert sorted(_got(broker.joins(third))) == [
        ("raise", "m1", 1),
        ("raise", "m2", 1),
        ("raise", "m3", 2),
    ]


@pytest.mark.parametrize("instance", ["", " with group instanceid None"], ids=["2.2", "2.4"])
def test_lines_of_brokers_before_2_8_are_read(instance: str) -> None:
    """Read in the sources of 2.2 and 2.4: GroupCoordinator.scala."""
    first, second = f"m1-{_UUID.format(1)}", f"m2-{_UUID.format(2)}"
    old = "Preparing to rebalance group g in state PreparingRebalance with old generation"
    texts = (
        f"{old} 0 (__consumer_offsets-3) (reason: Adding new member {first}{instance})",
        "Stabilized group g generation 1 (__consumer_offsets-3)",
        "Assignment received from leader for group g for generation 1",
        f"{old} 1 (__consumer_offsets-3) (reason: Adding new member {second}{instance})",
        f"{old} 1 (__consumer_offsets-3) (reason: removing member {second} on LeaveGroup)",
    )
    parser, signals = _parser(), list[Signal]()
    for number, text in enumerate(texts):
        head = f"[2026-11-21 06:00:0{number},000] INFO [GroupCoordinator 0]: "
        line = f"{head}{text} (kafka.coordinator.group.GroupCoordinator)\n"
        signals += parser.feed(line.encode(), 1.9e9)

    assert [(s.kind.value, s.member.client_id, int(s.status)) for s in signals] == [
        ("raise", "m1", 2),
        ("sync", "m1", 0),
        ("raise", "m2", 2),
        ("raise", "m1", 1),
        ("leave", "m2", 0),
    ]


def _read_texts(*texts: str) -> list[tuple[str, str, int]]:
    parser, signals = _parser(), list[Signal]()
    for number, text in enumerate(texts):
        head = f"[2026-11-21 06:00:0{number},000] INFO [GroupCoordinator 0]: "
        line = f"{head}{text} (kafka.coordinator.group.GroupCoordinator)\n"
        signals += parser.feed(line.encode(), 1.9e9)
    return [(s.kind.value, s.member.client_id, int(s.status)) for s in signals]


def test_leave_of_a_broker_2_3_is_read_while_its_group_rebalances() -> None:
    """A group that is preparing already prints no second "Preparing to rebalance"."""
    first = f"m1-{_UUID.format(1)}"
    old = "Preparing to rebalance group g in state PreparingRebalance with old generation"
    assert _read_texts(
        f"{old} 0 (__consumer_offsets-3) (reason: Adding new member {first})",
        "Stabilized group g generation 1 (__consumer_offsets-3)",
        "Assignment received from leader for group g for generation 1",
        f"Member {first} in group g has left, removing it from the group",
    ) == [("raise", "m1", 2), ("sync", "m1", 0), ("leave", "m1", 0)]


def test_members_that_did_not_rejoin_a_broker_2_7_are_read() -> None:
    first = f"m1-{_UUID.format(1)}"
    old = "Preparing to rebalance group g in state PreparingRebalance with old generation"
    got = _read_texts(
        f"{old} 0 (__consumer_offsets-3) (reason: Adding new member {first})",
        "Stabilized group g generation 1 (__consumer_offsets-3)",
        "Assignment received from leader for group g for generation 1",
        f"Group g remove dynamic members who haven't joined: Set({first})",
    )
    assert got[-1] == ("raise", "m1", 3)


def test_a_move_survives_a_restart(broker: Broker) -> None:
    first, second = f"m1-{_UUID.format(1)}", f"m2-{_UUID.format(2)}"
    broker.joins(first)
    broker.settles(first, 1)
    broker.prints("[GroupId=g] Unloading group metadata for generation 2.")
    state = msgspec.json.decode(msgspec.json.encode(broker.view.state()))

    again, other = Broker(), Broker()
    other.view.table = again.view.table
    again.view.restore(state)

    assert again.view.state() == state
    assert other.view.state()["groups"] == []
    assert _got(other.joins(second)) == [("raise", "m2", 2), ("raise", "m1", 1)]


def test_logs_of_two_brokers_are_replayed_together(tmp_path: Path) -> None:
    """A member that joins at the second broker makes that of the first rejoin."""
    broker, other = Broker(), Broker()
    for number, each in enumerate((broker, other), 1):
        lines = list[str]()
        each.parser = _Recorder(lines)  # type: ignore[assignment]
        each.seconds = 100 * number
        each.joins(f"m{number}-{_UUID.format(number)}")
        each.settles(f"m1-{_UUID.format(1)}", number)
        each.prints("[GroupId=g] Unloading group metadata for generation 2.")
        (tmp_path / f"server-{3 - number}.log").write_text("".join(lines))

    result = CliRunner().invoke(
        replay,
        ["--source", "broker_log", *(str(tmp_path / f"server-{n}.log") for n in (1, 2))],
    )

    rows = [json.loads(line) for line in result.stdout.splitlines()]
    moves = [(r["client_id"], r["to"]) for r in rows if r["kind"] == "transition"]
    assert [to for client_id, to in moves if client_id == "m1"] == [2, 0, 1, 0]
    assert [to for client_id, to in moves if client_id == "m2"] == [2, 0]


class _Recorder:
    """Keeps lines that a parser would read."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def feed(self, data: bytes, _arrival_at: float) -> list[Signal]:
        self._lines.append(data.decode())
        return []


def test_members_that_the_broker_does_not_count_are_forgotten(broker: Broker) -> None:
    lost, seen = f"m1-{_UUID.format(1)}", f"m2-{_UUID.format(2)}"
    broker.joins(lost)
    broker.joins(seen)

    got = broker.settles(seen, 1)

    assert _got(got) == [("fail", "m1", 0), ("sync", "m2", 0)]


def test_a_member_that_never_came_back_with_its_id_has_failed(broker: Broker) -> None:
    member_id = f"m1-{_UUID.format(1)}"
    broker.prints(
        "Dynamic member with unknown member id joins group g in Empty state. Created a new "
        f"member id {member_id} and requesting the member to rejoin with this id."
    )

    got = broker.prints(
        f"Pending member {member_id} in group g has been removed after session timeout expiration."
    )

    assert _got(got) == [("fail", "m1", 0)]
    assert broker.gone == [got[0].member.origin]


@pytest.mark.parametrize("words", ["[{}, {}]", "Set({}, {})", "HashSet({}, {})"])
def test_members_that_did_not_rejoin_in_time_are_out(broker: Broker, words: str) -> None:
    ids = [f"m{n}-{_UUID.format(n)}" for n in (1, 2, 3)]
    for member_id in ids:
        broker.joins(member_id)
    broker.settles(ids[2], 3)

    got = broker.prints(
        f"Group g removed dynamic members who haven't joined: {words.format(*ids[:2])}"
    )

    assert _got(got) == [("raise", "m1", 3), ("raise", "m2", 3)]
    assert _got(broker.settles(ids[2], 1)) == [
        ("fail", "m1", 0),
        ("fail", "m2", 0),
        ("sync", "m3", 0),
    ]


def test_list_of_removed_members_that_a_limit_cuts_shows_its_whole_names(broker: Broker) -> None:
    """rsyslog keeps 8 KiB of a line; the last name of the list may be a part of one."""
    ids = [f"m{n}-{_UUID.format(n)}" for n in (1, 2, 3)]
    for member_id in ids:
        broker.joins(member_id)
    broker.settles(ids[2], 3)

    got = broker.prints(
        f"Group g removed dynamic members who haven't joined: Set({', '.join(ids)[:-9]}"
    )

    assert _got(got) == [("raise", "m1", 3), ("raise", "m2", 3)]


def _cri(line: str) -> list[str]:
    time = "2026-11-21T06:00:09.000000000Z"
    return [f"{time} stdout P {line[:16_384]}", f"{time} stdout F {line[16_384:]}"]


def _docker(line: str) -> list[str]:
    rest = {"stream": "stdout", "time": "2026-11-21T06:00:09.000000000Z"}
    parts = line[:16_384], f"{line[16_384:]}\n"
    return [json.dumps({"log": part, **rest}, separators=(",", ":")) for part in parts]


@pytest.mark.parametrize("prefix", ["", "kafka-1  | ", "[pod/kafka-0/kafka] "])
@pytest.mark.parametrize("cut", [_cri, _docker])
def test_line_that_a_runtime_cuts_before_its_end_is_read_as_a_whole(
    broker: Broker, cut: Callable[[str], list[str]], prefix: str
) -> None:
    topic = "MKg2-6bHTUmHiLxl-SD4Hg"
    assigned = ", ".join(f"{topic}-{partition}" for partition in range(1_000))
    line = (
        "[2026-11-21 06:00:09,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets "
        "partition=2] [GroupId g][MemberId m-1] Member m-1 new assignment state: epoch=2, "
        f"previousEpoch=1, state=STABLE, assignedPartitions=[{assigned}]. "
        "(org.apache.kafka.coordinator.group.GroupMetadataManager)"
    )
    whole = Broker().parser.feed(f"{line}\n".encode(), _ARRIVAL_AT)
    assert whole

    pieces = "".join(f"{prefix}{piece}\n" for piece in cut(line))

    assert _got(broker.parser.feed(pieces.encode(), _ARRIVAL_AT)) == _got(whole)


@pytest.mark.parametrize("is_unloaded", ["", "before", "after"])
def test_group_that_moves_between_brokers_of_one_log_keeps_its_members(
    broker: Broker, is_unloaded: str
) -> None:
    """`kubectl logs -l`, compose and exports merge the logs of all brokers."""
    ids = [f"m{n}-{_UUID.format(n)}" for n in (1, 2, 3, 4)]
    unloaded = "Unloading group metadata for g with generation 2."
    for member_id in ids[:2]:
        broker.joins(member_id)
    broker.settles(ids[0], 2)
    broker.joins(ids[2])  # m3; its broker dies
    if is_unloaded == "before":
        broker.prints(unloaded)

    broker.broker_id = 2
    broker.prints("Loaded classic group g with 2 members.")
    broker.joins(ids[3].replace("m4", "m3"))
    if is_unloaded == "after":
        broker.broker_id = 1
        broker.prints(unloaded)
        broker.broker_id = 2

    assert sorted(_got(broker.settles(ids[0], 3))) == [
        ("sync", "m1", 0),
        ("sync", "m2", 0),
        ("sync", "m3", 0),
    ]
    left = _got(broker.leaves(ids[1], "the consumer is being closed"))
    assert left[0] == ("leave", "m2", 0)


def _two_brokers() -> list[list[str]]:
    """Return the lines of two brokers: a group of two moves while a third member joins."""
    ids = [f"m{n}-{_UUID.format(n)}" for n in (1, 2, 3, 4)]
    first, second = KeptBroker(), KeptBroker()
    for member_id in ids[:2]:
        first.joins(member_id)
    first.settles(ids[0], 2)
    first.joins(ids[2])
    second.broker_id, second.seconds = 2, first.seconds + 20
    second.prints("Loaded classic group g with 2 members.")
    second.joins(ids[3].replace("m4", "m3"))
    second.settles(ids[0], 3)
    second.leaves(ids[1], "the consumer is being closed")
    return [first.lines, second.lines]


class KeptBroker(Broker):
    """A broker whose lines are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def _feed(self, line: str) -> list[Signal]:
        self.lines.append(line)
        return super()._feed(line)


def _replay(paths: Sequence[Path]) -> tuple[list[tuple[str, str, int, float]], list[str]]:
    notes = list[str]()
    options = ReplayOptions(
        cluster="",
        host="h",
        timezone="UTC",
        on_unreadable=lambda error: pytest.fail(str(error)),
        on_note=notes.append,
        on_progress=lambda _stream, _size: None,
    )
    found = [
        (each.kind.value, each.member.client_id, int(each.status or 0), each.at)
        for stream in read(list(map(str, paths)), options)
        for each in stream
        if isinstance(each, Signal)
    ]
    return found, notes


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize(
    "prefix", ["[pod/kafka-{}/kafka] ", "kafka-{}  | ", "Nov 21 06:00:00 kafka{} kafka[7]: "]
)
def test_brokers_whose_logs_stand_one_after_the_other_are_read_as_a_file_each(
    prefix: str, order: tuple[int, int], tmp_path: Path
) -> None:
    """`kubectl logs -l app=kafka --prefix` writes the whole log of each pod."""
    brokers, files, merged = _two_brokers(), [], tmp_path / "merged.log"
    for number, lines in enumerate(brokers):
        files.append(tmp_path / f"{number}.log")
        files[number].write_text("".join(lines))
    merged.write_text(
        "".join(prefix.format(number) + line for number in order for line in brokers[number])
    )

    found, notes = _replay([merged])

    assert found == _replay(files)[0]
    assert found[-1][:3] in {("leave", "m2", 0), ("raise", "m1", 1)}
    assert notes == []


def test_brokers_without_names_that_stand_one_after_the_other_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "all.log"
    path.write_text("".join(line for lines in reversed(_two_brokers()) for line in lines))

    (note,) = _replay([path])[1]

    assert "the lines of 2 brokers stand one after the other" in note


def test_group_that_returns_to_the_broker_that_unloaded_it_is_read_anew(broker: Broker) -> None:
    ids = [f"m{n}-{_UUID.format(n)}" for n in (1, 2)]
    broker.joins(ids[0])
    broker.settles(ids[0], 1)
    broker.prints("Unloading group metadata for g with generation 2.")

    assert _got(broker.joins(ids[1])) == [("raise", "m2", 2)]


def test_a_member_is_the_same_in_the_log_of_the_next_coordinator(broker: Broker) -> None:
    member_id, other = f"m1-{_UUID.format(1)}", Broker()
    before = broker.joins(member_id)[0].member
    broker.settles(member_id, 1)

    after = other.prints(f"Member {member_id} in group g has failed, removing it from the group.")

    assert after[0].member.key == before.key


class Tail:
    """A source on one file."""

    def __init__(self, path: Path, position: dict[str, Any] | None = None) -> None:
        self.signals: list[Signal] = []
        self.gone: list[str] = []
        self.source = BrokerLogSource(
            BrokerLogConfig(paths=(str(path),)), timezone="UTC", position=position
        )

    async def read(self, wanted: int) -> None:
        """Read until so many signals have come."""
        enough = asyncio.Event()

        def emit(signals: Sequence[Signal]) -> None:
            self.signals += signals
            if len(self.signals) >= wanted:
                enough.set()

        reading = asyncio.create_task(self.source.run(emit, self._detach))
        await asyncio.wait_for(enough.wait(), 60.0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    def _detach(self, stream: str, _: float) -> None:
        self.gone.append(stream)


def test_a_live_log_goes_on_after_a_restart(tmp_path: Path) -> None:
    data = (_GOLDEN / "kafka-4.3.0" / "input.log").read_bytes()
    cut = data.index(b"\n", len(data) // 2) + 1
    expected, path = _read(data), tmp_path / "server.log"
    path.write_bytes(data[:cut])
    before = Tail(path)
    asyncio.run(before.read(len(_read(data[:cut]))))
    position = msgspec.json.decode(msgspec.json.encode(before.source.checkpoint()))
    with path.open("ab") as file:
        file.write(data[cut:])

    after = Tail(path, position)
    asyncio.run(after.read(len(expected) - len(before.signals)))

    assert before.signals + after.signals == expected
    assert before.gone + after.gone
    assert after.source.health.up
    assert after.source.watermark(1.0) == 1.0


def test_a_static_streams_member_that_is_back_is_the_one_that_left(broker: Broker) -> None:
    """Kafka 4.4; its tasks are the same, only the epochs of their assignment differ."""
    left, back = "BtXIDTjQSCyCiTCE40vplw", "sNQABUw8RaqIf4VFo3CFgQ"
    state = (
        "Member's new assignment state: epoch={}, previousEpoch=0, state=STABLE, "
        "assignedTasks=(active=[0-0@{}], standby=[], warmup=[]) and"
    )
    broker.prints(
        f"[GroupId g][MemberId {left}] Member updated its member metadata to StreamsGroupMember["
        f"memberId={left}, memberEpoch=0, previousMemberEpoch=0, state=STABLE, "
        "instanceId=Optional[i1-1], rackId=Optional.empty, clientId=s1-StreamThread-1-consumer, "
        "clientHost=/127.0.0.1, rebalanceTimeoutMs=300000",
        f"[GroupId g][MemberId {left}] {state.format(3, 3)}",
    )

    got = broker.prints(
        f"[GroupId g][MemberId {left}] Static member {left} with instance id i1-1 temporarily left "
        "the streams group.",
        f"[GroupId g][MemberId {back}] Static member with instance id i1-1 re-joins the streams "
        f"group using the streams protocol. Created a new member {back} to replace the existing "
        f"member {left}.",
        f"[GroupId g][MemberId {back}] {state.format(3, 0)}",
        f"[GroupId g][MemberId {back}] Static member {back} with instance id i1-1 left the streams "
        "group.",
    )

    assert _got(got) == [
        ("sync", "s1-StreamThread-1-consumer", 0),
        ("leave", "s1-StreamThread-1-consumer", 0),
    ]
    assert {signal.member.group_instance_id for signal in got} == {"i1-1"}


@pytest.mark.parametrize(
    ("scan", "kind", "words"),
    [
        ("Scanned 8 topics to refresh regular expressions [a.*]", "metadata_changed", "8 topics"),
        ("Scanned 7 topics to refresh regular expressions [a.*, b]", "subscription_changed", "[a"),
        ("Scanned 7 topics to refresh regular expressions [a.*]", "unknown", None),
    ],
)
def test_match_of_regular_expressions_shows_what_raised_an_epoch(
    broker: Broker, scan: str, kind: str, words: str | None
) -> None:
    """Kafka 4.0 and later: nobody joins or leaves, and no line names a member."""
    start = broker.prints(
        "[GroupId g] Member aaaaaaaaaaaaaaaaaaaaaa joins the consumer group using the"
        " consumer protocol.",
        "[GroupId g] Scanned 7 topics to refresh regular expressions [a.*] in 8ms.",
        "[GroupId g] Bumped group epoch to 2 with metadata hash 1.",
        "[GroupId g] Computed a new target assignment for epoch 2 with 'uniform' assignor in 1ms.",
    )
    broker.seconds += 60
    then = broker.prints(
        f"[GroupId g] {scan} in 1ms.",
        "[GroupId g] Bumped group epoch to 3 with metadata hash 2.",
        "[GroupId g] Computed a new target assignment for epoch 3 with 'uniform' assignor in 1ms.",
    )

    samples = run(Tracker(StatusConfig()), *start, *then)
    found = analyze(samples).incidents[-1]

    assert (found.kind.value, found.members) == (kind, ())
    assert (words or "") in (found.reason or "")
    if kind == "subscription_changed":
        assert summarize(answer_of(found)) == "a member changed its subscription"


def test_texts_of_a_log_are_bounded() -> None:
    """Dialects read names of at most 300 characters, and a reason is clipped."""
    broker = Broker()

    assert broker.joins("m" * 301) == []
    signals = broker.prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 1 (reason: "
        f"Adding new member m with group instance id null; client reason: {'r' * 900})."
    )

    assert {len(signal.reason or "") for signal in signals} == {255}


def test_process_that_another_one_keeps_out_is_refused(broker: Broker) -> None:
    """Two processes with one instance id: 4.x logs the refused or replaced one."""
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    broker.prints(
        f"Static member with groupInstanceId=i1 and unknown member id joins group g in Empty state."
        f" Created a new member id i1-{uuid} for this member and added to the group.",
    )

    got = broker.prints(
        f"Request memberId=i1-{uuid} for static member with groupInstanceId=i1 is fenced by"
        " existing memberId=i1-x during operation heartbeat",
        "[GroupId g] Static member hUwPBLOeSxSVz31j6ejkKw with instance id i1 cannot join the"
        " group because the instance id is owned by member lTAGqx7wRauM5t2XYWQF3w.",
    )

    assert [(each.kind, each.member.group) for each in got] == [("fail", "g")] * 2
    assert "fenced by existing" in (got[0].reason or "")
    assert "owned by member" in (got[1].reason or "")


@pytest.mark.parametrize(
    "words",
    [
        ",but not matching the expected member.id i1-x",
        ", but not matching the expected member.id i1-x during join-group, will respond with i..",
    ],
    ids=["2.3", "2.4 to 3.9"],
)
def test_replaced_process_of_a_broker_before_4_is_refused(broker: Broker, words: str) -> None:
    """The line is GroupMetadata's: it names neither a coordinator nor the group."""
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    joined = broker.prints(
        f"Static member with groupInstanceId=i1 and unknown member id joins group g in Empty state."
        f" Created a new member id i1-{uuid} for this member and added to the group.",
        f"Assignment received from leader i1-{uuid} for group g for generation 1. "
        "The group has 1 members, 1 of which are static.",
    )
    line = (
        f"[2026-11-21 06:00:09,000] ERROR given member.id i1-{uuid} is identified as a known static"
        f" member i1{words} (kafka.coordinator.group.GroupMetadata)\n"
    )

    (got,) = broker.parser.feed(line.encode(), 1.9e9)

    assert (got.kind, got.member.group) == ("fail", "g")
    assert got.member.member_id == f"i1-{uuid}"
    assert "known static member i1" in (got.reason or "")
    incidents = analyze(run(Tracker(StatusConfig()), *joined, got)).incidents
    assert [each.kind for each in incidents][-1:] == [IncidentKind.FENCED]


@pytest.mark.parametrize(
    "words",
    [
        "error when storing group assignment during SyncGroup (member: a-1)",
        "Error NOT_COORDINATOR when storing group assignment during SyncGroup (member: a-1)",
        "Error NOT_COORDINATOR when storing group assignmentduring SyncGroup (member: a-1).",
    ],
    ids=["2.x", "3.x", "4.x"],
)
def test_an_assignment_that_was_not_stored_is_the_leaders_nine(broker: Broker, words: str) -> None:
    broker.joins("a-1")
    broker.joins("b-1")
    broker.settles("a-1", 2)

    signals = broker.prints(
        "Preparing to rebalance group g in state PreparingRebalance with old generation 2 "
        f"(__consumer_offsets-2) (reason: {words})"
    )

    assert {(s.member.member_id, s.status) for s in signals} == {("a-1", 9), ("b-1", 1)}
    assert all("when storing group assignment" in (s.reason or "") for s in signals)
