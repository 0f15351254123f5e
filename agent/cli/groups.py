"""``rebalance-agent groups``: every group of a cluster, listed and described."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.config.addresses import parse_address
from agent.errors import ConfigError, RebalanceAgentError
from agent.extras import require_extra
from metrics.model.names import printable

if TYPE_CHECKING:
    from agent.inspection.client import Access
    from agent.inspection.model import DownBroker

_TYPES = ["classic", "consumer", "share", "streams"]
_STATES = [
    "Unknown",
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
]
_EPILOG = """\b
Examples:
  rebalance-agent groups list --bootstrap-server kafka-1:9092
  rebalance-agent groups list --bootstrap-server kafka-1:9093 --command-config client.properties \\
      --group-type consumer --state Reconciling
  rebalance-agent groups describe payments orders --members --bootstrap-server kafka-1:9092
  rebalance-agent groups describe payments --offsets --bootstrap-server kafka-1:9092
  rebalance-agent groups describe payments --output json --bootstrap-server kafka-1:9092
  rebalance-agent groups describe payments --from http://hub:12472 --bootstrap-server kafka-1:9092
"""


_TIMEOUT_S = 10.0
_CONSUMER_HELP = "All consumers' groups: consumer, and classic ones of them."


def _add_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0.1),
            metavar="SECONDS",
            help="Time limit of one response of a broker; by default request.timeout.ms of "
            "--command-config, else 10.",
        ),
        click.option(
            "--output",
            type=click.Choice(["table", "json", "yaml"]),
            default="table",
            show_default=True,
        ),
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Sort the tables by this column; -COLUMN sorts downwards.",
        ),
        click.option(
            "--columns", metavar="COLUMN,...", help="Show these columns of the tables alone."
        ),
        click.option(
            "--group-type", type=click.Choice(_TYPES, case_sensitive=False), help="This type alone."
        ),
        click.option(
            "--command-config",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Kafka's client configuration: security.protocol and so on.",
        ),
        click.option(
            "--bootstrap-server",
            metavar="HOST:PORT,...",
            envvar="REBALANCE_AGENT_BOOTSTRAP_SERVER",
            show_envvar=True,
            help="Brokers to begin with; by default bootstrap.servers of --command-config.",
        ),
    ):
        command = option(command)
    return command


@click.group(epilog=_EPILOG)
def groups() -> None:
    """List and describe the groups of a cluster: classic, consumer, share and streams."""


@groups.command(name="list", epilog=_EPILOG)
@_add_shared_options
@click.option("--protocol", metavar="P", help="Groups of this protocol type, such as connect.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES, case_sensitive=False),
    help="Groups in this state; may be repeated.",
)
@click.option("--consumer", is_flag=True, help=_CONSUMER_HELP)
@click.option("--share", is_flag=True, help="Share groups.")
@click.option("--streams", is_flag=True, help="Streams groups.")
@click.argument("names", nargs=-1, metavar="[GROUP|PATTERN]...")
def list_(  # noqa: PLR0913 - an argument an option
    *,
    bootstrap_server: str | None,
    command_config: Path | None,
    group_type: str | None,
    output: str,
    timeout_s: float | None,
    protocol: str | None,
    states: tuple[str, ...],
    consumer: bool,
    share: bool,
    streams: bool,
    names: tuple[str, ...],
    sort: str | None,
    columns: str | None,
) -> None:
    """List groups with type, protocol, state and coordinator.

    Without names all groups are listed. A pattern is 'payments-*' or 're:payments-[0-9]+'.
    Every broker is asked. If one is down, the others' groups are shown and the exit code is 1. A
    broker below Kafka 3.8 reports no types.
    """
    kinds = [name for name, on in (("share", share), ("streams", streams)) if on]
    if len(kinds) + consumer > 1 or ((kinds or consumer) and (group_type or protocol)):
        raise click.UsageError(
            "--consumer, --share, --streams: wanted one, without --group-type and --protocol"
        )
    with require_extra("wire", "groups"):
        from agent.inspection.client import list_matching_groups  # noqa: PLC0415 - an extra
        from agent.inspection.filters import GroupFilter  # noqa: PLC0415
        from agent.inspection.model import parse_state, parse_type  # noqa: PLC0415
        from agent.inspection.name_patterns import match_any  # noqa: PLC0415
        from agent.inspection.output import OutputFormat, Selection, render_listings  # noqa: PLC0415
    chosen = GroupFilter(
        group_type=parse_type(group_type or "".join(kinds)),
        protocol=protocol,
        states=tuple(state for state in map(parse_state, states) if state),
        consumers=consumer,
        has_name=match_any(names, "groups list"),
    )
    selection = Selection.parse(sort, columns)
    access = _access(bootstrap_server, command_config, timeout_s)
    listed, denied = asyncio.run(list_matching_groups(access, chosen))
    text = render_listings(listed.groups, listed.down, OutputFormat(output), selection)
    click.echo(text, nl=False)
    if denied:
        _warn("Note: no ACL for Describe on the cluster: groups without an ACL may be missing")
    _exit(list(map(_down_text, listed.down)))


@groups.command(name="describe", epilog=_EPILOG)
@_add_shared_options
@click.option("--members", is_flag=True, help="Show the members, too (JSON and YAML always do).")
@click.option(
    "--offsets",
    is_flag=True,
    help="Show offsets and lag by partition; a share group's CURRENT-OFFSET is its start offset.",
)
@click.option(
    "--time-lag",
    is_flag=True,
    help="With --offsets: show the age of the oldest unread record, by requests for its timestamp.",
)
@click.option(
    "--verbose",
    is_flag=True,
    help="Show generation, leader and rights; with --members subscriptions and partitions, too.",
)
@click.option(
    "--authorized-operations", is_flag=True, help="Show this user's rights on the groups."
)
@click.option(
    "--from",
    "place",
    metavar="URL|SPOOL|TABLES",
    envvar="REBALANCE_AGENT_FROM",
    show_envvar=True,
    help="Agent, hub, spool or tables with classic groups' generation; an agent has the leader.",
)
@click.option("--all", "all_groups", is_flag=True, help="Describe every group.")
@click.option("--consumer", is_flag=True, help=_CONSUMER_HELP)
@click.option("--group", "more", multiple=True, metavar="GROUP", help="Like an argument.")
@click.argument("names", nargs=-1, metavar="[GROUP|PATTERN]...")
def describe(  # noqa: PLR0913 - an argument an option
    *,
    names: tuple[str, ...],
    bootstrap_server: str | None,
    command_config: Path | None,
    group_type: str | None,
    output: str,
    timeout_s: float | None,
    members: bool,
    offsets: bool,
    time_lag: bool,
    verbose: bool,
    authorized_operations: bool,
    place: str | None,
    all_groups: bool,
    consumer: bool,
    more: tuple[str, ...],
    sort: str | None,
    columns: str | None,
) -> None:
    """Describe groups: state, assignor, epochs, coordinator, members and their assignments.

    A pattern is 'payments-*' or 're:payments-[0-9]+'; --consumer without names is all of them.
    The exit code is 1 if a group cannot be described; the others are shown.
    """
    with require_extra("wire", "groups"):
        from agent.inspection import client as asking  # noqa: PLC0415 - an extra
        from agent.inspection.model import Failure, parse_type  # noqa: PLC0415
        from agent.inspection.name_patterns import is_pattern  # noqa: PLC0415
        from agent.inspection.output import (  # noqa: PLC0415
            Details,
            OutputFormat,
            Selection,
            failure_texts,
            render_descriptions,
        )
    names = (*names, *more)
    if not names and not all_groups and not consumer:
        raise click.UsageError("wanted GROUP, a pattern, --all or --consumer")
    selection = Selection.parse(sort, columns)
    access = _access(bootstrap_server, command_config, timeout_s)
    faults = list[str]()
    if all_groups or consumer or any(map(is_pattern, names)):
        names, faults = _expand(
            access, () if all_groups else names, consumers=consumer, group_type=group_type
        )
    answers = asyncio.run(
        asking.describe(
            access,
            names,
            parse_type(group_type or ""),
            asking.Extras(authorized_operations or verbose, offsets, time_lag),
        )
    )
    if place is not None:
        from agent.inspection.observed_generation import add_generations  # noqa: PLC0415

        try:
            answers = add_generations(answers, place)
        except RebalanceAgentError as error:
            faults.append(f"Warning: no generation and leader: {error}")
    failures = [each for each in answers if isinstance(each, Failure)]
    described = [each for each in answers if not isinstance(each, Failure)]
    if described or output != "table":
        style = OutputFormat(output)
        details = Details(
            members=members,
            offsets=offsets or time_lag,
            time_lag=time_lag,
            verbose=verbose,
            operations=authorized_operations,
            selection=selection,
        )
        click.echo(render_descriptions(described, failures, style, details), nl=False)
    _exit([*faults, *(f"Error: {text}" for text in failure_texts(failures))])


def _expand(
    access: "Access", names: tuple[str, ...], *, consumers: bool, group_type: str | None
) -> tuple[tuple[str, ...], list[str]]:
    """Return the groups that names and patterns match, and the faults: missing names, brokers."""
    from agent.inspection.client import list_matching_groups  # noqa: PLC0415 - an extra
    from agent.inspection.filters import GroupFilter  # noqa: PLC0415
    from agent.inspection.model import parse_type  # noqa: PLC0415
    from agent.inspection.name_patterns import is_pattern, match_any  # noqa: PLC0415

    has_name = match_any(names, "groups describe")
    chosen = GroupFilter(
        consumers=consumers, has_name=has_name, group_type=parse_type(group_type or "")
    )
    listed, _ = asyncio.run(list_matching_groups(access, chosen))
    found = [each.group for each in listed.groups]
    faults = [_down_text(each) for each in listed.down]
    for name in names:
        if not is_pattern(name) and name not in found:
            found.append(name)  # its description has its type
        elif is_pattern(name) and not any(map(match_any([name], ""), found)):
            faults.append(f"Error: {name!r} matches no group")
    return tuple(found), faults


def _access(
    bootstrap: str | None, command_config: Path | None, timeout_s: float | None
) -> "Access":
    from agent.inspection.client import Access  # noqa: PLC0415 - an extra
    from agent.inspection.connection.client_properties import (  # noqa: PLC0415
        read_properties,
        request_timeout_s,
        security_of,
    )

    where = "--bootstrap-server"
    properties = dict[str, str]()
    if command_config is not None:
        properties = read_properties(command_config)
    bootstrap = properties.get("bootstrap.servers", "") if bootstrap is None else bootstrap
    if not bootstrap.strip(" ,"):
        raise click.UsageError(f"{where} is missing; wanted a broker, such as kafka-1:9092")
    properties["bootstrap.servers"] = bootstrap
    security = security_of(properties, str(command_config))
    nodes = [parse_address(each.strip(), where) for each in bootstrap.split(",") if each.strip()]
    for node in nodes:
        if not node.host:
            raise ConfigError(f"{where}: found {bootstrap!r}, wanted host:port")
    return Access(
        bootstrap=tuple((node.host, node.port) for node in nodes),
        security=lambda: security,
        timeout_s=timeout_s or request_timeout_s(properties, str(command_config)) or _TIMEOUT_S,
    )


def _down_text(down: "DownBroker") -> str:
    name = f"broker {down.node_id}" if down.node_id is not None else "bootstrap server"
    return f"Warning: partial: {name} is missing: {down.error}"


def _warn(text: str) -> None:
    click.echo(printable(text), err=True)


def _exit(faults: list[Any]) -> None:
    """Print the errors on stderr, and end with exit code 1 if there are any."""
    for fault in faults:
        _warn(fault)
    if faults:
        raise SystemExit(1)
