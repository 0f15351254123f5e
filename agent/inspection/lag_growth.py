"""Lag of groups from a disturbance until it is as before.

Theory of operation. A group is disturbed while its members change or while it is not stable. A dead
or stuck member disturbs it late, when its session or poll interval ends; the lag has then grown for
minutes. So the lag before is the median of the last ten minutes, with one sample in half a minute.
After the begin of the disturbance, each lag a tenth above the last recorded one is a change. The
end is the first poll of a stable group with the lag before, or less. A group that has not caught up
within an hour is not followed any longer.
"""

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

GIVE_UP_S = 3600.0
_SAMPLE_S = 30.0
_SAMPLES = 20
_STEP = 10
"""A lag counts if it is above the last one by this part of it: a tenth."""


class GroupLagLevel(NamedTuple):
    """The lag of a group at a poll, in records."""

    group: str
    lag: int
    is_disturbed: bool


class LagChange(NamedTuple):
    """A changed lag; the last one of a disturbance has the highest lag as ``before``."""

    group: str
    before: int
    after: int


@dataclass(slots=True)
class _Growth:
    """The lag of one group since a disturbance."""

    began_at: float
    before: int
    highest: int
    last: int
    """The last height that was a change."""


class LagFollower:
    """Follows the lag of all groups from poll to poll."""

    def __init__(self) -> None:
        self._samples: dict[str, array[int]] = {}
        self._sampled_at = 0.0
        self._growing: dict[str, _Growth] = {}

    def update(self, levels: Iterable[GroupLagLevel], now: float) -> Iterator[LagChange]:
        """Take the lags of a poll; yield the changes. Groups that it lacks are kept as they are."""
        is_due = now - self._sampled_at >= _SAMPLE_S
        self._sampled_at = now if is_due else self._sampled_at
        for each in levels:
            growth = self._growing.get(each.group)
            if growth is None and each.is_disturbed:
                growth = self._growing[each.group] = self._begin(each, now)
            if growth is not None:
                yield from self._follow(each, growth, now)
            elif is_due or each.group not in self._samples:
                samples = self._samples.setdefault(each.group, array("q"))
                samples.append(each.lag)
                del samples[:-_SAMPLES]

    def _begin(self, level: GroupLagLevel, now: float) -> _Growth:
        samples = sorted(self._samples.get(level.group, (level.lag,)))
        before = samples[(len(samples) - 1) // 2]
        return _Growth(now, before, before, before)

    def forget(self, groups: Iterable[str]) -> None:
        """Drop deleted groups."""
        for group in groups:
            self._samples.pop(group, None)
            self._growing.pop(group, None)

    def _follow(self, level: GroupLagLevel, growth: _Growth, now: float) -> Iterator[LagChange]:
        growth.highest = max(growth.highest, level.lag)
        if growth.highest > growth.last + growth.last // _STEP:
            last, growth.last = growth.last, growth.highest
            yield LagChange(level.group, last, growth.highest)
        elif level.lag <= growth.before and not level.is_disturbed:
            if growth.last > growth.before:
                yield LagChange(level.group, growth.highest, level.lag)
            del self._growing[level.group]
        elif now - growth.began_at > GIVE_UP_S:
            del self._growing[level.group]
