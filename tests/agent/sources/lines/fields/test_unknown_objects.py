"""Objects of stores without a rule of their own: recordings of two replicas stay what they are.

The shapes are those of Datadog's agent, New Relic's API, CloudWatch's Container Insights, Splunk's
collector, the exporters of OpenTelemetry's SDKs, SAP, Huawei, Alibaba, IBM, Wazuh, kcat and users.
"""

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from agent.sources.lines.fields.json_entry import read_object
from tests.agent.sources.lines.test_envelopes_of_recordings import (
    GOLDEN,
    PODS,
    iso,
    rows,
    summarise,
    us,
)

KUBERNETES = [{"pod_name": pod, "container_name": "app"} for pod in PODS]
Form = Callable[[datetime, int, str], dict[str, object]]
FORMS: dict[str, Form] = {
    "Datadog's agent": lambda at, n, text: {
        "message": text,
        "timestamp": us(at) // 1000,
        "hostname": "node",
        "ddtags": f"env:p,pod_name:{PODS[n]}",
    },
    "New Relic's API": lambda at, n, text: {
        "timestamp": us(at) // 1000,
        "message": text,
        "attributes": {"pod_name": PODS[n], "container_name": "app"},
    },
    "Container Insights": lambda at, n, text: {
        "timestamp": us(at) // 1000,
        "message": json.dumps({"time": iso(at), "log": text, "kubernetes": KUBERNETES[n]}),
        "logStreamName": "node-application.var.log",
    },
    "Splunk's collector, of OpenTelemetry": lambda at, n, text: {
        "time": at.timestamp(),
        "host": "node",
        "event": text,
        "fields": {"k8s.pod.name": PODS[n], "k8s.container.name": "app"},
    },
    "Splunk's export of an object": lambda at, n, text: {
        "preview": False,
        "result": {
            "_time": iso(at),
            "_raw": json.dumps({"log": text, "kubernetes": KUBERNETES[n]}),
            "host": "node",
        },
    },
    "a resource": lambda at, n, text: {
        "Timestamp": iso(at),
        "Body": text,
        "Resource": {"k8s.pod.name": PODS[n]},
    },
    "OpenTelemetry's exporter of Go": lambda at, n, text: {
        "Timestamp": iso(at),
        "Body": {"Type": "String", "Value": text},
        "Resource": [{"Key": "k8s.pod.name", "Value": {"Type": "STRING", "Value": PODS[n]}}],
    },
    "OpenTelemetry's exporter of Python": lambda at, n, text: {
        "body": text,
        "severity_text": "INFO",
        "timestamp": iso(at),
        "resource": {"attributes": {"service.instance.id": f"i{n}"}},
    },
    "SAP": lambda at, n, text: {
        "written_at": iso(at),
        "component_instance": str(n),
        "level": "INFO",
        "msg": text,
    },
    "Huawei": lambda at, n, text: {
        "content": text,
        "time": us(at) // 1000,
        "labels": {"podName": PODS[n]},
    },
    "Alibaba": lambda at, n, text: {
        "__source__": f"10.0.0.{n}",
        "content": text,
        "_time_": iso(at),
    },
    "IBM": lambda at, n, text: {
        "timestamp": us(at) * 1000,
        "metadata": {"hostname": f"h{n}"},
        "text": text,
    },
    "Sentry": lambda at, n, text: {
        "timestamp": iso(at),
        "server_name": f"h{n}",
        "message": text,
    },
    "a body of a body": lambda at, n, text: {
        "time": iso(at),
        "server": {"host": f"h{n}"},
        "body": {"message": {"body": text}},
    },
    "Wazuh": lambda at, n, text: {
        "timestamp": iso(at),
        "agent": {"id": f"00{n}", "name": f"h{n}"},
        "full_log": text,
        "location": "/a",
    },
    "an own name of a message": lambda at, n, text: {
        "event_time": iso(at),
        "Hostname": f"h{n}",
        "severity": "INFO",
        "raw_event": text,
    },
    "a record of a topic": lambda at, n, text: {
        "topic": "logs",
        "value": json.dumps({"message": text, "kubernetes": KUBERNETES[n], "time": iso(at)}),
    },
    "kcat -J": lambda at, n, text: {
        "topic": "logs",
        "partition": 0,
        "ts": us(at) // 1000,
        "payload": json.dumps({"log": text, "kubernetes": KUBERNETES[n], "time": iso(at)}),
    },
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "recording", ["java-consumer-2.5", "kafka-go-0.4@0.4.51", "kafkajs-1-2", "librdkafka-kip848"]
)
def test_recording_in_an_unknown_object_shows_what_it_shows_bare(
    recording: str, form: str, tmp_path: Path
) -> None:
    bare = "".join(f"{text}\n" for _, text in rows(recording))
    wanted = sorted(summarise(bare, tmp_path / "bare.log") * 2)
    assert wanted

    written = "".join(
        json.dumps(FORMS[form](at, replica, text)) + "\n"
        for at, text in rows(recording)
        for replica in range(2)
    )

    assert summarise(written, tmp_path / "app.log") == wanted


