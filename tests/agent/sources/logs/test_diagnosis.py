import gzip
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.line_parser import ParserCounts
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.diagnosis import describe_consumer, diagnose, diagnose_log

NOTHING = ParserCounts(lines=1)
HINTS = {
    b"hello": "no client of Kafka ('hello')",
    b"BZh91AY&SY": "unpack it",
    b"\xfd7zXZ\x00": "unpack it",
    b"\x28\xb5\x2f\xfd\x04": "unpack it",
    b"INFO [Consumer clientId=c, groupId=pay] Fetch position": "Kafka's Java client, muted",
    b"INFO [Consumer clientId=c, groupId=g] Updating assignment with\n\tA": "update it to 3.9",
    b"INFO [Consumer clientId=c, groupId=g] Reconciling assignment with local epoch x": "preview",
    b"": "an empty file",
    b"\xd4\xc3\xb2\xa1\x02\x00": "--source pcap",
    b'{"name": "c#consumer-1", "cgrp": {"rebalance_cnt": 2}}': "--source stats",
    b"INFO [GroupCoordinator 0]: Stabilized group g": "--source broker_log",
    b"INFO [io.smallrye.reactive.messaging.kafka] SRMSG18257: x": "quarkus.log.category",
    b"WARN org.springframework.kafka.listener.KafkaMessageListenerContainer": "logging.level.org",
    b"WARN org.apache.kafka.clients.NetworkClient - Connection to node -1": "INFO",
    b"consumergroup/session/m/3 heartbeat loop stopped": "sarama",
    b"12:52 [info] Group member (g,coor=#PID<0.1.0>,cb=#PID<0.2.0>)": "brod",
    b"[info] group coordinator (groupId=g,memberId=,generation=7,pid=#PID<0.2.0>):": "brod 2",
    b"ERROR: kafka.consumer.ZookeeperConsumerConnector: [g_h-1-2], error during x": "ZooKeeper",
    b"2021-01-12T10:13:35\tDEBUG\tkafka-go@v0.4.8/logger.go:17\tx": "kafka-go",
    b"stopped partition watcher for group, pay, topic orders": "kafka-go",
    b"I1112 10:29:46.437399    1246 simple_consumer.go:95] got leader broker k:9": "healer",
    b"%3|1795242824.0|FAIL|rdkafka#consumer-1| [thrd:x]: x": "debug=cgrp",
    b"INFO [Consumer clientId=c, groupId=g] Request joining\ngroup due to: x": "wrapped at words",
    b"%4|1.2|SESSTMOUT|c#consumer-1| [thrd:main]: (in join-state steady)": "at its default",
    b"INFO (Re-)joining group g (aiokafka.consumer.group_coordinator)": "process ends before",
    b'ERROR Unable to connect to "kafka:9092": x (aiokafka.client)': "brokers fail",
    b"[Consumer clientId=c, groupId=g] Bootstrap broker k:9 (id: -1) disconnected": "brokers fail",
    b"WARN stream-thread [a-1-StreamThread-2] Detected task 0_0 that got migrated to": "INFO",
    b"INFO stream-client [app-1] State transition from RUNNING to REBALANCING": "INFO",
    b"kafka-node: rebalanced": "capture or proxy",
    b"LOG [Kafka: ConsumerGroup] Consumer has joined the group": "kafkajs: its logger must",
    b"Rebalance In Progress: the coordinator has begun rebalancing the group": "kafka-go",
    b"Member c-8-a776 sending LeaveGroup request to coordinator k:9 due to x": "their [Consumer",
    b"Successfully joined group with generation 7": "their [Consumer",
    b"[Schema registry clientId=sr-1, groupId=s] Successfully joined group": "without consumers",
    b'{"message":{"type":"END_REBALANCE","groupId":"g"}}': "of a cloud's brokers",
    b"Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties": "no group",
    b"INFO org.apache.flink.runtime.taskexecutor.TaskExecutor - Receive slot request": "no group",
}


