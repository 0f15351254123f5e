import re

from metrics.palette import COLOURS, UNKNOWN_COLOUR
from metrics.status import RebalanceStatus


def test_every_code_has_a_colour_of_its_own() -> None:
    colours = [*COLOURS.values(), UNKNOWN_COLOUR]

    assert list(COLOURS) == list(RebalanceStatus)
    assert len(set(colours)) == len(colours)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)
