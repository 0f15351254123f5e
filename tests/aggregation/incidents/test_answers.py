"""Answers of a hub: a malformed time is an error of the decoder, and no traceback later."""

from typing import Any

import msgspec
import pytest

from aggregation.incidents.answers import IncidentAnswer, answer_of
from aggregation.incidents.incidents import analyze
from tests.aggregation.rebalances.test_rebalances import NEW, A, B, C, records, round_of

_ODD = ("yesterday", "2026-13-01T00:00:00Z", "2026-11-30T00:00:00", "0" * 10_000)
_PLACES = [
    ("started_at",),
    ("ended_at",),
    ("rebalances", 0, "started_at"),
    ("rebalances", 0, "ended_at"),
    ("cost", "caught_up_at"),
]


def _fields() -> Any:
    given = records(*round_of(1, 0.0, A, B, C, causes={"a": NEW, "b": NEW, "c": NEW}))
    (incident,) = analyze(given).incidents
    return msgspec.json.decode(msgspec.json.encode(answer_of(incident)))


def test_an_answer_is_read_as_it_was_written() -> None:
    fields = _fields()

    read = msgspec.convert(fields, IncidentAnswer)

    assert msgspec.json.decode(msgspec.json.encode(read)) == fields


@pytest.mark.parametrize("odd", _ODD)
@pytest.mark.parametrize("place", _PLACES)
def test_a_malformed_time_is_an_error_of_the_decoder(place: tuple[Any, ...], odd: str) -> None:
    fields = _fields()
    part = fields
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = odd

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fields, IncidentAnswer)
