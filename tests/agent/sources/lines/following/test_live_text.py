"""Forms that a recording's reader changes before it reads lines: `run` reads them as `replay` does.

What it cannot read while the file grows is warned of.
"""

import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from agent.runtime.replay import replay as run_replay
from agent.sources.lines.following.live_text import WATCHED_BYTES, LiveText
from metrics.model.sample import SampleKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.sources.lines import test_forms_of_services as services
from tests.agent.sources.lines.fields.test_record_dumps import XML
from tests.agent.sources.lines.following.test_live_documents import Live
from tests.agent.sources.lines.test_origins_of_stores import replicas
from tests.agent.sources.lines.test_posted_forms import EVENTS, WANTED, iso, lines, log4j, replay
from tests.agent.sources.lines.whole_files.test_console_records import CONSOLES

Found = tuple[list[tuple[int, str]], set[str]]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    found = Live(tmp_path)
    yield found
    found.close()


def moves(live: Live) -> Found:
    """Wait for what is held; return the transitions with their times, and the hosts."""
    live.wait()
    for tail in live.source._tails.values():
        live.signals += tail.parser.flush()
    signals = sorted(live.signals, key=lambda signal: signal.at)
    rows = list(run_replay([iter(signals)], Tracker(StatusConfig())))
    found = [(row.to, row.ts[11:19]) for row in rows if row.kind is SampleKind.TRANSITION]
    return [(to, at) for to, at in found if to is not None], {row.host for row in rows}


def two(form: Callable[..., str]) -> str:
    return "\n".join(
        form(EVENTS[index][0] + timedelta(seconds=0.2 * n), text, n)
        for index, _, text, n in replicas()
    )


FILES = "\n\n".join(
    f"==> app-{n}.log <==\n" + lines(log4j).replace("-1111", f"-{n}111") for n in (1, 2)
)
FOLLOWED = {
    "CEF": services.OF_ONE["CEF"],
    "CEF behind syslog": services.OF_ONE["CEF behind syslog"],
    "cf tail --json": two(services.OF_TWO["cf tail --json"]),
    "several files by tail -f": FILES,
    "printed escapes": lines(lambda at, text: f"^[[32m{log4j(at, text)}^[[0m"),
    "grep's colours": lines(log4j).replace("Consumer", "\x1b[01;31m\x1b[KConsumer\x1b[m\x1b[K"),
    "spaces of a document": lines(log4j).replace(" ", "\u00a0"),
    "quotes of a document": lines(log4j).replace("'", "\u2019"),
    "entities of a page": lines(log4j).replace("'", "&#39;"),
    "tags of a page": lines(lambda at, text: f"<p>{log4j(at, text)}</p>"),
    "carriage returns alone": lines(log4j).replace("\n", "\r") + "\r",
    "a table that names its delimiter": "sep=;\nDate;Pod;Line\n"
    + lines(lambda at, text: f"{at:%Y-%m-%d %H:%M:%S};pay-1;{log4j(at, text)}"),
    "a table with names of its own": "ts,pod,msg\n"
    + lines(lambda at, text: f'{at:%Y-%m-%d %H:%M:%S},pay-1,"{log4j(at, text)}"'),
    "a list in YAML": yaml.safe_dump(
        [{"Log_s": text, "TimeGenerated": iso(at)} for at, text in EVENTS]
    ),
    **{f"console: {name}": text for name, (text, _) in CONSOLES.items()},
    **XML,
}


@pytest.mark.parametrize("form", FOLLOWED)
def test_followed_file_is_read_as_a_recording(form: str, live: Live, tmp_path: Path) -> None:
    (tmp_path / "replay").mkdir()
    wanted, _ = replay(FOLLOWED[form], tmp_path / "replay")

    live.append(FOLLOWED[form].encode() + b"\n")

    assert sorted(moves(live)[0]) == sorted(wanted) != []


