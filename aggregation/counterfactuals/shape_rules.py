"""Rules of how a group rebalances: assignor, initial delay, pace of rollouts. Pure."""

from aggregation.counterfactuals.change import Change, Confidence, PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts, latest
from aggregation.counterfactuals.lines import (
    ASSIGNOR,
    INITIAL_DELAY,
    PACING,
    assignor_lines,
    delay_lines,
    pacing_lines,
)
from aggregation.counterfactuals.savings import Saving
from aggregation.counterfactuals.timeouts import round_up
from aggregation.incidents.model import DepartureMode, IncidentKind

LONGEST_START_S = 60.0
"""Joins over a longer time are no mass start that a delay should gather."""
DEFAULT_DELAY_S = 3.0
"""Default of the broker: no shorter one is proposed unseen."""
PACED_REBALANCES = 4
"""Rebalances of a rollout by halves: each half goes, and comes back."""
FEWEST_PACED = 3
"""A smaller group has no larger steps."""


def propose_cooperative(history: PastIncidents) -> Change | None:
    """Propose the cooperative assignor: the rebalances stay, the partitions of others are read.

    What moves is unread at most for the whole incident; the rest of its unread time is saved.
    Incidents in which a member went without a word are left out: their unread time is mostly its
    own. So are groups of other protocols, and of an assignor that is cooperative already.
    """
    now = latest(history.all, "assignor")
    if "cooperative" in (now or "").lower() or history.all[-1].group_type not in {None, "classic"}:
        return None
    savings = [
        Saving(incident=each, rebalances=0, unread_s=saved)
        for each in history.uncounted
        if (saved := _unread_of_others(each)) > 0.0
    ]
    if not savings:
        return None
    return Change(
        setting=ASSIGNOR,
        now=now,
        proposed="CooperativeStickyAssignor",
        because=f"in {len(savings)} incidents partitions were unread that did not move",
        price="a rebalance may have a second round, and the change takes two deploys",
        confidence=Confidence.LOW if now is None else Confidence.MEDIUM,
        savings=tuple(savings),
        lines=assignor_lines(),
    )


def _unread_of_others(incident: IncidentFacts) -> float:
    """Return the unread seconds of partitions that did not move; 0 where not known."""
    is_orderly = all(each.how is DepartureMode.LEFT for each in incident.absences)
    if incident.unread_s is None or incident.moved is None or not is_orderly:
        return 0.0
    if incident.kind not in _ORDERLY:
        return 0.0
    return max(0.0, incident.unread_s - incident.moved * (incident.ended_at - incident.started_at))


_ORDERLY = {
    IncidentKind.MEMBER_JOINED,
    IncidentKind.MEMBER_LEFT,
    IncidentKind.RESTART,
    IncidentKind.ROLLOUT,
    IncidentKind.ENFORCED,
    IncidentKind.SUBSCRIPTION_CHANGED,
    IncidentKind.METADATA_CHANGED,
}


def propose_initial_delay(history: PastIncidents) -> Change | None:
    """Propose a longer initial delay for mass starts: joins within it are one rebalance.

    A broker delays the first rebalance of an empty group, and again while members join. Whether the
    group was empty is not recorded, so the confidence is low. Unread time is no saving: partitions
    wait for the delay instead.
    """
    found = [
        each
        for each in history.uncounted
        if each.kind is IncidentKind.MEMBER_JOINED
        and len(each.members) > 1
        and each.rebalances > 1
        and each.ended_at - each.started_at <= LONGEST_START_S
        and each.group_type in {None, "classic"}
    ]
    if not found:
        return None
    longest = max(each.ended_at - each.started_at for each in found)
    value = str(round(1000 * max(DEFAULT_DELAY_S, round_up(longest))))
    return Change(
        setting=INITIAL_DELAY,
        now=None,
        proposed=value,
        because=f"in {len(found)} starts the members joined within {longest:.3g} s",
        price="the first records of each group of the broker come that much later",
        confidence=Confidence.LOW,
        savings=tuple(
            Saving(incident=each, rebalances=each.rebalances - 1, unread_s=0.0) for each in found
        ),
        lines=delay_lines(value),
    )


def propose_pacing(history: PastIncidents) -> Change | None:
    """Propose rollouts by halves: a half goes, comes back, then the other: four rebalances.

    The unread time is taken as equal for each rebalance, so the confidence is low.
    """
    savings = [
        Saving(
            incident=each,
            rebalances=(avoided := each.rebalances - PACED_REBALANCES),
            unread_s=None if each.unread_s is None else each.unread_s * avoided / each.rebalances,
        )
        for each in history.uncounted
        if each.kind is IncidentKind.ROLLOUT
        and len(each.members) >= FEWEST_PACED
        and each.rebalances > PACED_REBALANCES
    ]
    if not savings:
        return None
    return Change(
        setting=PACING,
        now=None,
        proposed="half of the members at a time",
        because=f"{len(savings)} rollouts had more than {PACED_REBALANCES} rebalances",
        price="half of the members read all partitions meanwhile",
        confidence=Confidence.LOW,
        savings=tuple(savings),
        lines=pacing_lines(),
    )
