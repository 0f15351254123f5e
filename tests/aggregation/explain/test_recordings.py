"""Root causes in the logs of real clients of every kind: of all members, and of some of them.

The README of a recording describes it; a person derived the expected results from it.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from agent.runtime.replay import replay
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.ordering import order_by_time
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from aggregation.rebalances.causes import cause_of
from aggregation.rebalances.clock_steps import correct_clock_steps
from aggregation.rebalances.identities import unify_identities
from aggregation.rebalances.rebalances import ExplainedRebalance, explain_rebalances
from metrics.model.sample import Sample, Scope
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

_GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
_RECORDINGS = sorted(path.parent.name for path in _GOLDEN.glob("*/input.log"))
_ARRIVAL_AT = 1_900_000_000.0
_MUCH_LATER_AT = _ARRIVAL_AT


@cache
def _groups(recording: str) -> dict[str, list[Sample]]:
    """Return the records of each group of a recording."""
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="input.log"), "UTC")
    data = (_GOLDEN / recording / "input.log").read_bytes()
    groups = defaultdict[str, list[Sample]](list)
    for record in replay([order_by_time(parser, [(data, _ARRIVAL_AT)])], Tracker(StatusConfig())):
        groups[record.group].append(record)
    return groups


def _story(episodes: list[ExplainedRebalance]) -> list[str]:
    return [
        " ".join(
            (
                each.trigger.certainty,
                "-" if each.trigger.code is None else each.trigger.code.label,
                "-" if each.trigger.member is None else each.trigger.member.client_id,
                *(f"{went.member.client_id}:{went.kind}" for went in each.departures),
            )
        )
        for each in episodes
    ]


@pytest.mark.parametrize(
    ("recording", "group", "story"),
    [
        (
            "java-consumer-3.0-4.3",
            "g-classic-4.3.0",
            [
                "seen NewMember m1",
                "seen NewMember m2",
                "seen DroppedGroup m1 m1:dropped",  # it stalls,
                "seen NewMember m1",  # and is back
                "inferred UnknownMember m1 m1:expired",  # SIGSTOP,
                "seen UnknownMember m1",  # SIGCONT
                "seen SubscriptionChanged m2",
                "seen MetadataChanged m2",  # more partitions
                "seen UserRequested m2 m2:rollout",  # it unsubscribes,
                "seen NewMember m2",  # and subscribes again,
                "seen MetadataChanged m2",  # to other topics than the leader knew
                "seen UserRequested m2 m2:stop",
                "seen UserRequested m1 m1:stop",
            ],
        ),
        (
            "java-consumer-3.0-4.3",
            "g-enforce-3.2.3",
            [
                "seen NewMember m1",
                "seen NewMember m2",
                "seen UserRequested m1",
                "seen UserRequested m2 m2:stop",
                "seen UserRequested m1 m1:stop",
            ],
        ),
        (
            "java-consumer-2.5",
            "g-stale-2.5.1",
            [
                "inferred NewMember m1",  # static: no line of it
                "seen NewMember m2",
                *["seen SubscriptionChanged m2"] * 5,
                "seen UserRequested m2 m2:scale-down",
            ],
        ),
        (
            "java-share-consumer-4.0-4.3",
            "g-share-4.1.0",
            [
                "seen NewMember m1",
                "seen NewMember m2",
                "seen DroppedGroup m1 m1:dropped",
                "seen DroppedGroup m1",
                "seen SubscriptionChanged m2",
                "seen UserRequested m2 m2:rollout",
                "seen NewMember m2",
                "unknown - -",  # the broker's own: more partitions
                "seen UnknownMember m1 m1:expired",
                "seen UserRequested m2 m2:stop",
                "seen UserRequested m1 m1:stop",
            ],
        ),
    ],
)
def test_all_members_tell_the_whole_story(recording: str, group: str, story: list[str]) -> None:
    assert _story(explain_rebalances(_groups(recording)[group])) == story


@pytest.mark.parametrize("recording", _RECORDINGS)
def test_some_of_the_members_name_nobody_else(recording: str) -> None:
    for recorded in _groups(recording).values():
        # logs were read one after the other: alone, none of them shows that its times are off
        records = correct_clock_steps(unify_identities(recorded)).records
        whole = explain_rebalances(records)
        for seen, part in _parts(records):
            for each in part:
                got = (recording, each.round.ref.group, seen, _story([each]))
                assert _named(each) <= _guilty(each.trigger.at, whole), got
                assert _gone(each) <= {d.member for w in whole for d in w.departures}, got


def _parts(records: list[Sample]) -> Iterator[tuple[tuple[str, ...], list[ExplainedRebalance]]]:
    members = sorted({r.client_id or "" for r in records if r.scope is Scope.CONSUMER})
    for count in range(1, len(members)):
        for seen in combinations(members, count):
            part = [record for record in records if record.client_id in seen]
            yield seen, explain_rebalances(part, lambda _: _MUCH_LATER_AT)


def _named(episode: ExplainedRebalance) -> set[object]:
    member = episode.trigger.member
    return set() if member is None else {member}


def _gone(episode: ExplainedRebalance) -> set[object]:
    return {departure.member for departure in episode.departures}


def _guilty(at: float, whole: list[ExplainedRebalance]) -> set[object]:
    """Return the members with a cause in a rebalance at an instant, or a possible silent one."""
    running = [w for w in whole if w.round.started_at <= at <= w.round.ended_at]
    steps = (step for w in running for piece in w.round.segments for step in piece.steps)
    begun = {w.trigger.member for w in running}
    gone = {d.member for w in running if w.trigger.member is None for d in w.departures}
    return {step.member for step in steps if cause_of(step)} | begun | gone


_STARTED = (_GOLDEN.parent / "client_settings" / "java-2.8.2.log").read_text("utf-8")
_JOINS = """\
[2026-11-21 06:36:33,447] INFO {} (Re-)joining group
[2026-11-21 06:36:33,765] INFO {} Successfully joined group with generation Generation{{\
generationId=58, memberId='m2-a', protocol='range'}}
[2026-11-21 06:36:33,770] INFO {} Successfully synced group in generation Generation{{\
generationId=58, memberId='m2-a', protocol='range'}}
[2026-11-21 06:36:33,772] INFO {} Adding newly assigned partitions: t-0
""".replace("{}", "[Consumer clientId=m2, groupId=g-max_poll-2.8.2-42989]").format()


@pytest.mark.parametrize(
    ("log", "story"),
    [
        pytest.param(_STARTED + _JOINS, "inferred NewMember m2", id="its client has just started"),
        pytest.param(_JOINS, "unknown - -", id="the log may begin later than its client"),
    ],
)
def test_first_join_in_a_running_group_is_of_a_new_member(log: str, story: str) -> None:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="input.log"), "UTC")
    logs = [order_by_time(parser, [(log.encode(), _ARRIVAL_AT)])]

    assert _story(explain_rebalances(replay(logs, Tracker(StatusConfig())))) == [story]
