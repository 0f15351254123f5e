"""Final days: rollups that are never computed again, because a part of their source is gone.

Theory of operation. Retention, or a person, removes days from the tables, and their rollups stay.
A late record of such a day must not replace history by itself. So a day becomes final as soon as
the tables hold none of its records, fewer than its rollups were computed from, or as soon as it is
before the retention horizon and has changed. Late records of final days are counted in the manifest
and named in the report, also those that were removed with their day.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from aggregation.spark.rollups.rollup_manifest import RollupBatch
from aggregation.spark.tables.broken_file import unread_file

Counts = Mapping[date, int]


def final_entries(
    known: Mapping[date, RollupBatch],
    files: Mapping[date, str],
    counts: tuple[Counts, Counts],
    horizon: date | None,
) -> dict[date, RollupBatch]:
    """Return the changed manifest entries of final days.

    ``counts`` are the records of changed days: those in the tables, or of days that left the
    tables those that they had last, and those of the rollups.
    """
    present, rolled_up = counts
    found = {}
    for day, batch in known.items():
        if day not in files and batch.is_final:
            continue
        if day not in files:
            late = max(0, present.get(day, 0) - rolled_up.get(day, 0))
            entry = msgspec.structs.replace(batch, is_final=True, late=late)
        elif day in present and (
            batch.is_final
            or (horizon is not None and day < horizon)
            or present[day] < rolled_up.get(day, 0)
        ):
            entry = msgspec.structs.replace(batch, is_final=True, late=present[day])
        else:
            continue
        if entry != batch:
            found[day] = entry
    return found


def find_changed_days(known: Mapping[date, RollupBatch], files: Mapping[date, str]) -> list[date]:
    """Return the days in the tables with other files than their rollups were computed from."""
    return [day for day, batch in known.items() if files.get(day, batch.files) != batch.files]


def count_gone(
    known: Mapping[date, RollupBatch], files: Mapping[date, str], removed: Counts
) -> dict[date, int]:
    """Return the records that days had when they left the tables, since rollups were computed."""
    gone = (day for day, batch in known.items() if day not in files and not batch.is_final)
    return {day: removed[day] for day in gone if day in removed}


def count_rolled_up(rollups: Path, days: Iterable[date]) -> dict[date, int]:
    """Return the number of records behind the rollups of some days, without Spark."""
    wanted = (ds.field("what") == "quality") & (ds.field("kind") == "records")
    found = {}
    for day in days:
        files = [str(path) for path in (rollups / f"batch={day}").glob("*.parquet")]
        if files:
            found[day] = _sum_times(files, wanted)
    return found


def _sum_times(files: Sequence[str], wanted: pc.Expression) -> int:
    try:
        rows = ds.dataset(files).to_table(["times"], filter=wanted)
    except (OSError, pa.ArrowException) as error:
        raise unread_file(Path(files[0]), error) from error
    return int(pc.sum(rows["times"]).as_py() or 0)


def report_late(entries: Mapping[date, RollupBatch], notify: Callable[[str], None]) -> None:
    """Report the late records of days that have become final or have more of them."""
    for day, entry in entries.items():
        if entry.late:
            notify(
                f"the rollups of {day} stay as they are, because records of that day were removed; "
                f"{entry.late} that came later are not counted"
            )
