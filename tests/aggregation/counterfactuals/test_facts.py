"""Facts of incidents: one name a member."""

from aggregation.counterfactuals.change import PastIncidents
from aggregation.counterfactuals.facts import IncidentFacts, facts_of_incident
from aggregation.counterfactuals.shape_rules import propose_pacing
from aggregation.incidents.incidents import analyze
from aggregation.incidents.model import IncidentKind
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, format_time


def records(names: list[tuple[str, str]]) -> list[Sample]:
    """Return a rollout: each of the members, by client id and host, leaves and is back."""
    found: list[Sample] = []
    generation = 1

    def add(n: int, at: float, to: int, outcome: Outcome | None, episode: str, life: int) -> None:
        client_id, host = names[n]
        found.append(
            Sample(
                id=f"{len(found)}", kind=SampleKind.TRANSITION, ts=format_time(at), cluster="k",
                app="g", group="g", scope=Scope.CONSUMER, client_id=client_id, host=host,
                member_id=f"{n}-{life}", from_=0 if to else 1, to=to, generation=generation,
                episode=episode, outcome=outcome, source="wire",
            )
        )  # fmt: skip

    def rebalance(at: float, new: dict[int, int], lives: dict[int, int]) -> None:
        for n, life in lives.items():
            add(n, at, 2 if n in new else 1, None, f"e{at}-{n}", life)
        for n, life in lives.items():
            add(n, at + 1, 0, Outcome.SYNCED, f"e{at}-{n}", life)

    lives = dict.fromkeys(range(len(names)), 1)
    rebalance(1000.0, lives, lives)
    for n in range(len(names)):
        at = 2000.0 + 30 * n
        add(n, at, 6, None, f"l{n}", lives[n])
        add(n, at, 0, Outcome.LEFT, f"l{n}", lives.pop(n))
        generation += 1
        rebalance(at + 0.5, {}, lives)
        lives[n] = 2
        generation += 1
        rebalance(at + 10, {n: 2}, lives)
    return found


REPLICAS = [("app", f"pod-{n}") for n in range(6)]
NAMED = [(f"app-{n}", "") for n in range(6)]


def test_a_rollout_of_replicas_is_of_as_many_members() -> None:
    """They have one client id: in a report they were one member that restarted six times."""
    of_replicas, of_others = facts_of(REPLICAS), facts_of(NAMED)

    (rollout,) = (each for each in of_replicas if each.kind is IncidentKind.ROLLOUT)
    (named,) = (each for each in of_others if each.kind is IncidentKind.ROLLOUT)

    assert rollout.members == tuple(f"app (pod-{n})" for n in range(6))
    assert len(rollout.members) == len(named.members)
    assert avoided_by_pacing(of_replicas) == avoided_by_pacing(of_others) > 0


def facts_of(names: list[tuple[str, str]]) -> list[IncidentFacts]:
    incidents = analyze(records(names), now=9000.0).incidents
    return [found for each in incidents if (found := facts_of_incident(each)) is not None]


def avoided_by_pacing(facts: list[IncidentFacts]) -> int:
    """Return the rebalances that pacing would avoid."""
    found = propose_pacing(PastIncidents(facts, facts))
    return 0 if found is None else found.rebalances_avoided
