"""The trend report. A new section is a module with a ``SECTION`` and a line in `SECTIONS`."""

from aggregation.spark.report import (
    causes,
    compare,
    departures,
    durations,
    flapping,
    groups,
    hours,
    quality,
    share,
    status_time,
    storms,
    stragglers,
    streams,
    trend,
    triggers,
)

SECTIONS = (
    trend.SECTION,
    causes.SECTION,
    groups.SECTION,
    triggers.SECTION,
    stragglers.SECTION,
    durations.SECTION,
    share.SECTION,
    storms.SECTION,
    flapping.SECTION,
    hours.SECTION,
    departures.SECTION,
    streams.SECTION,
    status_time.SECTION,
    quality.SECTION,
)
"""Sections in the order of the page."""

COMPARE = compare.SECTION
"""Section for a comparison of two periods; second on the page."""
