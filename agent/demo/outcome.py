"""The demo's result: a spool's records, counted by cause, without knowledge of the script."""

import gzip
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

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
    for sample in _transitions(spool):
        to, consumer = RebalanceStatus(sample.to or 0), sample.scope is Scope.CONSUMER
        if consumer:
            members.add((sample.group, sample.client_id))
            ended += not to
        if to and (to <= CONSUMER_MAX) == consumer:
            entries[to] += 1
    return DemoOutcome(entries, ended, len(members))


def _transitions(spool: Path) -> Iterator[Sample]:
    decoder = msgspec.json.Decoder(Sample)
    for path in sorted([*spool.glob("*.jsonl"), *spool.glob("*.jsonl.gz")]):
        data = path.read_bytes()
        lines = gzip.decompress(data) if path.suffix == ".gz" else data
        samples = (decoder.decode(line) for line in lines.splitlines())
        yield from (sample for sample in samples if sample.kind is SampleKind.TRANSITION)
