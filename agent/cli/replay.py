"""Command `rebalance-agent replay`: recorded files, offline."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent.cli.json_output import echo_json
from agent.cli.replay_files import SOURCES, group_by_kind, line_parsers, make_options, read
from agent.errors import SourceError
from agent.runtime.replay import Watermark, format_text
from agent.runtime.replay import replay as run_replay
from agent.sources.base import Tick
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.sources.logs.config import LogConfig
from metrics.model.names import printable
from metrics.model.sample import SampleKind, encode
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

if TYPE_CHECKING:
    from agent.wiring.agent_config import AgentConfig

_PRINTED = {SampleKind.TRANSITION, SampleKind.LOST}
_TOLD = {*_PRINTED, SampleKind.SIGNAL}
"""Records of a status or a cause; others, as those of settings, leave the question open."""
_EXAMPLES = """\b
Examples:
  rebalance-agent replay app.log
  rebalance-agent replay --source logs --format text app.log.2.gz app.log.1 app.log
  kubectl logs payments-0 | rebalance-agent replay --source logs -
  rebalance-agent replay --source broker_log --format text /var/log/kafka/server.log
  rebalance-agent replay --source stats --group payments stats.jsonl
  rebalance-agent replay --source logs --explain-line app.log
  rebalance-agent replay --source logs --explain-line -c agent.yaml app.log
  tcpdump -U -w - port 9092 | rebalance-agent replay --source pcap -
  rebalance-agent replay --source logs,pcap app.log wire.pcap
  rebalance-agent replay logs:app.log broker_log:server.log pcap:wire.pcap
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--source",
    type=click.Choice(SOURCES),
    help="What the files are: logs of clients, logs of brokers, librdkafka's statistics (JSON "
    "lines), captures (pcap, pcapng), or logs and captures of the same clients, distinguished by "
    "their first bytes. A PATH of another source is SOURCE:PATH. Default: by each file's content.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["jsonl", "text"]),
    default="jsonl",
    show_default=True,
    help="jsonl: the sample schema; text: a line for people.",
)
@click.option(
    "-c",
    "--config.file",
    "config_file",
    type=click.Path(dir_okay=False),
    help="Take rules, dialects, time zone, apps and status times from an agent's configuration.",
)
@click.option("--timezone", help="IANA zone of stamps without one. Default: the machine's.")
@click.option("--cluster", default="", help="Cluster name. Default: the Cluster ID in the log.")
@click.option(
    "--dialect", "dialects", multiple=True, help="Read with this dialect only; may be repeated."
)
@click.option("--group", help="Group of statistics that do not name theirs.")
@click.option("--signals", is_flag=True, help="Print masked causes and unexplained joins too.")
@click.option("--explain-line", is_flag=True, help="Print which rule read which line, and how.")
@click.option(
    "--only-read", "only", flag_value="read", help="With --explain-line: only lines that are read."
)
@click.option(
    "--only-unread", "only", flag_value="unread", help="With --explain-line: only the others."
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
def replay(  # noqa: PLR0913 - one argument an option
    source: str | None,
    output: str,
    config_file: str | None,
    timezone: str | None,
    cluster: str,
    dialects: tuple[str, ...],
    group: str | None,
    signals: bool,
    explain_line: bool,
    only: str | None,
    paths: tuple[str, ...],
) -> None:
    """Read recorded files as if they were live, with the recorded times as the clock.

    Prints transitions, ordered by time. Rotated files of one log (app.log.2.gz, app.log.1, app.log)
    are one stream, the oldest first; all captures are one. Reports of several sources about one
    member are merged. `-` is stdin, even while it is still written: its transitions are printed
    some 10 s of recorded time later, when no earlier one can follow.
    """
    if only is not None and not explain_line:
        raise click.UsageError("--only-read and --only-unread need --explain-line")
    config = None if config_file is None else _load(Path(config_file))
    printed = set(SampleKind) if signals else _PRINTED
    cluster = cluster or (config.cluster.name if config else "")
    configured = _only_source(config)
    timezone = timezone or (configured.timezone if configured else None)
    timezone = timezone or (config.timezone if config else None)
    group = group or (configured.group if configured else None)
    files = group_by_kind(source, paths)
    faults = list[SourceError]()
    options = make_options(_dialects(dialects, config), cluster, timezone, group, faults)
    if explain_line:
        from agent.cli.replay_lines import explain  # noqa: PLC0415 - for this option alone

        summaries = line_parsers(files, options)
        for recording, parser in line_parsers(files, options).items():
            explain(recording, parser, summaries[recording], only)
        return
    _print(read(files, options), _tracker(config), output, printed)
    for fault in faults:
        click.echo(printable(f"Error: {fault}"), err=True)
    if faults:
        raise SystemExit(1)


def _load(file: Path) -> "AgentConfig":
    from agent.wiring.agent_config import load  # noqa: PLC0415 - for --config.file alone

    return load(file)


def _dialects(names: tuple[str, ...], config: "AgentConfig | None") -> Dialects:
    """Return the chosen dialects, with the rules of every log source of the configuration."""
    sources = [s for s in config.sources if isinstance(s, LogConfig)] if config else []
    rules = [rule for source in sources for rule in source.rules]
    configured = sources[0].dialects if len(sources) == 1 else "auto"
    return choose_dialects(names or configured, rules)


def _only_source(config: "AgentConfig | None") -> LogConfig | None:
    """Return the log source of a configuration with a single one."""
    sources = [s for s in config.sources if isinstance(s, LogConfig)] if config else []
    return sources[0] if len(sources) == 1 else None


def _tracker(config: "AgentConfig | None") -> Tracker:
    if config is None:
        return Tracker(StatusConfig())
    return Tracker(config.status, config.app_of, workload=config.workload.values)


def _print(
    streams: list[Iterator[Signal | Tick]], tracker: Tracker, output: str, printed: set[SampleKind]
) -> None:
    watermark, counts = Watermark(), Counter[SampleKind]()
    for sample in run_replay([watermark.follow(stream) for stream in streams], tracker):
        counts[sample.kind] += 1
        if sample.kind in printed:
            if output == "jsonl":
                echo_json(encode(sample), nl=False)
            else:
                click.echo(format_text(sample))
    if not any(counts[kind] for kind in printed & _TOLD):
        _note_silence(tracker, watermark.at, counts[SampleKind.SIGNAL])
    if output == "jsonl" and SampleKind.AGENT in printed and watermark.at is not None:
        echo_json(encode(watermark.record(watermark.at)), nl=False)


def _note_silence(tracker: Tracker, at: float | None, signals: int) -> None:
    """Print the reason for an empty output, if the input had a member."""
    if at is None or not tracker.snapshot(at).members_by_origin:
        return  # the diagnosis of each file gives the reason
    text = "no status changed: members were read, and no line shows a cause"
    if signals:
        text = f"no status changed: {signals} rebalances show no cause; --signals prints them"
    click.echo(text, err=True)
