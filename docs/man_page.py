"""The manual page, from each command's ``--help``."""

import click

_FRAME = r""".\" made from the code by `make docs`
.TH REBALANCE\-AGENT 1 "" "kafka\-rebalance\-agent" "User Commands"
.SH NAME
rebalance\-agent \- show when a Kafka consumer group rebalances, why, and what it costs
.SH SYNOPSIS
.B rebalance\-agent
.I COMMAND
[\fIOPTIONS\fR] [\fIARGUMENTS\fR]
.SH DESCRIPTION
An agent beside Kafka clients: it reads what clients, brokers or the network show already, keeps a
status for each consumer and Kafka Streams instance, and gives it to Prometheus, to recorded
samples and to a page.
.SH COMMANDS
{commands}
.SH EXIT STATUS
0 is success, 1 a fault of the world, 2 wrong usage or a wrong configuration, 130 an interrupt.
.SH FILES
.TP
.I ~/.local/state/kafka\-rebalance\-agent
Checkpoint and spool, unless the configuration names another
.BR state_dir .
.SH ENVIRONMENT
.TP
.B REBALANCE_AGENT_*
Flags of
.B run
and of commands that ask an agent; each command's help names its own.
"""


def man_page(commands: list[tuple[str, click.Context]]) -> str:
    """Return the page; commands come with their names and in their order."""
    sections = [f".SS {_escaped(name)}\n{_verbatim(context)}" for name, context in commands]
    return _FRAME.replace("{commands}", "\n".join(sections))


def _verbatim(context: click.Context) -> str:
    text = context.command.get_help(context)
    return f".nf\n{_escaped(text)}\n.fi"


def _escaped(text: str) -> str:
    r"""Return text that troff prints as it stands: ``\&`` keeps a leading dot or quote a letter."""
    lines = text.replace("\\", r"\e").replace("-", r"\-").splitlines()
    return "\n".join(rf"\&{line}" if line[:1] in {".", "'"} else line for line in lines)
