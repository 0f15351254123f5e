"""The trend report. A new section is a module with a ``SECTION`` and a line in `SECTIONS`."""

from aggregation.spark.report import (
    causes,
    compare,
    daily,
    departures,
    durations,
    flapping,
    groups,
    hours,
    incidents,
    kinds,
    quality,
    share,
    status_time,
    storms,
    stragglers,
    streams,
    timeline,
    trend,
    triggers,
)

SECTIONS = (
    timeline.SECTION,
    trend.SECTION,
    kinds.SECTION,
    causes.SECTION,
    groups.SECTION,
    triggers.SECTION,
    stragglers.SECTION,
    flapping.SECTION,
    incidents.SECTION,
    storms.SECTION,
    durations.SECTION,
    share.SECTION,
    hours.SECTION,
    departures.SECTION,
    streams.SECTION,
    status_time.SECTION,
    quality.SECTION,
    daily.SECTION,
)
"""Sections in the order of the page."""

COMPARE = compare.SECTION
"""Section for a comparison of two periods; third on the page."""