@pytest.mark.parametrize("sample", HINTS)
def test_log_without_a_known_line_names_its_kind_and_the_remedy(sample: bytes) -> None:
    (note,) = diagnose(sample, NOTHING, 0)

    assert note.startswith("no line of a known client was read")
    assert HINTS[sample] in note


@pytest.mark.parametrize(
    ("sample", "client"),
    [
        (b'{"msg":"[Runner] The group is rebalancing, re-joining"}', "kafkajs"),
        (b"INFO beginning heartbeat loop", "franz-go"),
        (b"I! Loaded inputs: cpu kafka_consumer", "Telegraf"),
        (b"09:59:40 [Processor pay] setup generation 2, claims=map[string][]int32{}", "goka"),
        (b"INFO:Enter read_snapshot method with reader Kafka", "Pathway, which wraps librdkafka"),
        (b"    at /app/node_modules/kafka-node/lib/kafkaClient.js:378:35", "kafka-node"),
        (b"GMT kafka-node:ConsumerGroup SyncGroup Response", "kafka-node"),
        (b"level=INFO msg=consuming consumer_group=g kafka_consumer_uuid=U4YF", "Watermill"),
        (b'level=info msg="Component loaded: p (pubsub.kafka/v1)" scope=dapr.runtime', "Dapr"),
        (b"WARNING:kafka.coordinator:Marking the coordinator dead", "kafka-python"),
        (b"[2026-11-20 13:20:05] INFO (kafka.coordinator.transaction.X)", None),
        (b"ProducerConfig values: kafka", None),
    ],
)
def test_consumers_alone_are_warned_of_live(sample: bytes, client: str | None) -> None:
    found = describe_consumer(sample)

    assert found is None if client is None else client in (found or "")


def test_log_with_a_member_has_no_note() -> None:
    assert list(diagnose(b"x", ParserCounts(lines=3, events=2), 1)) == []


def test_lines_without_a_member_are_noted() -> None:
    (note,) = diagnose(b"x", ParserCounts(lines=3, events=2), 0)

    assert note.startswith("2 lines of a client were read, and no member came of them")


def test_missing_times_are_noted() -> None:
    (note,) = diagnose(b"x", ParserCounts(lines=3, events=2, untimed=2), 1)

    assert "no time that is understood" in note


def test_newer_version_is_noted() -> None:
    (note,) = diagnose(b"Kafka version: 9.1.0", ParserCounts(lines=3, events=2), 1)

    assert note.startswith("Kafka 9.1 is newer")


def test_processes_that_cannot_be_told_apart_are_noted() -> None:
    (note,) = diagnose(b"x", ParserCounts(lines=3, events=2), 1, ("client c",))

    assert note.startswith("several processes write as client c")


@pytest.mark.parametrize(("second", "is_told"), [("05,136", True), ("05,123", False)])
def test_replicas_without_member_ids_are_noted_by_their_generation(
    second: str, *, is_told: bool
) -> None:
    head = "INFO [Consumer clientId=c, groupId=g] Successfully joined group with generation 7"
    log = "".join(f"2026-11-20 13:20:{clock} {head}\n" for clock in ("05,123", second)).encode()
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    parser.feed(log, 1_900_000_000.0)

    notes = [note for note in diagnose_log(log, parser) if "several processes" in note]

    assert [note[:41] for note in notes] == ["several processes write as client c: name"] * is_told