@pytest.mark.parametrize("form", FOLLOWED)
def test_file_that_grows_in_pieces_is_read_as_a_recording(
    form: str, live: Live, tmp_path: Path
) -> None:
    """The first piece shows the form; the others break off within lines and records."""
    (tmp_path / "replay").mkdir()
    wanted, _ = replay(FOLLOWED[form], tmp_path / "replay")
    data = FOLLOWED[form].encode() + b"\n"

    live.append(data[: len(data) // 2])
    for start in range(len(data) // 2, len(data), 97):
        live.append(data[start : start + 97])

    assert sorted(moves(live)[0]) == sorted(wanted) != []


@pytest.mark.parametrize("form", FOLLOWED)
def test_form_is_known_after_a_restart(form: str, live: Live, tmp_path: Path) -> None:
    (tmp_path / "replay").mkdir()
    wanted, _ = replay(FOLLOWED[form], tmp_path / "replay")
    data = FOLLOWED[form].encode() + b"\n"

    cuts = [0, len(data) // 2, 3 * len(data) // 4, len(data)]
    for start, end in pairwise(cuts):
        live.append(data[start:end])
        live.restart()

    assert sorted(moves(live)[0]) == sorted(wanted) != []


def test_record_is_read_soon_after_it_was_written(live: Live) -> None:
    text = CONSOLES["pterm"][0].encode()
    live.append(text[: text.rindex(b"2026-")])
    before = len(live.signals)

    live.poll(2.5)

    assert len(live.signals) > before


def test_text_without_a_form_is_passed_on_as_it_is() -> None:
    data = lines(log4j).encode() * 100
    text, out = LiveText(), b""

    for start in range(0, len(data), 1000):
        out += text.feed(data[start : start + 1000])

    assert out + text.end() == data
    assert len(data) > 2 * WATCHED_BYTES
    assert text.held == 0
    assert text.state() == []


def test_endless_line_is_not_held() -> None:
    text, size = LiveText(), 0
    for _ in range(100):
        size += len(text.feed(b"x" * (1 << 16)))
        assert text.held <= 2 << 20

    assert size + len(text.end()) == 100 << 16


def test_rotated_file_keeps_its_form(live: Live) -> None:
    data = services.OF_ONE["CEF"].encode() + b"\n"
    cut = len(b"".join(data.splitlines(keepends=True)[:3]))
    live.append(data[:cut])
    live.path.rename(live.path.with_name("app.log.1"))
    live.path.write_bytes(b"")
    live.poll(6.0)

    live.append(b"a plain line\n" + data[cut:])

    assert moves(live)[0][-2:] == WANTED[-2:]


ARRAY = json.dumps([{"time": f"{at:%FT%TZ}", "message": text} for at, text in EVENTS], indent=2)
UNFOLLOWED = {
    "an array in a quotation": "".join(f"> {line}\n" for line in ARRAY.splitlines()),
    "an array in a fence": f"It fails:\n```json\n{ARRAY}\n```\n",
    "an array in a page": f"<html><body><pre>\n{ARRAY}\n</pre></body></html>\n",
    "numbers before compose's names": "".join(
        f"{n}: pay-1  | {line}\n" for n, line in enumerate(lines(log4j).splitlines(), 1)
    ),
    "100 columns": "".join(
        f"{line[start : start + 100]}\n"
        for line in lines(log4j).splitlines()
        for start in range(0, len(line), 100)
    ),
    "a table of psql": " ts | pod | message\n----+-----+---------\n"
    + "".join(f" {at:%F %T} | p-1 | {text}\n" for at, text in EVENTS),
    "a log as one string": json.dumps({"stdout": lines(log4j)}) + "\n",
}


@pytest.mark.parametrize("form", UNFOLLOWED)
def test_form_that_is_not_followed_is_warned_of(
    form: str, live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    live.append(UNFOLLOWED[form].encode())
    live.wait()

    found = [record for record in caplog.records if record.msg == "log_form_unfollowed"]
    assert [record.__dict__["path"] for record in found] == [str(live.path)]
    assert "replay" in found[0].__dict__["hint"]


@pytest.mark.parametrize("form", [*FOLLOWED, "a plain log"])
def test_form_that_is_followed_is_not_warned_of(
    form: str, live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    live.append(FOLLOWED.get(form, lines(log4j)).encode() + b"\n")
    live.wait()

    assert not [record for record in caplog.records if record.msg == "log_form_unfollowed"]


NO_ORDER = (
    '{{"level":"INFO","timestamp":"2026-11-20T13:20:0{}Z","logger":"kafkajs","message":'
    '"[ConsumerGroup] Consumer has joined the group","groupId":"pay","memberId":"c-{}"}}'
)


def test_export_of_an_unknown_order_is_warned_of(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [NO_ORDER.format(second, n) for second in (7, 6, 5, 4) for n in (1, 2)]
    live.append("\n".join(rows).encode() + b"\n")
    live.wait()

    found = [record for record in caplog.records if record.msg == "log_order_unknown"]
    assert len(found) == 1
    assert "newest entry first" in found[0].__dict__["hint"]


def test_log_of_one_second_that_grows_has_the_order_of_its_lines(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    live.append("\n".join(NO_ORDER.format(7, n) for n in (1, 2)).encode() + b"\n")
    live.wait()

    assert not [record for record in caplog.records if record.msg == "log_order_unknown"]
