"""The file of objectives: patterns of groups, targets, budgets."""

from pathlib import Path

import pytest

from agent.config.objectives import read_objectives
from agent.errors import ConfigError


def test_patterns_targets_and_budgets_are_read_in_order(tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text('slo:\n  "re:^pay-.*": {target: 99.9, budget: 2h}\n  audit: {target: 99}\n')
    first, second = read_objectives(path)
    assert first.groups.fullmatch("pay-in")
    assert not first.groups.fullmatch("audit")
    assert first.target == pytest.approx(0.999)
    assert first.budget_s == 7200.0
    assert (second.groups.pattern, second.target, second.budget_s) == ("audit", 0.99, None)


@pytest.mark.parametrize("target", [99.99, 99.999, 99.9999, 0.1])
def test_target_is_the_number_that_was_written(tmp_path: Path, target: float) -> None:
    """99.99 / 100 is 0.9998999999999999."""
    path = tmp_path / "slo.yaml"
    path.write_text(f"slo: {{a: {{target: {target}}}}}\n")
    (found,) = read_objectives(path)
    assert repr(found.target) == repr(float(f"{target}e-2"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "wanted objectives by group, such as slo: {"),
        ("other: {}", "wanted objectives by group, such as slo: {"),
        ("slo: {a: 99}", "slo.a: wanted target, budget or both"),
        ("slo: {a: {aim: 99}}", "slo.a: wanted target, budget or both"),
        ("slo: {a: {target: 120}}", "slo.a.target: found 120, wanted per cent"),
        ("slo: {a: {target: 0}}", "slo.a.target: found 0"),
        ("slo: {a: {budget: 7}}", "slo.a.budget: found 7, wanted a duration"),
        ('slo: {"re:(": {target: 9}}', "is no regular expression"),
    ],
)
def test_other_files_are_refused_with_their_place(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_objectives(path)
    assert said in str(error.value)