FRAMEWORKS = {
    "2026-11-27T00:19:00Z I! Loaded inputs: cpu kafka_consumer": "Telegraf, whose client sarama",
    "level=INFO msg=consuming consumer_group=g kafka_consumer_uuid=U4YF topic=t": "Watermill",
    "INFO:arroyo.backends.kafka.consumer:Paused partitions after assignment: set()": "librdkafka",
    "E! [inputs.kafka_consumer] Error in plugin: channel: kafka: error": "Telegraf, whose client",
    "SLF4J: Defaulting to no-operation (NOP) logger implementation": "SLF4J without a provider",
    "INFO o.apache.camel.component.kafka.KafkaFetchRecords : Subscribing": "a framework",
    "[INFO] [org.apache.pekko.kafka.internal.SingleSourceLogic] Assigned: in-0": "a framework",
    "INFO o.a.n.p.kafka.pubsub.ConsumeKafka_2_6 Created new consumer": "a framework",
    "WARNING io.helidon.messaging.connectors.kafka.KafkaPublisher Failed": "a framework",
    "INFO o.s.c.s.b.k.KafkaMessageChannelBinder$2 : partitions revoked: [in-0]": "Spring",
    "<Trace> StorageKafka (db.q): Rebalance initiated. Revoking partitions": "ClickHouse",
    "INFO source{component_type=kafka}: vector::sources::kafka: Consuming": "Vector",
    'DEBUG log: Internal log [librdkafka: MEMBERID [thrd:app]: Group "g"] is being': "Vector",
    '[warn]: #0 [in] failed to consume messages. error="Kafka::UnknownMemberId"': "ruby-kafka",
    "[2026-11-27 07:25:28,197] [INFO] [quixstreams] : Starting": "Quix Streams, which wraps",
    "2026-11-27 07:18:57,760 INFO     - FastStream app starting...": "FastStream: call logging",
    "\u250c\u0192a\u00b5S\u2020 v0.11.3\u252c\u2500 kafka://localhost": "Faust",
}


@pytest.mark.parametrize("line", FRAMEWORKS)
def test_framework_is_named_with_its_remedy(line: str) -> None:
    (note,) = diagnose(line.encode(), ParserCounts(), 0)

    assert note.startswith(f"no line of a known client was read; it looks like {FRAMEWORKS[line]}")


MUTED = {
    "Heartbeat failed for group g because it is rebalancing": "aiokafka: set their loggers",
    (
        "WARN o.a.k - [Consumer clientId=c, groupId=g] consumer poll timeout has expired. This"
    ): "set the logger org.apache.kafka.clients.consumer to INFO",
    (
        "%4|1795764625.804|MAXPOLL|c#consumer-1| [thrd:main]: Application maximum poll interval "
        "(6000ms) exceeded by 189ms (adjust max.poll.interval.ms for x): leaving group"
    ): "set debug=cgrp",
}


@pytest.mark.parametrize("line", MUTED)
def test_members_of_whom_causes_alone_are_shown_are_noted_with_the_remedy(line: str) -> None:
    head = "" if line.startswith("%") else "2026-11-27 07:19:01,123 "
    log = "".join(f"{head}{text}\n" for text in (line, line, line, "still here")).encode()
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    parser.feed(log, 2e9)
    parser.flush()

    (note,) = diagnose_log(log, parser)

    assert note.startswith("members that show causes and no end: 1,")
    assert MUTED[line] in note


def test_a_log_that_ends_in_a_rebalance_is_not_taken_for_a_muted_one() -> None:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    log = (
        b"[2026-11-27 07:19:01,123] INFO [Consumer clientId=c, groupId=g] Request joining group "
        b"due to: group is already rebalancing (o.a.k.c.consumer.internals.ConsumerCoordinator)\n"
    )
    parser.feed(log, 2e9)
    parser.flush()

    assert list(diagnose_log(log, parser)) == []


def test_lines_that_rich_has_wrapped_are_noted() -> None:
    log = (
        b"[07:30:48] INFO     Updating subscribed topics to:     subscription_state.py:171\n"
        b"                    ('orders',)                                                 \n"
        b"           INFO     Successfully joined group pay with        base.py:521\n"
        b"                    generation 1                                                \n"
    )

    notes = list(diagnose(log, ParserCounts(lines=3, events=2), 1))

    assert notes[0].startswith("Rich's handler has wrapped the lines")


def test_margin_of_rich_is_no_cut() -> None:
    log = b"".join(
        b"[07:30:48] INFO     %-70s%20s\n" % (b"text %d" % number, f"{name}.py:171".encode())
        for number, name in enumerate(("base", "conn", "consumer", "cluster", "state"))
    )

    assert list(diagnose(log, ParserCounts(lines=3, events=2), 1)) == []


