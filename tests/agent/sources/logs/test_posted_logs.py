"""Excerpts of logs as users post them: their begin is missing, or a viewer has cut their lines."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser

MEMBER = "nestjs-server-a2d5e474-467e-4403-8cc8-88577563c941"
WORKER = "[Worker clientId=w, groupId=connect]"
GENERATION = "Generation{generationId=9, memberId='w-1', protocol='sessioned'}"


def kafka_python(clock: str, text: str) -> str:
    return f"2019-09-03 {clock},495 - kafka.coordinator - INFO - {text}"


def nest(clock: str, level: str, text: str, **fields: str) -> str:
    kept = json.dumps({"logger": "kafkajs", "groupId": "pay", "memberId": MEMBER, **fields})
    return f"[Nest] 62  - 02/22/2022, {clock} PM     {level} [ServerKafka] {text} {kept}"


def java(clock: str, text: str) -> str:
    return f"2026-11-20 {clock},123 INFO [Consumer clientId=c-1, groupId=pay] {text}"


def connect(clock: str, text: str) -> str:
    return f"[2026-09-17 {clock},660] INFO {WORKER} {text} (o.a.k.X:1)"


def franz(clock: str, text: str, **fields: str | int | None) -> str:
    return json.dumps({"time": f"2026-11-20T{clock}Z", "level": "INFO", "msg": text, **fields})


def within(line: str, depth: int) -> str:
    """Return a line as the message of a runtime's object, and of a collector's around that."""
    return line if not depth else within(json.dumps({"log": line, "stream": "stdout"}), depth - 1)


FRANZ = (
    franz(
        "13:20:04",
        "joined",
        group="pay",
        member_id=MEMBER,
        instance_id=None,
        generation=1,
        balance_protocol="range",
        leader="false",
    ),
    franz("13:20:05", "heartbeat errored", group="pay", err="REBALANCE_IN_PROGRESS"),
    franz("13:20:08", "synced", group="pay", assigned="t[0]"),
)
JOINED = {"msg": "[ConsumerGroup] Consumer has joined the group", "memberId": MEMBER}
PINO = (
    JOINED | {"leaderId": "x"},
    {"msg": "[Runner] The group is rebalancing, re-joining", "memberId": MEMBER}
    | {"error": "The group is rebalancing, so a rejoin is needed"},
    JOINED | {"leaderId": "x"},
)

POSTS = {
    "kafka-python's failed heartbeat, whose group a line above names": (
        [
            kafka_python("14:46:45", "Discovered coordinator 0 for group group1"),
            kafka_python(
                "14:46:49",
                "Heartbeat: local member_id was not recognized; this consumer needs to re-join",
            ),
            kafka_python("14:46:50", "Successfully joined group group1 with generation 3"),
        ],
        [("group1", 3), ("group1", 0)],
    ),
    "kafka-python's poll timeout, whose group the next line names": (
        [
            kafka_python("11:06:58", "Heartbeat poll expired, leaving group"),
            kafka_python("11:06:59", "Leaving consumer group (requests)."),
        ],
        [("requests", 5)],
    ),
    "kafka-python's failed heartbeat, whose group the next line names": (
        [
            kafka_python(
                "14:46:49",
                "Heartbeat: local member_id was not recognized; this consumer needs to re-join",
            ),
            kafka_python("14:46:50", "Successfully joined group group1 with generation 3"),
        ],
        [("group1", 3), ("group1", 0)],
    ),
    "aiokafka's rebalance, of a member that the next line names": (
        [
            kafka_python("14:46:49", "Heartbeat failed for group pay because it is rebalancing"),
            kafka_python("14:46:50", f"Joined group 'pay' (generation 5) with member_id {MEMBER}"),
            kafka_python("14:46:51", "Successfully synced group pay with generation 5"),
        ],
        [("pay", 1), ("pay", 0)],
    ),
    "aiokafka's rebalance that does not end, of a member that no line names": (
        [
            kafka_python(
                f"14:46:{s:02}", "Heartbeat failed for group pay because it is rebalancing"
            )
            for s in range(0, 60, 3)
        ],
        [("pay", 1)],
    ),
    "librdkafka's MAXPOLL, whose group a heartbeat names": (
        [
            (
                "%7|1610634030.325|HEARTBEAT|a#consumer-1| [thrd:main]: GroupCoordinator/8: "
                'Heartbeat for group "pay" generation id 22'
            ),
            (
                "%7|1610634031.325|HEARTBEAT|b#consumer-2| [thrd:main]: GroupCoordinator/8: "
                'Heartbeat for group "audit" generation id 22'
            ),
            (
                "%4|1610634034.520|MAXPOLL|a#consumer-1| [thrd:main]: Application maximum poll "
                "interval (6000ms) exceeded by 55ms (adjust max.poll.interval.ms for long-running "
                "message processing): leaving group"
            ),
            '%7|1610634034.520|LEAVE|a#consumer-1| [thrd:main]: Group "pay": leave (in state up)',
        ],
        [("pay", 5)],
    ),
    "NestJS's logger before kafkajs's": (
        [
            nest(
                "3:41:08",
                "LOG",
                "INFO [ConsumerGroup] Consumer has joined the group",
                leaderId=MEMBER,
            ),
            nest(
                "3:42:08",
                "WARN",
                "WARN [Runner] The group is rebalancing, re-joining",
                error="The group is rebalancing, so a rejoin is needed",
            ),
            nest(
                "3:42:10",
                "LOG",
                "INFO [ConsumerGroup] Consumer has joined the group",
                leaderId=MEMBER,
            ),
        ],
        [("pay", 1), ("pay", 0)],
    ),
    "a worker that has read no configuration yet": (
        [
            connect(
                "23:10:50",
                "Current config state offset -1 does not match group assignment 1. "
                "Forcing rebalance.",
            ),
            connect("23:10:50", "(Re-)joining group"),
            connect("23:10:51", f"Successfully synced group in generation {GENERATION}"),
            connect("23:10:51", "Joined group at generation 9 with protocol version 2 and got x"),
        ],
        [("connect", 7), ("connect", 0)],
    ),
    "a commit that fails before a join without another cause, up to 2.7": (
        [
            java(
                "08:31:50",
                "Offset commit failed on partition t-41 at offset 109: "
                "The coordinator is not aware of this member.",
            ),
            java("08:31:51", "(Re-)joining group"),
            java("08:31:54", "Successfully joined group with generation 120"),
        ],
        [("pay", 3), ("pay", 0)],
    ),
    "a commit that fails, and an explicit cause, since 2.8": (
        [
            java("08:31:49", "Request joining group due to: group is already rebalancing"),
            java(
                "08:31:54",
                "Successfully synced group in generation Generation{generationId=2, "
                "memberId='c-1-1', protocol='range'}",
            ),
            java("08:31:54", "Adding newly assigned partitions: t-0"),
            java(
                "08:31:55",
                "Offset commit failed on partition t-41 at offset 109: "
                "The coordinator is not aware of this member.",
            ),
            java("08:32:49", "Request joining group due to: cached metadata has changed from (x)"),
            java("08:32:49", "(Re-)joining group"),
        ],
        [("pay", 1), ("pay", 0), ("pay", 7)],
    ),
    **{
        f"franz-go's JSON within {depth} objects": (
            [within(line, depth) for line in FRANZ],
            [("pay", 1), ("pay", 0)],
        )
        for depth in range(3)
    },
    **{
        f"kafkajs through pino within {depth} objects": (
            [
                within(
                    json.dumps({"level": 30, "time": 1795180805000, "groupId": "pay", **entry}),
                    depth,
                )
                for entry in PINO
            ],
            [("pay", 1), ("pay", 0)],
        )
        for depth in range(3)
    },
    "objects behind concurrently's names": (
        [f"[pay] {line}" for line in FRANZ],
        [("pay", 1), ("pay", 0)],
    ),
    "reasons that a viewer has cut": (
        [
            java("13:20:05", "Request joining group due to: need to re-join wit..."),
            java("13:21:05", "Request joining group due to: group is alre\u2026"),
        ],
        [],
    ),
    **{
        f"a reason that is cut without a sign: {reason}": (
            [java("13:20:05", f"Request joining group due to: {reason}")],
            [],
        )
        for reason in (
            "group is alr",
            "offset commit failed si",
            "need to re-join with the gi",
            "need to revoke part",
            "consumer pro-act",
            "encountered UNKNOWN_MEM",
            "encountered ILLEGAL_GENERATION from Hear",
            "cached metadata has ch",
            "subscription has changed fr",
            "rebalance failed due to The coord",
            "rebalance fai",
            "gro",
            "need t",
            "",
            "consumer",
            "cached m",
            "encountered U",
        )
    },
    **{
        f"a user's own reason: {reason}": (
            [java("13:20:05", f"Request joining group due to: {reason}")],
            [("pay", 6)],
        )
        for reason in ("need to rebalance now", "group is uneven", "rebalance", "ops")
    },
    "a piece of an object, with escaped quotes": (
        [
            (
                '"HEARTBEAT [a#consumer-1] [thrd:main]: Group \\"pay\\" heartbeat error response '
                "in state up (join-state steady, 1 partition(s) assigned): Broker: Group "
                'rebalance in progress"}'
            ),
        ],
        [("pay", 1)],
    ),
}
KAFKAJS = {
    "level": "WARN",
    "timestamp": "2022-05-16T12:22:16.484Z",
    "message": "[Runner] The group is rebalancing, re-joining",
    "groupId": "pay",
    "memberId": MEMBER,
    "error": "The group is rebalancing, so a rejoin is needed",
}
POSTS |= {
    f"kafkajs's object with {end!r} behind it, of a member that no other line names": (
        [json.dumps(KAFKAJS) + end],
        [("pay", 1)],
    )
    for end in ("", "}", ".", "},", "],", "}]}", " ;")
}
BEHIND = (
    "{text} | 2026-11-20 13:20:{second}",
    "{text} [2026-11-20T13:20:{second}Z]",
    "{text} @ Nov 20, 2026 13:20:{second}",
    "{text} - 2026-11-20 13:20:{second}",
    "{text}\t2026-11-20 13:20:{second},123",
)
CLOCK = (
    "13:20:05.123 [main] INFO o.a.k.C -- [Consumer clientId=c, groupId=pay] "
    "Request joining group due to: group is already rebalancing"
)
DATED_AROUND = (
    f"2026-11-20T13:20:05.123456789Z stdout F {CLOCK}",
    json.dumps({"@timestamp": "2026-11-20T13:20:05.123Z", "message": CLOCK}),
    f"build\tRun tests\t2026-11-20T13:20:05.1234567Z {CLOCK}",
)
ZEROLOG = (
    "1:20PM INF joined group=pay member_id=" + MEMBER + " generation=1",
    "1:21PM INF heartbeat errored err=REBALANCE_IN_PROGRESS group=pay",
    "1:23PM INF synced assigned=t[0] group=pay",
)


@pytest.mark.parametrize("end", [";", ";app-1;", "]", "],", ",", "] [pay]", " |", "]]"])
def test_mark_behind_the_clients_own_reason_is_no_request_of_a_user(
    end: str, tmp_path: Path
) -> None:
    path = tmp_path / "app.log"
    reason = f"group is already rebalancing{end}"
    path.write_text(java("13:20:05", f"Request joining group due to: {reason}\n"))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])

    assert [json.loads(line)["to"] for line in done.stdout.splitlines()] == [1]


@pytest.mark.parametrize("form", BEHIND)
def test_time_behind_the_message_dates_it(form: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    texts = (
        f"Successfully synced group in generation {GENERATION}",
        "Request joining group due to: group is already rebalancing",
    )
    client = "INFO [Consumer clientId=c-1, groupId=pay]"
    path.write_text(
        "".join(
            form.format(text=f"{client} {text}", second=f"{second:02}") + "\n"
            for second, text in enumerate(texts, 5)
        )
    )

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]

    assert row["ts"].startswith("2026-11-20T13:20:06")
    assert row["reason"] == "group is already rebalancing"
    assert not done.stderr


@pytest.mark.parametrize("line", DATED_AROUND)
def test_clock_has_the_day_of_the_collectors_time(line: str, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_text(line + "\n")

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])

    assert json.loads(done.stdout)["ts"] == "2026-11-20T13:20:05.123000Z"


def test_kafkajs_through_winstons_simple_format_keeps_its_extra_fields(tmp_path: Path) -> None:
    member = "payments-1-01fe01fb-792e-4c94-943b-f0df5cc8a2d0"
    extra = (
        f'"groupId":"pay","logger":"kafkajs","memberId":"{member}","timestamp":"2026-11-27T08:14'
    )
    rejoin = '"error":"The group is rebalancing, so a rejoin is needed"'
    moves, hints = replay(
        [
            f'warn: The group is rebalancing, re-joining {{"extra":{{{rejoin},{extra}:26.628Z"}}}}',
            (
                'info: Consumer has joined the group {"extra":{"duration":66,"isLeader":true,'
                f'"leaderId":"{member}","memberAssignment":{{"orders":[0]}},{extra}:27.628Z"}}}}'
            ),
        ],
        tmp_path,
    )

    assert (moves, hints) == ([("pay", 1), ("pay", 0)], "")


def test_zerologs_console_has_a_clock_of_minutes(tmp_path: Path) -> None:
    moves, hints = replay(list(ZEROLOG), tmp_path)

    assert (moves, hints) == ([("pay", 1), ("pay", 0)], "")


HINTS = {
    "11:45 Member ABC has left group my-app through explicit LeaveGroup "
    "(kafka.coordinator.group.GroupCoordinator)": "a broker's log",
    '% event.str()= Group "vdtest" changed state wait-broker -> up (v1, join-state init)': (
        "librdkafka with debug"
    ),
    "%7|1510418311.619|HEARTBEAT|rdkafka#consumer-1| [thrd:main]: 127.0.0.1:9092/1: Heartbeat for "
    'group "tom" generation id 3': "librdkafka with debug",
    "2017/12/08 11:17:22 Rebalanced: &{Type:rebalance start Claimed:map[]}": "sarama",
    "[2018-05-09 09:01:27,183: ERROR]: [^--Consumer]: CommitFailedError in aiokafka/consumer.py": (
        "kafka-python or aiokafka"
    ),
    '{"level":"ERROR","message":"[Connection] Response Heartbeat(key: 12, version: 3)"}': "kafkajs",
    '{"level":"info","msg":"heartbeat errored","caller":"kgo.go:317"}': "franz-go",
    "2018/08/16 14:29:50 Consumer error: kafka server: The provided member is not known in the "
    "current generation.": "sarama",
    kafka_python(
        "14:46:49", "Heartbeat: local member_id was not recognized; this consumer needs to re-join"
    ): "name no group",
    "2026-11-29 08:26:49,323 ERROR app commit: KafkaError{code=UNKNOWN_MEMBER_ID,val=25,"
    'str="Commit failed: Broker: Unknown member"}': "librdkafka",
    "2026-11-29 08:26:49,323 ERROR app Broker: Static consumer fenced by other consumer with same "
    "group.instance.id": "librdkafka",
    "2026-11-29T08:26:49Z ERROR KafkaJSNumberOfRetriesExceeded: The coordinator is not aware of "
    "this member": "kafkajs",
    "2026-11-29T08:26:49Z error kafka: error while consuming orders/0: kafka server: Request was "
    "for a consumer group that is not coordinated by this broker": "sarama",
    '{"level":"warn","ts":1795940809.3,"msg":"read","error":"[27] Rebalance In Progress: the '
    'coordinator has begun rebalancing the group, the client should rejoin the group"}': (
        "segmentio's kafka-go"
    ),
    '2023-05-10 10:00:00 [WRN] KafkaFlow: Partitions revoked | Data: {"GroupId":"print",'
    '"ConsumerName":"x","Topics":[{"Topic":"t","PartitionsCount":2,"Partitions":[0,1]}]}': (
        "librdkafka"
    ),
    "[2026-11-29 08:26:49,323] WARN [Consumer instanceId=i-1, clientId=c1, groupId=g1] Node 1 "
    "disconnected. (x)": "Java client",
}


def replay(lines: list[str], folder: Path) -> tuple[list[tuple[str, int]], str]:
    path = folder / "app.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["group"], row["to"]) for row in rows if row["kind"] == "transition"], done.stderr


@pytest.mark.parametrize("post", POSTS)
def test_excerpt_has_its_members_and_codes(post: str, tmp_path: Path) -> None:
    lines, wanted = POSTS[post]

    assert replay(lines, tmp_path)[0] == wanted


@pytest.mark.parametrize("line", HINTS)
def test_line_that_shows_no_member_gets_a_hint(line: str, tmp_path: Path) -> None:
    moves, hints = replay([line], tmp_path)

    assert not moves
    assert HINTS[line] in hints


@pytest.mark.parametrize(
    "behind",
    [
        "",
        " (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator:1029)",
        " (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator) [main]",
        "   [org.apache.kafka.clients.consumer.internals.ConsumerCoordinator]",
        "   [org.apache.kafka.clients.consumer.internals.ConsumerCoordinator] [main]",
        " [o.a.k.c.c.internals.ConsumerCoordinator]",
    ],
)
def test_class_behind_a_message_is_no_part_of_the_reason(behind: str) -> None:
    """Debezium's layout has it in square brackets, Kafka's in round ones."""
    reason = "cached metadata has changed from (version1: {a=1}) at the beginning"
    line = (
        "2026-11-25 13:38:47,409 INFO   ||  [Consumer clientId=c, groupId=g] "
        f"Request joining group due to: {reason}{behind}\n"
    )
    reader = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")

    found = reader.feed(line.encode(), 2e9) + reader.flush()

    assert [(each.status, each.reason) for each in found] == [(7, reason)]


def test_end_of_a_sentence_is_no_part_of_a_groups_name() -> None:
    """aiokafka before 0.8 and Faust's: no other line names the group."""
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    lines = (
        "[2018-02-27 23:19:01,119: WARNING]: Marking the coordinator dead (node 1)for group pay.",
        (
            "[2018-02-27 23:19:01,338: ERROR]: Heartbeat failed: local member_id was not "
            "recognized; resetting and re-joining group"
        ),
    )
    signals = parser.feed("".join(f"{line}\n" for line in lines).encode(), 1.9e9)

    assert {each.member.group for each in [*signals, *parser.flush()]} == {"pay"}


