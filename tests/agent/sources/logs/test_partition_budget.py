"""Partitions and other lists of a log are bounded over all its clients."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.sources.lines.parsing.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.config import LogConfig
from agent.sources.logs.partition_budget import NAMED_MAX, PartitionBudget
from agent.sources.logs.source import LogSource
from metrics.model.signals import Signal
from tests.agent.sources.lines.spoken import ARRIVAL_AT, DIALECTS, JOINING, log, says, synced


def reads(client: str, *partitions: str) -> list[str]:
    names = ", ".join(partitions)
    lines = (JOINING, synced(1), f"Adding newly assigned partitions: {names}")
    return [says(line, client) for line in lines]


def many(number: int) -> list[str]:
    return [f"topic-{each}" for each in range(number)]


def parser(budget: PartitionBudget, stream: str = "a.log") -> LineParser:
    return create_parser(DIALECTS, ClientInterpreter(stream=stream, budget=budget))


def assigned(signals: Sequence[Signal]) -> list[int]:
    return [len(signal.assigned) for signal in signals if signal.assigned is not None]


def test_a_client_with_too_many_partitions_has_none_that_are_known() -> None:
    budget = PartitionBudget()
    reader = parser(budget)

    found = reader.feed(log(*reads("c", *many(NAMED_MAX))), ARRIVAL_AT)
    found += reader.feed(log(*reads("d", *many(NAMED_MAX + 1))), ARRIVAL_AT)
    found += reader.feed(log(*reads("d", "topic-1")), ARRIVAL_AT)

    assert assigned(found) == [NAMED_MAX, 1]
    assert budget.forgotten == 1


def test_all_clients_of_all_streams_share_a_bound() -> None:
    budget = PartitionBudget(limit_chars=len("".join(many(100))) * 3)
    readers = [parser(budget, stream) for stream in ("a.log", "b.log")]

    found = [
        readers[number % 2].feed(log(*reads(f"c{number}", *many(100))), ARRIVAL_AT)
        for number in range(5)
    ]

    assert list(map(assigned, found)) == [[100], [100], [100], [], []]
    assert budget.forgotten == 2
    readers[0].flush()
    assert assigned(readers[1].feed(log(*reads("c6", *many(100))), ARRIVAL_AT)) == [100]


def test_what_a_stream_has_counts_once_after_a_restart_and_nothing_after_its_clients_went() -> None:
    budget = PartitionBudget(limit_chars=len("".join(many(100))))
    first, again = parser(budget), parser(budget)
    lines = reads("s-StreamThread-1-consumer", *many(100))
    first.feed(log(*lines), ARRIVAL_AT)

    again.restore(json.loads(json.dumps(first.state())))

    assert not budget.is_exceeded
    returned = [line.replace("groupId=g", "groupId=h") for line in lines]
    assert assigned(again.feed(log(*returned), ARRIVAL_AT)) == [100]


@pytest.mark.parametrize(
    "line",
    [
        "Subscribed to topic(s): {}",
        "Notifying assignor about the new Assignment(partitions=[{}])",
        "Request joining group due to: {}",
    ],
)
def test_of_long_lists_little_is_kept(line: str) -> None:
    reader = parser(PartitionBudget())
    long = ", ".join(many(20_000))

    reader.feed(log(*reads("c", "t-0")[:2], says(line.format(long), "c")), ARRIVAL_AT)
    reader.feed(log(says(JOINING, "c"), says(line.format(long), "c")), ARRIVAL_AT)

    assert len(json.dumps(reader.state())) < 10_000


def test_forgotten_partitions_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(log(*reads("c", *many(NAMED_MAX + 1))))
    source = LogSource(LogConfig(paths=(str(path),)), timezone="UTC")

    source.step(lambda _: None, lambda *_: None)
    for tail in source._tails.values():
        tail.follower.close()

    assert source.health.errors["partitions_forgotten"] == 1
