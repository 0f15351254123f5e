"""`rebalance-agent explain`: trigger, reason and cost of a group's rebalances."""

import shutil
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches

import click
import msgspec

from agent.cli.json_output import echo_json
from agent.client.api_client import DEFAULT_URL, ask
from agent.client.record_files import Found, read_records
from agent.config.codec import parse_duration
from agent.errors import RecordsError
from aggregation.explain.explanation import (
    Explanation,
    GroupRebalance,
    explanations,
    partitions,
    records,
)
from aggregation.explain.explanation import explain as explained
from aggregation.explain.hanging_lines import hang
from aggregation.explain.incident_words import duration
from aggregation.explain.incident_words import lines as incident_lines
from aggregation.incidents.incidents import analyze, latest_time, recent
from metrics.model.names import printable
from metrics.model.sample import SampleKind, parse_time

_ADVICE_MAX = 3
_EXAMPLES = """\b
Examples:
  rebalance-agent explain payments
  rebalance-agent explain payments --from http://hub:12472 --last 5
  rebalance-agent explain payments --from /var/lib/rebalance-agent/spool --at 2026-11-21T06:30:00Z
  rebalance-agent explain payments --from /data/tables --output json
  rebalance-agent replay --source logs --signals app.log | rebalance-agent explain payments --from -
"""

_REPLAY = (
    "rebalance-agent replay --source logs|broker_log|stats|pcap --signals FILE"
    " | rebalance-agent explain GROUP --from -"
)


@click.command(epilog=_EXAMPLES)
@click.argument("group")
@click.option(
    "--from",
    "place",
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL|SPOOL|TABLES|FILE|-",
    help="An agent or hub, a folder of a spool or of tables, JSON lines.",
)
@click.option(
    "--last", type=click.IntRange(min=1), default=20, show_default=True, help="So many, at most."
)
@click.option("--at", "at", metavar="TIME", help="The one at that time, or the last before (ISO).")
@click.option(
    "--since", metavar="DURATION", help="Those that were going on in the last 30m, 2h or 7d."
)
@click.option("--verbose", is_flag=True, help="Every rebalance, not the incidents alone.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def explain(  # noqa: PLR0913 - one argument an option
    group: str, place: str, last: int, at: str | None, since: str | None, verbose: bool, output: str
) -> None:
    """Say who began the last rebalances of GROUP, why, who was slow, and what it cost."""
    until = None if at is None else _instant(at)
    faults = list[str]()
    since_s = None if since is None else parse_duration(since, "--since")
    if place.startswith(("http://", "https://")):
        query = {
            "group": group,
            "last": last,
            "at": until,
            "since_seconds": since_s and int(since_s),
        }
        answers = ask(place, "explain", list[Explanation], **query)
    else:
        found = read_records(place, group)
        answers, faults = _explain_records(found, group, last, until, since_s), found.faults
    for answer in answers:
        if output == "json":
            echo_json(msgspec.json.encode(answer))
        else:
            click.echo(wrap(as_text(answer, verbose=verbose)))
    if faults:
        raise RecordsError("\n".join(faults))


def as_text(answer: Explanation, *, verbose: bool = False, all_advice: bool = False) -> str:
    """Return the answer, the incidents and the advice; every rebalance, if ``verbose``."""
    incidents = answer.incidents
    lines = [answer.answer]
    if incidents:
        lines += ["", *incident_lines(incidents, answer.incidents_total)]
    if answer.happened and (verbose or not incidents):
        lines += ["", "Timeline (UTC)", *(_line(each) for each in answer.happened)]
    shown = answer.advice if verbose or all_advice else answer.advice[:_ADVICE_MAX]
    if shown:
        lines += ["", "What to do", *(f"  - {each}" for each in shown)]
    if left := len(answer.advice) - len(shown):
        lines += [f"  {left} more: --verbose"]
    return "\n".join(map(printable, lines))


def wrap(text: str) -> str:
    """Return lines that fit the terminal; of any length if the output is no terminal."""
    return hang(text, shutil.get_terminal_size((0, 0)).columns)  # COLUMNS, else the terminal's


def _line(happened: GroupRebalance) -> str:
    who = f"{happened.client_id} on {happened.host}" if happened.host else happened.client_id
    mark = {"seen": "", "inferred": " (inferred)", "unknown": ""}[happened.certainty]
    parts = [
        (
            f"  {happened.ts[:23].replace('T', ' ')}  {happened.seconds:8.3f} s"
            f"  {happened.status or 'unknown':<19}  {who or '?'}{mark}"
        )
    ]
    if happened.reason:
        parts.append(f": {happened.reason}")
    if happened.straggler is not None:
        parts.append(f"; waited {happened.waited_seconds:.1f} s for {happened.straggler}")
    parts.append(f"; cost {duration(happened.member_seconds)} of its members' time")
    if happened.partitions_moved is not None:
        parts.append(f", {partitions(happened.partitions_moved)} moved")
    if happened.lag is not None:
        parts.append(f", {records(happened.lag)} behind")
    if happened.departures:
        parts.append(f"; departed: {', '.join(happened.departures)}")
    return "".join(parts)


def _instant(text: str) -> float:
    try:
        return parse_time(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError) as error:  # the latter of the years 1 and 9999
        wanted = "an ISO time such as 2026-11-21T06:30:00Z"
        raise click.BadParameter(f"found {text!r}, wanted {wanted}", param_hint="--at") from error


def _left_out(found: Found) -> Iterator[str]:
    """Yield a line for each kind of records that do not count, with the first one."""
    if found.malformed:
        yield f"{found.malformed} lines were no record and were left out"
    if found.first_malformed:
        yield f"  the first: {found.first_malformed}"
    if found.older:
        yield f"{found.older} older records were left out, as there are too many"
    if found.future:
        first = found.future[0]
        yield f"{len(found.future)} records are more than a day ahead and were left out"
        yield f"  the first: {first.ts} of agent {first.agent!r}"


def _explain_records(
    found: Found, group: str, last: int, until: float | None, since_s: float | None = None
) -> list[Explanation]:
    for line in _left_out(found):
        click.echo(printable(line), err=True)
    if all(record.kind is SampleKind.AGENT for record in found.records):
        seen = found.groups - {""}  # it is that of an agent's own records
        near = get_close_matches(group, seen)
        known = ", ".join(near or sorted(seen)[:5]) or "none"
        nothing = f"no record of group {group!r}; groups that were seen: {known}"
        if found.malformed and not found.records:
            nothing += f"\nno line is a record; for a log or a capture, run: {_REPLAY}"
        raise RecordsError("\n".join([*found.faults, nothing]))
    analysis = analyze(found.records)
    if since_s is not None:
        analysis = recent(analysis, latest_time(found.records) - since_s)
    return explanations(analysis.rebalances, last, until, analysis.incidents) or [
        explained("", group, [])
    ]
