"""Diagnosis of a log from which no member came: its likely kind, and the remedy.

Theory of operation. Nothing is as hard to notice as an empty result. A log that no rule reads, or
that shows no member, is searched for the marks of clients without a dialect, of clients that their
framework mutes, of other sources' files and of missing times. Each finding names what to set.
"""

import re
from collections.abc import Iterator

from agent.sources.lines.following.file_reports import CAUSES_ALONE
from agent.sources.lines.heads import BROKER_LOG, STATISTICS
from agent.sources.lines.parsing.line_faults import (
    describe_bytes,
    find_archive_faults,
    find_time_faults,
    find_width_faults,
    read_first_line,
)
from agent.sources.lines.parsing.line_parser import LineParser, ParserCounts
from agent.sources.logs.client_interpreter import ClientInterpreter

KEEP_NAMES = (
    "keep the stream's name before each line (docker compose logs, kubectl logs --prefix, stern, "
    "concurrently --prefix '{name} |')"
)
OWN_IDS = (
    "give each consumer a client.id of its own, or each process a log of its own (in a merged log "
    "keep the stream's name before each line)"
)
_NEWEST = (4, 4)
"""The newest Kafka that the dialects were recorded with."""
_VERSION = re.compile(rb"Kafka version ?: (\d{1,3})\.(\d{1,3})")
_WIRE = "use a source capture or proxy, which see every client's codes"
_LIBRDKAFKA = "set debug=cgrp, or add the source of its statistics"
_AT_DEFAULT_LEVEL = (
    f"librdkafka, which logs dropped members alone at its default level: {_LIBRDKAFKA}"
)
_WITH_DEBUG = "librdkafka with debug, of which these lines show no join and no cause"
_DROP = re.compile(rb"(?:Application maximum|Maximum application) poll interval")
_JAVA = "org.apache.kafka.clients.consumer"
_ASSIGNED = (
    rb"\] (?:Assigned|Subscribed) to partition\(s\): "
    rb"|new assignment of [1-9]\d{0,9} partition\(s\) in join-state init\b"
)
"""Mark of partitions that the application assigns."""
_MANUAL = (
    "a consumer whose partitions the application assigns, as Flink's, Spark's and those of "
    "Debezium's engine: it is in no group, so nothing rebalances"
)
_BARE_JAVA = (
    rb"sending LeaveGroup request to coordinator|consumer poll timeout has expired"
    rb"|Request joining group due to: |Attempt to heartbeat (?:failed|with )"
    rb"|Successfully (?:joined|synced) group (?:with|in) generation"
)
_BRACKET = "[Consumer clientId=\u2026, groupId=\u2026]"
"""What Java's clients print before each message, and copies of single messages lack."""
_DMS = rb'"type":"[A-Z]{1,32}_REBALANCE"'
"""Rebalancing log of a broker of Huawei Cloud's and cloud.ru's Distributed Message Service."""
_CLICKHOUSE = (
    rb"\bStorageKafka2? \(|> KafkaConsumer \(",
    (
        "ClickHouse, whose librdkafka is at its default level: set <debug>cgrp</debug> within "
        "<kafka>; the server's <logger> must be at debug or trace"
    ),
)
_VECTOR = (
    rb"vector::sources::kafka|component_type=\"?kafka|Internal log \[librdkafka: ",
    (
        "Vector, which hides what its librdkafka repeats: set librdkafka_options.debug=cgrp, "
        "VECTOR_LOG=info,librdkafka=debug and VECTOR_INTERNAL_LOG_RATE_LIMIT=0"
    ),
)
_CONNECT = rb"\bKafkaBasedLog\b"
"""A distributed worker, whose consumers of its own topics are in no group."""
_EMBEDDED = rb"\bio\.debezium\.(?:embedded|server)\."
"""Debezium's engine and server run a connector without a worker: they read their own topics."""
_TELEGRAF = (
    rb"\[inputs\.kafka_consumer|Loaded inputs: (?:[\w.]{1,64} ){0,64}kafka_consumer(?:_legacy)?\b"
)
_KAFKA_NODE = rb"/kafka-node/lib/|\bkafka-node:[A-Z]"
_PATHWAY = rb"read_snapshot method with reader Kafka"
_WATERMILL = rb"\bkafka_consumer_uuid\b"
_DAPR = rb"\b(?:pubsub|bindings)\.kafka/v\d"
_GOKA = (
    rb"\[Processor [^\]\n]{1,255}\] (?:setup generation \d|Consumer group (?:returned|cancelled))"
)
_FRAMEWORKS = (
    rb"\.camel\.component\.kafka|\b(?:akka|pekko)\.kafka|\bkafka\.pubsub\.|nifi\.processors\.kafka"
    rb"|io\.helidon\.messaging\.connectors\.kafka|io\.vertx\.kafka|vert\.x-kafka-consumer"
)
"""Camel, Akka and Pekko, NiFi, Helidon and Vert.x."""
_MARKS = (
    (STATISTICS, "statistics of librdkafka: use --source stats"),
    (BROKER_LOG, "a broker's log: use --source broker_log"),
    (
        _DMS,
        f"a rebalancing log of a cloud's brokers, whose form is not known: {_WIRE}",
    ),
    (
        rb"Defaulting to no-operation \(NOP\)",
        (
            "SLF4J without a provider, so Java's clients print nothing: add one, as "
            f"logback-classic, with the logger {_JAVA} at INFO"
        ),
    ),
    (
        rb"SRMSG\d{5}|io\.smallrye\.reactive\.messaging\.kafka|\(powered by Quarkus",
        f'Quarkus mutes Kafka\'s clients: set quarkus.log.category."{_JAVA}".level=INFO',
    ),
    (
        (
            rb"org\.springframework\.kafka|KafkaMessageListenerContainer|KafkaMessageChannelBinder"
            rb"|\.s\.k\.l\."
        ),
        f"Spring, whose Kafka clients print nothing here: set logging.level.{_JAVA}=INFO",
    ),
    (
        rb"io\.micronaut\.",
        f"Micronaut: set logger.levels.{_JAVA}=INFO, and write it to this log",
    ),
    (
        _FRAMEWORKS,
        f"a framework whose Kafka clients print nothing here: set the logger {_JAVA} to INFO",
    ),
    (_EMBEDDED, _MANUAL),
    (
        _CONNECT,
        (
            "Kafka Connect, whose worker prints nothing here: set the logger "
            "org.apache.kafka.connect.runtime.distributed to INFO"
        ),
    ),
    (_ASSIGNED, _MANUAL),
    (
        rb"\[Consumer clientId=[^\n]{0,512}[a-z,]\s?\n(?:[a-z]{2,16} |Generation\{|memberId=)",
        "Kafka's Java client in lines that were wrapped at words: copy them without the breaks",
    ),
    (
        rb"\] (?:Updating assignment with\n|Reconciling assignment with local epoch )",
        (
            "Java's consumer of KIP-848 in Kafka 3.7 or 3.8, a preview whose log shows no cause: "
            f"update it to 3.9, or {_WIRE}"
        ),
    ),
    (
        rb"\[Schema registry clientId=",
        f"Schema Registry, whose instances elect a leader in a group without consumers: {_WIRE}",
    ),
    (
        (
            rb"org\.apache\.kafka|\bo\.a\.k(?:afka)?\.|kafka-clients"
            rb"|\[Consumer (?:instanceId|clientId)=|\bstream-(?:thread|client) \["
        ),
        f"Kafka's Java client, muted or of another kind: set the logger {_JAVA} to INFO",
    ),
    (
        rb"\bkafka\.consumer\.Zookeeper|\bZookeeperConsumerConnector\b",
        (
            "Kafka's old consumer, whose group is in ZooKeeper and has no coordinator: nothing "
            "here sees it"
        ),
    ),
    (_BARE_JAVA, f"Kafka's Java client in lines without their {_BRACKET}: keep it"),
    (_TELEGRAF, f"Telegraf, whose client sarama logs no rebalance: {_WIRE}"),
    (_KAFKA_NODE, f"kafka-node, whose log shows no member of its group: {_WIRE}"),
    (_WATERMILL, f"Watermill, whose client sarama logs no rebalance: {_WIRE}"),
    (_DAPR, f"Dapr, whose client sarama logs no rebalance: {_WIRE}"),
    (_GOKA, f"goka, whose client sarama logs no rebalance: {_WIRE}"),
    (
        (
            rb"consumergroup/|\[sarama\]|Rebalanced: &\{Type:|client/metadata fetch"
            rb"|kafka server: [A-Z]|kafka: (?:error while consuming|client has run out)"
        ),
        f"sarama, which logs no rebalance: {_WIRE}",
    ),
    (
        (
            rb"\[(?:1[4-6]|2[257])\] (?:[A-Z][a-z]* ){1,5}?(?:[A-Z][A-Za-z]*): the "
            rb"|Rebalance In Progress: the coordinator has|Unknown Member ID: the member id is not"
            rb"|kafka-go@v\d|(?:stopped|started) (?:partition watcher|commit|heartbeat) for group"
        ),
        (
            "segmentio's kafka-go, of which a program prints errors alone: set Logger and "
            f"ErrorLogger of its ReaderConfig, else {_WIRE}"
        ),
    ),
    (
        rb"group coordinator \(groupId=[^\n]{0,300}?,memberId=",
        f"brod 2, whose texts are not read: update it to 3 or 4, or {_WIRE}",
    ),
    (
        rb"Group member \(.{0,200}coor=#PID|brod_",
        f"brod: set its logger to info and keep the line behind each head, else {_WIRE}",
    ),
    (rb"\|(?:HEARTBEAT|CGRP[A-Z]*|ASSIGN[A-Z]*|JOIN[A-Z]*|SYNC[A-Z]*)\|", _WITH_DEBUG),
    (rb"\bSESSTMOUT\b", _AT_DEFAULT_LEVEL),
    (rb"[\s(]join[- ]state ", _WITH_DEBUG),
    _CLICKHOUSE,
    _VECTOR,
    (
        _PATHWAY,
        (
            "Pathway, which wraps librdkafka: set debug=cgrp in rdkafka_settings, and Python's "
            "logging to DEBUG"
        ),
    ),
    (rb"\[quixstreams\] :", f"Quix Streams, which wraps {_AT_DEFAULT_LEVEL}"),
    (
        (
            rb"rdkafka|#consumer-\d|confluent_kafka|\[thrd:|Confluent\.Kafka|Local: Maximum appl"
            rb"|\barroyo\.backends\.kafka|\bKafkaError\{code=|\bcimpl\.Kafka"
            rb"|\bKafkaFlow: |\bSilverback\.Messaging\.|\bMassTransit\.Kafka|DotNetCore\.CAP\.Kafka"
            rb"|\bBroker: (?:Static consumer|Unknown member|Group rebalance|Specified group)"
        ),
        _AT_DEFAULT_LEVEL,
    ),
    (
        (
            rb"kafkajs|\bKafkaJS[A-Z]|\[ConsumerGroup\] |Response Heartbeat\(key: 12,"
            rb"|\b(?:ConsumerGroup|Runner)\] (?:Consumer has joined|The group)"
        ),
        (
            "kafkajs: its logger must keep the fields groupId and memberId, and be at INFO, "
            f"else {_WIRE}"
        ),
    ),
    (
        rb"\bKafka::[A-Z]\w+|\bruby-kafka\b",
        f"ruby-kafka: set its logger to INFO, else {_WIRE}",
    ),
    (
        "\u0192a\u00b5S\u2020|\\bfaust\\b".encode(),
        f"Faust, whose client is aiokafka: start it with -l info, else {_WIRE}",
    ),
    (
        rb"FastStream app start",
        (
            "FastStream: call logging.basicConfig(level=logging.INFO), as its client aiokafka "
            "prints warnings alone; with confluent-kafka set debug=cgrp"
        ),
    ),
    (
        (
            rb"aiokafka|kafka\.(?:coordinator|consumer\.)|Heartbeat poll expired"
            rb"|local member_id was|(?:Heartbeat|OffsetCommit) failed for group"
        ),
        f"kafka-python or aiokafka: set their loggers to INFO, else {_WIRE}",
    ),
    (
        rb"beginning heartbeat loop|heartbeat errored|franz-go|\bkgo\.",
        f"franz-go: its logger must be at INFO and keep the fields group and err, else {_WIRE}",
    ),
    (
        rb"(?i)org[./]apache[./](?:spark|flink)\b|KafkaMicroBatch|Kafka(?:Offset|Source)Reader",
        (
            "Spark or Flink, whose Kafka sources assign partitions themselves: they have no group "
            "that rebalances"
        ),
    ),
    (
        rb"\b(?:simple|group)_consumer\.go:\d",
        f"healer, the Go client of gohangout, whose texts are not read: {_WIRE}",
    ),
    (rb"(?i)kafka", f"a client of Kafka that is not known: {_WIRE}"),
)
_FINDERS = tuple((re.compile(mark), text) for mark, text in _MARKS)
_CONSUMERS = re.compile(
    b"|".join(
        (
            rb"\A(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4)|\"rebalance_cnt\"|\"cgrp\": ?\{",
            rb"\[GroupCoordinator |\[GroupMetadataManager |SRMSG18257",
            rb"KafkaMessageListenerContainer",
            _FRAMEWORKS,
            _TELEGRAF,
            _WATERMILL,
            _DAPR,
            _GOKA,
            _PATHWAY,
            _KAFKA_NODE,
            rb"StorageKafka2? \(|vector::sources::kafka|Internal log \[librdkafka: ",
            rb"io\.micronaut\.configuration\.kafka|consumergroup/|\[quixstreams\] :",
            rb"Group member \(.{0,200}coor=#PID|\[(?:ConsumerGroup\] |Runner\] The group)",
            rb"beginning heartbeat loop|heartbeat errored",
            rb"kafka\.coordinator(?:\.consumer)?(?![.\w])|aiokafka\.consumer|local member_id was",
            rb"Heartbeat poll expired|client/coordinator |\"MESSAGE\" ?: ?\[ ?\d",
        )
    )
)
"""Marks of a consumer or of another source's file: a producer's log names Kafka, too."""
_CLIENTS = re.compile(rb"\[Consumer clientId=[^\]\n]{0,300}, groupId=(?!null\])|#consumer-\d")
"""Marks of clients that print whether they are in a group."""
_JOINING = re.compile(rb"\(Re-\)joining group|: Joining group \"")
_JOINED = re.compile(rb"(?i:joined group)|JoinGroup response: GenerationId|[Cc]ompleted join")
_UNREACHED = re.compile(
    rb"Unable to connect to \"|NoBrokersAvailable|KafkaConnectionError: |brokers are down"
    rb"|could not be established\. (?:Broker|Node) may not be available|connect ECONNREFUSED"
    rb"|Connect to (?:ipv[46]#)?\S+ failed|Bootstrap broker \S+ .{0,64}disconnected"
)
"""A client's words for a broker that it cannot reach."""
_FENCED = re.compile(rb"FENCED_INSTANCE_ID|fenced by (?:an)?other|group instance id .{0,80} fenced")


