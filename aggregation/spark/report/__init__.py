"""The trend report. A new section is a module with a ``SECTION`` and a line in `SECTIONS`."""

from aggregation.spark.report import (
    durations,
    quality,
    rebalances,
    share,
    status_time,
    triggers,
)

SECTIONS = (
    rebalances.SECTION,
    durations.SECTION,
    share.SECTION,
    status_time.SECTION,
    triggers.SECTION,
    quality.SECTION,
)
"""In the order of the page."""
