"""The metrics of each source, and the sources of each member."""

from agent.runtime.source_stats import SourceStatsCollector
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.observed import ScriptedSource


def seen(client_id: str, stream: str, source: SourceKind) -> Signal:
    member = Member(group="g", client_id=client_id, origin=stream)
    return Signal(kind=SignalKind.SEEN, at=1.0, member=member, source=source)


def test_member_is_counted_for_each_source_that_tells_of_it() -> None:
    book, tracker, got = SourceStatsCollector(), Tracker(StatusConfig()), list[Signal]()
    log, wire = ScriptedSource("log"), ScriptedSource("wire")

    book.observe(log, got.extend)([seen(c, "app.log", SourceKind.LOGS) for c in ("c1", "c2")])
    book.observe(wire, got.extend)([seen("c1", "10.0.0.5:40000", SourceKind.WIRE)])
    for each in got:
        tracker.apply(each)

    snapshot = tracker.snapshot(2.0)
    found = book.stats([log, wire], snapshot.members_by_origin)
    assert [(stats.name, stats.members) for stats in found] == [("log", 2), ("wire", 1)]
    assert len(snapshot.consumers) == 2


def test_stream_that_has_gone_is_forgotten() -> None:
    book, source = SourceStatsCollector(), ScriptedSource("log")
    book.observe(source, lambda _: None)([seen("c1", "app.log", SourceKind.LOGS)])

    assert [stats.members for stats in book.stats([source], {})] == [0]
    assert len(book) == 0
