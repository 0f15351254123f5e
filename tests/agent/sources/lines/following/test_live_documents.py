"""Growing files that hold documents: `run` reads them as `replay` does.

Each form is as its program writes it: `gcloud logging read` and `tail`, `aws logs tail` and
`filter-log-events`, logcli, the APIs of Loki, Datadog, Azure and Elasticsearch, and `journalctl`.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from agent.sources.broker_logs.config import BrokerLogConfig
from agent.sources.broker_logs.source import BrokerLogSource
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.following import live_documents
from agent.sources.lines.following.config import ReadFrom
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.config import LogConfig
from agent.sources.logs.source import LogSource
from metrics.model.signals import Signal, SignalKind

BEGIN = datetime(2026, 11, 20, 13, 20, 5, 123_000, tzinfo=UTC)
Event = tuple[datetime, str, str]
"""Time, pod and text."""
Found = dict[str, list[tuple[str, int | None, float]]]
"""By pod: kind, code and time of each signal."""
GENERATION = "Generation{{generationId={}, memberId='c-1-{}', protocol='range'}}"


def events() -> Iterator[Event]:
    """Yield the lines of two replicas whose clients have one name."""
    for second, generation in ((0, 7), (60, 8), (120, 9)):
        for number, pod in enumerate(("p-1", "p-2")):
            at = BEGIN + timedelta(seconds=second + number)
            texts = (
                "Request joining group due to: group is already rebalancing",
                f"Successfully synced group in generation {GENERATION.format(generation, pod)}",
                "Adding newly assigned partitions: t-0",
            )
            for place, text in enumerate(texts):
                stamp = at + timedelta(seconds=3 * place)
                client = "[Consumer clientId=c-1, groupId=pay]"
                yield stamp, pod, f"{stamp:%Y-%m-%d %H:%M:%S},123 INFO {client} {text}"


EVENTS = sorted(events())
NEWEST_FIRST = EVENTS[::-1]


def iso(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def us(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def gcloud(event: Event) -> dict[str, Any]:
    at, pod, text = event
    labels = {"container_name": "app", "pod_name": pod}
    resource = {"labels": labels, "type": "k8s_container"}
    return {"insertId": "x", "resource": resource, "textPayload": text, "timestamp": iso(at)}


def cloudwatch(event: Event) -> dict[str, Any]:
    at, pod, text = event
    return {"logStreamName": f"app/{pod}", "timestamp": us(at) // 1000, "message": text}


def elasticsearch(event: Event) -> dict[str, Any]:
    at, pod, text = event
    source = {"@timestamp": iso(at), "message": text, "kubernetes": {"pod": {"name": pod}}}
    return {"_index": "f-1", "_id": "a", "_source": source}


def journal(event: Event) -> dict[str, str]:
    at, pod, text = event
    head = {"__CURSOR": "s=1;i=2", "__REALTIME_TIMESTAMP": str(us(at))}
    unit = {"_HOSTNAME": "n", "_SYSTEMD_UNIT": f"{pod}.service", "_PID": pod[-1:]}
    return {**head, **unit, "MESSAGE": text}


def verbose(event: Event) -> str:
    fields = (f"    {name}={value}\n" for name, value in journal(event).items() if name[1] != "_")
    return f"Fri {event[0]:%Y-%m-%d %H:%M:%S.%f} UTC [s=1;i=2;b=3;m=4]\n{''.join(fields)}"


def otlp_debug(event: Event) -> str:
    at, pod, text = event
    return (
        f"ResourceLog #0\nResource attributes:\n     -> k8s.pod.name: Str({pod})\nScopeLogs #0\n"
        f"LogRecord #0\nTimestamp: {at:%Y-%m-%d %H:%M:%S.%f} +0000 UTC\nBody: Str({text})\n"
        "Trace ID: \nFlags: 0\n"
    )


def rubydebug(event: Event) -> str:
    at, pod, text = event
    return (
        f'{{\n    "@timestamp" => {iso(at)},\n       "message" => {json.dumps(text)},\n'
        f'          "host" => {{\n        "name" => "{pod}"\n    }}\n}}\n'
    )


def datadog(event: Event) -> dict[str, Any]:
    at, pod, text = event
    inner = {"timestamp": iso(at), "message": text, "tags": [f"pod_name:{pod}"]}
    return {"type": "log", "attributes": inner}


def loki(seq: Sequence[Event]) -> dict[str, Any]:
    streams = [
        {
            "stream": {"pod": pod},
            "values": [[str(us(at) * 1000), text] for at, name, text in seq if name == pod],
        }
        for pod in ("p-1", "p-2")
    ]
    return {"status": "success", "data": {"resultType": "streams", "result": streams}}


def search(seq: Sequence[Event]) -> dict[str, Any]:
    return {"took": 3, "hits": {"total": {"value": 9}, "hits": list(map(elasticsearch, seq))}}


def lines(form: Callable[[Event], str], seq: Sequence[Event] = EVENTS) -> str:
    return "\n".join(map(form, seq))


def azure_rows(seq: Sequence[Event]) -> dict[str, Any]:
    columns = [{"name": name} for name in ("TimeGenerated", "PodName", "LogMessage")]
    rows = [[iso(at), pod, text] for at, pod, text in seq]
    return {"tables": [{"name": "PrimaryResult", "columns": columns, "rows": rows}]}


def growing(seq: Sequence[Event]) -> dict[str, str]:
    """Return forms that a program goes on to write."""
    return {
        "gcloud logging tail --format json": "[\n"
        + ",\n".join(json.dumps(gcloud(event), indent=2) for event in seq)
        + "\n]",
        "gcloud logging tail": "".join(
            f"---\n{yaml.safe_dump(gcloud(event), width=10_000)}" for event in seq
        ),
        "aws logs tail --format json": lines(
            lambda event: (
                f"{event[0]:%Y-%m-%dT%H:%M:%S.%f}+00:00 app/{event[1]} \n"
                + json.dumps({"level": "INFO", "message": event[2]}, indent=4)
            ),
            seq,
        ),
        "aws logs tail, of messages that are objects and others": lines(
            lambda event: (
                f"{event[0]:%Y-%m-%dT%H:%M:%S.%f}+00:00 app/{event[1]} "
                + (
                    event[2]
                    if event[0].second % 3
                    else "\n" + json.dumps({"level": "INFO", "message": event[2]}, indent=4)
                )
            ),
            seq,
        ),
        "filter-log-events, each by jq": lines(
            lambda event: json.dumps(cloudwatch(event), indent=2), seq
        ),
        "Elasticsearch's hits by jq": lines(
            lambda event: json.dumps(elasticsearch(event), indent=2), seq
        ),
        "journalctl -o export": "".join(
            "".join(f"{name}={value}\n" for name, value in journal(event).items()) + "\n"
            for event in seq
        ),
        "journalctl -o verbose": "".join(map(verbose, seq)),
        "journalctl -o json-pretty": lines(
            lambda event: json.dumps(journal(event), indent="\t"), seq
        ),
        "the collector's debug exporter": "".join(map(otlp_debug, seq)),
        "Logstash's rubydebug": "".join(map(rubydebug, seq)),
        "a CSV with line ends in cells": '"@timestamp","message","kubernetes.pod.name"\n'
        + lines(lambda event: f'"{iso(event[0])}","{event[2]}\n\tat a.b.C","{event[1]}"', seq),
        "logcli -o jsonl --forward": lines(
            lambda event: json.dumps(
                {"labels": {"pod": event[1]}, "line": event[2], "timestamp": iso(event[0])}
            ),
            seq,
        ),
    }


GROWING = growing(EVENTS)


FINISHED = {
    "gcloud logging read --format json": json.dumps(list(map(gcloud, NEWEST_FIRST)), indent=2),
    "gcloud's array on one line": json.dumps(list(map(gcloud, NEWEST_FIRST))),
    "gcloud logging read": "".join(
        f"---\n{yaml.safe_dump(gcloud(event), width=10_000)}" for event in NEWEST_FIRST
    ),
    "filter-log-events": json.dumps({"events": list(map(cloudwatch, EVENTS))}, indent=4),
    "filter-log-events on one line": json.dumps({"events": list(map(cloudwatch, EVENTS))}),
    "Insights": json.dumps(
        {
            "results": [
                [
                    {"field": "@timestamp", "value": f"{at:%Y-%m-%d %H:%M:%S}.123"},
                    {"field": "@message", "value": text},
                    {"field": "@logStream", "value": pod},
                ]
                for at, pod, text in NEWEST_FIRST
            ]
        },
        indent=4,
    ),
    "logcli -o jsonl": lines(
        lambda event: json.dumps(
            {"labels": {"pod": event[1]}, "line": event[2], "timestamp": iso(event[0])}
        ),
        NEWEST_FIRST,
    ),
    "logcli": lines(lambda event: f'{iso(event[0])} {{pod="{event[1]}"}} {event[2]}', NEWEST_FIRST),
    "Loki's response": json.dumps(loki(NEWEST_FIRST)),
    "Loki's response, pretty": json.dumps(loki(NEWEST_FIRST), indent=2),
    "Grafana's JSON": json.dumps(
        [{"line": t, "timestamp": str(us(at)), "fields": {"pod": p}} for at, p, t in NEWEST_FIRST],
        indent=2,
    ),
    "az monitor log-analytics query": json.dumps(
        [
            {"TimeGenerated": iso(at), "PodName": pod, "LogMessage": text}
            for at, pod, text in NEWEST_FIRST
        ],
        indent=2,
    ),
    "Azure's tables": json.dumps(azure_rows(NEWEST_FIRST)),
    "Azure's tables, pretty": json.dumps(azure_rows(NEWEST_FIRST), indent=2),
    "Datadog": json.dumps({"data": list(map(datadog, NEWEST_FIRST)), "meta": {}}),
    "Datadog, pretty": json.dumps({"data": list(map(datadog, NEWEST_FIRST)), "meta": {}}, indent=2),
    "_search": json.dumps(search(NEWEST_FIRST)),
    "_search, pretty": json.dumps(search(NEWEST_FIRST), indent=2),
    "_search, oldest first": json.dumps(search(EVENTS), indent=2),
    "a list of strings": json.dumps([f"{pod}  | {text}" for _, pod, text in EVENTS], indent=1),
    "journalctl -r -o json": lines(lambda event: json.dumps(journal(event)), NEWEST_FIRST),
    "compose, newest first": lines(lambda event: f"{event[1]}  | {event[2]}", NEWEST_FIRST),
}
"""Forms that are written once, most of them with the newest entry first."""


class Live:
    """A source that follows one file."""

    def __init__(self, folder: Path, before: bytes = b"", **config: Any) -> None:
        self.path, self.now = folder / "app.log", BEGIN.timestamp() + 10_000
        self.path.write_bytes(before)
        self.config = LogConfig(paths=(str(self.path),), **config)
        self.signals: list[Signal] = []
        self.source = self._source(None)
        self.poll()

    def _source(self, position: dict[str, Any] | None) -> LogSource:
        return LogSource(
            self.config, timezone="UTC", position=position, clock=lambda: self.now, host="h"
        )

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        self.poll()

    def poll(self, after_s: float = 0.25) -> None:
        self.now += after_s
        while self.source.step(self.signals.extend, lambda _stream, _at: None):
            pass

    def restart(self) -> None:
        position = msgspec.json.decode(msgspec.json.encode(self.source.checkpoint()))
        self.close()
        self.source = self._source(position)
        self.poll()

    def close(self) -> None:
        for tail in self.source._tails.values():
            tail.follower.close()

    def wait(self) -> Found:
        """Wait until what is held must have been read; return what was found."""
        for _ in range(5):
            self.poll(5.0)
        return summarise(self.signals)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(tmp_path)
    yield found
    found.close()


def summarise(signals: Sequence[Signal]) -> Found:
    found: Found = {}
    for signal in signals:
        origin = signal.member.origin.partition("#")[2]
        pod = next((pod for pod in ("p-1", "p-2") if pod in origin), origin)
        if signal.kind is not SignalKind.SEEN:
            code = None if signal.status is None else int(signal.status)
            found.setdefault(pod, []).append((signal.kind.value, code, round(signal.at, 2)))
    return found


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the logs of the two replicas show, each in a file of its own."""
    found: Found = {}
    for pod in ("p-1", "p-2"):
        live = Live(tmp_path_factory.mktemp(pod))
        text = lines(lambda event: event[2], [event for event in EVENTS if event[1] == pod])
        live.append(f"{text}\n".encode())
        found[pod] = live.wait().pop("")
        live.close()
    assert [len(each) for each in found.values()] == [6, 6]
    return found


