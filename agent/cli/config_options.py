"""Options of `run` and `check-config`: a configuration file, and settings that replace its own."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from agent.config.logging_config import LogFormat, LogLevel
from agent.wiring.agent_config import Overrides

FILE = click.Path(dir_okay=False, path_type=Path)


class _CheckedLater(click.Choice[str]):
    """A choice that the configuration checks, so that one error does not hide the others."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        del param, ctx
        return str(value)


_SETTINGS = (
    click.option(
        "--web.listen-address",
        "listen",
        multiple=True,
        metavar="HOST:PORT",
        envvar="REBALANCE_AGENT_WEB_LISTEN_ADDRESS",
        show_envvar=True,
        help="Address to listen on; may be repeated. Port 0 takes a free one.  [default: :12472]",
    ),
    click.option(
        "--web.telemetry-path",
        "telemetry_path",
        metavar="PATH",
        envvar="REBALANCE_AGENT_WEB_TELEMETRY_PATH",
        show_envvar=True,
        help="Path of the metrics.  [default: /metrics]",
    ),
    click.option(
        "--web.config.file",
        "web_config_file",
        metavar="FILE",
        type=click.Path(),
        envvar="REBALANCE_AGENT_WEB_CONFIG_FILE",
        show_envvar=True,
        help="TLS, headers and users, as every Prometheus exporter takes them.",
    ),
    click.option(
        "--log.level",
        "log_level",
        type=_CheckedLater([level.value for level in LogLevel]),
        envvar="REBALANCE_AGENT_LOG_LEVEL",
        show_envvar=True,
        help="The least level to log.  [default: info]",
    ),
    click.option(
        "--log.format",
        "log_format",
        type=_CheckedLater([style.value for style in LogFormat]),
        envvar="REBALANCE_AGENT_LOG_FORMAT",
        show_envvar=True,
        help="The format of log lines.  [default: logfmt]",
    ),
)


def config_options(*, required: bool) -> Callable[[Callable[[Any, Overrides], None]], Any]:
    """Add the options; the command takes the file's path and the settings."""

    def add(command: Callable[[Any, Overrides], None]) -> Any:
        @wraps(command)
        def call(config_file: Path | None, **settings: Any) -> None:
            command(config_file, Overrides(**settings))

        for option in reversed((_file(required=required), *_SETTINGS)):
            call = option(call)
        return call

    return add


def _file(*, required: bool) -> Callable[[Any], Any]:
    return click.option(
        "-c",
        "--config.file",
        "config_file",
        type=FILE,
        envvar="REBALANCE_AGENT_CONFIG_FILE",
        show_envvar=True,
        required=required,
        help="The configuration, in YAML.",
    )
