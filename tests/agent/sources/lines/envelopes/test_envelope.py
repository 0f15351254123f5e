import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.lines.envelopes.envelope import JOINED_MAX_CHARS, LogEntry, Unwrapper

ARRIVAL_AT = 1795243000.0
SECOND_AT = 1795242824.0
"""2026-11-21T06:33:44Z."""
TEXT = "[Consumer clientId=m1, groupId=g] (Re-)joining group"
LOGGER = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"


def essential(entries: list[LogEntry]) -> list[LogEntry]:
    return [LogEntry(entry.text, entry.at, entry.logger) for entry in entries]


def unwrap(raw: bytes) -> LogEntry:
    (entry,) = essential(Unwrapper("UTC").unwrap(raw, ARRIVAL_AT))
    return entry


def as_json(**fields: object) -> bytes:
    return json.dumps(fields).encode()


APPLICATIONS: dict[str, dict[str, object]] = {
    "ecs": {
        "@timestamp": "2026-11-21T06:33:44.250Z",
        "ecs.version": "1.2.0",
        "log.level": "INFO",
        "message": TEXT,
        "process.thread.name": "main",
        "log.logger": LOGGER,
    },
    "ecs nested": {
        "@timestamp": "2026-11-21T06:33:44.250Z",
        "log": {"level": "INFO", "logger": LOGGER},
        "message": TEXT,
    },
    "logstash": {
        "@timestamp": "2026-11-21T07:33:44.250+01:00",
        "@version": 1,
        "message": TEXT,
        "logger_name": LOGGER,
        "thread_name": "main",
        "level": "INFO",
    },
    "gelf": {
        "version": "1.1",
        "host": "h",
        "short_message": TEXT,
        "full_message": TEXT + "\n\tat x",
        "timestamp": 1795242824.25,
        "level": 6,
        "_logger": LOGGER,
    },
    "log4j2 JsonLayout": {
        "instant": {"epochSecond": 1795242824, "nanoOfSecond": 250000000},
        "thread": "main",
        "level": "INFO",
        "loggerName": LOGGER,
        "message": TEXT,
    },
    "Google Cloud's layouts": {
        "timestampSeconds": 1795242824,
        "timestampNanos": 250000000,
        "severity": "INFO",
        "message": TEXT,
        "logger": LOGGER,
    },
    "Google Cloud's agent": {
        "timestamp": {"seconds": 1795242824, "nanos": 250000000},
        "severity": "INFO",
        "message": TEXT,
        "logger": LOGGER,
    },
    "pino": {"level": 30, "time": 1795242824250, "pid": 1, "msg": TEXT, "logger": LOGGER},
    "slog": {"time": "2026-11-21T06:33:44.25Z", "level": "INFO", "msg": TEXT, "logger": LOGGER},
}


@pytest.mark.parametrize("name", APPLICATIONS)
def test_json_layouts_give_message_time_and_logger(name: str) -> None:
    assert unwrap(as_json(**APPLICATIONS[name])) == LogEntry(TEXT, SECOND_AT + 0.25, LOGGER)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_json_inside_cri_keeps_the_applications_time(name: str) -> None:
    inner = as_json(**APPLICATIONS[name])
    raw = b"2026-11-21T06:33:59.123456789Z stdout F " + inner
    assert unwrap(raw) == LogEntry(TEXT, SECOND_AT + 0.25, LOGGER)


@pytest.mark.parametrize("name", APPLICATIONS)
def test_json_inside_docker_keeps_the_applications_time(name: str) -> None:
    inner = json.dumps(APPLICATIONS[name]) + "\n"
    raw = as_json(log=inner, stream="stdout", time="2026-11-21T06:33:59.1Z")
    assert unwrap(raw) == LogEntry(TEXT, SECOND_AT + 0.25, LOGGER)


STORED: dict[str, tuple[str, dict[str, object]]] = {
    "journalctl -o json": ("MESSAGE", {"__REALTIME_TIMESTAMP": "1795242824500000"}),
    "gcloud logging read": ("textPayload", {"timestamp": "2026-11-21T06:33:44.5Z"}),
    "logcli -o jsonl": ("line", {"timestamp": "2026-11-21T06:33:44.5Z", "labels": {"app": "a"}}),
    "CloudWatch Insights": ("@message", {"@timestamp": "2026-11-21 06:33:44.500"}),
}
"""How stores of logs write a line that they have kept: its key, and the rest."""


@pytest.mark.parametrize("name", STORED)
def test_a_line_out_of_a_store_of_logs_has_the_stores_time(name: str) -> None:
    key, rest = STORED[name]

    assert unwrap(as_json(**{key: TEXT, **rest})) == LogEntry(TEXT, SECOND_AT + 0.5)


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("layout", APPLICATIONS)
def test_json_out_of_a_store_of_logs_keeps_the_applications_time(name: str, layout: str) -> None:
    key, rest = STORED[name]
    inner = json.dumps(APPLICATIONS[layout])

    assert unwrap(as_json(**{key: inner, **rest})) == LogEntry(TEXT, SECOND_AT + 0.25, LOGGER)


@pytest.mark.parametrize("key", ["jsonPayload", "content"])
def test_fields_out_of_a_store_of_logs_are_read(key: str) -> None:
    outer = {"timestamp": "2026-11-21T06:33:44.5Z", "severity": "INFO"}
    inner = {"message": TEXT, "logger": LOGGER}

    assert unwrap(as_json(**{key: inner, **outer})) == LogEntry(TEXT, SECOND_AT + 0.5, LOGGER)


