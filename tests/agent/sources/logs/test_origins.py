"""Logs that merge the streams of several processes."""

import json

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal

ARRIVAL_AT = 1795300000.0
PREFIX = "[Consumer clientId=c, groupId=g] "
SYNCED = PREFIX + (
    "Successfully synced group in generation Generation{{generationId={0}, memberId='c-{1}', "
    "protocol='range'}}"
)
ASSIGNED = PREFIX + "Adding newly assigned partitions: t-0"
ASKED = PREFIX + "Request joining group due to: group is already rebalancing"


def line(second: int, text: str) -> str:
    return f"2026-11-21 06:33:{second:02} INFO {text}"


def compose(name: str, second: int, text: str) -> str:
    return f"{name}  | {line(second, text)}"


def as_json(pid: int, second: int, text: str) -> str:
    time = f"2026-11-21T06:33:{second:02}Z"
    return json.dumps({"@timestamp": time, "message": text, "process": {"pid": pid}})


def read(lines: list[str], *, restart_after: int | None = None) -> list[Signal]:
    def parser() -> LineParser:
        interpreter = ClientInterpreter(stream="app.log", host="agent")
        return create_parser(choose_dialects("auto"), interpreter, "UTC")

    reader, out = parser(), list[Signal]()
    for number, text in enumerate(lines):
        if number == restart_after:
            state = json.loads(json.dumps(reader.state()))
            reader = parser()
            reader.restore(state)
        out += reader.feed(text.encode() + b"\n", ARRIVAL_AT)
    return out + reader.flush()


REPLICAS = [
    compose("pay-1", 1, SYNCED.format(7, "a")),
    compose("pay-1", 2, ASSIGNED),
    compose("pay-2", 1, SYNCED.format(7, "b")),
    compose("pay-2", 2, ASSIGNED),
    compose("pay-1", 3, ASKED),
    compose("pay-2", 5, ASKED),
    compose("pay-1", 4, SYNCED.format(8, "a")),
    compose("pay-2", 6, SYNCED.format(8, "b")),
]


@pytest.mark.parametrize("restart_after", [None, 4, 6])
def test_replicas_of_one_file_are_streams_of_their_own(restart_after: int | None) -> None:
    found = read(REPLICAS, restart_after=restart_after)
    signals = [signal for signal in found if signal.assigned is None]

    for name in ("pay-1", "pay-2"):
        own = [signal for signal in signals if signal.member.host == name]
        assert [signal.kind.value for signal in own] == ["sync", "raise", "sync"]
        assert {signal.member.origin for signal in own} == {f"app.log#{name}"}
    assert {signal.at % 60 for signal in signals} == {1.0, 3.0, 4.0, 5.0, 6.0}


def test_configured_host_stays() -> None:
    interpreter = ClientInterpreter(stream="s", host="chosen", is_host_configured=True)
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    signals = parser.feed("\n".join(REPLICAS).encode(), ARRIVAL_AT) + parser.flush()

    assert {signal.member.host for signal in signals} == {"chosen"}


def test_restarted_process_stays_one_stream() -> None:
    lines = [as_json(1, 1, ASKED), as_json(1, 2, ASKED), as_json(2, 3, ASKED), as_json(2, 4, ASKED)]

    assert {signal.member.origin for signal in read(lines)} == {"app.log"}


def test_processes_that_write_in_turns_are_streams_of_their_own() -> None:
    lines = [as_json(1 + second % 2, second, ASKED) for second in range(6)]

    assert {signal.member.origin for signal in read(lines)[2:]} == {"app.log#[1]", "app.log"}


def journal(unit: str, pid: int, second: int, text: str) -> str:
    return as_json(pid, second, text).replace("{", f'{{"_SYSTEMD_UNIT": "{unit}", ', 1)


