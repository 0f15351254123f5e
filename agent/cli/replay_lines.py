"""Option `--explain-line` of `replay`: the rule that reads each line, and its effect."""

from collections import Counter
from collections.abc import Iterator

import click

from agent.sources.lines.parsing.line_parser import LineParser, ParsedLine
from agent.sources.lines.whole_files.recordings import Recording
from agent.sources.lines.whole_files.short_lines import shorten_lines
from metrics.model.names import printable
from metrics.model.sample import format_time

_NO_RULE = "no rule"
_AGAIN = "no effect (the same line was there before)"


def explain(recording: Recording, parser: LineParser, second: LineParser, only: str | None) -> None:
    """Print a summary, and every line with its rule, or "no rule".

    ``second`` reads the recording for the summary; a pipe has none. ``only``: ``read`` or
    ``unread`` lines.
    """
    if not recording.is_pipe:
        for text in _summarise(recording, second):
            click.echo(printable(text))
    for raw, arrival_at in _lines(recording):
        lines = list(parser.lines(raw, arrival_at))
        read = [line for line in lines if line.event is not None]
        effects = [_take(line, parser) for line in read]
        if only is not None and (only == "read") != bool(read):
            continue
        text = raw.rstrip(b"\n").decode(errors="replace")
        why = _AGAIN if any(line.is_again for line in lines) else _NO_RULE
        rows = _explain_line(read[0], effects[0]) if read else [why, f"    {text}"]
        click.echo("\n".join(map(printable, rows)))


def _lines(recording: Recording) -> Iterator[tuple[bytes, float]]:
    for data, arrival_at in shorten_lines(recording.blocks()):
        for raw in data.removesuffix(b"\n").split(b"\n"):
            yield raw + b"\n", arrival_at


def _summarise(recording: Recording, parser: LineParser) -> Iterator[str]:
    """Yield how many lines each dialect reads, and how many have no effect."""
    count, refused, again, by_dialect = 0, 0, 0, Counter[str]()
    for raw, arrival_at in _lines(recording):
        count += 1
        for line in parser.lines(raw, arrival_at):
            again += line.is_again
            if line.event is not None:
                by_dialect[line.event.rule.dialect] += 1
                refused += bool(_take(line, parser))
    yield f"{recording.stream}: {count} lines, {sum(by_dialect.values())} read"
    for dialect, lines in by_dialect.most_common():
        yield f"    {lines} by {dialect}"
    if refused:
        yield f"    {refused} without an effect"
    if again:
        yield f"    {again} that were there before"
    if not by_dialect:
        yield "    replay without --explain-line names what it looks like, and what to set"


def _take(line: ParsedLine, parser: LineParser) -> str:
    """Give a line its meaning; return why it has no effect, if it has none."""
    if line.event is None:
        return ""
    interpreter = parser.streams.find(line.origin).interpreter
    interpreter.take(line.event, line.at)
    return str(getattr(interpreter, "refusal", ""))


def _explain_line(line: ParsedLine, refusal: str) -> list[str]:
    if line.event is None:
        return [_NO_RULE]
    rule, seen = line.event.rule, line.event.captures
    does = f"{rule.action} {rule.status.label}" if rule.status else str(rule.action)
    if refusal:
        does = f"no effect ({refusal})"
    who = seen.get("client_id") or seen.get("thread") or seen.get("member_id")
    head = f"{rule.dialect}/{rule.name}: {does}, {format_time(line.at)}, {who} ({rule.cites})"
    return [head, f"    {line.text.rstrip()}"]
