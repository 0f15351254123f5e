"""Increases that panels show, as Prometheus computes them from written series."""

import subprocess
from pathlib import Path

import pytest
import yaml

from dashboards.frame import increase_of
from tests.dashboards.test_rules import tool

SERIES = (
    'drops{instance="i",job="j",kafka_cluster="k",group="g",client_id="c1",status="DroppedGroup"}'
)
INCREASE = increase_of("drops", "5m", "client_id")
CASES = {
    "the first count": ("_x20 1x10", 22, 1.0),
    "a count of a member that was there": ("4x20 5x10", 22, 1.0),
    "a drop of a member that was lost within the hour": ("_x5 4x10 stale _x20 5x10", 38, 1.0),
    "two drops of it": ("_x5 4x10 stale _x20 5x1 6x10", 40, 2.0),
    "a member that is back without a drop": ("_x5 4x10 stale _x20 4x10", 38, 0.0),
    "a restarted agent": ("_x5 4x10 stale _x20 1x10", 38, 1.0),
    "nothing, once the window is over": ("_x5 4x10 stale _x20 5x20", 50, 0.0),
}


@pytest.mark.parametrize("case", CASES)
def test_increase_has_what_was_counted_in_the_window(case: str, tmp_path: Path) -> None:
    values, minute, wanted = CASES[case]
    expected = {"labels": '{client_id="c1"}', "value": wanted}
    test = {
        "interval": "1m",
        "input_series": [{"series": SERIES, "values": values}],
        "promql_expr_test": [
            {"expr": INCREASE, "eval_time": f"{minute}m", "exp_samples": [expected]}
        ],
    }
    file = tmp_path / "increase.test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [], "tests": [test]}))

    done = subprocess.run(
        [tool("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
