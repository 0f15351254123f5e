import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from agent.cli import main

LEAST = 'sources: [{type: logs, paths: ["/var/log/app/*.log"]}]\n'
AGENT = (sys.executable, "-P", "-m", "agent")


def call(*args: str, **environ: str) -> Result:
    return CliRunner().invoke(main, args, env=environ, prog_name="rebalance-agent")


def test_help_shows_commands_and_examples() -> None:
    done = call("--help")

    assert done.exit_code == 0
    assert re.search(r"^  run +Observe", done.output, re.MULTILINE)
    assert "rebalance-agent run --config.file agent.yaml" in done.output


@pytest.mark.parametrize("name", ["run", "check-config", "completion"])
def test_every_command_shows_examples(name: str) -> None:
    done = call(name, "--help")

    assert done.exit_code == 0
    assert "Example" in done.output


_INTERRUPTED_IMPORT = """
import signal, sys
from kafka_rebalance_agent.__main__ import main

class Interrupting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "click":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
main()
"""


def test_ctrl_c_while_a_command_is_imported_is_no_traceback() -> None:
    """On a busy machine that takes half a second."""
    call = (sys.executable, "-P", "-c", _INTERRUPTED_IMPORT)
    done = subprocess.run(call, check=False, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_run_without_a_file_says_what_it_wants() -> None:
    done = call("run")

    assert done.exit_code == 2
    assert done.stderr.startswith("Error: run wants --config.file FILE")
    assert "{type: logs, paths: [" in done.stderr


def test_a_wrong_file_is_one_line_and_exit_2(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("sources: [{type: log}]")

    done = call("run", "-c", str(path))

    assert (done.exit_code, done.stdout) == (2, "")
    said = f"Error: {path}: sources[0].type: unknown source 'log'; did you mean 'logs'?\n"
    assert done.stderr == said


def test_a_fault_of_the_world_is_one_line_and_exit_1(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(LEAST + f"state_dir: {tmp_path}")

    done = subprocess.run(
        [*AGENT, "run", "-c", str(path), "--web.listen-address", "256.0.0.1:0"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: cannot listen on '256.0.0.1:0'")


def test_a_wrong_log_rule_is_the_operators(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("sources: [{type: logs, paths: [a], dialects: [klingon]}]")

    done = call("check-config", "-c", str(path))

    assert done.exit_code == 2
    assert "'klingon'" in done.stderr


@pytest.mark.process
def test_an_argument_that_is_no_text_is_exit_2(tmp_path: Path) -> None:
    """A file may be called so."""
    (tmp_path / os.fsdecode(b"\xfe.log")).touch()

    def run(cluster: bytes) -> subprocess.CompletedProcess[bytes]:
        command: list[str | bytes] = [*AGENT, "replay", "--source", "logs"]
        command += ["--cluster", cluster, b"\xfe.log"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)

    wrong, right = run(b"\xff"), run(b"c")
    assert (wrong.returncode, right.returncode) == (2, 0)
    assert wrong.stderr == b"Error: found '\\udcff', wanted UTF-8\n"


@pytest.mark.process
@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "utf-8"])
def test_a_terminal_that_cannot_show_a_name_ends_nothing(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "app.log"
    joining = "Request joining group due to: need to re-join with the given member-id: m"
    text = f"2026-11-21 06:00:00,000 INFO [Consumer clientId=\u65e5\xe9, groupId=g] {joining}\n"
    log.write_text(text, encoding="utf-8")

    def run(*args: str, given: bytes = b"") -> bytes:
        environ = os.environ | {"PYTHONIOENCODING": encoding}
        command = [*AGENT, *args]
        return subprocess.run(
            command, input=given, env=environ, capture_output=True, check=True
        ).stdout

    # click takes ASCII for a mistake, and writes UTF-8
    is_utf_8 = encoding != "latin-1"
    shown = run("replay", "--source", "logs", "--format", "text", str(log))
    records = run("replay", "--source", "logs", str(log))
    got = run("explain", "g", "--from", "-", "--output", "json", given=records)

    wanted = "\u65e5\xe9".encode() if is_utf_8 else b"\\u65e5\xe9"
    assert wanted in shown
    assert json.loads(records)["client_id"] == "\u65e5\xe9"
    assert "\u65e5\xe9" in json.dumps(json.loads(got), ensure_ascii=False)


@pytest.mark.process
@pytest.mark.parametrize("command", [["dialects"], ["replay", "--source", "logs", "app.log"]])
def test_a_disk_that_is_full_is_one_line_and_exit_1(tmp_path: Path, command: list[str]) -> None:
    joining = "Request joining group due to: need to re-join with the given member-id: m"
    text = f"2026-11-21 06:00:00,000 INFO [Consumer clientId=c, groupId=g] {joining}\n"
    (tmp_path / "app.log").write_text(text)

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*AGENT, *command], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert (done.returncode, done.stderr) == (1, b"Error: No space left on device\n")


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        "replay --source logs -",
        "replay --source pcap -",
        "replay --source stats -",
        "explain g --from -",
        "inject -f -",
        "top --from http://127.0.0.1:1",
    ],
)
@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_standard_files_end_no_command_with_a_traceback(command: str, closed: str) -> None:
    text = f"{shlex.join(AGENT)} {command} {closed}"

    done = subprocess.run(["sh", "-c", text], capture_output=True, check=False)

    assert done.returncode in {0, 1, 2}
    assert b"Traceback" not in done.stderr


@pytest.mark.process
def test_no_file_takes_the_place_of_a_closed_standard_file(tmp_path: Path) -> None:
    """A lock of the state was number 2, and libraries print there."""
    script = (
        "import os\n"
        "from pathlib import Path\n"
        "from agent.cli import main\n"
        "main(['--version'], standalone_mode=False)\n"
        "found = [os.readlink(f'/proc/self/fd/{number}') for number in range(3)]\n"
        f"Path({str(tmp_path / 'found')!r}).write_text(' '.join(found))\n"
    )
    (tmp_path / "run.py").write_text(script)
    text = f"{shlex.join([*AGENT[:-2], str(tmp_path / 'run.py')])} <&- >&- 2>&-"

    subprocess.run(["sh", "-c", text], check=True)

    assert (tmp_path / "found").read_text() == "/dev/null /dev/null /dev/null"


@pytest.mark.parametrize(
    ("name", "answer"),
    [("explian", "did you mean 'explain'?"), ("xyz", "allowed: check-config, completion, demo")],
)
def test_an_unknown_command_is_exit_2_and_named_what_it_may_be(name: str, answer: str) -> None:
    result = call(name)
    assert result.exit_code == 2
    assert f"Error: {name}: no command; {answer}" in result.stderr


def test_check_config_prints_what_loads_as_the_same(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(LEAST + "status: {linger: 90s}")

    done = call("check-config", "-c", str(path))

    assert done.exit_code == 0
    printed = yaml.safe_load(done.stdout)
    assert printed["status"]["linger"] == "1m30s"
    assert printed["sources"][0]["type"] == "logs"
    path.write_text(done.stdout)
    assert call("check-config", "-c", str(path)).stdout == done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell: str) -> None:
    done = call("completion", shell)

    assert done.exit_code == 0
    assert "_REBALANCE_AGENT_COMPLETE" in done.stdout


def test_version_imports_nothing_heavy() -> None:
    code = (
        "import sys; from agent.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )

    version, modules = done.stdout.split("\n", 1)
    assert version == "rebalance-agent, version 0.1.0"
    heavy = {"yaml", "starlette", "uvicorn", "asyncio", "msgspec", "prometheus_client", "pyspark"}
    assert heavy.isdisjoint(modules.split())


@pytest.mark.process
def test_run_serves_until_sigterm(tmp_path: Path) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text(f"sources: [{{type: logs, paths: [{tmp_path}/*.log]}}]\nstate_dir: {tmp_path}")
    command = [*AGENT, "run", "-c", str(path)]
    environ = os.environ | {
        "REBALANCE_AGENT_WEB_LISTEN_ADDRESS": "127.0.0.1:0",
        "REBALANCE_AGENT_LOG_LEVEL": "error",
        "REBALANCE_AGENT_LOG_FORMAT": "json",
    }

    with subprocess.Popen(
        [*command, "--log.level", "info"], env=environ, stderr=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stderr is not None
        first = yaml.safe_load(agent.stderr.readline())
        agent.send_signal(signal.SIGTERM)
        _, rest = agent.communicate(timeout=20)

    assert (first["event"], first["address"].startswith("127.0.0.1:")) == ("listening", True)
    assert agent.returncode == 0
    assert "Traceback" not in rest


def test_ctrl_c_in_a_command_is_130() -> None:
    code = (
        "import click; from agent.cli import main\n"
        "@main.command()\n"
        "def waits(): raise KeyboardInterrupt\n"
        "main.get_command = lambda ctx, name: waits\n"
        "main(['waits'])"
    )

    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (130, b"")