WITHOUT_GROUP = [
    *(
        f"INFO [Consumer clientId=f-0, groupId={group}] {word} to partition(s): in-0"
        for group in ("f", "null")
        for word in ("Subscribed", "Assigned")  # up to 2.8, from 3.4 on
    ),
    (
        'DEBUG k ASSIGN [c1#consumer-1] [thrd:main]: Group "asg": new assignment of 1 partition(s) '
        "in join-state init"
    ),
]


@pytest.mark.parametrize("line", WITHOUT_GROUP)
def test_consumer_without_a_group_is_told_and_not_missed(line: str) -> None:
    log = f"{line}\n".encode()
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    parser.feed(log, 2e9)

    notes = list(diagnose_log(log, parser))

    assert notes[0].startswith("no member: a consumer whose partitions the application assigns")
    assert describe_consumer(log) is None


@pytest.mark.parametrize(
    ("line", "client"),
    [
        ("SRMSG18257: x", "Quarkus"),
        ("INFO Starting KafkaBasedLog with topic connect-configs", "Kafka Connect"),
    ],
)
def test_consumer_without_a_group_does_not_hide_a_muted_one(line: str, client: str) -> None:
    said = "INFO [Consumer clientId=f-0, groupId=f] Assigned to partition(s): in-0"
    log = f"{line}\n{said}\n".encode()
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    parser.feed(log, 2e9)

    assert client in (describe_consumer(log) or "")
    assert client in next(iter(diagnose_log(log, parser)))


DROPPED = (
    "librdkafka: MAXPOLL [thrd:main]: Application maximum poll interval (6000ms) exceeded by 389ms "
    "(adjust max.poll.interval.ms for long-running message processing): leaving group"
)


@pytest.mark.parametrize(
    ("around", "remedy"),
    [
        ("2026-11-27T00:54:28.588149Z WARN {}", "librdkafka, which logs dropped members alone"),
        (
            '2026-11-27T00:54:28.588149Z WARN source{{component_type="kafka"}}: librdkafka: {}',
            "Vector, which hides what its librdkafka repeats",
        ),
    ],
)
def test_drop_alone_has_the_remedy_of_its_program(around: str, remedy: str) -> None:
    log = f"{around.format(DROPPED)}\n".encode()
    interpreter = ClientInterpreter(stream="s", group="payments")
    parser = create_parser(choose_dialects("auto"), interpreter, "UTC")
    parser.feed(log, 2e9)

    assert any(f"nothing else is shown: {remedy}" in each for each in diagnose_log(log, parser))


JOINED = "2026-11-20 13:20:0{}.123 INFO Joined group 'g' (generation {}) with member_id {}"


@pytest.mark.parametrize(
    ("joins", "is_told"),
    [
        ((("m1", 1), ("m2", 2)), False),  # one process after the other
        ((("m1", 1), ("m2", 2), ("m1", 2)), True),
        ((("m1", 2), ("m2", 2)), True),
    ],
)
def test_clients_whose_lines_name_a_group_alone_are_noted(
    joins: tuple[tuple[str, int], ...], *, is_told: bool
) -> None:
    unique = "0b0cd4ee-2b63-4bd3-8a0a-3f7c1c2f9d1{}"
    log = "".join(
        JOINED.format(number, generation, f"{name}-{unique.format(name[1])}") + "\n"
        for number, (name, generation) in enumerate(joins)
    ).encode()
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    parser.feed(log, 1_900_000_000.0)

    notes = [note for note in diagnose_log(log, parser) if "several processes" in note]

    assert [note[:46] for note in notes] == [
        "several processes write as clients m1, m2: nam"
    ] * is_told


def test_a_drop_alone_of_a_nameless_client_names_the_level() -> None:
    line = (
        "[2026-11-26T00:04:01Z WARN  librdkafka] librdkafka: MAXPOLL [thrd:main]: "
        "Application maximum poll interval (6000ms) exceeded by 302ms (adjust "
        "max.poll.interval.ms for long-running message processing): leaving group\n"
    )
    parser = create_parser(
        choose_dialects("auto"), ClientInterpreter(stream="s", group="payments"), "UTC"
    )
    parser.feed(line.encode(), 1_900_000_000.0)

    (note,) = diagnose_log(line.encode(), parser)

    assert "default level: set debug=cgrp" in note