def diagnose_log(sample: bytes, parser: LineParser) -> Iterator[str]:
    """Yield what a user must know of a log that ends here; ``sample`` holds its first bytes."""
    interpreters = [each for each in parser.interpreters if isinstance(each, ClientInterpreter)]
    clients = [client for each in interpreters for client in each.clients.values()]
    shared = {client.describe() for each in interpreters for client in each.sharers}
    mixed = tuple(sorted({client.describe() for client in clients if client.is_mixed} - shared))
    shown = sum(client.is_reported for client in clients)  # others were named, and nothing else
    yield from diagnose(sample, parser.counts, shown, mixed)
    if shared:
        yield (
            f"several consumers write as {', '.join(sorted(shared))}: their member ids distinguish "
            "them, but a line without one may be another's, and their partitions are not known; "
            f"{OWN_IDS}"
        )
    nameless = sum(each.ambiguous + each.unplaced.given_up for each in interpreters)
    if nameless:
        yield (
            f"{nameless} lines show a cause and name no group, so no member can be meant: set the "
            "source's group"
        )
    members = [client.member for client in clients]
    alone = [client for client in clients if client.is_reported and client.has_causes_alone]
    # at INFO a drop is not alone; other causes may be, where a log begins or ends
    is_sure = parser.counts.events >= CAUSES_ALONE or any(c.is_muted for c in alone)
    muted = len(alone) if is_sure else 0
    if _DROP.search(sample) and any(not each.client_id and not each.member_id for each in members):
        hosts = (text for mark, text in (_CLICKHOUSE, _VECTOR) if re.search(mark, sample))
        remedy = next(hosts, _AT_DEFAULT_LEVEL)
        yield f"a member is dropped, and nothing else is shown: {remedy}"
    elif muted:
        yield (
            f"members that show causes and no end: {muted}, as where a client logs at WARN: each "
            f"cause is lost in the end; it looks like {_describe(sample)}"
        )


