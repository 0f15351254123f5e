"""The manifest of rollup batches: a small file for each batch, in Parquet beside its rows.

Theory of operation. A batch is marked as pending before its rows change, and as complete after all
of them are written. So a killed run leaves nothing that counts as complete. Spark ignores files
with such names. A year of entries is read in a few milliseconds, without Spark.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import msgspec

from aggregation.spark.errors import SparkJobError
from aggregation.spark.tables.state_file import read_state, write_state

_MARK = "_made.json"


class RollupBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Fingerprints of a batch's input and of the state that it passes on.

    ``since`` is the first day of its rebalances.
    """

    files: str
    carried_in: str = ""
    carries: str = ""
    since: date | None = None
    layout: int = 0
    """Version of the rows; a batch of an older one is computed again, unless it is final."""
    is_final: bool = False
    """A part of its source is gone (`aggregation.spark.rollups.final_days`)."""
    late: int = 0
    """Records in the tables that a final batch does not count."""


LAYOUT = 25
"""Since 1 there are incidents, planned and unplanned apart; since 2 what no setting saves.

Since 3 a member that several agents see counts once, times of wrong clocks are corrected, and a
dropped member's time is whole. Since 4 incidents have what members that stay hand over, since
5 the kind of their clients, since 6 agents have the hours of their records, since 7 the steps of
a log's clock are taken out. Since 8 incidents have how long members work before they join. Since 9
an outage of an agent makes no crash, and restarts have their session timeout. Since 10 removals by
an admin, expiries and returns of new protocols, and failed Streams applications have their cause,
and a member that is back after a departure's time is a new one. Since 11 converted groups keep
their classic rebalances, a join without a sync and the end of a static member's session have their
cause, and a partition that somebody had before is no new one. Since 12 a member that left before
its first heartbeat was answered was in no rebalance, an address that others name is a machine, and
a status that one agent of a member has lost is lost for all. Incidents have whether their unread
time is a lower bound, hours behind the leave of an agent's last member are no outage, a stop of all
members is one, and a rebalance of an incident with a cause has that. Since 13 an episode's records
are in order whichever agent's copies were kept, agents of one member have one clock, hours behind
the expiry of an agent's members are no outage, killed members have no partitions, and rebalances of
three agents or more show their clocks. Since 14 the partitions that an unseen member takes are read
from the end of that rebalance. Since 15 threads that join together are one rebalance, a drop behind
a higher code is one, independent causes within a member's return are kept, and a topic that nobody
reads while its group lives on costs until a member is back. Since 16 an episode whose end is
missing ends before days without a record as in a whole history. Since 17 members of librdkafka stop
reading at their revoke callback, the share of an application has the rebalances of groups whose
observed time is known, and days on which only a group's agents are silent are as days without a
record. Since 18 a return that no log explains begins a rebalance, a member did not expire before
its last assignment, a stop begins behind the last return, and an episode whose agent fell silent
waits a day for its end, whoever else writes. Since 19 a member that is back long after its drop is
not dropped again, and one without part in the last two rebalances is known. Since 20 what a
rebalance took does not count for a leave right behind it, and a member of KIP-848 that nobody
missed has expired. Since 21 an episode with a failed join costs once, and a
member that took part in a generation before its join failed was in that rebalance. A close right
behind a rebalance costs for the leave. Since 22 an expired member stopped at its own revocation
right behind its last request, a topic that later members do not read costs while they are there,
one that a member drops within another incident costs nothing more, and a leader that fetches its
own new topics is no changed cluster. A failure within a rebalance did not begin it, a member of a
new protocol that lost its partitions has expired also in an open one, and a member whose status was
lost is dead from its last request. Since 23 a static member joined when its request was sent, since
24 a killed member that is back is no successor of its neighbours. Since 25 the first join of a
client that was seen to start, in a running group, is of a new member.
"""
NOTHING = RollupBatch(files="")
PENDING = RollupBatch(files="pending")
"""A batch in work, or the rebalances that were open on the last day."""
_decoder = msgspec.json.Decoder(RollupBatch)
_REMEDY = (
    "restore it; or, as long as the tables have the day's records, remove it, and report computes "
    "the day again"
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The entries in one folder of batches."""

    folder: Path

    def of(self, batch: date) -> Path:
        """Return the folder of a batch's rows."""
        return self.folder / f"batch={batch}"

    def entries(self) -> dict[date, RollupBatch]:
        """Return all entries by day, in order."""
        marks = sorted(self.folder.glob(f"batch=*/{_MARK}"))
        entries = {_day_of(mark.parent): read_state(mark, _decoder, _REMEDY) for mark in marks}
        return {day: batch for day, batch in entries.items() if batch is not None}

    def complete_entries(self) -> Mapping[date, RollupBatch]:
        """Return the entries of complete batches."""
        return {day: batch for day, batch in self.entries().items() if batch != PENDING}

    def pin(self) -> Callable[[], None]:
        """Return a check for the end of reading: plain files have no snapshots.

        It raises `SparkJobError` if another report has replaced rows of a batch since this call.
        """
        before = self._written()

        def check() -> None:
            now = self._written()
            replaced = min((name for name, at in before.items() if now.get(name) != at), default="")
            if replaced:
                raise SparkJobError(
                    f"another report has replaced {replaced} of {str(self.folder)!r} while this "
                    "one was reading; run it again"
                )

        return check

    def _written(self) -> dict[str, int]:
        """Return the time (ns) of each entry's last write, by the name of its batch."""
        marks = self.folder.glob(f"batch=*/{_MARK}")
        return {mark.parent.name: mark.stat().st_mtime_ns for mark in marks}

    def mark(self, day: date, batch: RollupBatch) -> None:
        """Write a batch's entry atomically."""
        write_state(self.of(day) / _MARK, batch)

    def forget(self, batch: date) -> None:
        """Remove a batch's entry, and its rows if they are beside it."""
        shutil.rmtree(self.of(batch))


def _day_of(folder: Path) -> date:
    try:
        return date.fromisoformat(folder.name.removeprefix("batch="))
    except ValueError:
        raise SparkJobError(f"{str(folder)!r} is named by no day; move it away") from None
