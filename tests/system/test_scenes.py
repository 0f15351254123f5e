"""The demo's play on a real broker, whole."""

from pathlib import Path

import pytest

from agent.lab.lab import Lab
from agent.lab.scenes import play
from tests.system.observer import Observer

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]


def test_the_play_shows_every_code(lab: Lab, tmp_path: Path) -> None:
    logs = tmp_path / "clients"
    with Observer(logs, tmp_path / "agent") as agent, lab.clients(logs) as clients:
        agent.wait_ready()

        acts = list(play(lab, clients))

        assert len(acts) > 10
        assert agent.all_codes(set(range(14))) == set(range(14))