@pytest.mark.parametrize("form", [*GROWING, *FINISHED])
def test_document_is_read_as_the_logs_in_it(form: str, live: Live, wanted: Found) -> None:
    live.append(({**GROWING, **FINISHED}[form] + "\n").encode())

    assert live.wait() == wanted


@pytest.mark.parametrize("form", [*GROWING, *FINISHED])
def test_document_without_a_last_line_end_is_read(form: str, live: Live, wanted: Found) -> None:
    text = {**GROWING, **FINISHED}[form].rstrip("\n")
    if form in {"journalctl -o export", "logcli -o jsonl --forward"}:
        text += "\n\n"
    live.append(text.encode())

    assert live.wait() == wanted


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("pieces", [3, 40])
@pytest.mark.parametrize("form", GROWING)
def test_growing_document_is_read_entry_by_entry(
    form: str, pieces: int, live: Live, wanted: Found, *, restarts: bool
) -> None:
    data = (GROWING[form] + "\n").encode()
    size = len(data) // pieces + 1
    for begin in range(0, len(data), size):
        live.append(data[begin : begin + size])
        if restarts:
            live.restart()

    assert live.wait() == wanted


@pytest.mark.parametrize("form", FINISHED)
def test_export_that_is_written_in_pages_is_read(form: str, live: Live, wanted: Found) -> None:
    data = (FINISHED[form] + "\n").encode()
    for begin in range(0, len(data), len(data) // 3 + 1):
        live.append(data[begin : begin + len(data) // 3 + 1])
        live.restart()
        live.poll(4.0)

    assert live.wait() == wanted


@pytest.mark.parametrize("form", GROWING)
def test_entry_is_read_soon_after_it_was_written(form: str, live: Live, wanted: Found) -> None:
    live.append((GROWING[form] + "\n").encode())
    live.poll(3.0)

    assert summarise(live.signals) == wanted


@pytest.mark.parametrize("form", GROWING)
def test_entry_that_a_programs_buffer_cuts_is_read_once(
    form: str, live: Live, wanted: Found
) -> None:
    """A program that writes to a file writes its buffer, which ends anywhere, and then nothing."""
    data = (GROWING[form] + "\n").encode()
    for begin in range(0, len(data), 701):
        live.append(data[begin : begin + 701])
        live.poll(4.0)

    assert live.wait() == wanted


@pytest.mark.parametrize("form", [form for form in GROWING if "CSV" not in form])
def test_document_is_read_from_its_end_on(form: str, tmp_path: Path, wanted: Found) -> None:
    """With ``read_from: end`` the first bytes are those behind an entry."""
    data = (GROWING[form] + "\n").encode()
    first = growing(EVENTS[:6])[form].removesuffix("\n]")
    assert GROWING[form].startswith(first)
    before = len(first.encode()) + (data[len(first.encode()) :].startswith(b"\n"))
    live = Live(tmp_path, data[:before], read_from=ReadFrom.END)
    live.append(data[before:])
    found = live.wait()
    live.close()

    assert found.keys() == wanted.keys()
    assert [each[-3:] for each in found.values()] == [each[-3:] for each in wanted.values()]


def test_byte_order_mark_before_a_document_is_cut_off(live: Live, wanted: Found) -> None:
    live.append(b"\xef\xbb\xbf" + FINISHED["_search, pretty"].encode())

    assert live.wait() == wanted


@pytest.mark.parametrize("broken", ['{\n "a": }\n', '{"a": "b\n', "{{{\n"])
def test_broken_object_hides_no_other(broken: str, live: Live, wanted: Found) -> None:
    first, second = (
        lines(lambda event: json.dumps(gcloud(event), indent=2), part)
        for part in (EVENTS[:9], EVENTS[9:])
    )
    live.append(f"{first}\n{broken}{second}\n".encode())

    assert live.wait() == wanted


def test_file_that_goes_on_within_a_document_is_read(live: Live, wanted: Found) -> None:
    """A copy is rotated at any byte: the entry that is cut is lost, and no other one."""
    entries = [json.dumps(gcloud(event), indent=2) for event in EVENTS]
    plain = gcloud((BEGIN, "p-1", "nothing of Kafka"))
    cut = json.dumps(plain, indent=2)
    live.append(("[\n" + ",\n".join([*entries[:9], cut[:40]])).encode())
    live.path.write_bytes(b"")
    live.poll()
    live.append((cut[40:] + ",\n" + ",\n".join(entries[9:]) + "\n]\n").encode())

    assert live.wait() == wanted


def test_plain_log_behind_a_document_of_the_file_before_is_read(live: Live) -> None:
    live.append(GROWING["journalctl -o json-pretty"].encode())
    live.path.write_bytes(b"")
    live.poll()
    live.signals.clear()
    live.append("".join(f"{text}\n" for _, pod, text in EVENTS if pod == "p-1").encode())

    assert [kind for kind, _, _ in live.wait()[""]] == ["raise", "sync"] * 3


def test_document_that_cannot_be_held_is_warned_of(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(live_documents, "HELD_MAX_BYTES", 1_000)
    monkeypatch.setattr(live_documents, "_HEAD_BYTES", 1_000)
    caplog.set_level(logging.WARNING)
    live.append(FINISHED["gcloud logging read --format json"].encode())

    found = next(each for each in caplog.records if each.message == "log_document_long")
    assert found.path == str(live.path)  # type: ignore[attr-defined]
    assert "replay" in found.hint  # type: ignore[attr-defined]


def test_documents_share_the_memory_for_what_they_hold() -> None:
    begin = b'[{"timestamp": "2026-11-20T13:20:05Z", "textPayload": "' + b"x" * (3 << 20)
    documents = [
        LiveDocuments(
            create_parser(choose_dialects("auto"), ClientInterpreter(stream=f"{number}")), "", "UTC"
        )
        for number in range(20)
    ]
    for each in documents:
        each.feed(begin, 2e9)

    assert 0 < sum(each.held for each in documents) <= live_documents.HELD_MAX_BYTES


def test_first_line_of_a_log_is_read_at_once(live: Live) -> None:
    live.append(f"{EVENTS[0][2]}\n".encode())

    assert len(live.signals) == 1


def test_clock_that_steps_back_delays_a_log_and_loses_nothing(live: Live) -> None:
    first, *others = (text for _, pod, text in EVENTS if pod == "p-1")
    live.append("\n".join((*others[4:6], first, "")).encode())
    live.append("\n".join((*others, "")).encode())

    assert len(live.signals) >= len(others)


def test_object_a_line_is_no_document(live: Live) -> None:
    for event in EVENTS[:3]:
        live.append((json.dumps(journal(event)) + "\n").encode())
        assert live.signals

    assert sum(map(len, summarise(live.signals).values())) >= 2


def test_brokers_log_in_a_journal_is_read(tmp_path: Path) -> None:
    text = (
        "[2026-11-20 13:20:05,123] INFO [GroupCoordinator 1]: Preparing to rebalance group pay in "
        "state PreparingRebalance with old generation 0 (__consumer_offsets-1) (reason: Adding "
        "new member c-1-a with group instance id None; client reason: not provided) "
        "(kafka.coordinator.group.GroupCoordinator)"
    )
    path = tmp_path / "journal.log"
    path.write_text(verbose((BEGIN, "kafka", text)))
    now, signals = [BEGIN.timestamp() + 100], list[Signal]()
    source = BrokerLogSource(
        BrokerLogConfig(paths=(str(path),)), timezone="UTC", clock=lambda: now[0]
    )
    for _ in range(4):
        now[0] += 2
        source._log.step(signals.extend, lambda _stream, _at: None)

    for tail in source._log._tails.values():
        tail.follower.close()
    assert {signal.member.group for signal in signals} == {"pay"}
    assert next(round(signal.at, 2) for signal in signals) == round(BEGIN.timestamp(), 2)
