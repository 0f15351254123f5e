import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main


def test_a_folder_with_files_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()

    result = CliRunner().invoke(main, ["demo", "--output", str(tmp_path)])

    assert result.exit_code == 2
    assert "is not empty" in result.output


def test_without_confluent_kafka_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)

    result = CliRunner().invoke(main, ["demo", "--output", str(tmp_path / "out")])

    assert result.exit_code == 2
    assert "pip install 'kafka-rebalance-agent[kafka,wire]'" in result.output
