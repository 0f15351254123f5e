"""An agent's records of real clients' logs."""

from functools import cache
from pathlib import Path

from msgspec.structs import replace

from agent.runtime.replay import replay
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.parsing.ordering import order_by_time
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.sample import Sample
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

_GOLDEN = Path(__file__).parents[2] / "golden" / "dialects"
_ARRIVAL_AT = 1_900_000_000.0


@cache
def recorded() -> list[Sample]:
    """Return the records of all recordings, each of an agent of its own."""
    found: list[Sample] = []
    for path in sorted(_GOLDEN.glob("*/input.log")):
        parser = create_parser(
            choose_dialects("auto"), ClientInterpreter(stream="input.log"), "UTC"
        )
        signals = order_by_time(parser, [(path.read_bytes(), _ARRIVAL_AT)])
        records = replay([signals], Tracker(StatusConfig()))
        found += [replace(record, agent=path.parent.name) for record in records]
    return found
