"""What may be imported: start-up and footprint live by what is not."""

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

_OURS = {"agent", "aggregation", "metrics"}
_OF_RUN = {
    "_cffi_backend",
    "anyio",
    "bcrypt",
    "click",
    "cryptography",
    "h11",
    "idna",
    "msgspec",
    "prometheus_client",
    "starlette",
    "typing_extensions",
    "uvicorn",
    "yaml",
}
"""What every agent needs. Sources bring their own: kio comes with the first that reads the wire."""

_COMMAND = """
import sys
started = set(sys.modules)
from agent.cli import main
main(sys.argv[1:], standalone_mode=False)
print("imported:", *set(sys.modules) - started)
"""
_AGENT = """
import asyncio, sys
from pathlib import Path
started = set(sys.modules)
from agent.cli import run
from agent.wiring.agent import Agent
from agent.wiring.agent_config import load

async def live():
    agent = Agent(load(Path(sys.argv[1])), lambda: None)
    running = asyncio.create_task(agent.run())
    while agent.sources_not_ready():
        await asyncio.sleep(0.01)
    agent.snapshot()
    agent.stop()
    await running

asyncio.run(live())
print("imported:", *set(sys.modules) - started)
"""


def _imported(program: str, *arguments: str) -> set[str]:
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].removeprefix("imported: ").split())


def _foreign(modules: set[str]) -> set[str]:
    installed = packages_distributions().keys() - sys.stdlib_module_names - _OURS
    return {name.partition(".")[0] for name in modules} & installed


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_short_commands_import_click_alone(argument: str) -> None:
    modules = _imported(_COMMAND, argument)

    assert _foreign(modules) == {"click"}
    assert modules & {"asyncio", "ssl", "importlib.metadata", "agent.wiring.agent_config"} == set()


def test_an_agent_beside_a_log_imports_no_more_than_it_needs(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text(
        f"sources: [{{type: logs, paths: [{tmp_path}/app.log]}}]\n"
        f'state_dir: {tmp_path}/state\nweb: {{listen: ["127.0.0.1:0"]}}\n'
    )

    modules = _imported(_AGENT, str(config))

    assert _foreign(modules) <= _OF_RUN
