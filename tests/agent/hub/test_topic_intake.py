import asyncio
import random
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from agent.errors import SourceError
from agent.hub.topic_feed import TopicFeed
from agent.hub.topic_intake import TopicReceiver, TopicRecord
from metrics.model.sample import Sample, Scope, encode
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import raised, run

RECORDS = [
    msgspec.structs.replace(record, agent="host-1", seq=number)
    for number, record in enumerate(
        run(Tracker(StatusConfig()), *(raised(code, 10.0 + code) for code in range(1, 6))), 1
    )
]


def message(number: int, offset: int, partition: int = 0, spool: str = "s1") -> TopicRecord:
    line = encode(RECORDS[number - 1]).rstrip()
    return TopicRecord(partition=partition, offset=offset, spool=spool, line=line, at=15.0)


def taken(intake: TopicReceiver, *records: TopicRecord) -> list[int]:
    return [record.seq for record in intake.take_records(records, 20.0)]


def shown(intake: TopicReceiver, now: float = 20.0) -> list[int]:
    return [int(row.status) for row in intake.rows(Scope.CONSUMER, now)]


@pytest.fixture
def intake() -> TopicReceiver:
    intake = TopicReceiver(StatusConfig())
    intake.health.up = True
    return intake


def test_records_are_taken_in_order_and_shown(intake: TopicReceiver) -> None:
    assert taken(intake, *(message(n, n + 6) for n in range(1, 6))) == [1, 2, 3, 4, 5]
    assert shown(intake) == [5]
    assert intake.offsets == {0: 12}


def test_what_an_agent_sent_again_is_not_taken_again(intake: TopicReceiver) -> None:
    assert taken(intake, *(message(n, o) for o, n in enumerate((1, 2, 1, 2, 3)))) == [1, 2, 3]
    assert intake.offsets == {0: 5}


def test_partitions_and_spools_are_counted_apart(intake: TopicReceiver) -> None:
    assert taken(intake, message(5, 0), message(1, 0, partition=1)) == [5, 1]
    assert taken(intake, message(2, 1, spool="s2")) == [2]


def of_clone(number: int, offset: int, agent: str = "host-1") -> TopicRecord:
    """Return a record that another agent writes with the same spool's id and number."""
    record = msgspec.structs.replace(
        RECORDS[number - 1], agent=agent, id=f"clone-{number}", client_id="c2", episode="clone"
    )
    return message(number, offset)._replace(line=encode(record).rstrip())


@pytest.mark.parametrize("agent", ["host-1", "host-2"])
def test_copied_spool_loses_no_record(intake: TopicReceiver, agent: str) -> None:
    """A volume was cloned: both agents go on with the same id and the same numbers."""
    ours = [message(n, n) for n in (1, 2, 4)]
    theirs = [of_clone(n, 10 + n, agent) for n in (3, 4, 5)]

    assert taken(intake, *ours) == [1, 2, 4]
    assert taken(intake, *theirs) == [3, 4, 5]
    assert taken(intake, message(5, 20)) == [5]
    assert shown(intake) == [5, 5]


@pytest.mark.parametrize("agent", ["host-1", "host-2"])
def test_copied_spools_records_are_not_taken_again(intake: TopicReceiver, agent: str) -> None:
    ours = [message(n, n) for n in (1, 2, 3, 4)]
    theirs = [of_clone(n, 10 + n, agent) for n in (3, 4)]
    taken(intake, *ours, *theirs)

    assert taken(intake, *theirs, *ours) == []
    assert taken(intake, *(message(n, n) for n in (2, 3)), of_clone(3, 30, agent)) == []


def test_copy_of_an_older_spool_loses_no_record_after_a_restart(intake: TopicReceiver) -> None:
    taken(intake, *(message(n, n) for n in (1, 2, 3, 4)))
    saved = msgspec.json.decode(msgspec.json.encode(intake.checkpoint()))
    again = TopicReceiver(StatusConfig(), saved)

    assert taken(again, of_clone(1, 5, "host-2"), message(4, 6), message(5, 7)) == [1, 5]


