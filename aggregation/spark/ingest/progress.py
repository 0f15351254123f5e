"""Progress of an ingest."""

import time
from dataclasses import dataclass, field

from aggregation.spark.tables.schema import Table


@dataclass(slots=True)
class IngestProgress:
    """Counts since the start."""

    lines: int = 0
    malformed: int = 0
    late: int = 0
    """Records from before the retention horizon."""
    gone: int = 0
    """Offsets of a topic without a record: retention removed it before it was read."""
    batches: int = 0
    batch_s: float = 0.0
    latest_at: float | None = None
    appended: dict[Table, int] = field(default_factory=lambda: dict.fromkeys(Table, 0))

    def end_batch(self, took_s: float) -> None:
        """Count a batch."""
        self.batches += 1
        self.batch_s += took_s
        self.latest_at = time.time()

    @property
    def duplicates(self) -> int:
        """Records that the tables already hold, or that a batch holds twice."""
        new = self.appended[Table.TRANSITIONS] + self.appended[Table.SAMPLES]
        return self.lines - self.malformed - self.late - new

    def __str__(self) -> str:
        return (
            f"{self.lines} lines: "
            f"{self.appended[Table.TRANSITIONS]} new transitions, "
            f"{self.appended[Table.SAMPLES]} new samples, {self.duplicates} known already, "
            f"{self.malformed} malformed"
            + (f", {self.late} late" if self.late else "")
            + (f", {self.gone} gone from the topic unread" if self.gone else "")
        )
