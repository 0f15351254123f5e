"""Layouts of Go's and Node's loggers for the fields that franz-go and kafkajs log.

franz-go's texts are those of its recordings; the layouts are slog's (with WithGroup), zap's with a
named logger, zerolog's and logrus's consoles, klog's, Redpanda Connect's, winston's and NestJS's.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agent.sources.lines.spoken import ARRIVAL_AT, got, parser
from tests.agent.sources.lines.test_posted_forms import BEGIN, iso, replay

FRANZ_MEMBER = "kgo-11111111-2222-3333-4444-555555555555"
JOINED = {"group": "pay", "member_id": FRANZ_MEMBER, "instance_id": None, "generation": 7}
FRANZ: list[tuple[int, str, dict[str, Any]]] = [
    (0, "joined", {**JOINED, "leader": False}),
    (1, "synced", {"group": "pay", "assigned": "t[0]"}),
    (1, "new group session begun", {"group": "pay", "added": "t[0]", "lost": ""}),
    (1, "beginning heartbeat loop", {"group": "pay"}),
    (60, "heartbeat errored", {"group": "pay", "err": "REBALANCE_IN_PROGRESS: The group ..."}),
    (60, "joining group", {"group": "pay"}),
    (63, "joined", {**JOINED, "generation": 8, "leader": False}),
    (63, "synced", {"group": "pay", "assigned": "t[0]"}),
    (63, "new group session begun", {"group": "pay", "added": "", "lost": ""}),
    (63, "beginning heartbeat loop", {"group": "pay"}),
]
NODE = {"groupId": "pay", "memberId": "app-11111111-2222-3333-4444-555555555555"}
NODE_JOINED = {
    **NODE,
    "leaderId": "x",
    "isLeader": False,
    "memberAssignment": {"t": [0]},
    "groupProtocol": "RoundRobinAssigner",
    "duration": 3012,
}
REJOIN = "The group is rebalancing, so a rejoin is needed"
KAFKAJS: list[tuple[int, str, dict[str, Any]]] = [
    (0, "[ConsumerGroup] Consumer has joined the group", NODE_JOINED),
    (60, "[Runner] The group is rebalancing, re-joining", {**NODE, "error": REJOIN}),
    (63, "[ConsumerGroup] Consumer has joined the group", NODE_JOINED),
]
GO_AWAY = "rejoining because we are the leader and noticed some topics have new partitions"
FRANZ_STORY = [
    *FRANZ,
    (70, "forced rejoin quitting heartbeat loop", {"why": GO_AWAY, "is848": False}),
    (70, "eager consumer revoking prior assigned partitions", {"group": "pay", "revoking": "t[0]"}),
    (70, "joining group", {"group": "pay"}),
    (70, "join returned UnknownMemberID, rejoining without a member id", {"group": "pay"}),
    (71, "joined", {**JOINED, "generation": 9, "leader": False}),
    (71, "synced", {"group": "pay", "assigned": "t[0]"}),
    (71, "beginning heartbeat loop", {"group": "pay"}),
    (80, "leaving group", {"group": "pay", "member_id": FRANZ_MEMBER}),
]
OWN: dict[str, Any] = {
    "service": "pay",
    "resource": {"service.name": "otelcol"},
    "client_id": "c",
    "clientId": "c",
}
ADDED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    (OWN, {}),
    ({}, OWN),
    (OWN, {"reason": "none", "duration": 3}),
]
Layout = Callable[[datetime, str, dict[str, Any]], str]


def pairs(fields: dict[str, Any], key: str = "{}=") -> str:
    texts = {name: "<nil>" if v is None else str(v) for name, v in fields.items()}
    return " ".join(
        key.format(name) + (json.dumps(text) if {" ", ""} & {*text, text} else text)
        for name, text in texts.items()
    )


def otlp(at: datetime, message: str, fields: dict[str, Any]) -> dict[str, Any]:
    record = {
        "timeUnixNano": str(round(at.timestamp() * 1000) * 1_000_000),
        "body": {"stringValue": message},
        "attributes": [
            {"key": name, "value": {"stringValue": "<nil>" if v is None else str(v)}}
            for name, v in fields.items()
        ],
    }
    return {"scopeLogs": [{"logRecords": [record]}]}


def bunyan(fields: dict[str, Any]) -> str:
    """Return short values in parentheses, and the others in lines below."""
    short = {
        name: str(v) if isinstance(v, bool | int) else json.dumps(v) if " " in v else v
        for name, v in fields.items()
        if isinstance(v, bool | int) or (isinstance(v, str) and v)
    }
    long = [f"{name}: {json.dumps(fields[name])}" for name in fields if name not in short]
    inner = ", ".join(f"{name}={text}" for name, text in {**short, "logger": "kafkajs"}.items())
    return "\n    ".join((f"({inner})", *"\n--\n".join(long).splitlines()))


TERMINAL = "\x1b[36m{}\x1b[0m="
CYAN = "\x1b[36m{}=\x1b[0m"
FRANZ_LAYOUTS: dict[str, Layout] = {
    "an object around the entry": lambda t, m, f: json.dumps(
        {"applicationLog": {"message": m, **f, "severity": "INFO", "timestamp": iso(t)}}
    ),
    "slog": lambda t, m, f: f'time={iso(t)} level=INFO msg="{m}" {pairs(f)}',
    "slog's group": lambda t, m, f: json.dumps({"time": iso(t), "msg": m, "kgo": f}),
    "slog's group as text": lambda t, m, f: (
        f'time={iso(t)} level=INFO msg="{m}" service=pay {pairs(f, "kgo.{}=")}'
    ),
    "slog's group within others": lambda t, m, f: json.dumps(
        {"time": iso(t), "msg": m, "service": "pay", "app": {"name": "x"}, "kgo": f}
    ),
    "zap's namespace on a console": lambda t, m, f: (
        f"{iso(t)}\tINFO\tkzap/k.go:1\t{m}\t{json.dumps({'service': 'pay', 'kgo': f})}"
    ),
    "tint": lambda t, m, f: f"{t:%b %d %H:%M:%S}.123 INF {m} {pairs(f)}",
    "phuslu's console": lambda t, m, f: f"{iso(t)} INF k.go:1 > {m} {pairs(f)}",
    "logr's funcr": lambda t, m, f: (
        f'{iso(t)} "level"=0 "msg"="{m}" '
        + " ".join(f'"{k}"={json.dumps(v)}' for k, v in f.items())
    ),
    "go-kit": lambda t, m, f: f'ts={iso(t)} caller=k.go:1 level=info msg="{m}" {pairs(f)}',
    "apex": lambda t, m, f: json.dumps(
        {"fields": f, "level": "info", "timestamp": iso(t), "message": m}
    ),
    "slog-multi's ECS": lambda t, m, f: json.dumps(
        {"@timestamp": iso(t), "log.level": "INFO", "message": m, "extra": f}
    ),
    "Datadog's": lambda t, m, f: json.dumps(
        {"timestamp": iso(t), "status": "info", "message": m, "attributes": f}
    ),
    "Google Cloud's": lambda t, m, f: json.dumps(
        {"timestamp": iso(t), "severity": "INFO", "jsonPayload": {"message": m, **f}}
    ),
    "zap's console": lambda t, m, f: f"{iso(t)}\tINFO\tkgo\tkzap/k.go:1\t{m}\t{json.dumps(f)}",
    "zap without a caller": lambda t, m, f: f"{iso(t)}\tINFO\tkgo\t{m}\t{json.dumps(f)}",
    "zerolog's console": lambda t, m, f: f"{iso(t)} \x1b[32mINF\x1b[0m {m} {pairs(f, CYAN)}",
    "klog": lambda t, m, f: f'I{t:%m%d %H:%M:%S}.123456       1 kgo.go:12] "{m}" {pairs(f)}',
    "hclog": lambda t, m, f: f"{iso(t)} [INFO]  kafka: {m}: {pairs(f)}",
    "logrus on a terminal, with times": lambda t, m, f: (
        f"\x1b[36mINFO\x1b[0m[{t:%Y-%m-%dT%H:%M:%S}Z] {m:<44} {pairs(f, TERMINAL)}"
    ),
    "zap's short keys": lambda t, m, f: json.dumps({"L": "INFO", "T": iso(t), "M": m, **f}),
    "charm with a prefix": lambda t, m, f: f"{t:%Y/%m/%d %H:%M:%S} INFO kafka: {m} {pairs(f)}",
    "OTLP": lambda t, m, f: json.dumps({"resourceLogs": [otlp(t, m, f)]}),
    "a time behind": lambda t, m, f: f'level=info msg="{m}" label="" time={iso(t)} {pairs(f)}',
    "charm with a caller and a prefix": lambda t, m, f: (
        f"{iso(t)} INFO <kafka/client.go:12> kgo: {m} {pairs(f)}"
    ),
    "gookit": lambda t, m, f: (
        f"[{t:%Y/%m/%dT%H:%M:%S}.123] [application] [INFO] [main.go:7,main] {m} {json.dumps(f)}"
    ),
    "geth": lambda t, m, f: f"INFO [{t:%m-%d|%H:%M:%S}.123] {m:<40} {pairs(f)}",
    "an object over several lines behind a time": lambda t, m, f: (
        f"[{t:%H:%M:%S}.123] INFO: {m} {json.dumps(f, indent=2)}"
    ),
    "OpenTelemetry's exporter of Go": lambda t, m, f: json.dumps(
        {
            "Timestamp": iso(t),
            "SeverityText": "INFO",
            "Body": {"Type": "String", "Value": m},
            "Attributes": [
                {"Key": key, "Value": {"Type": "String", "Value": "<nil>" if v is None else str(v)}}
                for key, v in f.items()
            ],
        }
    ),
}
KAFKAJS_LAYOUTS: dict[str, Layout] = {
    "an object around the entry": lambda t, m, f: json.dumps(
        {"applicationLog": {"message": m, **f, "severity": "INFO", "timestamp": iso(t)}}
    ),
    "kafkajs": lambda t, m, f: json.dumps({"timestamp": iso(t), "message": m, **f}),
    "winston": lambda t, m, f: json.dumps({"message": m, "timestamp": iso(t), "extra": f}),
    "winston, with kafkajs's time": lambda t, m, f: json.dumps(
        {"level": "info", "message": m, "extra": {"timestamp": iso(t), "logger": "kafkajs", **f}}
    ),
    "NestJS's JSON": lambda t, m, f: json.dumps(
        {"level": "log", "timestamp": iso(t), "message": {"message": m, **f}}
    ),
    "log4js": lambda t, m, f: f"[{iso(t)}] [INFO] kafkajs - {m} {json.dumps(f)}",
    "a message and its fields": lambda t, m, f: f"{iso(t)} {m} {json.dumps(f)}",
    "Lambda's console": lambda t, m, f: (
        f"{iso(t)}\t8f5a6b1c-1111-2222-3333-444455556666\tINFO\t"
        + json.dumps({"level": "INFO", "logger": "kafkajs", "message": m, **f})
    ),
    "an object behind a time and a level": lambda t, m, f: (
        f"{t:%Y-%m-%d %H:%M:%S,123} INFO {json.dumps({'level': 'INFO', 'message': m, **f})}"
    ),
    "NestJS": lambda t, m, f: (
        f"[Nest] 1  - {t:%m/%d/%Y, %I:%M:%S} PM     LOG [Server] INFO {m} {json.dumps(f)}"
    ),
    "NestJS with the time since the line before": lambda t, m, f: (
        f"\x1b[32m[Payments] 8018  - \x1b[39m{t:%m/%d/%Y, %I:%M:%S} PM \x1b[32m    LOG\x1b[39m "
        f"\x1b[38;5;3m[ServerKafka] \x1b[39m\x1b[32mINFO {m} {json.dumps(f)}\x1b[39m"
        "\x1b[38;5;3m +380ms\x1b[39m"
    ),
    "nest-winston": lambda t, m, f: (
        f"\x1b[32m[MyApp]\x1b[39m \x1b[32m8024\x1b[39m {t:%m/%d/%Y, %I:%M:%S} PM \x1b[32m    LOG"
        f"\x1b[39m \x1b[33m[ServerKafka]\x1b[39m \x1b[32mINFO {m} {json.dumps(f)}\x1b[39m "
        "\x1b[33m+395ms\x1b[39m"
    ),
    "nest-winston with fields": lambda t, m, f: (
        f"[MyApp] 8024 {t:%m/%d/%Y, %I:%M:%S} PM     LOG [ServerKafka] INFO {m} {json.dumps(f)} - "
        '{"requestId":"7"} +2ms'
    ),
    "nestjs-pino": lambda t, m, f: (
        f'[{iso(t)}] INFO (7977): INFO {m} {json.dumps(f)} {{"context":"ServerKafka"}}'
    ),
    "console.log of a message and its fields, on one line": lambda t, m, f: (
        f"{iso(t)} INFO {m} {inspected(f)}"
    ),
    "an object of JSON over several lines": lambda t, m, f: (
        f"{iso(t)} info: {m} {json.dumps(f, indent=2)}"
    ),
    "an entry of kafkajs as it is, in fields": lambda t, m, f: json.dumps(
        {"level": 30, "time": int(t.timestamp() * 1000), "log": {"message": m, **f}}
    ),
    "GELF's fields": lambda t, m, f: json.dumps(
        {"short_message": m, "timestamp": t.timestamp(), "_logger": "kafkajs"}
        | {f"_{name}": json.dumps(v) if isinstance(v, dict) else v for name, v in f.items()}
    ),
    "a message, a dash and its fields": lambda t, m, f: (
        f"{iso(t)} INFO [kafka] {m} - {json.dumps(f)}"
    ),
    "bunyan's command line": lambda t, m, f: (
        f"[{iso(t)}]  INFO: app/123 on host-1: {m} {bunyan(f)}"
    ),
    "bunyan's command line, short": lambda t, m, f: f"{t:%H:%M:%S}.123Z  INFO app: {m} {bunyan(f)}",
    "tslog": lambda t, m, f: json.dumps(
        {"0": m, "1": f, "_meta": {"date": iso(t), "logLevelName": "INFO"}}
    ),
    "NestJS behind fields of a request": lambda t, m, f: (
        f'{iso(t)} LOG {{"requestId":"7"}} INFO {m} {json.dumps(f)} +1ms'
    ),
}
WANTED = [(1, "13:21:05"), (0, "13:21:08")]


def inspected(value: object) -> str:
    """Return a value as Node's util.inspect prints it on one line."""
    if isinstance(value, dict):
        names = {key: key if key.isidentifier() else f"'{key}'" for key in value}
        texts = [f"{names[key]}: {inspected(each)}" for key, each in value.items()]
        return f"{{ {', '.join(texts)} }}" if texts else "{}"
    if isinstance(value, list):
        return f"[ {', '.join(map(inspected, value))} ]" if value else "[]"
    if isinstance(value, str):
        return f'"{value}"' if "'" in value else f"'{value}'"
    return json.dumps(value)