@pytest.mark.parametrize("unit", ["", "payments.service"])
@pytest.mark.parametrize("restart_after", [None, 3, 4, 5])
def test_process_that_begins_beside_a_member_is_a_stream_of_its_own(
    restart_after: int | None, unit: str
) -> None:
    """Live, nothing but its membership shows that the first process still runs."""
    rows = [
        journal(unit, 1, 1, SYNCED.format(7, "a")),
        journal(unit, 1, 2, ASSIGNED),
        journal(unit, 2, 3, SYNCED.format(7, "b")),
        journal(unit, 1, 4, ASKED),
        journal(unit, 1, 5, SYNCED.format(8, "a")),
        journal(unit, 2, 6, ASSIGNED),
        journal(unit, 1, 7, ASSIGNED),
    ]
    found = [each for each in read(rows, restart_after=restart_after) if each.assigned is None]

    plain = f"app.log#{unit}" if unit else "app.log"
    for origin, member_id, kinds in (
        (plain, "c-a", ["sync", "raise", "sync"]),
        (f"app.log#{unit}[2]", "c-b", ["sync"]),
    ):
        own = [each for each in found if each.member.origin == origin]
        assert [each.kind.value for each in own] == kinds
        assert {each.member.member_id for each in own} == {member_id}


def test_processes_of_before_a_restart_keep_their_streams() -> None:
    """After the restart several lines arrive at once, and show both processes in turns."""
    rows = [
        as_json(1, 1, SYNCED.format(7, "a")),
        as_json(2, 2, SYNCED.format(7, "b")),
        "\n".join(as_json(1 + second % 2, second, ASKED) for second in range(4, 8)),
    ]
    found = read(rows, restart_after=2)

    assert {each.member.origin for each in found} == {"app.log", "app.log#[2]"}


def test_process_that_begins_after_a_leave_continues_the_stream() -> None:
    left = PREFIX + (
        "Member c-a sending LeaveGroup request to coordinator x due to the consumer is being closed"
    )
    rows = [
        as_json(1, 1, SYNCED.format(7, "a")),
        as_json(1, 2, ASSIGNED),
        as_json(1, 3, left),
        as_json(2, 4, SYNCED.format(9, "b")),
        as_json(2, 5, ASSIGNED),
        as_json(3, 6, SYNCED.format(10, "c")),
        as_json(3, 7, left.replace("c-a", "c-c")),
        as_json(4, 8, SYNCED.format(11, "d")),
        as_json(2, 9, ASKED),
    ]

    origins = {each.member.member_id: each.member.origin for each in read(rows)}

    assert origins == {
        "c-a": "app.log",
        "c-b": "app.log",
        "c-c": "app.log#[3]",
        "c-d": "app.log#[3]",
    }


def test_many_processes_of_an_origin_are_bounded() -> None:
    interpreter = ClientInterpreter(stream="app.log")
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    for pid in range(200):
        parser.feed(as_json(pid, 1, ASKED).encode() + b"\n", ARRIVAL_AT)

    assert len(parser.state()["processes"][""]) == 64


def test_process_that_begins_far_behind_is_told_apart_from_the_first_line_on() -> None:
    """A journal as objects has 1 KB a line: settings alone are 100 KB before a join."""
    other = json.dumps({"message": "x" * 1_000, "process": {"pid": 1}})
    begin = [as_json(1, 1, ASKED), *[other] * 200]
    rows = [*begin, as_json(2, 2, ASKED), as_json(1, 3, ASKED), as_json(2, 4, ASKED)]
    interpreter = ClientInterpreter(stream="app.log")
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    found = parser.feed("".join(f"{row}\n" for row in rows).encode(), ARRIVAL_AT) + parser.flush()

    assert {signal.member.origin for signal in found} == {"app.log#[1]", "app.log#[2]"}


def test_member_ids_that_come_back_show_several_processes() -> None:
    told = list[str]()
    interpreter = ClientInterpreter(
        stream="s", on_mixed=lambda client: told.append(client.describe())
    )
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    lines = [line(second, SYNCED.format(7, "ab"[second % 2])) for second in range(8)]
    parser.feed("\n".join(lines).encode() + b"\n", ARRIVAL_AT)

    assert told == ["client c"]
    assert [client.is_mixed for client in interpreter.clients.values()] == [True]
