"""Facts of invented incidents."""

from typing import Any

from aggregation.counterfactuals.facts import Absence, IncidentFacts
from aggregation.incidents.model import DepartureMode, IncidentKind

K, H = IncidentKind, DepartureMode


def away(
    *seconds: float | None, how: DepartureMode = H.LEFT, at: float = 100.0
) -> tuple[Absence, ...]:
    """Return absences of members m0, m1 ...; None: not back."""
    return tuple(
        Absence(f"m{number}", how, at, None if each is None else at + each)
        for number, each in enumerate(seconds)
    )


def incident(id_: str, kind: IncidentKind, **fields: Any) -> IncidentFacts:
    """Return an incident of 10 s with two rebalances and 8 member seconds."""
    given: dict[str, Any] = {
        "id": id_,
        "cluster": "eu",
        "group": "g",
        "kind": kind,
        "is_planned": kind in {K.RESTART, K.ROLLOUT, K.MEMBER_JOINED, K.MEMBER_LEFT},
        "started_at": 100.0,
        "ended_at": 110.0,
        "rebalances": 2,
        "member_s": 8.0,
        "members": ("m0",),
    }
    return IncidentFacts(**(given | fields))
