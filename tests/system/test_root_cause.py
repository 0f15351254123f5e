"""The trigger of rebalances of real clients: with all clients observed, then each half of them."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.processes.driver import Driver
from aggregation.rebalances.causes import cause_of
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_rebalances
from metrics.model.sample import Sample, parse_time
from tests.system.stage import Stage

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

_MEMBERS = ("m1", "m2", "m3")
_QUICK = {"session.timeout.ms": "4000", "heartbeat.interval.ms": "500"}
# a client whose metadata is due keeps its leave back until its next poll
_SLOW = {"max.poll.interval.ms": "3000", "metadata.max.age.ms": "300000"}
_DEADLINE_S = 90.0


def _scene(stage: Stage, version: str, spool: Path) -> list[tuple[str, str, str]]:
    """Play it, and return certainty, status and client id of each rebalance as they were."""
    members = list[Driver]()
    for name, more in zip(_MEMBERS, ({}, {}, _SLOW), strict=True):
        properties = _QUICK | more
        members.append(
            stage.clients.consumer(version, name, stage.group, [stage.topic], properties)
        )
        for member in members:  # who asks for a rebalance within one asks for none
            member.wait_for("assigned")
    m1, m2, m3 = members
    played: list[tuple[str, str, str]] = []
    steps: list[tuple[Callable[[], object], list[tuple[str, str, str]]]] = [
        (
            partial(m2.do, "enforce new configuration"),
            [("seen", "UserRequested", "m2")],
        ),
        (
            partial(m3.do, "stall 6000"),
            [("seen", "DroppedGroup", "m3"), ("seen", "NewMember", "m3")],
        ),
        (m1.kill, [("inferred", "UnknownMember", "m1")]),
        (m2.close, [("seen", "UserRequested", "m2")]),
        (m3.close, [("seen", "UserRequested", "m3")]),
    ]
    for act, came in steps:
        act()
        played += came
        _wait_until_told(spool, stage.group, came)
    return played


def _wait_until_told(spool: Path, group: str, came: list[tuple[str, str, str]]) -> None:
    end_s = time.monotonic() + _DEADLINE_S
    while time.monotonic() < end_s:
        happened = _happened(spool, group)
        if _causes(happened)[-len(came) :] == came and not happened[-1]["is_open"]:
            return  # what is asked within a rebalance is of that rebalance
        time.sleep(0.5)


def _happened(spool: Path, group: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-P", "-m", "agent", "explain", group, "--from", str(spool)]
    done = subprocess.run([*command, "--output", "json"], capture_output=True, check=False)
    happened: list[dict[str, Any]] = json.loads(done.stdout)["happened"] if done.stdout else []
    return happened


def _causes(happened: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(each["certainty"], each["status"], each["client_id"]) for each in happened]


def _records(spool: Path) -> list[Sample]:
    lines = [line for path in spool.glob("*.jsonl") for line in path.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=Sample) for line in lines]


def test_the_one_who_began_it_is_named_and_nobody_else(stage: Stage, tmp_path: Path) -> None:
    spool = tmp_path / "agent" / "spool"
    played = _scene(stage, "4.3.0", spool)
    stage.agent.stop()

    got = _causes(_happened(spool, stage.group))

    assert got[-len(played) :] == played
    whole = explain_rebalances(_records(spool))
    for seen, part in _halves(_records(spool)):
        for each in part:
            _assert_no_wrong_name(each, whole, seen)


def _halves(records: list[Sample]) -> Iterator[tuple[tuple[str, ...], list[ExplainedRebalance]]]:
    alive_at = max(parse_time(record.ts) for record in records)
    for size in (1, 2):
        for seen in combinations(_MEMBERS, size):
            part = [record for record in records if record.client_id in seen]
            yield seen, explain_rebalances(part, lambda _: alive_at)


def _assert_no_wrong_name(
    part: ExplainedRebalance, whole: list[ExplainedRebalance], seen: tuple[str, ...]
) -> None:
    """Assert that a named trigger had a cause of its own or is the true one, else is unknown."""
    if part.trigger.member is None:
        return
    at = part.trigger.at
    same = [each for each in whole if each.round.started_at <= at <= each.round.ended_at]
    pieces = [piece for each in same for piece in each.round.segments]
    causes = {step.member for piece in pieces for step in piece.steps if cause_of(step)}
    assert part.trigger.member in causes | {each.trigger.member for each in same}, (seen, part)
