"""Forms of posted logs: exports of stores, prefixes of tools, names of months in languages."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from agent.cli import main

BEGIN = datetime(2026, 11, 20, 13, 20, 5, 123_000, tzinfo=UTC)
MEMBER = "c-1-11111111-2222-3333-4444-555555555555"
GENERATION = "Successfully synced group in generation Generation{{generationId={}, memberId='{}', "
TEXTS = (
    (0, f"Request joining group due to: need to re-join with the given member-id: {MEMBER}"),
    (3, GENERATION.format(7, MEMBER) + "protocol='range'}"),
    (4, "Adding newly assigned partitions: t-0"),
    (60, "Request joining group due to: group is already rebalancing"),
    (63, GENERATION.format(8, MEMBER) + "protocol='range'}"),
    (64, "Adding newly assigned partitions: t-0"),
)
EVENTS = [
    (BEGIN + timedelta(seconds=s), f"[Consumer clientId=c-1, groupId=pay] {text}")
    for s, text in TEXTS
]
NEWEST_FIRST = EVENTS[::-1]


def iso(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def log4j(at: datetime, text: str) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03} INFO {text}"


def kibana(at: datetime) -> str:
    return f"{at:%b %d, %Y @ %H:%M:%S}.{at.microsecond // 1000:03}"


def jul(month: str) -> str:
    return "\n".join(
        f"{month} {at:%d, %Y %I:%M:%S} PM org.apache.kafka.X x\nINFO: {text}" for at, text in EVENTS
    )


def lines(form: Callable[[datetime, str], str]) -> str:
    return "\n".join(form(at, text) for at, text in EVENTS)


FOUND = '<sg h="1">group</sg> '
"""A word that Splunk's search has found."""
DOCUMENTS = {
    "datadog-api": json.dumps(
        {
            "data": [
                {
                    "type": "log",
                    "attributes": {
                        "timestamp": iso(at),
                        "message": text,
                        "tags": ["env:prod", "pod_name:p-1"],
                    },
                }
                for at, text in NEWEST_FIRST
            ]
        }
    ),
    "newrelic-nerdgraph": json.dumps(
        {
            "data": {
                "actor": {
                    "account": {
                        "nrql": {
                            "results": [
                                {"timestamp": ms(at), "message": text, "pod_name": "p-1"}
                                for at, text in NEWEST_FIRST
                            ]
                        }
                    }
                }
            }
        },
        indent=2,
    ),
    "opensearch-ppl": json.dumps(
        {
            "schema": [
                {"name": "@timestamp", "type": "timestamp"},
                {"name": "message", "type": "string"},
                {"name": "kubernetes.pod_name", "type": "string"},
            ],
            "datarows": [[iso(at)[:-1].replace("T", " "), text, "p-1"] for at, text in EVENTS],
            "total": len(EVENTS),
        },
        indent=2,
    ),
    "newrelic-api": json.dumps(
        {
            "results": [
                {
                    "events": [
                        {"timestamp": ms(at), "message": text, "pod_name": "p-1"}
                        for at, text in NEWEST_FIRST
                    ]
                }
            ]
        }
    ),
    "loki-api": json.dumps(
        {
            "data": {
                "result": [
                    {
                        "stream": {"pod": "p-1"},
                        "values": [[str(ms(at) * 1_000_000), text] for at, text in NEWEST_FIRST],
                    }
                ]
            }
        }
    ),
    "cloudwatch-insights": json.dumps(
        {
            "results": [
                [{"field": "@timestamp", "value": iso(at)}, {"field": "@message", "value": text}]
                for at, text in NEWEST_FIRST
            ]
        },
        indent=2,
    ),
    "cloudwatch-events": json.dumps(
        {"events": [{"timestamp": ms(at), "message": text} for at, text in EVENTS]}, indent=4
    ),
    "splunk-rows": json.dumps(
        {
            "preview": False,
            "fields": ["_time", "host", "_raw"],
            "rows": [[iso(at), "p-1", text] for at, text in NEWEST_FIRST],
        }
    ),
    "splunk-xml": "<?xml version='1.0' encoding='UTF-8'?>\n<results preview='0'>\n"
    + "\n".join(
        f"<result offset='0'>\n<field k='_time'>\n<value><text>{iso(at)}</text></value>\n</field>"
        "\n<field k='host'>\n<value><text>p-1</text></value>\n</field>\n<field k='_raw'>"
        f"<v xml:space='preserve' trunc='0'>{text.replace('group ', FOUND)}</v></field>\n</result>"
        for at, text in NEWEST_FIRST
    )
    + "\n</results>",
    "elasticsearch-esql": json.dumps(
        {
            "columns": [
                {"name": "@timestamp", "type": "date"},
                {"name": "kubernetes.pod.name", "type": "keyword"},
                {"name": "message", "type": "text"},
            ],
            "values": [[iso(at), "p-1", text] for at, text in NEWEST_FIRST],
        }
    ),
    "signoz-api": json.dumps(
        {
            "data": {
                "result": [
                    {
                        "queryName": "A",
                        "list": [
                            {
                                "timestamp": iso(at),
                                "data": {
                                    "body": text,
                                    "resources_string": {"k8s.pod.name": "p-1"},
                                },
                            }
                            for at, text in NEWEST_FIRST
                        ],
                    }
                ]
            }
        }
    ),
    "coralogix": "\n".join(
        json.dumps({"metadata": {"timestamp": iso(at)}, "pod_name": "p-1", "text": text})
        for at, text in NEWEST_FIRST
    ),
    "gcloud-yaml": yaml.safe_dump_all(
        (
            {
                "insertId": "a",
                "resource": {"labels": {"pod_name": "p-1"}},
                "textPayload": text,
                "timestamp": iso(at),
            }
            for at, text in NEWEST_FIRST
        ),
        explicit_start=True,
    ),
    "kibana-csv": '"@timestamp","message","kubernetes.pod.name"\n'
    + "\n".join(f'"{kibana(at)}","{text}","p-1"' for at, text in NEWEST_FIRST),
    "azure-csv": "TimeGenerated [UTC],PodName,LogMessage\n"
    + "\n".join(f'"{at:%m/%d/%Y, %I:%M:%S}.123 PM",p-1,"{text}"' for at, text in NEWEST_FIRST),
}
"""Documents of stores; the pod is their origin, or they have none."""

