"""`rebalance-agent replay`: offline, for the morning after."""

import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click

from agent.config import AgentConfig, load
from agent.errors import ConfigError
from agent.replay import as_text, in_order
from agent.replay import replay as run_replay
from agent.sources.base import Interprets
from agent.sources.broker_log import broker_dialects
from agent.sources.broker_log_view import BrokerView
from agent.sources.dialect import choose
from agent.sources.interpreter import Interpreter
from agent.sources.librdkafka_stats_parser import StatsParser
from agent.sources.librdkafka_stats_view import StatsView
from agent.sources.log_config import LogConfig
from agent.sources.log_files import Recording, recordings
from agent.sources.log_parser import Line, LogParser
from agent.sources.reading import Dialects
from metrics.sample import SampleKind, encode, format_time
from metrics.signals import Signal
from metrics.track import StatusConfig
from metrics.tracker import Tracker

_PROGRESS_AFTER_S = 2.0
_LOGS, _BROKER_LOG, _STATS = "logs", "broker_log", "stats"
_PCAP, _BOTH = "pcap", "logs,pcap"
_PRINTED = {SampleKind.TRANSITION, SampleKind.LOST}
_EXAMPLES = """\b
Examples:
  rebalance-agent replay --source logs app.log
  rebalance-agent replay --source logs --format text app.log.2.gz app.log.1 app.log
  kubectl logs payments-0 | rebalance-agent replay --source logs -
  rebalance-agent replay --source broker_log --format text /var/log/kafka/server.log
  rebalance-agent replay --source stats --group payments stats.jsonl
  rebalance-agent replay --source logs --explain-line app.log
  rebalance-agent replay --source logs --explain-line -c agent.yaml app.log
  tcpdump -U -w - port 9092 | rebalance-agent replay --source pcap -
  rebalance-agent replay --source logs,pcap app.log wire.pcap
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--source",
    type=click.Choice([_LOGS, _BROKER_LOG, _STATS, _PCAP, _BOTH]),
    required=True,
    help="What the files are: logs of clients, logs of brokers, librdkafka's statistics (JSON "
    "lines), captures (pcap, pcapng), or logs and captures of the same clients, told apart by "
    "their first bytes.",
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
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
def replay(  # noqa: PLR0913 - one argument an option
    source: str,
    output: str,
    config_file: str | None,
    timezone: str | None,
    cluster: str,
    dialects: tuple[str, ...],
    group: str | None,
    signals: bool,
    explain_line: bool,
    paths: tuple[str, ...],
) -> None:
    """Read recorded files as if they were live, with the recorded times as the clock.

    Prints transitions, ordered by time. Rotated files of one log (app.log.2.gz, app.log.1, app.log)
    are one stream, the oldest first; all captures are one. `-` is stdin.
    """
    config = None if config_file is None else load(Path(config_file))
    printed = set(SampleKind) if signals else _PRINTED
    cluster = cluster or (config.cluster.name if config else "")
    if source == _STATS:
        _print(list(_stats(paths, cluster, group)), _tracker(config), output, printed)
        return
    captures = _captures(source, paths)
    timezone = timezone or (config.timezone if config else None)
    chosen = broker_dialects() if source == _BROKER_LOG else _dialects(dialects, config)
    parsers = {
        recording: LogParser(chosen, _interpreter(source, recording.stream, cluster), timezone)
        for recording in recordings([path for path in paths if path not in captures])
    }
    if explain_line:
        for recording, parser in parsers.items():
            _explain(recording, parser)
        return
    streams = [in_order(parser, _watched(recording)) for recording, parser in parsers.items()]
    if captures:
        streams.append(_captured(captures, cluster))
    _print(streams, _tracker(config), output, printed)


def _dialects(names: tuple[str, ...], config: AgentConfig | None) -> Dialects:
    """Return what is asked for, with the rules of every log source of the configuration."""
    sources = [s for s in config.sources if isinstance(s, LogConfig)] if config else []
    rules = [rule for source in sources for rule in source.rules]
    configured = sources[0].dialects if len(sources) == 1 else "auto"
    return choose(names or configured, rules)


def _tracker(config: AgentConfig | None) -> Tracker:
    if config is None:
        return Tracker(StatusConfig())
    return Tracker(config.status, config.app_of)


def _print(
    streams: list[Iterator[Signal]], tracker: Tracker, output: str, printed: set[SampleKind]
) -> None:
    for sample in run_replay(streams, tracker):
        if sample.kind in printed:
            click.echo(
                encode(sample) if output == "jsonl" else as_text(sample), nl=output == "text"
            )


def _captures(source: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return which of the files are captures."""
    if source not in {_PCAP, _BOTH}:
        return ()
    try:
        from agent.sources.pcap_file import is_capture  # noqa: PLC0415 - needs the extra "wire"
    except ImportError as error:
        raise ConfigError(f"replay --source {source}: {error}; install the extra 'wire'") from error
    return paths if source == _PCAP else tuple(path for path in paths if is_capture(path))


