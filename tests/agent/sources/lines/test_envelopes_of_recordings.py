"""Recordings of real clients in the envelopes of collectors and stores show what they show bare.

Each recording is written by two replicas, line by line in turns, so that names and member ids are
alike: the envelope alone tells them apart. Around that: newest first, CRLF, a byte-order mark and
colours.
"""

# ruff: noqa: ARG005 - a form names the parts of a line in one order

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.envelopes.envelope import Unwrapper, date_line
from agent.sources.lines.times.timestamps import TimestampReader
from agent.sources.logs.replay import read
from agent.sources.source_type import ReplayOptions
from metrics.model.signals import Signal, SignalKind

GOLDEN = Path(__file__).parents[3] / "golden" / "dialects"
RECORDINGS = (
    "aiokafka-0.8-0.14@0.14.0",
    "brod-3-4-below",
    "franz-go-kip848-1.19-1.22",
    "java-consumer-2.5",
    "java-consumer-3.0-4.3@4.4.0",
    "java-consumer-kip848-3.9-4.3@4.4.0",
    "kafka-connect-3.0-4.3@4.4.0",
    "kafka-go-0.4@0.4.51",
    "kafka-python-1.4-2.1",
    "kafka-streams-2.6-4.3@4.4.0",
    "kafkajs-1-2",
    "librdkafka-kip848",
)
LINES = 150
ARRIVAL_AT = 1_796_000_000.0
PODS = ("pay-7d9f8b6c5-abcde", "pay-7d9f8b6c5-fghij")
Row = tuple[datetime, int, str]
"""Time, replica and text."""
Events = list[tuple[str, int | None, tuple[str, ...], float]]


def iso(at: datetime, zone: str = "Z") -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}{zone}"


