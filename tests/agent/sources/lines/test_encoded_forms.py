"""Forms that encode a log's text or name its fields in their own way: pages, forms, stores."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.agent.sources.lines.test_posted_forms import (
    BEGIN,
    EVENTS,
    MEMBER,
    WANTED,
    iso,
    log4j,
    ms,
    replay,
)

KAFKAJS = Path(__file__).parents[3] / "golden/dialects/kafkajs-1-2/input.log"
Row = Callable[[datetime, str, str], dict[str, object]]
JIRA = str.maketrans({mark: f"\\{mark}" for mark in "[]{}"})
ROW = '<tr class="info even">\n<td class="Date">{}</td>\n<td class="Level">INFO</td>\n'
FORMS = {
    "an element of its own": "<events>\n"
    + "\n".join(
        f"<event><time>{iso(at)}</time><level>INFO</level><msg>{text}</msg></event>"
        for at, text in EVENTS
    )
    + "\n</events>",
    "an attribute": "\n".join(
        f'<event time="{iso(at)}" level="INFO"><msg>{text}</msg></event>' for at, text in EVENTS
    ),
    "elements over several lines": "\n".join(
        f"<event>\n  <timestamp>{iso(at)}</timestamp>\n  <text>{text}</text>\n</event>"
        for at, text in EVENTS
    ),
    "Logback's page": "<table>\n"
    + "\n".join(
        ROW.format(f"{at:%Y-%m-%d %H:%M:%S},123") + f'<td class="Message">{text}</td>\n</tr>'
        for at, text in EVENTS
    )
    + "\n</table>",
    "Jira's brackets": "\n".join(log4j(at, text).translate(JIRA) for at, text in EVENTS),
    "Jira's braces": "\n".join(
        log4j(at, text).replace("{", "\\{").replace("}", "\\}") for at, text in EVENTS
    ),
    "a sign that is encoded": "\n".join(log4j(at, text).replace("=", "%3D") for at, text in EVENTS),
    "a query": "\n".join(f"ts={iso(at)}&level=INFO&msg={quote(text)}" for at, text in EVENTS),
    "a form": "\n".join(f"ts={iso(at)}&level=INFO&msg={quote_plus(text)}" for at, text in EVENTS),
    "seconds and nanoseconds of a time": "\n".join(
        json.dumps(
            {
                "timestamp": {"epochSecond": ms(at) // 1000, "nanoOfSecond": 123_000_000},
                "message": text,
            }
        )
        for at, text in EVENTS
    ),
    "Rust's system time": "\n".join(
        json.dumps(
            {
                "time": {"secs_since_epoch": ms(at) // 1000, "nanos_since_epoch": 123_000_000},
                "msg": text,
            }
        )
        for at, text in EVENTS
    ),
    "DynamoDB's numbers": "\n".join(
        json.dumps({"timestamp": {"N": str(ms(at))}, "message": {"S": text}}) for at, text in EVENTS
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_form_is_read_with_its_times(form: str, tmp_path: Path) -> None:
    assert replay(FORMS[form], tmp_path)[0] == WANTED


def coralogix(at: datetime, text: str, pod: str) -> dict[str, object]:
    return {"coralogix": {"timestamp": iso(at)}, "computerName": pod, "text": text}


def coralogix_pairs(at: datetime, text: str, pod: str) -> dict[str, object]:
    times = [{"key": "timestamp", "value": iso(at)}, {"key": "computername", "value": pod}]
    labels = [{"key": "applicationname", "value": "prod"}]
    return {"metadata": times, "labels": labels, "userData": json.dumps({"message": text})}


def tencent(at: datetime, text: str, pod: str) -> dict[str, object]:
    stamp = f"{at:%Y-%m-%d %H:%M:%S}.123"
    return {"__TIMESTAMP__": stamp, "__HOSTNAME__": pod, "__FILENAME__": "/a.log", "content": text}


def yandex(at: datetime, text: str, pod: str) -> dict[str, object]:
    resource = {"type": "serverless.container", "id": "c"}
    return {"resource": resource, "timestamp": iso(at), "message": text, "stream_name": pod}


def dynamo(at: datetime, text: str, pod: str) -> dict[str, object]:
    item = {"createdAt": {"N": str(ms(at))}, "pod": {"S": pod}, "message": {"S": text}}
    return {"eventName": "INSERT", "dynamodb": {"NewImage": item}}


ROWS = [coralogix, coralogix_pairs, tencent, yandex, dynamo]


@pytest.mark.parametrize("row", ROWS)
def test_replicas_of_a_stores_export_stay_apart(row: Row, tmp_path: Path) -> None:
    text = "\n".join(
        json.dumps(row(at, text.replace(MEMBER, f"{MEMBER[:-1]}{number}"), f"p-{number}"))
        for at, text in EVENTS
        for number in (1, 2)
    )

    moves, hosts = replay(text, tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {"p-1", "p-2"}


def test_a_path_of_windows_is_no_escape_of_jiras(tmp_path: Path) -> None:
    text = "\n".join(f"{log4j(at, text)} (C:\\[app]\\{{x}})" for at, text in EVENTS)

    assert replay(text, tmp_path)[0] == WANTED


def test_list_below_a_message_in_the_same_text_hides_no_revocation(tmp_path: Path) -> None:
    """A collector joins the lines of an entry; the class stands behind the last one."""
    of_class = "(org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"
    texts = (
        (65, "Attempt to heartbeat failed since group is rebalancing"),
        (66, "(Re-)joining group"),
        (68, "Successfully joined group with generation 8"),
        (68, "Updating assignment with\nnow assigned partitions: t-0\nrevoked partitions: t-1\n"),
        (68, "Revoke previously assigned partitions t-1"),
        (68, "Adding newly assigned partitions: "),
        (69, "(Re-)joining group"),
        (71, "Successfully joined group with generation 9"),
        (71, "Adding newly assigned partitions: "),
    )
    text = "\n".join(
        json.dumps(
            {"message": log4j(at, f"[Consumer clientId=c-1, groupId=pay] {each} {of_class}")}
        )
        for at, each in ((BEGIN + timedelta(seconds=s), each) for s, each in texts)
    )

    assert replay(text, tmp_path)[0] == [(1, "13:21:10"), (10, "13:21:13"), (0, "13:21:16")]


def test_array_that_begins_with_a_burst_is_newest_first_all_the_same(tmp_path: Path) -> None:
    """Two replicas that close write 40 entries out of order within half a second."""
    close = BEGIN + timedelta(seconds=70)
    burst = [
        (
            close + timedelta(milliseconds=7 * number + number % 2 * 10),
            f"[Consumer clientId=c-1, groupId=pay] {number}",
        )
        for number in range(50)
    ]
    entries = [{"@timestamp": iso(at), "message": text} for at, text in (*EVENTS, *burst)]

    assert replay(json.dumps(entries[::-1], indent=1), tmp_path)[0] == WANTED


def test_object_with_a_text_below_it_in_one_field_is_read(tmp_path: Path) -> None:
    """A collector joins a line without a time to the entry above it."""
    objects = [line for line in KAFKAJS.read_text().splitlines() if line.startswith("{")]
    joined = "\n".join(json.dumps({"log": f"{each}\nslept 12 s"}) for each in objects)

    moves = replay(joined, tmp_path)[0]

    assert moves == replay("\n".join(objects), tmp_path)[0]
    assert {code for code, _ in moves} >= {0, 1, 3, 6, 7}


def test_lokis_line_may_hold_a_collectors_and_a_runtimes_object(tmp_path: Path) -> None:
    objects = [line for line in KAFKAJS.read_text().splitlines() if line.startswith("{")]
    stream = {"pod": "p-1"}
    rows = []
    for each in objects:
        docker = json.dumps({"log": f"{each}\n", "stream": "stdout"})
        line = json.dumps({"kubernetes": {"pod_name": "p-1"}, "log": docker})
        at = datetime.fromisoformat(json.loads(each)["timestamp"])
        rows.append({"stream": stream, "values": [[f"{ms(at)}000000", line]]})

    moves = replay("\n".join(map(json.dumps, rows)), tmp_path)[0]

    assert moves == replay("\n".join(objects), tmp_path)[0]