def diagnose(
    sample: bytes, counts: ParserCounts, members: int, mixed: tuple[str, ...] = ()
) -> Iterator[str]:
    """Yield what a user must know of a log; nothing where all is well.

    ``members`` came of it; the names of ``mixed`` belong to several processes.
    """
    if counts.manual and not members and describe_consumer(sample) is None:
        yield f"no member: {_MANUAL}"
    elif not counts.events:
        yield f"no line of a known client was read; it looks like {_describe_memberless(sample)}"
    elif not members:
        yield (
            f"{counts.events} lines of a client were read, and no member came of them: none shows "
            f"a join or a cause with its group; it looks like {_describe_memberless(sample)}"
        )
    yield from find_time_faults(counts)
    if mixed:
        yield (
            f"several processes write as {', '.join(mixed)}: names, member ids or generations come "
            f"back, so their lines cannot be distinguished; {KEEP_NAMES}"
        )
    if _FENCED.search(sample):
        yield "a client was fenced: another one has the same group.instance.id, and this one dies"
    yield from _diagnose_version(sample)
    yield from find_width_faults(sample)
    yield from find_archive_faults(sample)


def describe_consumer(sample: bytes) -> str | None:
    """Return what consumer the head of a log names, and the remedy; None: it names none.

    Nor does one that has no group.
    """
    is_client = _CLIENTS.search(sample) is not None and re.search(_ASSIGNED, sample) is None
    is_worker = re.search(_CONNECT, sample) and re.search(_EMBEDDED, sample) is None
    is_consumer = is_client or is_worker or _CONSUMERS.search(sample)
    return _describe_memberless(sample) if is_consumer else None


def _describe_memberless(sample: bytes) -> str:
    """Describe a log without a member: its client may not have come as far as to be one."""
    if _JOINING.search(sample) and not _JOINED.search(sample):
        text = (
            "a client that begins to join its group and never ends that: its process ends before, "
            "or no coordinator answers"
        )
    else:
        text = _describe(sample)
    if _UNREACHED.search(sample) is None:
        return text
    return f"{text}; its connections to brokers fail, and without one it is in no group"


def _describe(sample: bytes) -> str:
    if (found := describe_bytes(sample)) is not None:
        return found
    for finder, text in _FINDERS:
        if finder.search(sample):
            return text
    text = read_first_line(sample)
    if not text:
        return "an empty file"
    return f"no client of Kafka ({text!r}); rebalance-agent dialects lists those that are known"


def _diagnose_version(sample: bytes) -> Iterator[str]:
    versions = [(int(major), int(minor)) for major, minor in _VERSION.findall(sample)]
    newest = max(versions, default=_NEWEST)
    if newest > _NEWEST:
        yield (
            f"Kafka {newest[0]}.{newest[1]} is newer than the newest version that was recorded "
            f"({_NEWEST[0]}.{_NEWEST[1]}): lines with new texts are not read"
        )