def us(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def ruby(value: object) -> str:
    """Return an object as Fluent Bit's stdout prints it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{key}"=>{ruby(each)}' for key, each in value.items()) + "}"
    return json.dumps(value)


def otlp(at: datetime, replica: int, text: str) -> dict[str, object]:
    pod = {"key": "k8s.pod.name", "value": {"stringValue": PODS[replica]}}
    record = {"timeUnixNano": str(us(at) * 1000), "body": {"stringValue": text}}
    scopes = [{"scope": {}, "logRecords": [record]}]
    return {"resourceLogs": [{"resource": {"attributes": [pod]}, "scopeLogs": scopes}]}


def of_pod(pod: str, **more: str) -> dict[str, object]:
    return {"kubernetes": {"pod_name": pod, "container_name": "app"}, **more}


TEXTS: dict[str, Callable[[datetime, int, str], str]] = {
    "compose": lambda at, n, t: f"pay-{n}  | {t}",
    "compose -t": lambda at, n, t: f"pay-{n}  | {iso(at)} {t}",
    "concurrently --prefix": lambda at, n, t: f"pay-{n} | {t}",
    "swarm": lambda at, n, t: f"pay.{n + 1}.abcdefghij1234567890klmno@node-1    | {t}",
    "podman logs -t --names": lambda at, n, t: f"pay_{n} {iso(at)} {t}",
    "stern": lambda at, n, t: f"{PODS[n]} app {t}",
    "stern -t": lambda at, n, t: f"{PODS[n]} app {iso(at)} {t}",
    "kubectl --prefix": lambda at, n, t: f"[pod/{PODS[n]}/app] {t}",
    "kubectl --prefix --timestamps": lambda at, n, t: f"[pod/{PODS[n]}/app] {iso(at)} {t}",
    "RFC 3164": lambda at, n, t: f"<14>{at:%b %e %H:%M:%S} host{n} pay[1{n}]: {t}",
    "RFC 5424": lambda at, n, t: f"<134>1 {iso(at)} host{n} pay 1{n} - - {t}",
    "journalctl": lambda at, n, t: f"{at:%b %d %H:%M:%S} n1 java[1{n}]: {t}",
    "journalctl -o short-iso": lambda at, n, t: f"{at:%Y-%m-%dT%H:%M:%S}+0000 n1 java[1{n}]: {t}",
    "aws logs tail": lambda at, n, t: f"{iso(at, '+00:00')} app/{PODS[n]} {t}",
    "Heroku": lambda at, n, t: f"{iso(at, '+00:00')} app[worker.{n + 1}]: {t}",
    "cf": lambda at, n, t: f"   {iso(at, '')[:-4]}+0000 [APP/PROC/WEB/{n}] OUT {t}",
    "Fluent Bit's stdout": lambda at, n, t: (
        f"[0] kube.pay: [[{at.timestamp():.9f}, {{}}], {ruby({'log': t, **of_pod(PODS[n])})}]"
    ),
    "fluentd's stdout": lambda at, n, t: (
        f"{at:%Y-%m-%d %H:%M:%S.%f}000 +0000 app.pay-{n}: " + json.dumps({"log": t})
    ),
    "fluentd's stdout, seconds": lambda at, n, t: (
        f"{at:%Y-%m-%d %H:%M:%S} +0000 app.pay-{n}: " + json.dumps({"message": t})
    ),
    "fluentd's tag and a line": lambda at, n, t: (
        f"{at:%Y-%m-%d %H:%M:%S.%f}000 +0000 app.pay-{n}: {t}"
    ),
    "fluentd's tag and a line, ISO": lambda at, n, t: f"{iso(at)} app.pay-{n}: {t}",
    "concurrently": lambda at, n, t: f"[pay-{n}] {t}",
    "skaffold": lambda at, n, t: f"[pay-{n} app] {t}",
    "fluentd's file of a tag and a line": lambda at, n, t: (
        f"{at:%Y-%m-%dT%H:%M:%S}+00:00\tapp.pay-{n}\t{t}"
    ),
    "rows with tabs": lambda at, n, t: f"{at:%Y-%m-%d %H:%M:%S.%f} +0000\tapp.pay-{n}\t{t}",
    "rows with tabs, an epoch": lambda at, n, t: f"{at.timestamp():.9f}\tapp.pay-{n}\t{t}",
    "rows with tabs, a level": lambda at, n, t: f"{iso(at)}\tinfo\t{PODS[n]}\t{t}",
    "rows with tabs, a tag of Kubernetes": lambda at, n, t: (
        f"{iso(at)}\tkube.var.log.containers.{PODS[n]}_shop_app-{'ab' * 32}.log\t{t}"
    ),
    "rows with commas": lambda at, n, t: f"{iso(at)},app.pay-{n},{t}",
    "rows with bars": lambda at, n, t: f"{iso(at)}|pay-{n}|{t}",
    "rows with semicolons": lambda at, n, t: f"{iso(at)};pay-{n};{t}",
    "rows with bars and blanks": lambda at, n, t: f"{iso(at)} | INFO | pay-{n} | {t}",
    "rows with a host and a program": lambda at, n, t: f"{us(at) // 1000},host{n},pay,{t}",
    "Vector's logfmt": lambda at, n, t: (
        f"file=/v/{n}.log host=n1 message={json.dumps(t)} timestamp={iso(at)}"
    ),
    "LTSV with a tag": lambda at, n, t: f"time:{iso(at)}\ttag:app.pay-{n}\tmessage:{t}",
    "Fluent Bit's LTSV": lambda at, n, t: (
        f'"time":{at.timestamp():.6f}\t"pod_name":"{PODS[n]}"\t"log":"{t}"'
    ),
    "pm2 logs --format": lambda at, n, t: (
        f"timestamp={at:%Y-%m-%d %H:%M:%S} app=pay id={n} type=out message={t}"
    ),
    "pm2 logs --timestamp": lambda at, n, t: f"{at:%Y-%m-%dT%H:%M:%S} {n}|pay  | {t}",
    "journalctl --no-hostname": lambda at, n, t: f"{at:%b %d %H:%M:%S} java[1{n}]: {t}",
    "journalctl -o with-unit": lambda at, n, t: (
        f"{at:%a %Y-%m-%d %H:%M:%S} UTC n1 pay@{n}.service[1{n}]: {t}"
    ),
    "oc adm node-logs": lambda at, n, t: (
        f"ip-10-0-1-{n}.ec2.internal {at:%b %d %H:%M:%S.%f} ip-10-0-1-{n} java[1]: {t}"
    ),
    "k9s, one container": lambda at, n, t: f"{iso(at)} {PODS[n]} {t}",
    "fluentd's file of a tag": lambda at, n, t: (
        f"{at:%Y-%m-%dT%H:%M:%S}+00:00\tapp.pay-{n}\t" + json.dumps({"message": t})
    ),
    "fluentd's file": lambda at, n, t: (
        f"{at:%Y-%m-%dT%H:%M:%S}+00:00\tkube.app\t" + json.dumps({"log": t, **of_pod(PODS[n])})
    ),
}
OBJECTS: dict[str, Callable[[datetime, int, str], dict[str, object]]] = {
    "Docker's json-file": lambda at, n, t: {
        "log": f"{t}\n",
        "stream": "stdout",
        "attrs": {"tag": PODS[n]},
        "time": iso(at),
    },
    "Fluent Bit, with a tag": lambda at, n, t: {
        "date": at.timestamp(),
        "tag": f"app.pay-{n}",
        "log": t,
    },
    "fluentd, with a tag": lambda at, n, t: {
        "time": iso(at),
        "fluentd_tag": f"app.pay.{PODS[n]}",
        "message": t,
    },
    "stern -o json": lambda at, n, t: {
        "message": f"{iso(at)} {t}\n",
        "nodeName": "n1",
        "namespace": "shop",
        "podName": PODS[n],
        "containerName": "app",
    },
    "journalctl -o json": lambda at, n, t: {
        "__REALTIME_TIMESTAMP": str(us(at)),
        "_HOSTNAME": "n1",
        "_SYSTEMD_UNIT": f"pay@{n}.service",
        "_PID": f"1{n}",
        "MESSAGE": t,
    },
    "Fluent Bit": lambda at, n, t: {"date": at.timestamp(), "log": t, **of_pod(PODS[n])},
    "Vector": lambda at, n, t: {"message": t, "timestamp": iso(at), **of_pod(PODS[n])},
    "ECS": lambda at, n, t: {
        "@timestamp": iso(at),
        "message": t,
        "host": {"name": "n1"},
        "kubernetes": {"pod": {"name": PODS[n]}},
    },
    "GELF": lambda at, n, t: {"host": PODS[n], "short_message": t, "timestamp": at.timestamp()},
    "Splunk's collector": lambda at, n, t: {"time": at.timestamp(), "host": PODS[n], "event": t},
    "Splunk's export": lambda at, n, t: {
        "preview": False,
        "result": {"_time": iso(at), "_raw": t, "host": PODS[n]},
    },
    "CloudWatch": lambda at, n, t: {
        "logStreamName": f"app/{PODS[n]}",
        "timestamp": us(at) // 1000,
        "message": t,
    },
    "OTLP": otlp,
    "logcli": lambda at, n, t: {"labels": {"pod": PODS[n]}, "line": t, "timestamp": iso(at)},
    "gcloud": lambda at, n, t: {
        "resource": {"labels": {"pod_name": PODS[n]}},
        "textPayload": t,
        "timestamp": iso(at),
    },
    "Datadog": lambda at, n, t: {
        "attributes": {"timestamp": iso(at), "message": t, "tags": [f"pod_name:{PODS[n]}"]}
    },
}
OF_ONE_HOST: dict[str, Callable[[datetime, str], str]] = {
    "Filebeat": lambda at, t: json.dumps(
        {"@timestamp": iso(at), "host": {"name": "n1"}, "message": t}
    ),
    "Splunk": lambda at, t: json.dumps({"result": {"_time": iso(at), "_raw": t, "host": "n1"}}),
    "Loki": lambda at, t: json.dumps(
        {"labels": {"job": "syslog", "host": "n1"}, "line": t, "timestamp": iso(at)}
    ),
    "an instance's stream": lambda at, t: json.dumps(
        {"logStreamName": "i-0123456789", "timestamp": us(at) // 1000, "message": t}
    ),
    "CRI": lambda at, t: f"{iso(at)} stdout F {t}",
    "rows of one host": lambda at, t: f"{iso(at)},n1,{t}",
}
"""Collectors that read the lines of both replicas from one file."""
NAMED = (
    "RFC 3164", "RFC 5424", "journalctl -o short-iso", "kubectl --prefix", "stern", "compose",
    "Heroku",
)  # fmt: skip
"""Lines that name their stream within those."""
ENVELOPES: dict[str, Callable[[datetime, int, str], str]] = {
    **TEXTS,
    **{
        name: lambda at, n, t, form=form: json.dumps(form(at, n, t))  # type: ignore[misc]
        for name, form in OBJECTS.items()
    },
    **{
        f"{collector} around {name}": lambda at, n, t, around=around, form=TEXTS[name]: around(  # type: ignore[misc]
            at, form(at, n, t)
        )
        for collector, around in OF_ONE_HOST.items()
        for name in NAMED
    },
    "compose around ECS": lambda at, n, t: f"pay-{n}  | {json.dumps(OBJECTS['ECS'](at, n, t))}",
    "kubectl --prefix around CRI": lambda at, n, t: f"[pod/{PODS[n]}/app] {iso(at)} stdout F {t}",
    "journalctl around compose": lambda at, n, t: (
        f"{at:%b %d %H:%M:%S} n1 docker[9]: pay-{n}  | {t}"
    ),
}
LEVEL = re.compile(r"\b(?:INFO|WARN|ERROR|DEBUG)\b")
VARIANTS: dict[str, Callable[[str], str]] = {
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "byte-order mark": lambda text: f"\ufeff{text}",
    "newest first": lambda text: "\n".join(reversed(text.splitlines())) + "\n",
    "newest first, CRLF": lambda text: "\r\n".join(reversed(text.splitlines())) + "\r\n",
    "colours": lambda text: text,
}


@cache
def rows(recording: str) -> list[tuple[datetime, str]]:
    """Return the lines of a recording, each with the time of the last line that has one."""
    texts = (GOLDEN / recording / "input.log").read_text(encoding="utf-8").splitlines()[:LINES]
    reader, unwrapper, found = TimestampReader("UTC"), Unwrapper("UTC"), []
    stamps = [date_line(text.encode(), reader, unwrapper, ARRIVAL_AT) for text in texts]
    last = next(at for at in stamps if at is not None)
    for at, text in zip(stamps, texts, strict=True):
        last = last if at is None else at
        found.append((datetime.fromtimestamp(last, UTC), text))
    return found


def replay(text: str, path: Path) -> Iterator[tuple[str, Signal]]:
    """Yield each signal with the name of its stream within the file."""
    path.write_text(text, encoding="utf-8", newline="")
    os.utime(path, (ARRIVAL_AT, ARRIVAL_AT))
    options = ReplayOptions(
        cluster="",
        host="h",
        timezone="UTC",
        dialects=choose_dialects("auto"),
        on_unreadable=lambda error: pytest.fail(str(error)),
        on_note=lambda _note: None,
        on_progress=lambda _stream, _size: None,
    )
    for stream in read([str(path)], options):
        for signal in stream:
            if isinstance(signal, Signal):
                yield signal.member.origin.partition("#")[2], signal


def summarise(text: str, path: Path) -> list[Events]:
    """Return the signals of each stream and client."""
    found: dict[tuple[str, str], Events] = {}
    for origin, signal in replay(text, path):
        if signal.kind is not SignalKind.SEEN or signal.assigned is not None:
            code = None if signal.status is None else int(signal.status)
            events = found.setdefault((origin, signal.member.client_id), [])
            read = tuple(sorted(signal.assigned or ()))
            events.append((signal.kind.value, code, read, round(signal.at, 2)))
    return sorted(found.values())


def write(recording: str, envelope: str, *, coloured: bool = False) -> str:
    form = ENVELOPES[envelope]
    return "".join(
        form(at, replica, LEVEL.sub("\x1b[32m\\g<0>\x1b[0m", text) if coloured else text) + "\n"
        for at, text in rows(recording)
        for replica in range(2)
    )


@pytest.mark.parametrize("envelope", ENVELOPES)
@pytest.mark.parametrize("recording", RECORDINGS)
def test_recording_in_an_envelope_shows_what_it_shows_bare(
    recording: str, envelope: str, tmp_path: Path
) -> None:
    bare = "".join(f"{text}\n" for _, text in rows(recording))
    wanted = sorted(summarise(bare, tmp_path / "bare.log") * 2)
    assert wanted

    assert summarise(write(recording, envelope), tmp_path / "app.log") == wanted


APPENDED = (
    ", tenant acme", "; tenant acme", " 4bf92f3577b34da6", ", traceId=4bf9", " {}", " []",
    " {traceId=4bf9, spanId=00f0}", " (Logger:123)", " (o.a.k.c.c.i.ConsumerCoordinator)",
    " (com.acme.shaded.org.apache.kafka.clients.Metadata)",
    " o.a.k.c.c.internals.ConsumerCoordinator",
    " at org.apache.kafka.Some.method(Some.java:12)", " - main",
)  # fmt: skip
"""Text that layouts write behind each message: diagnostic context, traces, classes."""
OF_JAVA = (
    "java-consumer-2.1-2.3",
    "java-consumer-2.5",
    "java-consumer-3.0-4.3",
    "java-consumer-kip848-3.9-4.3@4.4.0",
    "kafka-connect-2.0-2.6",
    "kafka-connect-3.0-4.3@4.4.0",
    "kafka-streams-2.6-4.3@4.4.0",
)
CLASS = re.compile(r" \(org\.apache\.kafka[\w.$]+\)$")


@pytest.mark.parametrize("appended", APPENDED)
@pytest.mark.parametrize("recording", OF_JAVA)
def test_text_behind_each_message_changes_nothing(
    recording: str, appended: str, tmp_path: Path
) -> None:
    bare = [CLASS.sub("", text) for _, text in rows(recording)]
    wanted = summarise("".join(f"{text}\n" for text in bare), tmp_path / "bare.log")
    assert wanted

    written = "".join(
        f"{text}{appended if ' clientId=' in text or '[Worker ' in text else ''}\n" for text in bare
    )

    assert summarise(written, tmp_path / "app.log") == wanted


def is_in_order(recording: str) -> bool:
    times = [at for at, _ in rows(recording)]
    return times == sorted(times) and all(
        at is not None and text[:1] not in {" ", "\t"} for at, text in rows(recording)
    )


@pytest.mark.parametrize("number", range(len(ENVELOPES)))
@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_of_an_envelope_shows_what_the_recording_shows_bare(
    variant: str, number: int, tmp_path: Path
) -> None:
    """Each envelope in each variant, with the next recording of those that it fits."""
    envelope = list(ENVELOPES)[number]
    fitting = [each for each in RECORDINGS if "newest" not in variant or is_in_order(each)]
    recording = fitting[number % len(fitting)]
    bare = "".join(f"{text}\n" for _, text in rows(recording))
    text = VARIANTS[variant](write(recording, envelope, coloured=variant == "colours"))

    assert summarise(text, tmp_path / "app.log") == sorted(
        summarise(bare, tmp_path / "bare.log") * 2
    )