def write(story: list[tuple[int, str, dict[str, Any]]], layout: Layout) -> str:
    return "\n".join(layout(BEGIN + timedelta(seconds=s), m, f) for s, m, f in story)


@pytest.mark.parametrize("name", FRANZ_LAYOUTS)
def test_layout_of_franz_go_is_read(name: str, tmp_path: Path) -> None:
    assert replay(write(FRANZ, FRANZ_LAYOUTS[name]), tmp_path)[0] == WANTED


@pytest.mark.parametrize("name", KAFKAJS_LAYOUTS)
def test_fields_that_a_logger_adds_to_each_line_of_kafkajs_change_nothing(name: str) -> None:
    plain, *others = (adding(KAFKAJS, KAFKAJS_LAYOUTS[name], *each) for each in ADDED)

    assert plain
    assert others == [plain] * len(others)


@pytest.mark.parametrize("name", FRANZ_LAYOUTS)
def test_fields_that_a_logger_adds_to_each_line_of_franz_go_change_nothing(name: str) -> None:
    plain, *others = (adding(FRANZ_STORY, FRANZ_LAYOUTS[name], *each) for each in ADDED)

    assert {"pay"} == {group for group, *_ in plain}
    assert others == [plain] * len(others)


@pytest.mark.parametrize("name", FRANZ_LAYOUTS)
def test_lines_of_franz_go_without_a_group_are_read(name: str, tmp_path: Path) -> None:
    plain = replay(write(FRANZ_STORY, FRANZ_LAYOUTS["slog"]), tmp_path)[0]

    assert [code for code, _ in plain] == [1, 0, 7, 0, 6, 0]
    assert replay(write(FRANZ_STORY, FRANZ_LAYOUTS[name]), tmp_path)[0] == plain


