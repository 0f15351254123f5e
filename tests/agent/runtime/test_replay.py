"""A recording's streams end as live ones do."""

from msgspec.structs import replace

from agent.runtime.replay import replay
from agent.sources.base import Tick
from metrics.model.signals import Signal, SignalKind, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import C1, signal

ADDRESS = replace(C1, origin="10.0.0.5:40000", group_type="consumer")


def test_a_member_whose_stream_has_ended_is_silent_since_its_last_request() -> None:
    """A killed member of a new protocol: nothing else shows when it stopped."""
    wire = SourceKind.WIRE
    seen = replace(signal(SignalKind.SEEN, 1.0, ADDRESS, source=wire), assigned=("t-0",))
    asked = signal(SignalKind.SEEN, 5.0, ADDRESS, source=wire)
    events: list[Signal | Tick] = [seen, asked, Tick(65.0, (ADDRESS.origin,))]

    samples = replay([iter(events)], Tracker(StatusConfig()))

    assert [(each.field, each.after) for each in samples if each.field == "silent.ms"] == [
        ("silent.ms", "60000")
    ]
