"""Any number of short-lived members: memory and series are bounded, evicted ones are counted.

`make churn` feeds a million ids through each source at default limits.
"""

import json
import subprocess
import sys

import pytest

from tests.churn.lives import SOURCES

_IDS, _MEMBERS, _GROUPS, _SERIES = 1500, 300, 200, 2000


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_kept_is_bounded_and_what_goes_is_counted(source: str) -> None:
    limits = ["--members", _MEMBERS, "--groups", _GROUPS, "--series", _SERIES]
    command = [sys.executable, "-m", "tests.churn", source, _IDS, *limits]
    done = subprocess.run(
        [str(each) for each in command], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["groups_evicted"] >= _IDS - _GROUPS
    if source != "statistics":  # whose connection's end tells
        assert found["members"] + found["evicted"] == _IDS