PREFIXES = {
    "pm2": lines(lambda at, text: f"0|pay  | {log4j(at, text)}"),
    "tilt": lines(lambda at, text: f"     pay \u2502 {log4j(at, text)}"),
    "grep": lines(lambda at, text: f"log/app-1.log:{log4j(at, text)}"),
    "grep-n": lines(lambda at, text: f"app-1.log.2:17:{log4j(at, text)}"),
    "quotation": lines(lambda at, text: f"> {log4j(at, text)}"),
    "kubetail": lines(lambda at, text: f"[pay-7d9f8b6c5-abcde] {log4j(at, text)}"),
    "serilog": lines(lambda at, text: json.dumps({"@t": iso(at), "@m": text})),
    "tracing": lines(
        lambda at, text: json.dumps({"timestamp": iso(at), "fields": {"message": text}})
    ),
    "victorialogs": lines(lambda at, text: json.dumps({"_time": iso(at), "_msg": text})),
    "seq": lines(lambda at, text: json.dumps({"Timestamp": iso(at), "RenderedMessage": text})),
    "weblogic": lines(
        lambda at, text: f"####<{at:%b %d, %Y, %I:%M:%S},123 PM UTC> <Info> <X> <h> <{text}> "
    ),
    "nlog": lines(lambda at, text: f"{at:%Y-%m-%d %H:%M:%S}.1230|INFO|X|{text}|url: "),
    "polish": jul("lis"),
    "russian": jul("нояб."),
    "turkish": jul("Kas"),
}


