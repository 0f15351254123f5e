import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal, SignalKind
from metrics.model.status import RebalanceStatus

_GOLDEN = Path(__file__).parents[3] / "golden" / "dialects" / "librdkafka"
_LATER = 1_900_000_000.0
_JOIN = '127.0.0.1:9092/1: Joining group "g" with 1 subscribed topic(s) and member id "a-1"'


def _signals(text: str) -> list[Signal]:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    return parser.feed(text.encode(), _LATER) + parser.flush()


def _says(*lines: str, handle: str = "a#consumer-1") -> str:
    return "".join(
        f"%7|1795260000.{i:03}|X|{handle}| [thrd:main]: {t}\n" for i, t in enumerate(lines)
    )


def _codes(signals: list[Signal]) -> list[RebalanceStatus]:
    return [signal.status for signal in signals if signal.kind is SignalKind.RAISE]


def _rows(signals: list[Signal]) -> Iterator[dict[str, object]]:
    for signal in signals:
        follow_up = signal.follow_up
        yield {
            "at": round(signal.at, 3),
            "kind": signal.kind.value,
            "group": signal.member.group,
            "client_id": signal.member.client_id,
            "status": signal.status.label,
            "follow_up": None if follow_up is None else follow_up.status.label,
            "generation": signal.generation,
            "reason": signal.reason,
        }


def test_the_recorded_consumers_are_read_as_they_acted() -> None:
    text = (_GOLDEN / "input.log").read_text()

    found = list(_rows([each for each in _signals(text) if each.assigned is None]))

    expected = (_GOLDEN / "expected.jsonl").read_text().splitlines()
    assert found == [json.loads(line) for line in expected]


def test_every_code_of_a_consumer_is_in_the_recording() -> None:
    signals = _signals((_GOLDEN / "input.log").read_text())

    follow_ups = [signal.follow_up.status for signal in signals if signal.follow_up is not None]
    leaves = [RebalanceStatus(6) for signal in signals if signal.kind is SignalKind.LEAVE]
    assert {*_codes(signals), *follow_ups, *leaves} == {
        RebalanceStatus(code) for code in range(1, 11)
    }


def test_the_leave_of_a_poll_timeout_is_not_the_users() -> None:
    dropped = "Application maximum poll interval (4000ms) exceeded by 144ms (adjust): leaving group"

    signals = _signals(_says(_JOIN, dropped, 'Group "g": leave (in state up)'))

    assert [signal.kind for signal in signals] == [SignalKind.JOIN, SignalKind.RAISE]
    assert _codes(signals) == [RebalanceStatus.DROPPED_GROUP]


_RUST = "[2026-11-26T00:03:26Z DEBUG librdkafka] librdkafka: "
_UUID = "ba67017f-0f3a-4550-b8ec-09e49de2df31"


def test_a_binding_without_the_clients_name_has_it_from_its_first_member_id() -> None:
    lines = (
        (
            'JOIN [thrd:main]: 127.0.0.1:9092/1: Joining group "g" with 1 subscribed topic(s) and '
            'member id ""'
        ),
        (
            "JOINGROUP [thrd:main]: JoinGroup response: GenerationId -1, Protocol , LeaderId , my "
            f"MemberId payments-1-{_UUID}, member metadata count 0: Broker: Group member needs a "
            "valid member ID"
        ),
        f'MEMBERID [thrd:main]: Group "g": updating member id "" -> "payments-1-{_UUID}"',
        (
            'JOIN [thrd:main]: 127.0.0.1:9092/1: Joining group "g" with 1 subscribed topic(s) and '
            f'member id "payments-1-{_UUID}"'
        ),
    )

    signals = _signals("".join(f"{_RUST}{line}\n" for line in lines))

    assert [signal.kind for signal in signals] == [
        SignalKind.JOIN,
        SignalKind.RAISE,
        SignalKind.JOIN,
    ]
    assert {signal.member.client_id for signal in signals} == {"payments-1"}
    assert signals[-1].member.member_id == f"payments-1-{_UUID}"


def test_a_join_of_a_binding_without_the_clients_name_is_not_lost() -> None:
    line = '127.0.0.1:9092/1: Joining group "g" with 1 subscribed topic(s) and member id ""'

    signals = _signals(f"{_RUST}JOIN [thrd:main]: {line}\n")

    assert [(each.kind, each.member.client_id) for each in signals] == [(SignalKind.JOIN, "")]


