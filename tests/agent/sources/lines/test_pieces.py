"""A growing file shows in pieces, and over restarts, what it shows as a whole."""

import json

import msgspec
import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal, SignalKind

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


_NODE = "c-1-11111111-2222-3333-4444-555555555555"
_JOINED = "[ConsumerGroup] Consumer has joined the group"
_FIELDS = (
    ("groupId", '"kafkajs-g"'),
    ("memberId", f'"{_NODE}"'),
    ("leaderId", f'"{_NODE}"'),
    ("isLeader", "true"),
    ("memberAssignment", '{"t": [0]}'),
    ("groupProtocol", '"RoundRobinAssigner"'),
    ("duration", "12"),
)
_OF_NODE = ((_JOINED, _FIELDS), ("[Runner] The group is rebalancing, re-joining", (
    *_FIELDS[:2], ("error", '"The group is rebalancing, so a rejoin is needed"'),
)), (_JOINED, _FIELDS))  # fmt: skip
RECORDS = {
    "pino-pretty": "".join(
        f"[{at.replace('T', ' ')}.423] INFO (7): {message}\n"
        + "".join(f"    {name}: {value}\n" for name, value in fields)
        for at, (message, fields) in zip(TIMES, _OF_NODE, strict=True)
    ).encode(),
    "console.log": "".join(
        f"{at}.423Z {message} {{\n"
        + ",\n".join(f"  {name}: {value.replace(chr(34), chr(39))}" for name, value in fields)
        + "\n}\n"
        for at, (message, fields) in zip(TIMES, _OF_NODE, strict=True)
    ).encode(),
}


def create() -> LiveDocuments:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="s"), "UTC")
    return LiveDocuments(parser, "s", "UTC")


def read(text: bytes) -> list[Signal]:
    live = create()
    return live.feed(text, ARRIVAL_AT) + live.settle() + live.flush()


def _moves(signals: list[Signal]) -> list[tuple[str, int, str | None]]:
    """Return the events; one that follows itself is the same one, of which more was read."""
    found = [
        (each.kind.value, int(each.status), each.member.client_id)
        for each in signals
        if each.kind is not SignalKind.SEEN
    ]
    return [each for at, each in enumerate(found) if not at or each != found[at - 1]]


@pytest.mark.parametrize("name", RECORDS)
def test_restart_within_a_record_over_several_lines_loses_nothing(name: str) -> None:
    text = RECORDS[name]
    whole, cuts = _moves(read(text)), range(1, len(text), 29)
    assert [code for kind, code, _ in whole if kind == "raise"] == [1]

    assert [_moves(read_restarted(text, cut)) for cut in cuts] == [whole] * len(cuts)


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


@pytest.mark.parametrize("head", ["", '"Created","Instance","Entry"\n'])
@pytest.mark.parametrize("rest", range(1, 200, 20))
def test_half_a_row_behind_the_first_rows_of_a_table_hides_no_column(head: str, rest: int) -> None:
    rows = [
        f'"{at}.423Z","pay-7d9f8b6c5-{pod}","{at.replace("T", " ")},423 INFO {text}"\n'
        for at, text in zip(TIMES, TEXTS, strict=True)
        for pod in ("x2x9z", "k4m7q")
    ]
    text = (head + "".join(rows)).encode()
    hosts = [signal.member.host for signal in read(text)]
    assert hosts.count("pay-7d9f8b6c5-x2x9z") == hosts.count("pay-7d9f8b6c5-k4m7q") == 3
    for whole in (0, len(rows[0]), len(rows[0] + rows[1])):
        assert read_in_two(text, len(head) + whole + rest) == read(text)


@pytest.mark.parametrize("cut", range(1, 40))
def test_first_bytes_of_ruby_s_object_are_not_taken_for_json(cut: int) -> None:
    text = "".join(
        f'{{\n    "@timestamp" => {at}.423Z,\n       "message" => "{text}"\n}}\n'
        for at, text in zip(TIMES, TEXTS, strict=True)
    ).encode()
    assert [signal.at for signal in read(text)] == [1795180865.423, 1795180868.423, 1795180869.423]
    assert read_in_two(text, cut) == read(text)


def read_in_two(text: bytes, cut: int) -> list[Signal]:
    live = create()
    found = live.feed(text[:cut], ARRIVAL_AT) + live.feed(text[cut:], ARRIVAL_AT)
    return found + live.settle() + live.flush()


@pytest.mark.parametrize("text", [NEWEST_FIRST, YAML_NEWEST_FIRST, TABLE_NEWEST_FIRST])
def test_newest_first_document_that_is_written_in_two_parts_is_read_from_its_oldest_entry(
    text: bytes,
) -> None:
    whole = read(text)
    wrong = [cut for cut in range(1, len(text)) if read_in_two(text, cut) != whole]
    assert wrong == []


def test_first_entry_of_a_growing_document_waits_for_the_next_one() -> None:
    live = create()
    begin = ARRAY.index(b"},\n  {") + 2
    assert live.feed(ARRAY[:begin], ARRIVAL_AT) == []
    assert live.settles_after_s == 2.0
    assert len(live.feed(ARRAY[begin:], ARRIVAL_AT)) == 3


@pytest.mark.parametrize("cut", range(38, 60))
def test_first_bytes_of_a_verbose_journal_are_not_read_as_lines(cut: int) -> None:
    text = "".join(
        f"Fri {at.replace('T', ' ')}.423000 UTC [s=1;i=2]\n    _HOSTNAME=p-1\n    MESSAGE={text}\n"
        for at, text in zip(TIMES, TEXTS, strict=True)
    ).encode()
    assert [signal.at for signal in read(text)] == [1795180865.423, 1795180868.423, 1795180869.423]
    assert read_in_two(text, cut) == read(text)
