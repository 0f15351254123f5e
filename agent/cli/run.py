"""``rebalance-agent run``: the agent itself."""

import asyncio
from pathlib import Path

import click

from agent.cli.config_options import config_options
from agent.errors import ConfigError
from agent.processes.descriptors import raise_limit
from agent.processes.ending import EndInTime
from agent.runtime.log_format import configure
from agent.wiring.agent import Agent
from agent.wiring.agent_config import AgentConfig, Overrides, load
from agent.wiring.capabilities import drop_unneeded

EXAMPLE = """\
sources:
  - {type: logs, paths: ["/var/log/app/*.log"]}
"""

_EPILOG = """\b
Examples:
  rebalance-agent run --config.file agent.yaml
  rebalance-agent run -c agent.yaml --web.listen-address 127.0.0.1:12472
  rebalance-agent run -c agent.yaml --web.config.file web.yaml
  kill -HUP <pid>     reads the configuration again
"""


@click.command(epilog=_EPILOG)
@config_options(required=False)
def run(config_file: Path | None, overrides: Overrides) -> None:
    """Observe the clients beside it, and serve metrics, samples and health.

    SIGTERM and Ctrl-C drain; SIGHUP reads the configuration again, and so does POST /-/reload by a
    user or with the token of `web.token_file`. Flags win over the environment, and the environment
    over the file.
    """
    if config_file is None:
        wanted = "run wants --config.file FILE (or -c); the least that a file holds is:\n\n"
        raise ConfigError(wanted + EXAMPLE)

    def load_config() -> AgentConfig:
        config = load(config_file, overrides)
        configure(config.log.level, config.log.format)
        return config

    raise_limit()

    def on_listening(config: AgentConfig) -> None:
        drop_unneeded(config)
        ending.watch(agent.stop_from_thread)

    async def drain() -> None:
        await agent.run()
        ending.note_drained()

    agent = Agent(load_config(), load_config, on_listening=on_listening)
    with EndInTime() as ending:
        asyncio.run(drain())
