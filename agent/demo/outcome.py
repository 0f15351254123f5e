"""The demo's result, from a spool's records alone, without knowledge of the script."""

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from aggregation.explain.explanation import Explanation, explanations
from aggregation.incidents.incidents import Analysis, analyze
from aggregation.incidents.model import Incident
from aggregation.incidents.planning import is_planned
from metrics.model.sample import Sample, SampleKind, Scope
from metrics.model.status import CONSUMER_MAX, RebalanceStatus


@dataclass(frozen=True, slots=True)
class DemoOutcome:
    """Counts over one spool."""

    entries: Counter[RebalanceStatus]
    """Entries into a status: 1-10 by a consumer, 11-13 by a Streams instance."""
    rebalances: int
    """Finished episodes of members."""
    members: int

    @property
    def codes(self) -> frozenset[RebalanceStatus]:
        """The codes that were observed."""
        return frozenset(self.entries)

    def table(self) -> list[str]:
        """Return the counts by cause, a line each."""
        rows = [f"{self.entries[code]:>7}  {code:>2} {code.label}" for code in sorted(self.codes)]
        return [f"{'entered':>7}  cause", *rows]


def read(spool: Path) -> DemoOutcome:
    """Count a spool's records."""
    entries, ended, members = Counter[RebalanceStatus](), 0, set[tuple[str, str | None]]()
    for sample in _records(spool):
        if sample.kind is not SampleKind.TRANSITION:
            continue
        to, consumer = RebalanceStatus(sample.to or 0), sample.scope is Scope.CONSUMER
        if consumer:
            members.add((sample.group, sample.client_id))
            ended += not to
        if to and (to <= CONSUMER_MAX) == consumer:
            entries[to] += 1
    return DemoOutcome(entries, ended, len(members))


def analyze_spool(spool: Path) -> Analysis:
    """Return the rebalances and incidents of a spool's records."""
    return analyze(list(_records(spool)))


def explain_worst(analysis: Analysis) -> Explanation | None:
    """Explain the unplanned incident with the highest cost; None without any incident."""
    if not analysis.incidents:
        return None
    worst = max(analysis.incidents, key=_cost)
    ids = {span.id for span in worst.rebalances}
    rebalances = [each for each in analysis.rebalances if each.round.id in ids]
    return explanations(rebalances, len(rebalances), None, [worst])[0]


def _cost(incident: Incident) -> tuple[bool, float, float]:
    cost = incident.cost
    return not is_planned(incident), cost.unread_partition_seconds or 0.0, cost.member_seconds


def _records(spool: Path) -> Iterator[Sample]:
    decoder = msgspec.json.Decoder(Sample)
    for path in sorted([*spool.glob("*.jsonl"), *spool.glob("*.jsonl.gz")]):
        data = path.read_bytes()
        lines = gzip.decompress(data) if path.suffix == ".gz" else data
        yield from (decoder.decode(line) for line in lines.splitlines())