def test_fields_within_fields_without_end_are_a_plain_line() -> None:
    deep = b'{"content":' * 600 + b"{}" + b"}" * 600

    assert unwrap(deep) == LogEntry(deep.decode(), None)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_end_of_a_line_within_a_message_is_no_part_of_it(end: str) -> None:
    """Else it is a part of the last name in the line, as franz-go's group."""
    assert unwrap(as_json(message=TEXT + end, podName="pay-1")).text == TEXT


def test_cri_gives_the_runtimes_time() -> None:
    raw = b"2026-11-21T06:33:44.500000000Z stderr F " + TEXT.encode()
    assert unwrap(raw) == LogEntry(TEXT, SECOND_AT + 0.5)


def test_docker_gives_the_runtimes_time() -> None:
    raw = as_json(log=TEXT + "\r\n", stream="stderr", time="2026-11-21T06:33:44.5Z")
    assert unwrap(raw) == LogEntry(TEXT, SECOND_AT + 0.5)


def test_cri_pieces_are_joined_by_stream() -> None:
    unwrapper = Unwrapper("UTC")
    lines = [
        b"2026-11-21T06:33:44.1Z stdout P one ",
        b"2026-11-21T06:33:45.1Z stderr F other",
        b"2026-11-21T06:33:46.1Z stdout P two ",
        b"2026-11-21T06:33:47.1Z stdout F three",
    ]
    assert [unwrapper.unwrap(line, ARRIVAL_AT) for line in lines] == [
        [],
        [LogEntry("other", SECOND_AT + 1.1)],
        [],
        [LogEntry("one two three", SECOND_AT + 0.1)],
    ]


def test_docker_pieces_are_joined() -> None:
    unwrapper, time = Unwrapper("UTC"), "2026-11-21T06:33:44Z"
    first = unwrapper.unwrap(as_json(log="x" * 16384, stream="stdout", time=time), ARRIVAL_AT)
    assert first == []
    assert unwrapper.pieces
    second = unwrapper.unwrap(as_json(log="y\n", stream="stdout", time=time), ARRIVAL_AT)
    assert second == [LogEntry("x" * 16384 + "y", SECOND_AT)]
    assert not unwrapper.pieces


def test_the_last_word_of_a_stopped_container_is_whole() -> None:
    raw = as_json(log="killed", stream="stdout", time="2026-11-21T06:33:44Z")
    assert unwrap(raw) == LogEntry("killed", SECOND_AT)


def test_pieces_without_end_are_bounded() -> None:
    unwrapper = Unwrapper("UTC")
    for _ in range(80):
        unwrapper.unwrap(b"2026-11-21T06:33:44Z stdout P " + b"x" * 16384, ARRIVAL_AT)
    (entry,) = unwrapper.unwrap(b"2026-11-21T06:33:44Z stdout F end", ARRIVAL_AT)
    assert len(entry.text) == JOINED_MAX_CHARS


@pytest.mark.parametrize(
    "line",
    [
        "",
        TEXT,
        "2026-11-21 06:33:44,209 INFO " + TEXT,
        "2026-11-21T06:33:44.209Z stdout is a word",
        '{"message": "cut o',
        '{"a": ' * 5000,
        '{"level": "INFO"}',
        '{"message": {"nested": true}}',
        '{"log": 5, "stream": "stdout"}',
        '{"log": {}, "stream": {}}',
        "{} and more",
    ],
)
def test_what_is_no_envelope_is_a_plain_line(line: str) -> None:
    assert unwrap(line.encode() + b"\n") == LogEntry(line, None)


@pytest.mark.parametrize(
    "time",
    [
        {"time": "soon"},
        {"time": True},
        {"time": None},
        {"instant": {"epochSecond": "x"}},
        {"instant": {}},
        {"timestamp": {"seconds": "x"}},
        {"timestampSeconds": None},
        {"timestampSeconds": 1795242824, "timestampNanos": "x"},
        {},
    ],
)
def test_json_without_a_readable_time_has_none(time: dict[str, object]) -> None:
    assert unwrap(as_json(message=TEXT, **time)) == LogEntry(TEXT, None)


def test_stream_that_is_not_text_is_not_dockers() -> None:
    assert unwrap(as_json(log="x", stream={})) == LogEntry("x", None)


def test_invalid_utf8_is_replaced() -> None:
    assert unwrap(b"caf\xe9 \xff") == LogEntry("caf\ufffd \ufffd", None)


def test_json_behind_bytes_that_a_crash_has_left_unwritten_is_read() -> None:
    assert unwrap(b"\0" * 5_000 + as_json(time=SECOND_AT, message=TEXT)).text == TEXT


def test_invalid_utf8_inside_json_is_replaced() -> None:
    assert unwrap(b'{"message": "caf\xe9", "ts": 1795242824}') == LogEntry("caf\ufffd", SECOND_AT)


JUNK = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda fields: json.dumps(fields).encode(),
        st.dictionaries(
            st.sampled_from(["log", "stream", "time", "message", "instant", "@timestamp", "ts"]),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                lambda inner: st.dictionaries(st.sampled_from(["epochSecond", "logger"]), inner),
                max_leaves=3,
            ),
        ),
    ),
)


@given(st.lists(JUNK, max_size=5), st.sampled_from([b"", b"2026-11-21T06:33:44Z stdout P "]))
def test_any_bytes_are_an_entry_or_a_piece(lines: list[bytes], prefix: bytes) -> None:
    unwrapper = Unwrapper("UTC")
    for line in lines:
        entry = unwrapper.unwrap(prefix + line, ARRIVAL_AT)
        assert all(isinstance(each, LogEntry) for each in entry)
    unwrapper.unwrap(b'{"message": "x", "ts": ' + b"9" * 400 + b"}", ARRIVAL_AT)
    big = b'{"message": "x", "instant": {"epochSecond": ' + b"9" * 400 + b"}}"
    unwrapper.unwrap(big, ARRIVAL_AT)