def replay(text: str, folder: Path) -> tuple[list[tuple[int, str]], set[str]]:
    """Return the transitions with their times, and the hosts."""
    path = folder / "app.txt"
    path.write_text(text + "\n", encoding="utf-8")
    os.utime(path, (BEGIN.timestamp() + 3_600,) * 2)
    done = CliRunner().invoke(main, ["replay", "--source", "logs", "--timezone", "UTC", str(path)])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    moves = [(row["to"], row["ts"][11:19]) for row in rows if row["kind"] == "transition"]
    return moves, {row["host"] for row in rows}


WANTED = [(2, "13:20:05"), (0, "13:20:08"), (1, "13:21:05"), (0, "13:21:08")]


@pytest.mark.parametrize("form", DOCUMENTS)
def test_document_of_a_store_is_read_in_the_order_of_time(form: str, tmp_path: Path) -> None:
    moves, hosts = replay(DOCUMENTS[form], tmp_path)

    assert moves == WANTED
    assert hosts == {"p-1"} or form in {"cloudwatch-insights", "cloudwatch-events"}


@pytest.mark.parametrize("form", PREFIXES)
def test_line_of_another_tool_is_read(form: str, tmp_path: Path) -> None:
    assert replay(PREFIXES[form], tmp_path)[0] == WANTED


def test_replicas_that_grep_reads_together_stay_apart(tmp_path: Path) -> None:
    both = "\n".join(
        f"app-{number}.log:{log4j(at, text.replace('1111-', f'{number}111-'))}"
        for number in (1, 2)
        for at, text in EVENTS
    )

    assert sorted(replay(both, tmp_path)[0]) == sorted(WANTED * 2)


def test_thread_in_brackets_is_no_pod(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"[pool-1-thread-{at.second % 2}] {log4j(at, text)}")

    assert replay(text, tmp_path)[0] == WANTED


def test_loki_streams_that_are_newest_first_are_in_the_order_of_time(tmp_path: Path) -> None:
    """That is the default of its API; one stream follows the other."""
    streams = [
        {
            "stream": {"pod": f"p-{number}"},
            "values": [
                [f"{ms(at)}000000", log4j(at, text.replace("1111-", f"{number}111-"))]
                for at, text in NEWEST_FIRST
            ],
        }
        for number in (1, 2)
    ]
    text = json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}})

    moves, hosts = replay(text, tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {"p-1", "p-2"}


LISTS = {
    "an entry a line": "\n".join(json.dumps([iso(at), "p-1", text]) for at, text in EVENTS),
    "one list of all": json.dumps([log4j(at, text) for at, text in EVENTS]),
    "Python's dictionaries": lines(lambda at, text: str({"time": iso(at), "msg": text})),
}


@pytest.mark.parametrize("form", LISTS)
def test_lists_and_dictionaries_are_read(form: str, tmp_path: Path) -> None:
    assert replay(LISTS[form], tmp_path)[0] == WANTED


def test_objects_of_one_length_are_not_wrapped_lines(tmp_path: Path) -> None:
    """Elasticsearch's bulk format has a short line before each."""
    text = lines(
        lambda at, text: '{"index":{}}\n' + json.dumps({"@timestamp": iso(at), "message": text})
    )
    longest = max(map(len, text.splitlines()))
    text = "\n".join(
        line if line == '{"index":{}}' else line[:-1].ljust(longest - 1) + "}"
        for line in text.splitlines()
    )

    assert replay(text, tmp_path)[0] == WANTED


@pytest.mark.parametrize("separator", [";", ",", "msg=", "event='"])
def test_message_of_python_behind_a_separator_is_read(separator: str, tmp_path: Path) -> None:
    texts = (
        (5, f"Received member id {MEMBER} for group pay; will retry join-group"),
        (8, "Setting newly assigned partitions {TopicPartition('t', 0)} for group pay"),
    )
    text = "\n".join(
        f"2026-11-20 13:20:{second:02},123;INFO{separator}{line}" + "'" * separator.endswith("'")
        for second, line in texts
    )

    assert replay(text, tmp_path)[0] == WANTED[:2]
