"""Savings: what one incident would not have cost under another setting. Pure.

While a member is away or busy, nobody reads its own partitions under a setting that keeps the group
from going on without it: that time is no saving. Where it is longer than what was recorded, the
setting makes things worse, and the saving is below 0. Where the partitions of a member are not
recorded, the saving of unread time is unknown.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.incidents.model import save_by_waiting

REBALANCES_OF_AN_ABSENCE = 2
"""One when the member goes, one when it comes back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """What one incident would not have cost; None: not known."""

    incident: IncidentFacts
    rebalances: int
    unread_s: float | None
    waiting_s: float = 0.0
    """Seconds for which the group waits for its members: no saving."""

    @property
    def member_s(self) -> float:
        """Seconds of members, in proportion to the rebalances, without those of waiting."""
        total = self.incident.rebalances
        saved = self.incident.member_s * self.rebalances / total if total else 0.0
        return saved - self.waiting_s


def save_all(incident: IncidentFacts) -> Saving:
    """Return the saving of an incident that does not happen: its members wait for their own."""
    saved = save_by_waiting(incident.unread_s, incident.away_s)
    return Saving(incident=incident, rebalances=incident.rebalances, unread_s=saved)


def save_by_longer_timeout(incident: IncidentFacts) -> Saving:
    """Return the same where nobody went by intention.

    Where no source shows partitions, the seconds for which its members were away stand for theirs.
    """
    saving = save_all(incident)
    if saving.unread_s is not None:
        return saving
    away = (each.seconds for each in incident.absences)
    return replace(saving, waiting_s=sum(seconds for seconds in away if seconds is not None))


def wait_longer(incident: IncidentFacts, added_s: float) -> Saving:
    """Return what a longer timeout costs an incident whose members are back after it, too.

    The group waits longer for each of them: its partitions are unread for that time. Members had
    the same number of partitions, on average.
    """
    spans = [each.seconds for each in incident.absences if each.seconds is not None]
    since = incident.silent_since
    before = 0.0 if since is None else max(0.0, incident.absences[0].at - since)
    away = sum(spans) + before * len(spans)
    is_known = incident.away_s is not None and away > 0.0
    of_each = incident.away_s / away if incident.away_s is not None and is_known else None
    unread_s = None if of_each is None else -of_each * added_s * len(spans)
    return Saving(incident=incident, rebalances=0, unread_s=unread_s)


def sum_unread(savings: Iterable[Saving]) -> float | None:
    """Return the unread seconds of those that are known; None where none is."""
    known = [each.unread_s for each in savings if each.unread_s is not None]
    return sum(known) if known else None
