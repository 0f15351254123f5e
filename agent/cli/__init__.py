"""The command line: one module per command, imported when it is called."""

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import click

from agent import VERSION
from agent.errors import ConfigError, DialectError, RebalanceAgentError

_HELP = {
    "run": "Observe the clients beside it: metrics, samples, health.",
    "demo": "Show it all at work: a cluster, rebalances, metrics, a report.",
    "replay": "Read recorded files as if they were live.",
    "explain": "Explain a group's rebalances: cause, member, cost.",
    "top": "Watch rebalancing groups live, in a terminal.",
    "groups": "List and describe the groups of a cluster.",
    "ingest": "Put samples into tables, with Spark.",
    "report": "Write the trend report from tables, with Spark.",
    "check-config": "Check a configuration and print it with its defaults.",
    "dialects": "Show the known log dialects.",
    "inject": "Add the sidecar to Kubernetes' manifests.",
    "completion": "Print the completion script for a shell.",
}
"""Every command in the order of ``--help``; help imports no command."""

_OPERATORS = (ConfigError, DialectError)
"""Errors of the configuration; it also holds log rules."""
_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of a full or broken disk: these are no bugs."""
_STANDARD_FILES = {"stdin": "r", "stdout": "w", "stderr": "w"}
_EXIT_FAULT, _EXIT_USAGE, _EXIT_INTERRUPTED = 1, 2, 130


class Commands(click.Group):
    """Finds a command in the module of its name; a missing module is no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [name for name in _HELP if find_spec(_module(name)) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = getattr(
            importlib.import_module(_module(cmd_name)), cmd_name.replace("-", "_")
        )
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; an unknown one is answered with those that it may be."""
        name = args[0]
        is_wanted = not name.startswith("-") and not ctx.resilient_parsing
        if is_wanted and self.get_command(ctx, name) is None:
            from agent.config.codec import suggest  # noqa: PLC0415 - for an error's sake

            ctx.fail(f"{name}: no command; {suggest(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _HELP[name]) for name in self.list_commands(ctx)])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run; turn an error into one line on stderr and an exit code."""
        _open_standard_files()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # a terminal may not have every name's letters
                stream.reconfigure(errors="backslashreplace")
        try:
            _refuse_undecodable(args[0] if args else kwargs.get("args"))
            return super().main(*args, **kwargs)
        except RebalanceAgentError as error:
            from metrics.model.names import printable  # noqa: PLC0415 - for an error's sake

            click.echo("\n".join(map(printable, f"Error: {error}".split("\n"))), err=True)
            sys.exit(_EXIT_USAGE if isinstance(error, _OPERATORS) else _EXIT_FAULT)
        except OSError as error:
            if error.errno not in _DISK:
                raise
            click.echo(f"Error: {error.strerror}", err=True)
            sys.exit(_EXIT_FAULT)

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke the command; Ctrl-C ends it as a shell expects."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.exit(_EXIT_INTERRUPTED)


def _open_standard_files() -> None:
    """Open `/dev/null` as each standard file that is closed.

    A file that the agent opens would get its number, and a library's message on stderr would be
    written into a lock, a spool or a connection.
    """
    for number, (name, mode) in enumerate(_STANDARD_FILES.items()):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - to the end


def _refuse_undecodable(arguments: Sequence[str] | None) -> None:
    """Refuse arguments that are not UTF-8, unless a file has that name."""
    for each in sys.argv[1:] if arguments is None else arguments:
        try:
            each.encode()
        except UnicodeEncodeError as error:
            if not os.path.exists(each):  # noqa: PTH110 - Path's raises where the name is too long
                raise ConfigError(f"found {each!r}, wanted UTF-8") from error


def _module(command: str) -> str:
    return f"{__name__}.{command.replace('-', '_')}"


_EXAMPLES = """\b
Examples:
  rebalance-agent demo
  rebalance-agent run --config.file agent.yaml
  rebalance-agent replay --source logs app.log
"""


@click.group(cls=Commands, epilog=_EXAMPLES)
@click.version_option(VERSION, prog_name="rebalance-agent")
def main() -> None:
    """Show when a Kafka consumer group rebalances, why, which member caused it, and the cost."""
