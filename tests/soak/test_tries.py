"""Tests of the tries of a soak: one, and a second one if the first was nearly exact."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from tests.soak import __main__ as soak

_SEED = 7


@pytest.fixture(autouse=True)
def _kept_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the folders of inexact soaks in the test's own folder, so that they are deleted."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize(
    ("recalls", "soaks", "exit_code"),
    [
        ((1.0,), 1, 0),
        ((0.9995, 1.0), 2, 0),
        ((0.9995, 0.9995), 2, 1),
        ((0.998, 1.0), 1, 1),
    ],
)
def test_only_one_that_nearly_held_is_followed_by_another(
    recalls: Sequence[float], soaks: int, exit_code: int
) -> None:
    found = [_found(recall=recall) for recall in recalls]

    assert _run(found, "--tries", "2") == (soaks, exit_code)


def test_memory_that_grows_is_not_tried_again() -> None:
    assert _run([_found(slope=21.0), _found()], "--tries", "2") == (1, 1)


def test_one_try_is_the_default() -> None:
    assert _run([_found(recall=0.9995), _found()]) == (1, 1)


def _run(found: Sequence[soak.Found], *options: str) -> tuple[int, int]:
    """Return how many soaks there were, each with a seed of its own, and the exit code."""
    with (
        patch.object(soak, "_soak") as soaked,
        patch.object(soak, "_found", side_effect=found),
        patch.object(soak, "_tell_about"),
    ):
        done = CliRunner().invoke(soak.main, ["--seed", str(_SEED), *options])
    seeds = [call.args[3] for call in soaked.call_args_list]
    assert seeds == [*range(_SEED, _SEED + len(seeds))]
    return len(seeds), done.exit_code


def _found(*, recall: float = 1.0, slope: float = 0.0) -> soak.Found:
    exact = {"precision": 1.0, "recall": recall, "differences": []}
    return {**exact, "logs_alone": exact, "orders": [], "minutes": 10.0, "rss_mib_per_h": slope}
