"""Lower bounds of requirements leave out releases that the code does not run with."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

_PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
_OTEL = _PROJECT["optional-dependencies"]["otel"]
_WANTED = {each.name: each for each in map(Requirement, _PROJECT["dependencies"] + _OTEL)}


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("click", "8.1.8"),  # `Choice` takes no type: `run` and `check-config` do not start
        (
            "msgspec",
            "0.20.0",
        ),  # `DecodeError` is no `ValueError`: a malformed record ends its reader
    ],
)
def test_a_release_that_does_not_work_is_refused(name: str, release: str) -> None:
    assert not _WANTED[name].specifier.contains(release)


def test_what_otlp_imports_is_required() -> None:
    assert "requests" in _WANTED