def test_joins_of_a_binding_without_the_clients_name_wait_for_one_line_alone() -> None:
    line = '127.0.0.1:9092/1: Joining group "g" with 1 subscribed topic(s) and member id ""'
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    text = f"{_RUST}JOIN [thrd:main]: {line}\n".encode()

    found = [len(parser.feed(text, _LATER)) for _ in range(3)]

    assert found == [0, 2, 1]


def test_a_line_without_a_group_belongs_to_the_group_that_its_handle_named() -> None:
    answer = "JoinGroup response: x: Broker: Group member needs a valid member ID"
    first, second = _says(_JOIN), _says(_JOIN.replace('"g"', '"h"'), handle="a#consumer-2")

    signals = _signals(first + second + _says(answer))

    assert signals[-1].status is RebalanceStatus.NEW_MEMBER
    assert signals[-1].member.group == "g"


def test_a_line_without_a_group_before_any_with_one_is_nobodys() -> None:
    assert _signals(_says("SyncGroup response: Broker: Unknown member (0 bytes)")) == []


@pytest.mark.parametrize("state", ["init", "wait-metadata"])
def test_metadata_for_a_first_join_is_no_change(state: str) -> None:
    text = f'Group "g": subscription updated from metadata change: rejoining group in state {state}'

    assert _codes(_signals(_says(text))) == []


def test_an_answer_that_came_too_late_is_no_cause() -> None:
    text = (
        'Group "g" heartbeat error response in state up (join-state wait-join, 0 partition(s) '
        "assigned): Broker: Group rebalance in progress"
    )

    assert _codes(_signals(_says(text))) == []


def test_a_join_without_an_answer_is_no_cause() -> None:
    text = (
        "JoinGroup response: GenerationId -1, Protocol , LeaderId , my MemberId : Local: Timed out"
    )

    assert _codes(_signals(_says(_JOIN, text))) == []


def test_the_python_clients_logger_is_read_too() -> None:
    line = (
        "2026-11-21 06:40:00,500 DEBUG HEARTBEAT [a#consumer-1] [thrd:main]: "
        'Group "g" heartbeat error response in state up (join-state steady, 1 partition(s) '
        "assigned): Broker: Unknown member\n"
    )

    assert _codes(_signals(line)) == [RebalanceStatus.UNKNOWN_MEMBER]


@pytest.mark.parametrize(
    ("text", "key"),
    [("[thrd:main]: {}", "Name"), ("MAXPOLL [thrd:main]: {}", "name")],
)
def test_name_that_a_program_logs_as_a_field_is_the_clients(
    text: str, key: str, tmp_path: Path
) -> None:
    """So do Go's LogEvent as JSON and handlers of .NET and Node.js."""
    lines = [
        ("m1", 'Group "pay": updating member id "" -> "m1-11111111-2222-3333-4444-555555555555"'),
        ("m2", 'Group "pay": updating member id "" -> "m2-11111111-2222-3333-4444-555555555555"'),
        (
            "m2",
            (
                "Application maximum poll interval (6000ms) exceeded by 55ms (adjust "
                "max.poll.interval.ms for long-running message processing): leaving group"
            ),
        ),
    ]
    path = tmp_path / "app.log"
    path.write_text(
        "".join(
            json.dumps(
                {
                    "time": f"2026-11-20T13:20:0{second}Z",
                    "message": text.format(line),
                    key: f"{client}#consumer-1",
                }
            )
            + "\n"
            for second, (client, line) in enumerate(lines)
        )
    )

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["group"], row["client_id"], row["to"]) for row in rows] == [("pay", "m2", 5)]


@pytest.mark.parametrize(
    ("taken", "known"),
    [
        ("t(3ieaC+sx/ECA)[0], t(3ieaC+sx/ECA)[11]", [("t-0", "t-11"), ()]),
        ("t(3ieaC+sx/ECA)[0], t(3ieaC+...", [()]),
        ("(null)(3ieaC+sx/ECA)[0]", [()]),
    ],
)
def test_a_member_of_kip_848_reads_what_it_has_acknowledged(
    taken: str, known: list[tuple[str, ...]]
) -> None:
    """librdkafka cuts a long list; what such a member reads is not known."""
    member = 'ConsumerGroupHeartbeat of member id "m", group id "g", generation id 0, group '
    signals = _signals(
        _says(
            'Sending new subscription "t"',
            f"GroupCoordinator/1: {member}",
            f'Target assignment acked, new current assignment  "{taken}"',
            'Group "g": Rejoining group without an assignment: member fenced - rejoining',
        )
    )

    assert [each.assigned for each in signals if each.assigned is not None] == known


