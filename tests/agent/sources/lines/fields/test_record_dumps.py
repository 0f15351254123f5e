"""Records over several lines, as journald, OpenTelemetry, Logstash and XML layouts print them."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.sources.lines.fields.record_dumps import find_dump
from tests.agent.sources.lines.test_posted_forms import EVENTS, WANTED, iso, lines, ms, replay


def export(at: datetime, text: str) -> bytes:
    """Return an entry of `journalctl -o export`; one with colours has its length before it."""
    head = f"__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP={ms(at)}000\n_HOSTNAME=p-1\n_PID=12\n"
    if at.second % 2:
        return head.encode() + f"MESSAGE={text}\n\n".encode()
    data = f"\x1b[32m{text}\x1b[0m".encode()
    return head.encode() + b"MESSAGE\n" + len(data).to_bytes(8, "little") + data + b"\n\n"


def collector(at: datetime, text: str, time: str = "Timestamp") -> str:
    """Return a record of the debug exporter, with the collector's own lines around it."""
    return (
        "2026-11-20T14:00:00.000Z\tinfo\tResourceLog #0\nResource SchemaURL: \n"
        "Resource attributes:\n     -> k8s.pod.name: Str(p-1)\nScopeLogs #0\n"
        "ScopeLogs SchemaURL: \nInstrumentationScope  \nLogRecord #0\n"
        "ObservedTimestamp: 2026-11-20 14:00:00.1 +0000 UTC\n"
        f"{time}: {at:%Y-%m-%d %H:%M:%S.%f} +0000 UTC\nSeverityText: INFO\n"
        f"SeverityNumber: Info(9)\nBody: Str({text})\nAttributes:\n     -> x: Str(y)\n"
        'Trace ID: \nSpan ID: \nFlags: 0\n\t{"kind": "exporter"}'
    )


DUMPS = {
    "journalctl -o verbose": lines(
        lambda at, text: (
            f"{at:%a %Y-%m-%d %H:%M:%S.%f} UTC [s=1;i=2]\n"
            f"    _HOSTNAME=p-1\n    _PID=12\n    MESSAGE={text}"
        )
    ),
    "OpenTelemetry's debug exporter": lines(collector),
    "Logstash's rubydebug": lines(
        lambda at, text: (
            f'{{\n    "@timestamp" => {iso(at)},\n       "message" => {json.dumps(text)},\n'
            '          "tags" => nil,\n          "host" => {\n        "name" => "p-1"\n    }\n}'
        )
    ),
}
XML = {
    "log4j's XmlLayout": lines(
        lambda at, text: (
            '<Event xmlns="http://logging.apache.org/log4j/2.0/events" level="INFO">'
            f'<Instant epochSecond="{ms(at) // 1000}" nanoOfSecond="123000000"/>'
            f"<Message>{text.replace(chr(39), '&apos;')}</Message></Event>"
        )
    ),
    "log4j 1's XMLLayout": lines(
        lambda at, text: (
            f'<log4j:event logger="o.a.k.X" timestamp="{ms(at)}" level="INFO" thread="main">\n'
            f"<log4j:message><![CDATA[{text}]]></log4j:message>\n</log4j:event>\n"
        )
    ),
    "java.util.logging's FileHandler": '<?xml version="1.0"?>\n<log>\n'
    + lines(
        lambda at, text: (
            f"<record>\n  <date>{iso(at)}</date>\n  <millis>{ms(at)}</millis>\n"
            f"  <nanos>0</nanos>\n  <level>INFO</level>\n  <message>{text}</message>\n</record>"
        )
    ),
}
STAMPS: dict[str, Callable[[datetime], str]] = {
    "Google's C++ log": lambda at: f"I{at:%Y%m%d %H:%M:%S}.123456 12345 x.cc:12]",
    "Apache's error log": lambda at: f"[{at:%a %b %d %H:%M:%S.%f %Y}] [info]",
    "FIX engines": lambda at: f"{at:%Y%m%d-%H:%M:%S}.123",
    "Korean and Hungarian dates": lambda at: f"{at:%Y. %m. %d. %H:%M:%S}",
}


@pytest.mark.parametrize("form", DUMPS)
def test_dump_is_read_with_its_host(form: str, tmp_path: Path) -> None:
    assert replay(DUMPS[form], tmp_path) == (WANTED, {"p-1"})


def test_record_without_a_time_of_its_own_has_the_time_of_its_reading(tmp_path: Path) -> None:
    text = lines(lambda at, text: collector(at, text, "ObservedTimestamp")).replace(
        "ObservedTimestamp: 2026-11-20 14:00:00.1 +0000 UTC\n",
        "Timestamp: 1970-01-01 00:00:00 +0000 UTC\n",
    )

    assert replay(text, tmp_path) == (WANTED, {"p-1"})


def test_journal_with_binary_fields_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.export"
    path.write_bytes(b"".join(export(at, text) for at, text in EVENTS))

    done = CliRunner().invoke(main, ["replay", "--source", "logs", str(path)])

    rows = [json.loads(line) for line in done.stdout.splitlines()]
    moves = [(row["to"], row["ts"][11:19]) for row in rows if row["kind"] == "transition"]
    assert (moves, {row["host"] for row in rows}) == (WANTED, {"p-1"})


@pytest.mark.parametrize("newest_first", [False, True])
def test_journal_whose_messages_are_lists_of_bytes_is_read(
    tmp_path: Path, *, newest_first: bool
) -> None:
    text = lines(
        lambda at, text: json.dumps(
            {
                "__REALTIME_TIMESTAMP": f"{ms(at)}000",
                "MESSAGE": list(f"\x1b[32m{text}\x1b[0m".encode()),
                "_HOSTNAME": "p-1",
            }
        )
    )
    if newest_first:
        text = "".join(reversed(text.splitlines(keepends=True)))

    assert replay(text, tmp_path) == (WANTED, {"p-1"})


@pytest.mark.parametrize("form", XML)
def test_entry_of_an_xml_layout_is_read(form: str, tmp_path: Path) -> None:
    assert replay(XML[form], tmp_path)[0] == WANTED


@pytest.mark.parametrize("form", STAMPS)
def test_stamp_is_read(form: str, tmp_path: Path) -> None:
    text = lines(lambda at, text: f"{STAMPS[form](at)} {text}")

    assert replay(text, tmp_path)[0] == WANTED


@pytest.mark.parametrize("cut", range(1, 12))
@pytest.mark.parametrize("form", [*DUMPS, *XML])
def test_dump_that_breaks_off_is_read_up_to_there(form: str, cut: int, tmp_path: Path) -> None:
    text = (DUMPS | XML)[form]

    moves, _ = replay(text[: len(text) * cut // 12], tmp_path)

    assert moves == WANTED[: len(moves)]


def test_records_of_the_debug_exporter_keep_the_attributes_of_their_resources() -> None:
    first, second = (collector(at, text) for at, text in EVENTS[:2])
    data = f"{first}\n{second.replace('Str(p-1)', 'Str(p-2)')}\n".encode()
    split = find_dump(data)
    assert split is not None

    found = list(split(data))

    assert [each["resource"] for each in found] == [{"k8s.pod.name": f"p-{n}"} for n in (1, 2)]
    assert all("k8s.pod.name" not in each for each in found)
