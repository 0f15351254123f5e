"""Predictions of counterfactuals, compared with real clients that have the proposed setting."""

from pathlib import Path

import pytest

from tests.system.backtests import (
    FURTHER,
    SCENES,
    SHORT,
    Pause,
    Scene,
    backtest,
    measure_unread,
    render,
)
from tests.system.live_scene import Happening

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(600)]


def test_static_membership_avoids_what_it_promises(cache: Path, tmp_path: Path) -> None:
    found = backtest(SHORT, tmp_path, cache)
    assert found.first.rebalances > found.rebalances == found.second.rebalances == 0
    assert "group.instance.id" in render([found])


@pytest.mark.field
@pytest.mark.parametrize(
    "scene", [*SCENES, *FURTHER], ids=lambda scene: scene.name.replace(" ", "-")
)
def test_prediction_holds(scene: Scene, cache: Path, tmp_path: Path) -> None:
    found = backtest(scene, tmp_path, cache)
    assert found.faults == [], render([found], "")


def test_paused_member_reads_nothing() -> None:
    happened = [
        Happening(1.0, "a", "assigned", frozenset({0, 1})),
        Happening(1.0, "b", "assigned", frozenset({2})),
    ]
    assert measure_unread(happened, [Pause("a", 5.0, 8.0)], 2.0) == pytest.approx(6.0)
    taken = [
        *happened,
        Happening(6.0, "b", "assigned", frozenset({0, 1})),
        Happening(9.0, "a", "lost", frozenset({0, 1})),
    ]
    assert measure_unread(taken, [Pause("a", 5.0, 8.0)], 2.0) == pytest.approx(2.0)
