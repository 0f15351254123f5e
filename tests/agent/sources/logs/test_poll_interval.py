"""The poll interval that librdkafka's own words name is the member's."""

from pathlib import Path

import pytest

from agent.runtime.replay import replay
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.ordering import order_by_time
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

_GOLDEN = Path(__file__).parents[3] / "golden" / "dialects"


@pytest.mark.parametrize(
    ("recording", "interval"), [("librdkafka", "4000"), ("librdkafka-default-level", "6000")]
)
def test_dropped_member_has_its_poll_interval(recording: str, interval: str) -> None:
    parser = create_parser(choose_dialects("auto"), ClientInterpreter(stream="input.log"), "UTC")
    data = (_GOLDEN / recording / "input.log").read_bytes()
    source = order_by_time(parser, [(data, 1_900_000_000.0)])
    found = {
        record.after
        for record in replay([source], Tracker(StatusConfig()))
        if record.field == "max.poll.interval.ms"
    }
    assert f"maximum poll interval ({interval}ms)".encode() in data
    assert found == {interval}