_LINE = re.compile(r"%\d\|([\d.]+)\|(\w+)\|(audit-1#consumer-1)\| (.*)")


def _inspect(text: str) -> str:
    """Return a string as Node prints it within an object."""
    quote = next(each for each in "'\"`" if each not in text)
    return f"{quote}{text}{quote}"


_HANDLERS: dict[str, Callable[[datetime, str, str, str], str]] = {
    "the console of .NET": lambda at, code, name, text: (
        f"Debug|{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}|{name}|{code}| {text}"
    ),
    "a record of .NET": lambda at, code, name, text: (
        f"{at.isoformat()} LogMessage {{ Message = {text}, Name = {name}, Facility = {code} }}"
    ),
    "a name behind": lambda at, code, name, text: f"{at.isoformat()} {text} ({name}, {code})",
    "an object of Node on one line": lambda at, code, name, text: (
        f"{at.isoformat()} {{ severity: 7, fac: '{code}', message: {_inspect(text)}, "
        f"name: '{name}' }}"
    ),
    "an object of Node": lambda at, code, name, text: (
        f"{at.isoformat()} log {{\n  severity: 7,\n  fac: '{code}',\n  message: {_inspect(text)},\n"
        f"  name: '{name}'\n}}"
    ),
}


@pytest.mark.parametrize("handler", _HANDLERS)
def test_client_is_known_from_what_a_handler_prints(handler: str) -> None:
    found = list(filter(None, map(_LINE.match, (_GOLDEN / "input.log").read_text().splitlines())))
    bare = list(_rows(_signals("".join(f"{each[0]}\n" for each in found))))
    assert {row["client_id"] for row in bare} == {"audit-1"}

    text = "".join(
        _HANDLERS[handler](datetime.fromtimestamp(float(at), UTC), code, name, text) + "\n"
        for at, code, name, text in (each.groups() for each in found)
    )

    assert list(_rows(_signals(text))) == bare


_TIMED_OUT = "Application maximum poll interval (6000ms) exceeded by 397ms"
_BY_CODE = "Maximum application poll interval (max.poll.interval.ms) exceeded"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"ERROR app Consumer error: {_TIMED_OUT}", _TIMED_OUT),
        (
            f'ERROR app KafkaError{{code=_MAX_POLL_EXCEEDED,val=-147,str="{_TIMED_OUT}"}}',
            _TIMED_OUT,
        ),
        (f"Confluent.Kafka.ConsumeException: {_TIMED_OUT}", _TIMED_OUT),
        (f"{_TIMED_OUT} (adjust max.poll.interval.ms for long-running): leaving group", _TIMED_OUT),
        (f"WARN  [app] Message consumption error: PollExceeded (Local: {_BY_CODE})", _BY_CODE),
        (f"ERROR Rdkafka::RdkafkaError: Local: {_BY_CODE} (max_poll_exceeded)", _BY_CODE),
        (f'level=ERROR msg="consumer error" err="{_TIMED_OUT}"', _TIMED_OUT),
    ],
)
def test_error_that_a_program_prints_shows_a_dropped_member_without_names(
    line: str, reason: str
) -> None:
    rows = list(_rows(_signals(f"2026-11-20 10:00:00,123 {line}\n")))

    assert [(row["status"], row["reason"]) for row in rows] == [("DroppedGroup", reason)]
    assert (rows[0]["client_id"], rows[0]["group"]) == ("", "")


@pytest.mark.parametrize("key", ["msg", "err", "error"])
def test_error_in_a_field_is_read_too(key: str) -> None:
    fields = {"level": "error", "ts": "2026-11-20T10:00:00.123Z", "msg": "failed"}

    found = _signals(json.dumps(fields | {key: _TIMED_OUT}) + "\n")

    assert _codes(found) == [RebalanceStatus.DROPPED_GROUP]


def test_error_behind_the_clients_own_line_is_no_other_member() -> None:
    logged = _says(f"{_TIMED_OUT} (adjust max.poll.interval.ms for long-running): leaving group")
    printed = f"2026-11-21 12:40:00,123 ERROR app Consumer error: {_TIMED_OUT}\n"

    assert [row["client_id"] for row in _rows(_signals(logged + printed))] == ["a"]