def _captured(paths: tuple[str, ...], cluster: str) -> Iterator[Signal]:
    """Yield what captures tell; say at the end what in them could not be read."""
    from agent.sources.pcap_file import signals  # noqa: PLC0415 - `_captures` has tried it

    counts = Counter[str]()
    yield from signals(paths, cluster, counts)
    if unread := [f"{what} {count}" for what, count in sorted(counts.items()) if count]:
        click.echo(f"not read: {', '.join(unread)}", err=True)


def _stats(paths: tuple[str, ...], cluster: str, group: str | None) -> Iterator[Iterator[Signal]]:
    for recording in recordings(paths):
        view = StatsView(
            stream=f"stats:{recording.stream}",
            group=group,
            cluster=cluster,
            host=socket.gethostname(),
        )
        yield in_order(StatsParser(view), _watched(recording))


def _interpreter(source: str, stream: str, cluster: str) -> Interprets:
    if source == _BROKER_LOG:
        return BrokerView(cluster)
    return Interpreter(stream=stream, cluster=cluster, host=socket.gethostname())


def _watched(recording: Recording) -> Iterator[tuple[bytes, float]]:
    """Yield a recording's blocks; say how far it is where that takes a while and someone looks."""
    started_at, done = time.monotonic(), 0
    for data, arrival_at in recording.blocks():
        yield data, arrival_at
        done += len(data)
        if time.monotonic() > started_at + _PROGRESS_AFTER_S and sys.stderr.isatty():
            click.echo(f"\r{recording.stream}: {done >> 20} MiB read", err=True, nl=False)


def _explain(recording: Recording, parser: LogParser) -> None:
    """Print every line with the rule that read it: what no rule reads is as telling."""
    carry, arrival_at = b"", 0.0
    for data, arrival_at in recording.blocks():
        *complete, carry = (carry + data).split(b"\n")
        for raw in complete:
            _explain_line(raw, parser, arrival_at)
    if carry:
        _explain_line(carry, parser, arrival_at)


def _explain_line(raw: bytes, parser: LogParser, arrival_at: float) -> None:
    read = [line for line in parser.lines(raw + b"\n", arrival_at) if line.event is not None]
    click.echo(_explanation(read[0]) if read else f"no rule\n    {raw.decode(errors='replace')}")


def _explanation(line: Line) -> str:
    assert line.event is not None  # noqa: S101 - the caller has looked
    rule, seen = line.event.rule, line.event.captures
    does = f"{rule.action} {rule.status.label}" if rule.status else str(rule.action)
    who = seen.get("client_id") or seen.get("thread") or seen.get("member_id")
    return (
        f"{rule.dialect}/{rule.name}: {does}, {format_time(line.at)}, {who} "
        f"({rule.cites})\n    {line.text.rstrip()}"
    )
