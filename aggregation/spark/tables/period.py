"""Days and instants of reports: UTC."""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

MICROS = 1_000_000
_DAY = 86_400 * MICROS
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Period:
    """Whole UTC days, the last one included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """Number of days."""
        return (self.last - self.first).days + 1

    @property
    def before(self) -> "Period":
        """The same number of days, directly before."""
        return Period(self.first - timedelta(self.days), self.first - timedelta(1))


def month_end(day: date) -> date:
    """Return the last day of a day's month."""
    return day.replace(day=monthrange(day.year, day.month)[1])


def ends_at(day: date) -> float:
    """Return the midnight at a day's end (Unix seconds)."""
    return datetime.combine(day + timedelta(days=1), time(), UTC).timestamp()


def days_between(first: int, last: int) -> Iterator[date]:
    """Yield the days from one instant to another (Unix microseconds), both included."""
    for days in range(first // _DAY, last // _DAY + 1):
        if days <= (date.max - _EPOCH).days:
            yield _EPOCH + timedelta(days)