@pytest.mark.parametrize(
    "fields",
    [
        {"mdc": {"hostname": "a.example.org"}},
        {"request": {"serverName": "shop"}},
        {"group_instance_id": "i-1"},
        {"instance_id": "i-1"},
        {"err": "Pod name is wrong"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_fields_of_an_application_are_no_stream(fields: dict[str, object]) -> None:
    (entry,) = read_object({"time": "2026-11-20T13:20:05Z", "message": "joined", **fields})

    assert entry.origin == ""


EVENT = re.compile(r"%(\d)\|([\d.]+)\|(\w+)\|([^|\n]+)\| (\[thrd:.*)")
LOG_EVENTS = {
    "node-rdkafka's event": lambda level, at, fac, name, text: {
        "message": "event.log",
        "log": {"severity": level, "fac": fac, "message": text, "name": name},
        "time": at,
    },
    ".NET's LogMessage": lambda level, at, fac, name, text: {
        "msg": "kafka",
        "LogMessage": {"Name": name, "Level": level, "Facility": fac, "Message": text},
        "time": at,
    },
}


@pytest.mark.parametrize("form", LOG_EVENTS)
def test_log_event_of_librdkafka_within_fields_is_the_message(form: str, tmp_path: Path) -> None:
    bare = (GOLDEN / "librdkafka" / "input.log").read_text(encoding="utf-8")
    events = [EVENT.fullmatch(line) for line in bare.splitlines()]
    written = "".join(
        json.dumps(LOG_EVENTS[form](int(each[1]), float(each[2]), each[3], each[4], each[5])) + "\n"
        for each in events
        if each is not None
    )
    bare = "".join(f"{each[0]}\n" for each in events if each is not None)
    wanted = summarise(bare, tmp_path / "bare.log")
    assert wanted

    assert summarise(written, tmp_path / "app.log") == wanted


@pytest.mark.parametrize("keys", [("ts", "name", "msg"), ("ts", "msg", "name")])
def test_group_is_found_by_a_name_on_either_side_of_the_message(
    keys: tuple[str, ...], tmp_path: Path
) -> None:
    """A new member of KIP-848 shows its group first in a line that no rule reads."""
    bare = "".join(f"{text}\n" for _, text in rows("librdkafka-kip848"))
    wanted = summarise(bare, tmp_path / "bare.log")
    found = [OF_PYTHON.search(text) for _, text in rows("librdkafka-kip848")]
    written = "".join(
        json.dumps({key: {"ts": iso(at), "name": each[1], "msg": each[2]}[key] for key in keys})
        + "\n"
        for (at, _), each in zip(rows("librdkafka-kip848"), found, strict=True)
        if each is not None
    )

    assert summarise(written, tmp_path / "app.log") == wanted


OF_PYTHON = re.compile(r"\[([^\]\n]+#consumer-\d+)\] (\[thrd:.*) \(librdkafka\)$")
