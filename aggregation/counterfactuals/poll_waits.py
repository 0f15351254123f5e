"""How long members work before they see a rebalance, from a group's recorded incidents. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from aggregation.counterfactuals.facts import IncidentFacts, latest


class PollWaits(NamedTuple):
    """Times of a group's members, in seconds."""

    notice_s: float | None
    """Until the last of the others has learned of a rebalance, on average; None: not known."""
    wait_s: float | None
    """The rest of the work of a member that learns of it, on average; None: not known."""
    joins_without_poll: bool
    """All clients are seen to be librdkafka: they join a cooperative group without a poll."""

    def rest_of(self, longest_s: float) -> float:
        """Return the wait, or where it is not known half of the longest one."""
        return longest_s / 2 if self.wait_s is None else self.wait_s


def read_waits(facts: Iterable[IncidentFacts]) -> PollWaits:
    """Return the times of a group: the mean over its incidents, as one shows few polls."""
    known = list(facts)
    return PollWaits(
        _mean(each.notice_s for each in known),
        _mean(each.poll_wait_s for each in known),
        bool(latest(known, "joins_without_poll")),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
