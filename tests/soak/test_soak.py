"""The soak's short form; `make soak` runs the long one."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.faults.agent_process import Row, spooled
from tests.soak.tape import read, retold

_MINUTES = os.environ.get("SOAK_MINUTES", "0.5")
_ORDERS = 5
_CLIENTS = ("--consumers", "2", "--instances", "2")


@pytest.mark.kafka
@pytest.mark.jvm
@pytest.mark.timeout(900)
def test_every_transition_is_told_and_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", _MINUTES, *_CLIENTS]
    folder = tmp_path / "soak"
    done = subprocess.run(
        [*command, "--keep", folder, "--orders", str(_ORDERS)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    found = json.loads(done.stdout)
    assert (found["precision"], found["recall"]) == (1.0, 1.0)
    assert found["wanted"] > 10
    assert [each["recall"] for each in found["orders"]] == [1.0] * _ORDERS
    as_it_was = retold(read(folder / "tape.jsonl", but_of=""), 0)
    assert _moves(as_it_was) == _moves(spooled(folder / "agent" / "state" / "spool"))


def _moves(rows: list[Row]) -> dict[str, list[int]]:
    moves = defaultdict[str, list[int]](list)
    for row in rows:
        if row["kind"] == "transition":
            moves[row["client_id"]].append(row["to"])
    return moves
