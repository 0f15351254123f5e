import resource
import subprocess
import sys

import pytest

from agent.processes.descriptors import RESERVE_MAX, is_reserved

RAISE = """
import resource
from agent.processes.descriptors import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
print(raise_limit(), resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    result = subprocess.run(
        [sys.executable, "-P", "-c", RAISE], capture_output=True, text=True, check=True
    )

    assert result.stdout == "300 (300, 300)\n"


@pytest.mark.parametrize(
    ("soft", "first"), [(64, 48), (1_024, 1_024 - RESERVE_MAX), (65_536, 65_536 - RESERVE_MAX)]
)
def test_the_last_numbers_are_reserved(
    monkeypatch: pytest.MonkeyPatch, soft: int, first: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _limit: (soft, soft))

    assert [is_reserved(first - 1), is_reserved(first)] == [False, True]


def test_without_a_limit_nothing_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _limit: (resource.RLIM_INFINITY,) * 2)

    assert not is_reserved(1 << 30)
