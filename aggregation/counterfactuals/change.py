"""A change of one setting in one group, with what it would have saved. A value."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from aggregation.counterfactuals.facts import IncidentFacts
from aggregation.counterfactuals.lines import Lines
from aggregation.counterfactuals.savings import Saving, sum_unread
from aggregation.counterfactuals.timeouts import Curve
from aggregation.incidents.settings import ClientKind


class Confidence(StrEnum):
    """How much of a proposal is recorded."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def rate_confidence(*are_known: bool) -> Confidence:
    """Return high where all is recorded, medium where one thing is not, else low."""
    unknown = sum(not each for each in are_known)
    return (Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW)[min(2, unknown)]


class PastIncidents(NamedTuple):
    """One group's incidents in the period, by start."""

    all: Sequence[IncidentFacts]
    uncounted: Sequence[IncidentFacts]
    """Those that no better proposal avoids."""

    @property
    def client_kind(self) -> ClientKind:
        """The kind of the group's clients; an incident without a rebalance may not show it."""
        kinds = (each.client_kind for each in reversed(self.all))
        return next(
            (kind for kind in kinds if kind is not ClientKind.CONSUMER), ClientKind.CONSUMER
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting to change; ``now`` is None where no source shows it."""

    setting: str
    now: str | None
    proposed: str
    because: str
    price: str
    confidence: Confidence
    savings: tuple[Saving, ...]
    lines: Lines
    losses: tuple[Saving, ...] = ()
    """Of a timeout: incidents that stay, and cost more."""
    curve: Curve = ()
    """Of a timeout: what each candidate saves, and what it costs."""
    mends_fault: bool = False
    """Its incidents are of a fault: it is worth making, even if they cost nothing."""

    @property
    def cluster(self) -> str:
        """The cluster of its group."""
        return self.savings[0].incident.cluster

    @property
    def group(self) -> str:
        """Its group."""
        return self.savings[0].incident.group

    @property
    def rebalances_avoided(self) -> int:
        """Rebalances that it avoids."""
        return sum(each.rebalances for each in self.savings)

    @property
    def unread_avoided_s(self) -> float | None:
        """Unread seconds of partitions that it avoids, at least; None where not known."""
        return sum_unread((*self.savings, *self.losses))

    @property
    def incidents(self) -> tuple[str, ...]:
        """Ids of the incidents that it rests on."""
        return tuple(each.incident.id for each in self.savings)

    @property
    def members(self) -> tuple[str, ...]:
        """Client ids of the members that it rests on."""
        return tuple(sorted({name for each in self.savings for name in each.incident.members}))
