"""Records of pino-pretty, as kafkajs prints them through it."""

import pytest

from agent.sources.lines.dialects.indented_fields import join_record
from tests.agent.sources.lines.spoken import ARRIVAL_AT, parser

MEMBER = "c1-445e0c93-ac89-4c7e-8d94-b2fd692a2dc4"
REJOINING = f"""\
[2026-11-27 00:23:13.206 +0000] INFO (17365): The group is rebalancing, re-joining
    logger: "kafkajs"
    groupId: "pretty"
    memberId: "{MEMBER}"
    error: "The group is rebalancing, so a rejoin is needed"
"""
JOINED = f"""\
[2026-11-27 00:23:13.369 +0000] INFO (17365): Consumer has joined the group
    logger: "kafkajs"
    groupId: "pretty"
    memberId: "{MEMBER}"
    leaderId: "{MEMBER}"
    isLeader: true
    memberAssignment: {{
      "orders": [
        0,
        2
      ]
    }}
    groupProtocol: "RoundRobinAssigner"
    duration: 163
"""
STOPPED = """\
[2026-11-27 00:23:43.858 +0000] INFO (17365): Stopped
    logger: "kafkajs"
    groupId: "pretty"
"""
ONE_LINE = f"""\
[2026-11-27 00:23:13.206 +0000] INFO (17365): The group is rebalancing, re-joining \
{{"logger":"kafkajs","groupId":"pretty","memberId":"{MEMBER}"}}
    error: "The group is rebalancing, so a rejoin is needed"
[2026-11-27 00:23:13.369 +0000] INFO (17365): Consumer has joined the group \
{{"logger":"kafkajs","groupId":"pretty","memberId":"{MEMBER}","leaderId":"{MEMBER}",\
"isLeader":true,"memberAssignment":{{"orders":[0,2]}}}}
[2026-11-27 00:23:43.858 +0000] INFO (17365): Stopped {{"logger":"kafkajs","groupId":"pretty"}}
"""
LOG = REJOINING + JOINED + STOPPED
COLOURED = (
    LOG.replace("INFO", "\x1b[32mINFO\x1b[39m")
    .replace("    groupId:", "    \x1b[35mgroupId\x1b[39m:")
    .replace("    memberId:", "    \x1b[35mmemberId\x1b[39m:")
)
WANTED = [("RAISE", 1, 13.206), ("SYNC", 0, 13.369), ("LEAVE", 0, 43.858)]
MINUTE_AT = 1_795_738_980


def prefixed(prefix: str, text: str = LOG) -> str:
    return "".join(prefix + line for line in text.splitlines(keepends=True))


def read(*pieces: bytes) -> list[tuple[str, int, float]]:
    reader = parser()
    found = [signal for piece in pieces for signal in reader.feed(piece, ARRIVAL_AT)]
    return [
        (each.kind.name, each.status, round(each.at - MINUTE_AT, 3))
        for each in found + reader.flush()
        if each.kind.name != "SEEN"
    ]


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(LOG, id="one field a line"),
        pytest.param(ONE_LINE, id="singleLine"),
        pytest.param(COLOURED, id="coloured"),
        pytest.param(LOG.replace("(17365)", "(orders/17365 on vm)"), id="name and host"),
        pytest.param(LOG.replace(" (17365)", ""), id="without the process"),
        pytest.param(LOG.replace('    logger: "kafkajs"\n', ""), id="without its logger"),
        pytest.param(prefixed("orders-1  | "), id="compose"),
        pytest.param(prefixed("2026-11-27T00:24:00.000000000Z stdout F "), id="CRI"),
        pytest.param(LOG.replace("\n", "\r\n"), id="line ends of Windows"),
    ],
)
def test_record_over_several_lines_is_read(log: str) -> None:
    assert read(log.encode()) == WANTED


def test_records_of_two_streams_may_interleave() -> None:
    lines = zip(
        prefixed("a-1  | ").splitlines(keepends=True),
        prefixed("b-1  | ", LOG.replace(MEMBER, MEMBER.replace("c1", "c2"))).splitlines(True),
        strict=True,
    )

    assert read("".join(a + b for a, b in lines).encode()) == [
        each for each in WANTED for _ in range(2)
    ]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_record_in_pieces_shows_the_same_rebalance(size: int) -> None:
    data = LOG.encode()

    found = read(*(data[at : at + size] for at in range(0, len(data), size)))

    assert list(dict.fromkeys(found)) == WANTED


def test_same_record_at_another_time_counts_twice() -> None:
    later = REJOINING.replace("13.206", "13.207")

    assert read((REJOINING + later).encode()) == [WANTED[0], ("RAISE", 1, 13.207)]


def test_record_that_is_delivered_twice_counts_once() -> None:
    assert read((REJOINING + REJOINING).encode()) == [WANTED[0]]


def test_partitions_of_a_record_are_read() -> None:
    reader = parser()

    found = reader.feed(JOINED.encode(), ARRIVAL_AT)

    assert [each.assigned for each in found if each.assigned] == [("orders-0", "orders-2")]


def test_field_below_another_line_is_no_record() -> None:
    assert read(b'Configuration:\n    groupId: "pretty"\n    error: "x"\n') == []


def test_field_that_is_no_json_is_left_out() -> None:
    lines = ["    err: {", '      "stack":', "          Error: x", "    }", '    groupId: "g"']

    assert join_record("INFO: Stopped", lines) == 'INFO: Stopped {"groupId":"g"}'
