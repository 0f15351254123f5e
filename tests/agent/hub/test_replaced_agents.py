"""A hub shows the same incidents when its agents are replaced in the middle of a group's life."""

import pytest

from tests.agent.hub.test_clocks_apart import incidents, read_apart, run_hub
from tests.aggregation.live.test_fleet_apart import AFTER_S, Arrivals

_CASES = ["kafkajs", "slow-polls"]
_AGAIN_S = 5.0
"""Seconds until a replaced agent has read its sources again."""


def find_middle(agents: dict[str, Arrivals]) -> float:
    """Return an instant in the middle of what happens (Unix seconds)."""
    ends = max(arrivals[-1][0] for arrivals in agents.values()) - AFTER_S
    return (min(arrivals[0][0] for arrivals in agents.values()) + ends) / 2


def split(arrivals: Arrivals, at: float) -> tuple[Arrivals, Arrivals]:
    return [x for x in arrivals if x[0] < at], [x for x in arrivals if x[0] >= at]


def replace_agents(agents: dict[str, Arrivals], *, sends_again: bool) -> dict[str, Arrivals]:
    """Return agents of which each ends in the middle, and one with another spool goes on."""
    at, found = find_middle(agents), dict[str, Arrivals]()
    for name, arrivals in agents.items():
        before, after = split(arrivals, at)
        again_at = at + _AGAIN_S
        again = [(again_at, record) for _, record in before] if sends_again else []
        late = [(max(arrived, again_at), record) for arrived, record in after]
        found |= {name: before, f"{name[:3]}nyyyy": again + (late if sends_again else after)}
    return {name: arrivals for name, arrivals in found.items() if arrivals}


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("sends_again", [True, False], ids=["state deleted", "members moved"])
def test_incidents_do_not_depend_on_replaced_agents(case: str, *, sends_again: bool) -> None:
    agents = {name: arrivals for name, arrivals in read_apart(case).items() if arrivals}
    whole, _ = run_hub(agents)
    replaced, _ = run_hub(replace_agents(agents, sends_again=sends_again))

    assert len(replaced.taken) >= len(whole.taken)
    assert incidents(replaced) == incidents(whole)
