"""Lines that a search finds: in one pass for all clients, or in a pass for each expression."""

import os
from pathlib import Path

import pytest

from agent.sources.lines.dialects import line_finder
from agent.sources.lines.dialects.dialect_loader import choose_dialects, load_broker_dialects
from agent.sources.lines.dialects.dialect_matcher import DialectMatcher, Dialects
from agent.sources.lines.dialects.line_finder import (
    FamilyFinder,
    LineFinder,
    MarkFinder,
    MarkSearch,
)
from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser

if os.environ.get("CI") != "true":  # there a missing package is a failure
    pytest.importorskip("ahocorasick_rs")

_LOGS = sorted((Path(__file__).parents[4] / "golden" / "dialects").glob("*/input.log"))
_CLIENTS, _BROKERS = choose_dialects("auto"), Dialects(all=load_broker_dialects())
_AT = 1_900_000_000.0
_JAVA = b"2026-11-21 10:00:01,000 INFO [Consumer clientId=c, groupId=g] (Re-)joining group\n"
_WORKER = b"2026-11-21 10:00:02,000 INFO [Worker clientId=w, groupId=k] (Re-)joining group\n"
_PYTHON = (
    b"2026-11-21 10:00:03,000 INFO Successfully joined group p <Generation 1 (member_id: "
    b"m-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f, protocol: range)>\n"
)
_SARAMA = b"2026/11/21 10:00:04 consumergroup/session/m/1 heartbeat loop stopped\n"
_EVERYDAY = (
    b"INFO the consumer group payments reads topic orders, partition 3 of 6, from offset 4711\n"
    b"WARN a rebalance of the group took 3 s; consumers of the topic wait for their partitions\n"
    b"DEBUG generation of the report for client 5 failed: connection timed out, retrying\n"
    b'INFO {"topic": "orders", "partition": 3, "offset": 1, "consumer": "c", "state": "stable"}\n'
)


def _parser(*, is_single_pass: bool, monkeypatch: pytest.MonkeyPatch) -> LineParser:
    if not is_single_pass:
        monkeypatch.setattr(line_finder, "_mark_search", lambda _: None)
    return create_parser(_CLIENTS, ClientInterpreter(stream="s"), "UTC")


def _found(finder: LineFinder, block: bytes) -> list[bytes]:
    finder.begin(block, block.rfind(b"\n") + 1)
    lines, start = [], 0
    while (found := finder.find_next(start)) is not None:
        begin, end, *_ = found
        lines.append(block[begin:end])
        start = end + 1
    return lines


@pytest.mark.parametrize("log", _LOGS, ids=lambda path: path.parent.name)
def test_one_pass_reads_each_line_that_a_pass_for_each_expression_reads(log: Path) -> None:
    block = log.read_bytes()
    one, each = MarkFinder(MarkSearch(_CLIENTS.matchers)), FamilyFinder(_CLIENTS.matchers)
    shown = {m.anchor_after for m in _CLIENTS.matchers if m.anchor_after}
    for finder in (one, each):
        finder.choose(None, shown, is_merged=False)

    def read(lines: list[bytes]) -> list[bytes]:
        texts = [(line, line.decode("utf-8", "replace")) for line in lines]
        return [line for line, text in texts if any(m.read(text) for m in _CLIENTS.matchers)]

    wanted = read(_found(each, block))

    assert read(_found(one, block)) == wanted


def test_a_file_of_several_clients_is_read_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _JAVA + _WORKER + _PYTHON + _SARAMA
    names = []
    for is_single_pass in (True, False):
        parser = _parser(is_single_pass=is_single_pass, monkeypatch=monkeypatch)
        events = [line.event for line in parser.lines(log, _AT)]
        names.append([event.rule.dialect.split("-")[0] for event in events if event])

    assert names == [["java", "kafka", "kafka", "sarama"], ["java"]]


def test_pieces_of_a_file_are_found_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = _EVERYDAY + _JAVA + _EVERYDAY + _PYTHON + _WORKER
    whole = _parser(is_single_pass=True, monkeypatch=monkeypatch).feed(log, _AT)
    parser = _parser(is_single_pass=True, monkeypatch=monkeypatch)

    pieces = [s for byte in log for s in parser.feed(bytes([byte]), _AT)]

    assert pieces == whole != []


def test_a_line_that_names_a_java_client_is_no_other_clients() -> None:
    line = "INFO [Consumer clientId=c, groupId=g] Heartbeat poll expired, leaving group"
    block = f"{line}\n".encode()
    parser = create_parser(_CLIENTS, ClientInterpreter(stream="s"), "UTC")

    assert [parsed.event for parsed in parser.lines(block, _AT) if parsed.event] == []
    assert any(matcher.read(line) for matcher in _CLIENTS.matchers)


def test_no_everyday_line_is_found() -> None:
    marks = MarkSearch(_CLIENTS.matchers)

    assert marks.find(_EVERYDAY) == []


@pytest.mark.parametrize("matcher", [*_CLIENTS.matchers, *_BROKERS.matchers])
def test_a_mark_is_long_enough_for_the_search(matcher: DialectMatcher) -> None:
    """SIMD compares the first four bytes."""
    assert [mark for mark in matcher.marks if len(mark) < 4] == []


def test_dialects_with_the_same_anchor_have_the_same_marks() -> None:
    marks = dict[str, set[object]]()
    for dialect in (*_CLIENTS.all, *_BROKERS.all):
        for anchor in dialect.anchors:
            marks.setdefault(anchor, set()).add(dialect.marks)

    assert [anchor for anchor, each in marks.items() if len(each) > 1] == []


def test_a_mark_within_another_hides_no_matcher() -> None:
    search = MarkSearch(_CLIENTS.matchers)
    for number, matcher in enumerate(_CLIENTS.matchers):
        for mark in matcher.marks:
            for before in (m for other in _CLIENTS.matchers for m in other.marks):
                for overlap in range(1, min(len(before), len(mark)) + 1):
                    if not mark.startswith(before[-overlap:]):
                        continue
                    found = search.find(before + mark[overlap:])
                    shown = [search.shown_by[index] for index, _, _ in found]
                    assert any(bits >> number & 1 for bits in shown), (before, mark)


def test_a_line_of_marks_alone_is_one_line() -> None:
    finder = MarkFinder(MarkSearch(_CLIENTS.matchers))
    block = b"clientId=" * 100_000 + b"\n" + _JAVA

    assert _found(finder, block) == [_JAVA[:-1]]


def test_a_line_of_a_common_mark_alone_is_looked_at_once() -> None:
    finder = MarkFinder(MarkSearch(_CLIENTS.matchers))
    block = b"cGroup" * 100_000 + b"\n" + _PYTHON

    assert _found(finder, block) == [_PYTHON[:-1]]


@pytest.mark.parametrize("matcher", [m for m in _CLIENTS.matchers if m.search])
def test_a_mark_is_no_earlier_than_the_text_that_an_expression_finds(
    matcher: DialectMatcher,
) -> None:
    """The search passes over the marks before the next text that the expression finds."""
    for number, mark in enumerate(matcher.marks):
        anchor = matcher.anchors[min(number, len(matcher.anchors) - 1)].encode()
        is_behind = mark == b"clientId=" and anchor == b"Consumer "
        assert (
            is_behind
            or any(mark.startswith(anchor[at:]) for at in range(len(anchor)))
            or (mark in anchor)
        )
