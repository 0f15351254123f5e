"""Every dialect against logs that were recorded from its real clients; `--update-golden` writes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.sources.lines.dialects.dialect_loader import (
    choose_dialects,
    list_codes,
    load_client_dialects,
)
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import FollowUp, Signal, SignalKind
from metrics.model.status import RebalanceStatus
from tests.agent.sources.lines import layouts
from tests.system.corpus.scenes import SCENES

_GOLDEN = Path(__file__).parents[3] / "golden" / "dialects"
_PLANS = Path(__file__).parents[3] / "system" / "corpus" / "versions.yaml"
_FOLDERS = sorted(path.parent for path in _GOLDEN.glob("*/input.log"))
_DIALECTS = choose_dialects("auto")
_ARRIVAL_AT = 1_900_000_000.0
_READ_IN_THE_SOURCE_ALONE = {
    ("aiokafka-0.8-0.14", 4),
    ("brod-3-4", 4),
    ("brod-3-4", 8),
    ("brod-3-4-below", 4),
    ("brod-3-4-below", 8),
    ("java-consumer-0.10-0.11", 1),
    ("java-consumer-0.10-0.11", 4),
    ("java-consumer-2.6-failures", 3),
    ("java-consumer-2.6-failures", 4),
    ("franz-go-kip848-1.19-1.22", 4),
    ("kafka-connect-2.0-2.6", 1),
    ("kafka-connect-2.0-2.6", 4),
    ("kafka-connect-2.0-2.6", 5),
    ("kafka-connect-2.0-2.6", 9),
    ("kafka-go-0.4", 1),
    ("kafka-go-0.4", 4),
    ("kafka-go-0.4", 9),
    ("kafkajs-1-2", 4),
    ("ruby-kafka-1", 1),
    ("ruby-kafka-1", 4),
    ("ruby-kafka-1", 6),
    ("ruby-kafka-1", 9),
    ("java-consumer-2.5", 3),  # by a failed join; a heartbeat's is recorded
    ("java-consumer-2.5", 4),
    ("java-consumer-2.6", 3),  # by a SyncGroup; a heartbeat's is recorded
    ("java-consumer-2.6", 4),
    ("kafka-connect-3.0-4.3", 1),
    ("kafka-connect-3.0-4.3", 4),
    ("kafka-connect-3.0-4.3", 5),
    ("kafka-connect-3.0-4.3", 7),  # its lines are not kept; a unit test reads them
    ("kafka-connect-3.0-4.3", 9),
    ("kafka-python-2.2-3.0", 4),
    ("kafka-python-2.2-3.0", 9),
    ("kafka-python-2.2-3.0", 10),
}
"""Codes of rules that no recorded client printed: its injected fault, or its timing, is wanting."""

_NOT_OF_THE_LAB = {
    "brod-3-4",
    "brod-3-4-below",
    "franz-go-kip848-1.19-1.22",
    "java-client-closed",
    "java-consumer-0.10-0.11",
    "java-consumer-2.6-failures",
    "java-consumer-exceptions-2.8-4.3",
    "java-consumer-targets-3.9-4.3",
    "kafka-go-0.4",
    "kafka-python-1.4-2.1",
    "kafkajs-1-2",
    "librdkafka-errors",
    "ruby-kafka-1",
}
"""Dialects with logs of clients that `make corpus` does not run: the README names the run."""

_IN_A_COLLECTORS_LAYOUT = {"ruby-kafka-1"}

Row = dict[str, Any]


def _dialect_of(recording: str) -> str:
    """Return the dialect of a recording; a further one has its version behind ``@``."""
    return recording.partition("@")[0]


def _log(folder: Path) -> bytes:
    return (folder / "input.log").read_bytes()


def _parser() -> LineParser:
    return create_parser(_DIALECTS, ClientInterpreter(stream="input.log"), "UTC")


def _read(data: bytes, piece_bytes: int = 1 << 20) -> list[Signal]:
    parser = _parser()
    pieces = (data[start : start + piece_bytes] for start in range(0, len(data), piece_bytes))
    found = [s for piece in pieces for s in parser.feed(piece, _ARRIVAL_AT)] + parser.flush()
    return [signal for signal in found if signal.assigned is None]  # these move no status


def _rows(signals: list[Signal]) -> Iterator[Row]:
    for signal in signals:
        yield {
            "at": round(signal.at, 3),
            "kind": signal.kind.value,
            "group": signal.member.group,
            "client_id": signal.member.client_id,
            "status": signal.status.label,
            "follow_up": _label(signal.follow_up),
            "generation": signal.generation,
            "reason": signal.reason,
        } | _beyond_classic(signal)


def _beyond_classic(signal: Signal) -> Row:
    extra: Row = {}
    if signal.member.group_type != "classic":
        extra["group_type"] = signal.member.group_type
    if signal.streams_follow_up is not None:
        extra["streams_follow_up"] = _label(signal.streams_follow_up)
        extra["due_at"] = signal.streams_follow_up.due_at
    return extra


def _label(follow_up: FollowUp | None) -> str | None:
    return None if follow_up is None else follow_up.status.label


def _shown(signals: list[Signal]) -> set[RebalanceStatus]:
    follow_ups = [f for s in signals for f in (s.follow_up, s.streams_follow_up) if f is not None]
    left = {RebalanceStatus.USER_REQUESTED for s in signals if s.kind is SignalKind.LEAVE}
    return {s.status for s in signals if s.status} | {f.status for f in follow_ups} | left


def _is_guest(signal: Signal, names: str | None) -> bool:
    """Tell whether a client of another dialect says so: Connect's sinks are consumers."""
    return names is not None and signal.member.client_id.startswith(names)


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda folder: folder.name)
class TestDialectContract:
    """What holds for every dialect; a new folder is found by itself."""

    def test_the_recorded_clients_are_read_as_they_acted(
        self, folder: Path, request: pytest.FixtureRequest
    ) -> None:
        expected = folder / "expected.jsonl"
        rows = list(_rows(_read(_log(folder))))

        if request.config.getoption("--update-golden"):
            expected.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))

        assert rows == [json.loads(line) for line in expected.read_text().splitlines()]

    def test_pieces_change_nothing(self, folder: Path) -> None:
        data = _log(folder)

        assert _read(data, piece_bytes=997) == _read(data)

    def test_a_thread_behind_the_class_changes_nothing(self, folder: Path) -> None:
        assert _read(layouts.as_strimzi(_log(folder))) == _read(_log(folder))

    @pytest.mark.parametrize("shift", layouts.BEHIND_SHIFTS)
    def test_what_a_layout_puts_behind_changes_no_more_than_a_reasons_end(
        self, folder: Path, shift: int
    ) -> None:
        found, wanted = _read(layouts.with_behind(_log(folder), shift)), _read(_log(folder))

        layouts.assert_same_but_for_the_ends_of_reasons(found, wanted)

    @pytest.mark.parametrize("name", layouts.LAYOUTS)
    def test_another_layout_changes_no_more_than_a_reasons_end(
        self, folder: Path, name: str
    ) -> None:
        found, wanted = _read(layouts.in_layout(_log(folder), name)), _read(_log(folder))

        layouts.assert_same_but_for_the_ends_of_reasons(found, wanted)

    @pytest.mark.parametrize("name", layouts.COLLECTORS)
    def test_what_a_collector_writes_around_lines_changes_nothing(
        self, folder: Path, name: str
    ) -> None:
        if folder.name in _IN_A_COLLECTORS_LAYOUT:
            pytest.skip("the recording is in a collector's layout itself")
        found, wanted = _read(layouts.as_collected(_log(folder), name)), _read(_log(folder))

        assert list(_rows(found)) == list(_rows(wanted))

    def test_a_request_behind_the_lines_changes_nothing(self, folder: Path) -> None:
        if not folder.name.startswith(("kafka-go", "librdkafka")):
            pytest.skip("its client does not log through .NET, or as kafka-go does")
        found, wanted = _read(layouts.as_nlog(_log(folder))), _read(_log(folder))

        assert list(_rows(found)) == list(_rows(wanted))

    def test_junk_between_the_lines_changes_nothing(self, folder: Path) -> None:
        junk = b"\n\xff\xfe\x00 [Consumer clientId=, roup \xe6\x97\n{\n"

        assert _read(_log(folder).replace(b"\n", junk)) == _read(_log(folder))

    def test_the_recording_says_how_it_was_made(self, folder: Path) -> None:
        assert (folder / "README.md").read_text().startswith("# ")

    def test_no_code_is_shown_that_the_dialect_does_not_own_to(self, folder: Path) -> None:
        known = load_client_dialects()
        dialect = next(dialect for dialect in known if dialect.name == _dialect_of(folder.name))

        own = [s for s in _read(_log(folder)) if not _is_guest(s, dialect.guests)]

        assert _shown(own) <= list_codes(dialect, known)


