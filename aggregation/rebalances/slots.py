"""Slots of ten minutes, in which silences of agents are counted (`silences`)."""

from metrics.model.sample import parse_time

SLOT_S = 600.0
"""Length of a slot: the default of ``stale_after``, after which a silent agent counts as gone."""
SLOTS_OF_A_DAY = 144
SLOT_CHARS = len("2026-01-01T00:0")
"""Characters of an RFC 3339 time that name its slot."""


def slot_of(text: str) -> int:
    """Return the number of a slot since the epoch, from the characters that name it."""
    return int(parse_time(f"{text}0:00Z") // SLOT_S)