def adding(
    story: list[tuple[int, str, dict[str, Any]]],
    layout: Layout,
    before: dict[str, Any],
    behind: dict[str, Any],
) -> list[tuple[str, str, list[str], tuple[str, ...] | None]]:
    """Return the signals of a log with more fields: group, member id, word and partitions."""
    text = write([(at, message, before | own | behind) for at, message, own in story], layout)
    reader = parser()
    found = reader.feed(text.encode() + b"\n", ARRIVAL_AT) + reader.flush()
    return [(s.member.group, s.member.member_id or "", got([s]), s.assigned) for s in found]


@pytest.mark.parametrize("assigned", ["t[0]", "t[0 1], u.b-c[3]", "", "t[0 1], u[3", "t[0], u"])
@pytest.mark.parametrize("name", FRANZ_LAYOUTS)
def test_assignment_of_franz_go_is_read(name: str, assigned: str) -> None:
    """A layout may have cut a list off; such a one is not known."""
    synced = [(1, "synced", {"group": "pay", "assigned": assigned})]
    known = {"t[0]": [("t-0",)], "t[0 1], u.b-c[3]": [("t-0", "t-1", "u.b-c-3")], "": [()]}

    assert reads(write([FRANZ[0], *synced], FRANZ_LAYOUTS[name])) == known.get(assigned, [])


