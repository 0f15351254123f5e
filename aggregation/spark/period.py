"""Days and instants of reports: UTC."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days, UTC; the last one included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """How many."""
        return (self.last - self.first).days + 1

    @property
    def before(self) -> "Period":
        """As many days, right before."""
        return Period(self.first - timedelta(self.days), self.first - timedelta(1))


def ends_at(day: date) -> float:
    """Return the midnight at a day's end (Unix seconds)."""
    return datetime.combine(day + timedelta(days=1), time(), UTC).timestamp()
