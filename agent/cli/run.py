"""``rebalance-agent run``: the agent itself."""

import asyncio
from pathlib import Path

import click

from agent.config.logging_config import LogFormat, LogLevel
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
@click.option(
    "-c",
    "--config.file",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    envvar="REBALANCE_AGENT_CONFIG_FILE",
    show_envvar=True,
    help="The configuration, in YAML.",
)
@click.option(
    "--web.listen-address",
    "listen",
    multiple=True,
    metavar="HOST:PORT",
    envvar="REBALANCE_AGENT_WEB_LISTEN_ADDRESS",
    show_envvar=True,
    help="Address to listen on; may be repeated. Port 0 takes a free one.  [default: :12472]",
)
@click.option(
    "--web.telemetry-path",
    "telemetry_path",
    metavar="PATH",
    envvar="REBALANCE_AGENT_WEB_TELEMETRY_PATH",
    show_envvar=True,
    help="Path of the metrics.  [default: /metrics]",
)
@click.option(
    "--web.config.file",
    "web_config_file",
    type=click.Path(dir_okay=False),
    envvar="REBALANCE_AGENT_WEB_CONFIG_FILE",
    show_envvar=True,
    help="TLS, headers and users, as every Prometheus exporter takes them.",
)
@click.option(
    "--log.level",
    "log_level",
    type=click.Choice([level.value for level in LogLevel]),
    envvar="REBALANCE_AGENT_LOG_LEVEL",
    show_envvar=True,
    help="The least level to log.  [default: info]",
)
@click.option(
    "--log.format",
    "log_format",
    type=click.Choice([style.value for style in LogFormat]),
    envvar="REBALANCE_AGENT_LOG_FORMAT",
    show_envvar=True,
    help="The format of log lines.  [default: logfmt]",
)
def run(  # noqa: PLR0913 - click passes options by name
    config_file: Path | None,
    listen: tuple[str, ...],
    telemetry_path: str | None,
    web_config_file: str | None,
    log_level: str | None,
    log_format: str | None,
) -> None:
    """Observe the clients beside it, and serve metrics, samples and health.

    SIGTERM and Ctrl-C drain; SIGHUP reads the configuration again, and so does POST /-/reload by a
    user or with the token of `web.token_file`. Flags win over the environment, and the environment
    over the file.
    """
    if config_file is None:
        wanted = "run wants --config.file FILE (or -c); the least that a file holds is:\n\n"
        raise ConfigError(wanted + EXAMPLE)
    overrides = Overrides(
        listen=listen,
        telemetry_path=telemetry_path,
        web_config_file=web_config_file,
        log_level=log_level,
        log_format=log_format,
    )

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
