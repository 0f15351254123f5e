"""The answer that README.md shows is the one that the program gives."""

from pathlib import Path

from click.testing import CliRunner

from agent.cli import main

ROOT = Path(__file__).parents[2]
GROUP = "g-classic-4.3.0"
RECORDED = ROOT / "tests" / "golden" / "dialects" / "java-consumer-3.0-4.3" / "input.log"


def test_readme_shows_the_present_answer(tmp_path: Path) -> None:
    runner = CliRunner()
    replayed = runner.invoke(main, ["replay", "--source", "logs", "--signals", str(RECORDED)])
    records = tmp_path / "records.jsonl"
    records.write_text(replayed.stdout)
    answer = runner.invoke(main, ["explain", GROUP, "--from", str(records)], env={"COLUMNS": "100"})

    shown = [f"    {line}".rstrip() for line in answer.stdout.splitlines()]
    assert "\n".join(shown) in (ROOT / "README.md").read_text(encoding="utf-8")