MAXPOLL = (
    "[thrd:main]: Application maximum poll interval (300000ms) exceeded by 226ms (adjust "
    "max.poll.interval.ms for long-running message processing): leaving group"
)


@pytest.mark.parametrize(
    "before",
    ["2026-11-20 21:20:05|", "2026-11-20 21:20:05 |", "2026-11-20 21:20:05,001 ", "`", "```"],
)
@pytest.mark.parametrize("level", ["%4|", ""])
def test_librdkafkas_own_stamp_is_its_time(before: str, level: str, tmp_path: Path) -> None:
    """It is in UTC, and a program's stamp before it may be local and of whole seconds."""
    path = tmp_path / "app.log"
    path.write_text(f"{before}{level}1795180805.123|MAXPOLL|rate#consumer-1| {MAXPOLL}\n")

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    moves = [row for row in rows if row["kind"] == "transition" and row["scope"] == "consumer"]
    assert [(row["client_id"], row["to"], row["ts"]) for row in moves] == [
        ("rate", 5, "2026-11-20T13:20:05.123000Z")
    ]


@pytest.mark.parametrize("depth", range(5))
def test_group_of_a_line_above_is_found_in_objects_within_each_other(
    depth: int, tmp_path: Path
) -> None:
    lines = (
        (
            "%7|1795180800.123|HEARTBEAT|rate#consumer-1| [thrd:main]: GroupCoordinator/8: "
            'Heartbeat for group "pay" generation id 22'
        ),
        f"%4|1795180805.123|MAXPOLL|rate#consumer-1| {MAXPOLL}",
    )
    path = tmp_path / "app.log"
    path.write_text("".join(f"{within(line, depth)}\n" for line in lines))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    moves = [row for row in rows if row["kind"] == "transition" and row["scope"] == "consumer"]
    assert [(row["group"], row["to"]) for row in moves] == [("pay", 5)]
