"""A history with records missing has an analysis."""

import random

import pytest

from aggregation.incidents.incidents import analyze
from metrics.model.sample import Sample
from metrics.model.signals import Member, SignalKind
from tests.aggregation.rebalances.test_rebalances import left, records, round_of
from tests.metrics.given import raised, signal


def rollout(number: int) -> list[Sample]:
    """Restart one pod after the other; all have one client id."""
    pods = [
        Member(cluster="k", group="g", client_id="c", origin=f"pod-{n}", host=f"pod-{n}")
        for n in range(number)
    ]
    events = round_of(1, 0.0, *pods)
    for step, pod in enumerate(pods):
        at, generation = 1_000.0 + 50 * step, 2 + 2 * step
        others = [each for each in pods if each is not pod]
        events += [left(at, pod), *round_of(generation, at + 1.0, *others)]
        events += [raised(2, at + 25.0, pod), signal(SignalKind.JOIN, at + 25.0, pod)]
        events += round_of(generation + 1, at + 25.5, *others)
        events.append(signal(SignalKind.SYNC, at + 26.0, pod, generation=generation + 1))
    return records(*events)


WHOLE = rollout(12)


@pytest.mark.parametrize("kept", [0.3, 0.6, 0.9])
def test_rollout_with_records_missing_has_an_analysis(kept: float) -> None:
    """An incident that a departure merges into another takes no more of them."""
    for seed in range(40):
        rng = random.Random(seed)
        found = analyze([each for each in WHOLE if rng.random() < kept])
        spans = [span.id for incident in found.incidents for span in incident.rebalances]
        assert len(spans) == len(set(spans)), seed