def test_every_code_of_a_dialect_was_recorded_but_these() -> None:
    """So the table of `dialects` is what clients were seen to print, not what was hoped for."""
    lines = [line for folder in _FOLDERS for line in _parser().lines(_log(folder), _ARRIVAL_AT)]
    seen = {
        (rule.dialect, int(rule.visible_status))
        for rule in (line.event.rule for line in lines if line.event)
    }

    owned = {
        (rule.dialect, int(rule.visible_status))
        for d in load_client_dialects()
        for rule in d.rules
        if rule.visible_status
    }

    assert owned - seen == _READ_IN_THE_SOURCE_ALONE


def test_every_recording_can_be_made_again() -> None:
    plans = yaml.safe_load(_PLANS.read_text())

    dialects = {dialect.name for dialect in load_client_dialects()}
    assert set(map(_dialect_of, plans)) == dialects - _NOT_OF_THE_LAB
    scenes = {take.split()[1] for plan in plans.values() for take in plan["takes"]}
    assert scenes == set(SCENES)


def test_every_dialect_is_recorded() -> None:
    assert {_dialect_of(folder.name) for folder in _FOLDERS} == {
        dialect.name for dialect in load_client_dialects()
    }


def test_a_connect_log_whose_first_line_is_a_sinks_shows_sinks_and_worker() -> None:
    data = _log(_GOLDEN / "kafka-connect-3.0-4.3")
    group = b"groupId=connect-letters] Request joining"
    start = data.rindex(b"\n", 0, data.index(group)) + 1

    seen = {signal.member.client_id for signal in _read(data[start:])}

    assert {"c1", "connector-consumer-letters-0", "connector-consumer-letters-1"} <= seen
