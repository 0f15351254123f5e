"""Logs of another zone are shifted to the time of the traffic; all others stay."""

import pytest
from msgspec.structs import replace

from agent.runtime.clock_alignment import align_clocks
from agent.runtime.replay import replay
from agent.sources.base import Tick
from metrics.model.sample import SampleKind
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import C1, demand, raised, signal

LOG = replace(C1, member_id="c1-u")
ADDRESS = replace(LOG, origin="10.0.0.5:40000")
AT = 1_700_000_000.0
HOUR_S = 3600.0


def history(source: SourceKind, offset_s: float = 0.0) -> list[Signal | Tick]:
    member = ADDRESS if source is SourceKind.WIRE else LOG
    at = AT + offset_s
    return [
        raised(2, at, member, source=source),
        replace(
            signal(SignalKind.SYNC, at + 1.0, member, source=source, generation=2),
            follow_up=demand(10, at + 1.1),
            streams_follow_up=demand(11, at + 1.1, due_at=at + 60.0),
        ),
        Tick(at + 1.5),
        signal(SignalKind.SYNC, at + 2.0, member, source=source, generation=3),
    ]


def aligned(offset_s: float) -> tuple[list[Signal | Tick], list[str]]:
    notes: list[str] = []
    streams = [history(SourceKind.LOGS, offset_s), history(SourceKind.WIRE)]
    log, traffic = align_clocks(map(iter, streams), notes.append)
    assert list(traffic) == streams[1]
    return list(log), notes


@pytest.mark.parametrize("offset_s", [HOUR_S, -5 * HOUR_S, 5.75 * HOUR_S, HOUR_S + 0.25])
def test_a_log_of_another_zone_has_the_time_of_the_traffic(offset_s: float) -> None:
    log, (note,) = aligned(offset_s)

    assert log == history(SourceKind.LOGS, offset_s - 900 * round(offset_s / 900))
    assert note.startswith("c1.log: its times are ")


@pytest.mark.parametrize("offset_s", [400.0, -25.0, HOUR_S + 30.0])
def test_a_log_of_a_wrong_clock_has_the_time_of_the_traffic(offset_s: float) -> None:
    """Member id and generation are one event, however far apart the clocks."""
    log, (note,) = aligned(offset_s)

    assert log == history(SourceKind.LOGS, 0.0)
    assert f"its times are {offset_s:+.1f} s from the capture's" in note


@pytest.mark.parametrize("offset_s", [0.0, 1.5, -9.0])
def test_a_log_of_the_same_clock_stays(offset_s: float) -> None:
    assert aligned(offset_s) == (history(SourceKind.LOGS, offset_s), [])


@pytest.mark.parametrize(("offset_s", "shift_s"), [(-12.0, 0.0), (HOUR_S, HOUR_S)])
def test_in_a_new_protocol_log_and_traffic_have_only_their_zone_in_common(
    offset_s: float, shift_s: float
) -> None:
    """A log prints a stable epoch before others have given up the epoch's partitions."""
    log, traffic = (
        [
            replace(event, member=replace(event.member, group_type="consumer"))
            for event in history(source, ahead_s)
            if isinstance(event, Signal)
        ]
        for source, ahead_s in ((SourceKind.LOGS, offset_s), (SourceKind.WIRE, 0.0))
    )

    found, _ = align_clocks(map(iter, [log, traffic]), lambda _: None)

    assert [event.at for event in found] == [event.at - shift_s for event in log]


def test_a_log_without_a_common_sync_stays() -> None:
    signals = [event for event in history(SourceKind.LOGS) if isinstance(event, Signal)]
    other: list[Signal | Tick] = [replace(event, generation=9) for event in signals]
    streams = [other, history(SourceKind.WIRE, HOUR_S)]

    log, _ = align_clocks(map(iter, streams), pytest.fail)

    assert list(log) == other


def test_syncs_that_disagree_change_nothing() -> None:
    log = history(SourceKind.LOGS, HOUR_S)
    log[3] = signal(SignalKind.SYNC, AT + 3 * HOUR_S, LOG, generation=3)
    first, _ = align_clocks(map(iter, [log, history(SourceKind.WIRE)]), pytest.fail)

    assert list(first) == log


def test_each_episode_is_one() -> None:
    streams = [
        iter(history(source, s))
        for source, s in ((SourceKind.LOGS, HOUR_S), (SourceKind.WIRE, 0.0))
    ]
    tracker = Tracker(StatusConfig())

    samples = list(replay(align_clocks(streams, lambda _: None), tracker))

    moves = [s.to for s in samples if s.kind is SampleKind.TRANSITION]
    assert moves == [2, 10, 0]
