"""JSON that a terminal shows: names that a peer chose are no commands."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.cli.json_output import escape_invisible

NAMES = ("a\x9b31m", "a\x7f", "\u202eevil", "\u2028", "a\U000e0041", "ü-1", "消费者", "💥")


@pytest.mark.parametrize("name", NAMES)
def test_document_stays_the_same_and_is_printable(name: str) -> None:
    document = json.dumps({"name": name}, ensure_ascii=False).encode() + b"\n"

    shown = escape_invisible(document)

    assert json.loads(shown) == {"name": name}
    assert shown.decode()[:-1].isprintable()
    assert (name in shown.decode()) == name.isprintable()


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
