"""Texts of records are bounded."""

import msgspec

from metrics.model.names import NAME_MAX_CHARS
from metrics.model.partitions import TEXT_MAX_CHARS
from metrics.model.record_bounds import clip_record
from metrics.model.sample import REASON_MAX_CHARS, Sample, SampleKind, Scope


def record(**texts: str) -> Sample:
    known = Sample(
        id="1",
        kind=SampleKind.CHANGE,
        ts="2026-01-02T00:00:00Z",
        cluster="",
        app="",
        group="g",
        scope=Scope.GROUP,
        source="logs",
    )
    return msgspec.structs.replace(known, **texts)


def test_a_record_within_the_bounds_is_returned_as_it_is() -> None:
    found = record(reason="r" * REASON_MAX_CHARS, group="g" * NAME_MAX_CHARS, before="t-0")
    assert clip_record(found) == (found, 0)


def test_long_names_reasons_and_values_are_clipped_and_counted() -> None:
    long = "x" * (TEXT_MAX_CHARS + 1)
    clipped, count = clip_record(record(reason=long, group=long, after=long))
    assert count == 3
    assert (len(clipped.reason or ""), len(clipped.group)) == (REASON_MAX_CHARS, NAME_MAX_CHARS)
    assert len(clipped.after or "") <= TEXT_MAX_CHARS
