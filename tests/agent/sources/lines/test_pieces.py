"""A growing file shows in pieces, and over restarts, what it shows as a whole."""

import json

import msgspec
import pytest

from agent.sources.lines.dialect_loader import choose_dialects
from agent.sources.lines.live_documents import LiveDocuments
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal

ARRIVAL_AT = 1_800_000_000.0
CLIENT = "[Consumer clientId=c, groupId=g]"
GENERATION = "Generation{generationId=8, memberId='c-1', protocol='range'}"
TEXTS = (
    f"{CLIENT} Request joining group due to: group is already rebalancing",
    f"{CLIENT} Successfully synced group in generation {GENERATION}",
    f"{CLIENT} Adding newly assigned partitions: t-0",
)
TIMES = ("2026-11-20T13:21:05", "2026-11-20T13:21:08", "2026-11-20T13:21:09")
ENTRIES = [
    {"timestamp": f"{at}.423Z", "jsonPayload": {"message": text}, "insertId": "1"}
    for at, text in zip(TIMES, TEXTS, strict=True)
]
# The message before the time, as gcloud sorts the names.
ARRAY = json.dumps(ENTRIES, indent=2, sort_keys=True).encode()
NEWEST_FIRST = json.dumps(ENTRIES[::-1], indent=2, sort_keys=True).encode()
YAML_NEWEST_FIRST = b"".join(
    f"---\ninsertId: '1'\ntextPayload: '{text.replace(chr(39), chr(39) * 2)}'\n"
    f"timestamp: '{at}.423Z'\n".encode()
    for at, text in zip(TIMES[::-1], TEXTS[::-1], strict=True)
)
TABLE_NEWEST_FIRST = b'"@timestamp","message","host"\n' + b"".join(
    f'"{at}.423Z","{text}","h"\n'.encode()
    for at, text in zip(TIMES[::-1], TEXTS[::-1], strict=True)
)
TWO_LINES = "".join(
    f"Nov 20, 2026 1:21:0{at[-1]} PM org.apache.kafka.clients.Coordinator log\nINFO: {text}\n"
    for at, text in zip(TIMES, TEXTS, strict=True)
).encode()
BEHIND_A_NAME = b"".join(b"app-1  | " + line for line in TWO_LINES.splitlines(keepends=True))


def create() -> LiveDocuments:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    return LiveDocuments(parser, "s", "UTC")


def read(text: bytes) -> list[Signal]:
    live = create()
    return live.feed(text, ARRIVAL_AT) + live.settle() + live.flush()


def read_restarted(text: bytes, cut: int) -> list[Signal]:
    """Read a file whose agent restarts once it has read some bytes."""
    live = create()
    found = live.feed(text[:cut], ARRIVAL_AT)
    begin, state = cut - live.pending, json.loads(msgspec.json.encode(live.state()))
    live = create()
    live.restore(state)
    return found + live.feed(text[begin:], ARRIVAL_AT) + live.settle() + live.flush()


@pytest.mark.parametrize("first", [b"[", b"[\n", b"[\n  "])
@pytest.mark.parametrize("is_settled", [False, True])
def test_bracket_that_a_program_writes_before_any_entry_begins_a_document(
    first: bytes, is_settled: bool
) -> None:
    live = create()
    found = live.feed(first, ARRIVAL_AT) + (live.settle() if is_settled else [])
    found += live.feed(ARRAY[len(first) :], ARRIVAL_AT) + live.settle() + live.flush()
    assert found == read(ARRAY)
    assert [round(signal.at - read(ARRAY)[0].at) for signal in found] == [0, 3, 4]


@pytest.mark.parametrize("text", [TWO_LINES, BEHIND_A_NAME])
def test_restart_between_the_line_with_the_time_and_its_message_keeps_the_time(text: bytes) -> None:
    whole = read(text)
    assert {signal.at for signal in whole} == {1795180865.0, 1795180868.0, 1795180869.0}
    ends = [place + 1 for place, byte in enumerate(text) if byte == ord("\n")]
    assert [read_restarted(text, end) for end in ends] == [whole] * len(ends)


@pytest.mark.parametrize("text", [NEWEST_FIRST, YAML_NEWEST_FIRST, TABLE_NEWEST_FIRST])
def test_restart_while_a_newest_first_document_is_held_reads_its_oldest_entry_first(
    text: bytes,
) -> None:
    cut = text.rindex(TEXTS[0][:40].encode())
    whole = read(text)
    assert [signal.at for signal in whole] == [1795180865.423, 1795180868.423, 1795180869.423]
    assert read_restarted(text, cut) == whole
