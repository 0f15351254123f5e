"""What recorded clients printed of their settings reaches their signals."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.line_parser import KEPT_BYTES, KEPT_LONG_BYTES
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Member, SignalKind
from metrics.model.status import RebalanceStatus

# Recorded: how a consumer of 2.8.2, and a thread of a Streams 4.3.0 instance, begin.
GOLDEN = Path(__file__).parents[3] / "golden" / "client_settings"
PLAIN = (GOLDEN / "java-2.8.2.log").read_bytes()
STREAMS = (GOLDEN / "streams-4.3.0.log").read_bytes()
LIST, _, SUBSCRIBED = PLAIN.rpartition(b"[2026-")
SUBSCRIBED = b"[2026-" + SUBSCRIBED
LIST_ALONE = b"".join(line for line in LIST.splitlines(True) if b"Kafka version" not in line)
CLIENT, GROUP = "m2", "g-max_poll-2.8.2-42989"


VERSION = b"[2026-11-21 06:36:32,290] INFO Kafka version: 2.8.2 (o.a.k.c.utils.AppInfoParser)\n"


def _later(data: bytes) -> bytes:
    """Return the lines of a client of the next day."""
    return data.replace(b"[2026-11-21 ", b"[2026-11-22 ")


def got(data: bytes, piece_bytes: int = 1 << 20) -> list[float | None]:
    """Feed a log and return the poll interval of each client that spoke."""
    return [member.max_poll_interval_s for member in members(data, piece_bytes)]


def versions(data: bytes, piece_bytes: int = 1 << 20) -> list[str | None]:
    return [member.software for member in members(data, piece_bytes)]


def members(data: bytes, piece_bytes: int) -> list[Member]:
    interpreter = ClientInterpreter(stream="s")
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    for start in range(0, len(data), piece_bytes):
        parser.feed(data[start : start + piece_bytes], 2e9)
    parser.flush()
    return [each.member for each in interpreter.clients.values()]


def session(log: bytes) -> float | None:
    (found,) = members(log, 1 << 20)
    return found.session_timeout_s


def test_session_timeout_that_the_protocol_does_not_use_is_none() -> None:
    setting = b"\tgroup.instance.id"
    classic, consumer = (
        PLAIN.replace(setting, b"\tgroup.protocol = " + name + b"\n" + setting)
        for name in (b"classic", b"consumer")
    )
    assert session(PLAIN) == session(classic) is not None
    assert session(consumer) is None
    assert session(classic.replace(b"INFO ConsumerConfig", b"INFO ShareConsumerConfig")) is None


@pytest.mark.parametrize("piece_bytes", [1, 777, 1 << 20])
def test_a_consumer_has_its_own(piece_bytes: int) -> None:
    assert got(PLAIN, piece_bytes) == [3.0]


@pytest.mark.parametrize("piece_bytes", [777, 1 << 20])
@pytest.mark.parametrize(
    ("line", "software"),
    [
        (VERSION, "apache-kafka-java 2.8.2"),
        (VERSION.replace(b"version: 2.8.2", b"version : 2.0.1"), "apache-kafka-java 2.0.1"),
        (VERSION.replace(b"2.8.2", b"7.5.0-ccs"), "apache-kafka-java 7.5.0-ccs"),
        (VERSION.replace(b"2.8.2", b"unknown"), None),
        (b"", None),
    ],
)
def test_its_version_is_as_on_the_wire(line: bytes, software: str | None, piece_bytes: int) -> None:
    assert versions(LIST_ALONE + line + SUBSCRIBED, piece_bytes) == [software]


def test_a_client_that_is_started_anew_may_have_another_version() -> None:
    new = LIST_ALONE + VERSION.replace(b"2.8.2", b"3.9.1") + _later(SUBSCRIBED)
    assert versions(LIST_ALONE + VERSION + SUBSCRIBED + new) == ["apache-kafka-java 3.9.1"]


def test_a_version_in_a_json_layout_ends_with_its_line() -> None:
    entries = [
        json.dumps({"@timestamp": "2026-11-21T06:36:32.294Z", "message": text.decode()}) + "\n"
        for text in (LIST_ALONE, VERSION.partition(b"INFO ")[2], SUBSCRIBED)
    ]
    assert versions("".join(entries).encode()) == ["apache-kafka-java 2.8.2"]


def test_a_streams_thread_has_its_main_consumers() -> None:
    assert got(STREAMS.replace(b"interval.ms = 300000", b"interval.ms = 9000", 1)) == [300.0]


@pytest.mark.parametrize(
    "line",
    [
        b"2026-11-21T06:36:32.294000001Z stdout F %b",
        b'{"log":%b,"stream":"stdout","time":"2026-11-21T06:36:32.294000001Z"}',
    ],
    ids=["CRI", "Docker"],
)
def test_a_container_wraps_it_line_by_line(line: bytes) -> None:
    is_json = line.startswith(b"{")
    lines = [
        json.dumps(f"{text}\n").encode() if is_json else text.encode()
        for text in PLAIN.decode().splitlines()
    ]
    assert got(b"".join(line % each + b"\n" for each in lines)) == [3.0]


Entry = Callable[[str], dict[str, object]]
STORES: dict[str, Entry] = {
    "Google Cloud": lambda text: {"insertId": "a", "textPayload": text, "timestamp": "2026-11-21"},
    "Filebeat": lambda text: {"message": text, "agent": {"name": "n" * 1_000}},
    "Fluent Bit": lambda text: {"log": f"{text}\r\n", "kubernetes": {"pod_id": "1"}},
    "Loki": lambda text: {"line": text, "timestamp": "2026-11-21T06:36:32Z"},
}
"""Entries of one line each."""


@pytest.mark.parametrize("name", STORES)
def test_a_store_has_a_line_an_entry(name: str) -> None:
    entries = [json.dumps(STORES[name](text)) + "\n" for text in PLAIN.decode().splitlines()]

    assert got("".join(entries).encode()) == [3.0]


@pytest.mark.parametrize("piece_bytes", [5_000, 50_000, 1 << 20])
def test_a_list_of_long_entries_may_arrive_in_several_reads(piece_bytes: int) -> None:
    labels = {"k8s-pod/app": "x" * 1_200, "compute.googleapis.com/resource_name": "y" * 400}
    entries = [
        json.dumps({"labels": labels, "textPayload": text}) + "\n"
        for text in PLAIN.decode().splitlines()
    ]
    text = "".join(entries).encode()

    assert len(text) > 2 * KEPT_BYTES
    assert got(text, piece_bytes) == [3.0]


def test_a_json_layout_has_it_in_one_message() -> None:
    entries = [
        json.dumps({"@timestamp": "2026-11-21T06:36:32.294Z", "message": text.decode()}) + "\n"
        for text in (LIST, SUBSCRIBED)
    ]
    assert got("".join(entries).encode()) == [3.0]


@pytest.mark.parametrize(
    ("of_the_list", "anothers"),
    [
        (b"client.id = m2", b"client.id = m1"),
        (b"client.id = m2", b"client.id = "),
        (b"group.id = g-", b"group.id = h-"),
        (b"group.instance.id = null", b"group.instance.id = i1"),
    ],
)
def test_another_clients_list_is_not_its_own(of_the_list: bytes, anothers: bytes) -> None:
    assert of_the_list in LIST
    assert got(LIST.replace(of_the_list, anothers) + SUBSCRIBED) == [None]


def test_a_list_alone_makes_no_member() -> None:
    assert got(LIST) == []


def test_a_list_between_is_passed_over() -> None:
    assert got(LIST + LIST.replace(b"= m2", b"= m1").replace(b"3000", b"9000") + SUBSCRIBED) == [
        3.0
    ]


def test_a_client_that_is_started_anew_may_have_another() -> None:
    new = _later(PLAIN.replace(b"interval.ms = 3000", b"interval.ms = 7000"))
    assert got(PLAIN + new) == [7.0]


@pytest.mark.parametrize("piece_bytes", [777, 1 << 20])
def test_it_is_not_looked_back_further_than_what_is_kept(piece_bytes: int) -> None:
    others = b"INFO another line of the application\n" * (KEPT_LONG_BYTES // 30)
    assert got(LIST + others + SUBSCRIBED, piece_bytes) == [None]


@pytest.mark.parametrize("number", [b"soon", b"-1", b"9" * 19, b"9" * 5000])
def test_a_number_that_is_none_is_not_taken(number: bytes) -> None:
    assert got(PLAIN.replace(b"interval.ms = 3000", b"interval.ms = " + number)) == [None]


def _run(hour: int, *messages: str) -> bytes:
    """Return the log of a process from its settings on, with the recorded client's names."""
    begin = LIST.replace(b"[2026-11-21 06:", b"[2026-11-21 %02d:" % hour)
    lines = [
        f"[2026-11-21 {hour:02}:50:{second:02},000] INFO [Consumer clientId={CLIENT}, "
        f"groupId={GROUP}] {message}\n"
        for second, message in enumerate(messages)
    ]
    return begin + "".join(lines).encode()


def test_a_killed_client_that_begins_again_has_changed_no_subscription() -> None:
    def joins(member: str) -> tuple[str, ...]:
        return (
            "(Re-)joining group",
            f"Request joining group due to: need to re-join with the given member-id: {member}",
            "(Re-)joining group",
            (
                f"Successfully synced group in generation Generation{{generationId=1, memberId="
                f"'{member}', protocol='range'}}"
            ),
            "Adding newly assigned partitions: a-0",
        )

    first = _run(7, "Subscribed to topic(s): a", *joins("m-1"), "Subscribed to topic(s): a, b")
    second = _run(8, "Subscribed to topic(s): a", *joins("m-2"))
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")

    signals = parser.feed(first, 2e9) + parser.feed(second, 2e9) + parser.flush()

    raised = [signal.status for signal in signals if signal.kind is SignalKind.RAISE]
    assert raised == [RebalanceStatus.NEW_MEMBER, RebalanceStatus.NEW_MEMBER]
