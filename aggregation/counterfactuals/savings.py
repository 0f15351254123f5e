"""Savings: what one incident would not have cost under another setting. Pure.

A saving is never larger than what was recorded. While a member is away or busy, nobody reads its
own partitions, whatever the setting: that time is no saving. How many partitions were its own is
not recorded; the partitions that moved bound it. Each goes and comes back, so it is half of them
where each absence had two rebalances. Where no moves are recorded, the unread time is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from aggregation.counterfactuals.facts import IncidentFacts

REBALANCES_OF_AN_ABSENCE = 2
"""One when the member goes, one when it comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What one incident would not have cost; None: not known."""

    incident: IncidentFacts
    rebalances: int
    unread_s: float | None

    @property
    def member_s(self) -> float:
        """Seconds of members, in proportion to the rebalances."""
        total = self.incident.rebalances
        return self.incident.member_s * self.rebalances / total if total else 0.0


def save_all(incident: IncidentFacts, away_s: float) -> Saving:
    """Return the saving of an incident that does not happen; ``away_s`` is the longest absence."""
    unread, moved = incident.unread_s, incident.moved
    known = None
    if unread is not None and moved:
        count = REBALANCES_OF_AN_ABSENCE * max(1, len(incident.absences))
        own = moved / 2 if incident.rebalances >= count else moved
        known = max(0.0, unread - own * away_s)
    return Saving(incident=incident, rebalances=incident.rebalances, unread_s=known)


def sum_unread(savings: Iterable[Saving]) -> float | None:
    """Return the unread seconds of those that are known; None where none is."""
    known = [each.unread_s for each in savings if each.unread_s is not None]
    return sum(known) if known else None
