"""Which batches of rollups there are, and what each was made of: a small file beside its rows.

Theory of operation. A batch is marked as pending before its rows are touched, and as made when all
of them are there, so a run that was killed leaves nothing that counts as done. Spark does not look
at files with such names. A year of marks is read in some milliseconds, without Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec

_MARK = "_made.json"


class RollupBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch was made of, and a digest of what it carries on.

    ``since`` is the first day of its rebalances.
    """

    files: str
    carried_in: str = ""
    carries: str = ""
    since: date | None = None


NOTHING = RollupBatch(files="")
PENDING = RollupBatch(files="pending")
"""Being made, or what was not over on the last day."""
_decoder = msgspec.json.Decoder(RollupBatch)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The marks in one folder of batches."""

    folder: Path

    def of(self, batch: date) -> Path:
        """Return where a batch's rows are."""
        return self.folder / f"batch={batch}"

    def entries(self) -> dict[date, RollupBatch]:
        """Return all marks by day, in order."""
        marks = sorted(self.folder.glob(f"batch=*/{_MARK}"))
        return {
            date.fromisoformat(mark.parent.name.removeprefix("batch=")): _decoder.decode(
                mark.read_bytes()
            )
            for mark in marks
        }

    def complete_entries(self) -> Mapping[date, RollupBatch]:
        """Return the batches that are done."""
        return {day: batch for day, batch in self.entries().items() if batch != PENDING}

    def mark(self, day: date, batch: RollupBatch) -> None:
        """Write a batch's mark in one step."""
        folder = self.of(day)
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{_MARK}.part"
        partial.write_bytes(msgspec.json.encode(batch))
        partial.replace(folder / _MARK)

    def empty(self, day: date) -> None:
        """Remove a batch's rows; it is pending from before the first is gone."""
        self.mark(day, PENDING)
        for path in self.of(day).rglob("*.parquet"):
            path.unlink()
