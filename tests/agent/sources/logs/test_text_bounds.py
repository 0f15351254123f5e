"""Texts of signals are bounded, however long the reasons are that a client logs."""

import re
from pathlib import Path

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.sample import REASON_MAX_CHARS
from metrics.model.signals import Signal
from tests.agent.wire.test_bounds import longest_text

_GOLDEN = Path(__file__).parents[3] / "golden" / "dialects"
_NAME_MAX = 300
"""Of a name within a text; a reason has 255."""
_CLIPPED_MIN = 50
_LONG = b"x" * 3_000
_STRETCHED = {
    "in the middle": (rb"(?m)((?:due to|reason|because):? )", rb"\1" + _LONG),
    "at the end": (rb"(?m)((?:due to|reason|because):? [^(\n]+)", rb"\1" + _LONG + b" "),
}


@pytest.mark.parametrize("place", _STRETCHED)
def test_long_reasons_are_clipped(place: str) -> None:
    signals = list[Signal]()
    for log in sorted(_GOLDEN.glob("*/input.log")):
        parser = create_parser(
            choose_dialects("auto"), ClientInterpreter(stream="input.log"), "UTC"
        )
        signals += parser.feed(re.sub(*_STRETCHED[place], log.read_bytes()), 1_900_000_000.0)
        signals += parser.flush()

    lengths = [longest_text([signal]) for signal in signals]

    assert len([length for length in lengths if length == REASON_MAX_CHARS]) > _CLIPPED_MIN
    assert max(lengths) <= _NAME_MAX
