"""JSON that a terminal shows: names that a peer chose are no commands."""

import json
from pathlib import Path

from click.testing import CliRunner

from agent.cli import main


def test_recorded_names_reach_no_terminal_as_commands(tmp_path: Path) -> None:
    line = (
        "[2026-11-21 07:31:51,400] INFO [Consumer clientId=a\x9b31m, groupId=g\u202e] {}\n".format
    )
    text = line("Request joining group due to: need to revoke partitions [t-0]")
    (tmp_path / "app.log").write_text(text + line("Attempt to heartbeat failed since group is"
                                                  " rebalancing"))  # fmt: skip
    argv = ["replay", "--source", "logs", "--timezone", "UTC", str(tmp_path / "app.log")]

    replayed = CliRunner().invoke(main, argv)

    assert replayed.stdout
    assert all(shown.isprintable() for shown in replayed.stdout.splitlines())
    (group,) = {json.loads(shown)["group"] for shown in replayed.stdout.splitlines()}
    asked = ["explain", group, "--from", "-", "--output", "json"]
    answer = CliRunner().invoke(main, asked, input=replayed.stdout)
    assert answer.exit_code == 0
    assert all(shown.isprintable() for shown in answer.stdout.splitlines())