@pytest.mark.parametrize("name", KAFKAJS_LAYOUTS)
def test_assignment_of_kafkajs_is_read(name: str) -> None:
    story = [
        (second, KAFKAJS[0][1], {**NODE_JOINED, "memberAssignment": assignment})
        for second, assignment in enumerate([{"t": [0, 1], "u.b-c": [3]}, {}])
    ]

    assert reads(write(story, KAFKAJS_LAYOUTS[name])) == [("t-0", "t-1", "u.b-c-3"), ()]


@pytest.mark.parametrize("name", KAFKAJS_LAYOUTS)
def test_member_of_kafkajs_reads_nothing_while_it_joins_again(name: str) -> None:
    assert reads(write(KAFKAJS, KAFKAJS_LAYOUTS[name])) == [("t-0",), (), ("t-0",)]


@pytest.mark.parametrize("revoking", ["t[0], u[1]", "map[t:[0] u:[1]]"])
@pytest.mark.parametrize(
    "text",
    [
        "eager consumer revoking prior assigned partitions",
        "cooperative consumer revoking prior assigned partitions because leaving group",
    ],
)
def test_member_of_franz_go_gives_its_partitions_up(text: str, revoking: str) -> None:
    story = [
        FRANZ[0],
        (1, "synced", {"group": "pay", "assigned": "t[0], u[1]"}),
        (2, text, {"group": "pay", "revoking": revoking}),
    ]

    assert reads(write(story, FRANZ_LAYOUTS["slog"])) == [("t-0", "u-1"), ()]