@pytest.mark.parametrize(
    "ends", [("a joining group", "partitions: t-0", "memberId='c-1-", "x"), ("done 1",) * 4]
)
def test_lines_that_are_cut_at_a_width_are_noted(ends: tuple[str, ...]) -> None:
    rows = [f"2026-11-20 13:20:0{n} INFO {end:.<120}"[:80] for n, end in enumerate(ends)]
    cut = [f"{row[:60]}{end[:20]:*>20}" for row, end in zip(rows, ends, strict=True)]
    sample = "\n".join((*cut, "short", "")).encode()

    notes = list(diagnose(sample, ParserCounts(lines=3, events=2), 1))

    assert [note[:30] for note in notes] == ["lines are cut at 80 characters"] * (
        len(set(ends)) > 1
    )


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (b"PK\x03\x04\x14\0\0\0kafka.log", "compressed file: unpack it"),
        (gzip.compress(gzip.compress(b"kafka", mtime=0), mtime=0), "compressed twice"),
        (b"Salted__\x8a\x01kafka", "encrypted file: decrypt it"),
        (b"-----BEGIN PGP MESSAGE-----\n\nhQE\n", "encrypted file: decrypt it"),
        (bytes(range(256)) * 8, "a binary file"),
        (b"\xd4\xc3\xb2\xa1\x02\0", "--source pcap"),
    ],
)
@pytest.mark.parametrize("source", ["logs", "broker_log"])
def test_file_that_is_no_text_is_named(
    sample: bytes, said: str, source: str, tmp_path: Path
) -> None:
    """Nothing of it is printed, and a name within an archive is no client's."""
    path = tmp_path / "app.log"
    path.write_bytes(sample)

    done = CliRunner().invoke(main, ["replay", "--source", source, str(path)])

    assert said in done.stderr
    assert "\\x" not in done.stderr


@pytest.mark.parametrize("source", ["logs", "broker_log"])
def test_archive_whose_logs_are_read_as_one_is_named(source: str, tmp_path: Path) -> None:
    log, archive = tmp_path / "app.log", tmp_path / "logs.tar.gz"
    log.write_text("[2026-11-21 06:33:44,000] INFO [Consumer clientId=c, groupId=g] Joining\n")
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(log, "app.log")

    done = CliRunner().invoke(main, ["replay", "--source", source, str(archive)])

    assert "a tar archive" in done.stderr


DEBEZIUM = b"""\
01:40:30.054 [main] INFO org.apache.kafka.clients.consumer.internals.ClassicKafkaConsumer -- \
[Consumer clientId=a-schemahistory, groupId=a-schemahistory] Assigned to partition(s): history-0
01:40:31.922 [main] INFO org.apache.kafka.clients.consumer.internals.ConsumerCoordinator -- \
[Consumer clientId=a-schemahistory, groupId=a-schemahistory] Request joining group due to: \
consumer pro-actively leaving the group
01:40:35.445 [pool-3-thread-1] INFO io.debezium.embedded.async.AsyncEmbeddedEngine -- Engine state \
has changed from 'CREATING' to 'INITIALIZING'
01:40:36.427 [pool-3-thread-1] INFO org.apache.kafka.connect.util.KafkaBasedLog -- Starting \
KafkaBasedLog with topic engine-offsets reportErrorsToCallback=false
"""


def test_debeziums_engine_has_no_worker_and_no_group(tmp_path: Path) -> None:
    """Its log printed so in a run whose packets show no join."""
    path = tmp_path / "app.log"
    path.write_bytes(DEBEZIUM)

    done = CliRunner().invoke(main, ["replay", "--source", "logs", str(path)])

    assert "partitions the application assigns" in done.stderr
    assert "worker" not in done.stderr
    assert describe_consumer(DEBEZIUM) is None
