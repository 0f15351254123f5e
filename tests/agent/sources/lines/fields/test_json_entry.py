import json
from typing import Any

import pytest

from agent.sources.lines.envelopes.envelope import LogEntry, Unwrapper

ARRIVAL_AT = 1795243000.0
AT = 1795242824.25
"""2026-11-21T06:33:44.250Z."""
TIME = "2026-11-21T06:33:44.250Z"
TEXT = "[Consumer clientId=m1, groupId=g] (Re-)joining group"
NANOS = str(int(AT * 1000)) + "000000"


def unwrap(found: dict[str, Any]) -> list[LogEntry]:
    return Unwrapper("UTC").unwrap(json.dumps(found).encode(), ARRIVAL_AT)


OTLP = {
    "resourceLogs": [
        {
            "resource": {
                "attributes": [{"key": "k8s.pod.name", "value": {"stringValue": "payments-0"}}]
            },
            "scopeLogs": [
                {"logRecords": [{"timeUnixNano": NANOS, "body": {"stringValue": TEXT}}] * 2}
            ],
        }
    ]
}
EXPORTS: dict[str, tuple[dict[str, Any], int]] = {
    "Splunk": ({"preview": False, "result": {"_raw": TEXT, "_time": TIME, "host": "a"}}, 1),
    "OTLP": (OTLP, 2),
    "CloudWatch": (
        {
            "logStream": "payments-0",
            "logEvents": [{"id": "1", "timestamp": int(AT * 1000), "message": TEXT}] * 3,
        },
        3,
    ),
    "Elasticsearch": ({"_source": {"@timestamp": TIME, "message": TEXT}}, 1),
    "Elasticsearch, a search": (
        {"hits": {"total": 2, "hits": [{"_source": {"@timestamp": TIME, "message": TEXT}}] * 2}},
        2,
    ),
    "an object around the message": ({"message": {"short_msg": TEXT}, "timestamp": TIME}, 1),
    "fluentd around the application's JSON": (
        {"log": json.dumps({"msg": TEXT, "time": TIME}), "kubernetes": {"pod_name": "p-0"}},
        1,
    ),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_export_gives_every_entry_with_its_time(name: str) -> None:
    found, count = EXPORTS[name]

    assert [(entry.text, entry.at) for entry in unwrap(found)] == [(TEXT, AT)] * count


ORIGINS: dict[str, dict[str, Any]] = {
    "p-0/app": {"kubernetes": {"pod_name": "p-0", "container_name": "app", "host": "node"}},
    "p-1": {"labels": {"pod": "p-1", "app": "a"}},
    "p-2/app": {"resource": {"labels": {"pod_name": "p-2", "container_name": "app"}}},
    "app-1": {"container_name": "app-1", "container_id": "0f"},
    "host-a/payments.service": {"_HOSTNAME": "host-a", "_SYSTEMD_UNIT": "payments.service"},
    "stream-1": {"logStream": "stream-1", "host": "h"},
    "host-b": {"host": {"name": "host-b"}},
    "": {"service": {"name": "payments"}},
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_fields_of_a_store_name_the_origin(origin: str) -> None:
    (entry,) = unwrap({"message": TEXT, "timestamp": TIME, **ORIGINS[origin]})

    assert entry.origin == origin


@pytest.mark.parametrize(
    ("fields", "origin"),
    [
        ({"file": "/app/kgo/consumer_group.go:106", "func": "kgo.join"}, ""),  # logrus
        ({"filename": "coordinator.py", "lineno": 120}, ""),  # Python
        ({"task": "Task-12"}, ""),  # asyncio
        ({"task": "web.1.k3x"}, "web.1.k3x"),
        ({"file": "Kafka/KafkaConsumer.swift", "instance": "a-1"}, "a-1"),
        ({"file": "/var/log/app-1.log"}, "/var/log/app-1.log"),
        ({"filename": "/var/log/pods/a.go_b/0.log"}, "/var/log/pods/a.go_b/0.log"),
    ],
)
def test_code_and_task_that_logged_are_no_origin(fields: dict[str, Any], origin: str) -> None:
    (entry,) = unwrap({"message": TEXT, "timestamp": TIME, **fields})
    (of_logfmt,) = Unwrapper("UTC").unwrap(
        " ".join(
            f'{key}="{value}"' for key, value in {"time": TIME, "msg": TEXT, **fields}.items()
        ).encode(),
        ARRIVAL_AT,
    )

    assert (entry.origin, of_logfmt.origin) == (origin, origin)


def test_collectors_prefix_precedes_the_applications_own_host() -> None:
    line = b"payments-1  | " + json.dumps({"message": TEXT, "host": "h", "time": TIME}).encode()
    (entry,) = Unwrapper("UTC").unwrap(line, ARRIVAL_AT)

    assert (entry.origin, entry.host, entry.text, entry.at) == (
        "payments-1",
        "payments-1",
        TEXT,
        AT,
    )


OTHER_TIMES: dict[str, str | float] = {
    "created": AT,
    "created_at": TIME,
    "loggedAt": TIME,
    "logTimestamp": TIME,
    "log_timestamp": TIME,
    "event_time": TIME,
    "eventTimestamp": TIME,
    "event.created": TIME,
    "dateTime": TIME,
    "date_time": TIME,
    "timeStamp": TIME,
    "@ts": TIME,
    "instant": TIME,
    "when": TIME,
    "epochMillis": int(AT * 1000),
    "timestamp_ms": str(int(AT * 1000)),
    "unixTime": AT,
    "utc_time": "2026-11-21 06:33:44.250",
}
"""Names of a time in layouts that people write."""


@pytest.mark.parametrize("name", OTHER_TIMES)
def test_time_has_a_name_of_the_users_own(name: str) -> None:
    (entry,) = unwrap({"level": "INFO", name: OTHER_TIMES[name], "message": TEXT})

    assert (entry.text, entry.at) == (TEXT, AT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startTime", TIME),
        ("time_taken", AT),
        ("created_by", TIME),
        ("log", AT),
        ("event_time", "12"),
        ("created", True),
        ("when", "at noon"),
        ("ts", 12.5),
    ],
)
def test_other_values_are_no_time(name: str, value: object) -> None:
    (entry,) = unwrap({"level": "INFO", name: value, "message": TEXT})

    assert entry.at is None


def test_known_name_of_a_time_comes_first() -> None:
    (entry,) = unwrap({"created": AT - 9, "message": TEXT, "@timestamp": TIME})

    assert entry.at == AT


@pytest.mark.parametrize("name", ["logMessage", "log_message", "Msg", "rawMessage", "messageText"])
def test_message_of_a_structured_entry_has_a_name_of_the_users_own(name: str) -> None:
    (entry,) = unwrap({"level": "INFO", "time": TIME, name: "heartbeat errored", "group": "g"})

    assert (entry.text, entry.at) == ("heartbeat errored", AT)


@pytest.mark.parametrize("found", [{1: "x"}, {"a": {2: {None: "y"}}}, {(1, 2): "z"}, {"a": ...}])
def test_dictionary_of_python_with_other_keys_than_texts_is_read(found: dict[Any, Any]) -> None:
    text = "[Consumer clientId=c, groupId=g] Request joining group due to: x"
    line = repr({"b": 1, **found, "message": text}).encode()

    (entry,) = Unwrapper("UTC").unwrap(line, 1_796_000_000.0)

    assert text in entry.text


@pytest.mark.parametrize("around", ["context", "State", "extra"])
def test_client_of_librdkafka_in_an_object_of_fields_is_in_front(around: str) -> None:
    """As monolog and Microsoft's console write the values that a program gave them."""
    text = '[thrd:main]: Group "g" changed state up -> term (join-state init)'
    found = {"message": text, around: {"fac": "CGRPSTATE", "client": "m1#consumer-1"}}

    assert [entry.text for entry in unwrap(found)] == [f"m1#consumer-1 {text}"]