def reads(text: str) -> list[tuple[str, ...]]:
    """Return the partitions that a log's lines show."""
    reader = parser()
    found = reader.feed(text.encode() + b"\n", ARRIVAL_AT) + reader.flush()
    return [signal.assigned for signal in found if signal.assigned is not None]


@pytest.mark.parametrize("name", KAFKAJS_LAYOUTS)
def test_layout_of_kafkajs_is_read(name: str, tmp_path: Path) -> None:
    assert replay(write(KAFKAJS, KAFKAJS_LAYOUTS[name]), tmp_path)[0] == WANTED


def test_layout_of_logrus_on_a_terminal_is_read_without_times(tmp_path: Path) -> None:
    text = write(FRANZ, lambda _, m, f: f"\x1b[36mINFO\x1b[0m[0000] {m:<44} {pairs(f, TERMINAL)}")

    assert [code for code, _ in replay(text, tmp_path)[0]] == [1, 0]


@pytest.mark.parametrize("key", ["log", "message", "textPayload"])
@pytest.mark.parametrize("layout", ["zerolog's console", "logrus on a terminal, with times"])
def test_colours_within_an_object_of_a_store_are_no_text(
    layout: str, key: str, tmp_path: Path
) -> None:
    text = write(FRANZ, FRANZ_LAYOUTS[layout])
    rows = [json.dumps({key: line, "stream": "stdout"}) for line in text.splitlines()]

    assert replay("\n".join(rows), tmp_path)[0] == WANTED