def test_known_ids_are_bounded(intake: TopicReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.hub.topic_intake._KNOWN_IDS", 2)
    taken(intake, *(message(n, n) for n in (1, 2, 3, 4)))

    assert taken(intake, message(1, 5), of_clone(2, 6)) == []  # their ids are forgotten
    assert taken(intake, of_clone(3, 7)) == [3]


def test_ids_for_pushes_are_not_kept(intake: TopicReceiver) -> None:
    """One was kept of every batch, for ever."""
    for number in range(1, 6):
        taken(intake, message(number, number))

    assert intake._ids == {}


def test_copy_is_counted(intake: TopicReceiver) -> None:
    taken(intake, message(1, 1), message(2, 2), message(1, 3))
    assert "spool_copied" not in intake.health.errors
    taken(intake, of_clone(2, 4))

    assert intake.health.errors["spool_copied"] == 1


def test_checkpoint_holds_what_was_applied(intake: TopicReceiver) -> None:
    taken(intake, *(message(n, n) for n in range(1, 4)))
    assert intake.unsaved == 3
    saved = msgspec.json.decode(msgspec.json.encode(intake.checkpoint()))
    again = TopicReceiver(StatusConfig(), saved)
    again.health.up = True

    assert (intake.unsaved, again.offsets) == (0, {0: 4})
    assert taken(again, message(3, 3), message(4, 4)) == [4]
    assert shown(again) == [4]


def test_nothing_is_shown_until_all_is_read(intake: TopicReceiver) -> None:
    intake.health.up = False
    taken(intake, message(1, 1))
    assert shown(intake) == []
    intake.health.up = True

    assert shown(intake) == [1]


def test_agent_of_old_records_is_no_agent_that_lives(intake: TopicReceiver) -> None:
    intake.health.up = False
    intake.take_records([message(1, 1)], now=1000.0)
    intake.health.up = True
    assert shown(intake, 1000.0) == []
    intake.take_records([message(2, 2)], now=1000.0)

    assert shown(intake, 1000.0) == [2]


def test_a_long_name_of_a_spool_is_clipped(intake: TopicReceiver) -> None:
    """A header may have a MiB, and 10,000 spools are kept in memory and in the checkpoint."""
    taken(intake, message(1, 1, spool="s" * 1_000_000), message(2, 2, spool="s" * 1_000_001))

    assert len(intake.checkpoint()["seqs"]) == 2
    assert len(msgspec.json.encode(intake.checkpoint())) < 100_000


def test_a_message_is_one_record_whatever_ends_of_lines_it_has(intake: TopicReceiver) -> None:
    first, second = message(1, 1), message(2, 2)
    spread = first._replace(line=first.line.replace(b",", b",\r\n"))
    doubled = second._replace(line=second.line + b"\n" + second.line)

    assert taken(intake, spread, doubled) == [1]
    assert intake.health.unparsed == 1


@pytest.mark.parametrize("seed", range(3))
def test_hostile_messages_neither_end_the_intake_nor_hide_a_record(seed: int) -> None:
    """Values, headers and times that a broken producer may write; the truth is this test's own."""
    dice, intake = random.Random(seed), TopicReceiver(StatusConfig())
    intake.health.up = True
    lines = (
        b"",
        b"\0",
        b"null",
        b"[" * 9_999,
        b"\xff",
        b'{"seq":1}',
        b'{"agent":7}',
        b"x" * 70_000,
    )
    times = (-0.001, 0.0, 15.0, 4e9, 9e15)
    expected = list[int]()
    for number in range(1, 6):
        hostile = [
            message(number, dice.randrange(1 << 62))._replace(
                line=mutated(dice, number, lines), at=dice.choice(times), spool=dice.choice("st")
            )
            for _ in range(300)
        ]
        for records in (hostile[:150], [message(number, number, partition=3)], hostile[150:]):
            found = taken(intake, *records)
            expected += found if records[0].partition == 3 else []
        restored = msgspec.json.decode(msgspec.json.encode(intake.checkpoint()))
        assert TopicReceiver(StatusConfig(), restored).health.damaged == []
        assert intake.rows(Scope.CONSUMER, 20.0)

    assert expected == [1, 2, 3, 4, 5]


def mutated(dice: random.Random, number: int, others: Sequence[bytes]) -> bytes:
    """Return the line of a record with another value of some field, or no record."""
    if dice.random() < 0.3:
        return dice.choice(others)
    record = msgspec.json.decode(encode(RECORDS[number - 1]))
    values: Sequence[object] = (
        None,
        True,
        -1,
        2**63,
        1e300,
        "",
        "9999-12-31T23:59:59Z",
        "x" * 999,
        [],
        {"a": 1},
    )
    for _ in range(dice.choice((1, 1, 3))):
        record[dice.choice(list(record))] = dice.choice(values)
    return msgspec.json.encode(record)


def test_message_that_is_no_record_is_counted(intake: TopicReceiver) -> None:
    odd = TopicRecord(partition=0, offset=1, spool="", line=b"{", at=0.0)
    empty = [odd._replace(offset=offset, line=b"") for offset in (2, 3, 4)]

    assert taken(intake, message(1, 0), odd, *empty, message(2, 5)) == [1, 2]
    assert (intake.health.unparsed, intake.offsets) == (4, {0: 6})


class Script:
    """Scripted readers: batches, then a fault."""

    loop: asyncio.AbstractEventLoop

    def __init__(self, *readers: Sequence[list[TopicRecord]]) -> None:
        self.left = [list(batches) for batches in readers]
        self.done = asyncio.Event()
        self.opened: list[dict[int, int]] = []
        self.closed = 0
        self.at_end = True

    def open(self, offsets: Mapping[int, int]) -> "Script":
        self.opened.append(dict(offsets))
        if not self.left:
            self.loop.call_soon_threadsafe(self.done.set)
            raise SourceError("topic 't': gone")
        return self

    def has_grown(self) -> bool:
        return False

    def take_unread(self) -> Mapping[str, int]:
        return {}

    def read(self) -> list[TopicRecord]:
        if not self.left[0]:
            del self.left[0]
            raise SourceError("topic 't': brokers are down")
        return self.left[0].pop(0)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.slow
def test_feed_begins_again_where_it_was_and_tells_once(
    intake: TopicReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("agent.hub.topic_feed._RETRY_S", 0.0)
    caplog.set_level("INFO")
    script = Script([[message(1, 0)], [message(2, 1)]], [[message(3, 2)]])
    found = list[Sample]()
    feed = TopicFeed("t", script.open, lambda: intake, found.extend, lambda: 20.0)

    async def play() -> None:
        script.loop = asyncio.get_running_loop()
        task = asyncio.create_task(feed.run())
        await script.done.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(play())

    assert [record.seq for record in found] == [1, 2, 3]
    assert script.opened[:3] == [{}, {0: 2}, {0: 3}]
    assert script.closed == 2
    assert [r.message for r in caplog.records] == [
        "kafka_unreachable",
        "kafka_reachable",
        "kafka_unreachable",
    ]
    assert not intake.health.up
