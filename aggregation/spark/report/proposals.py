"""Changes worth making: the place for what a report proposes. Pure.

A function of the type `Propose` is the whole of it: rows of incidents in, proposals out, the most
useful first. `render.write_report` takes one; page, Markdown, JSON and mail show the first three.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aggregation.spark.report.section import Rows

SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One setting to change in one group, with what it would have saved in the period."""

    cluster: str
    group: str
    setting: str
    now: str | None
    proposed: str
    because: str
    price: str
    rebalances_avoided: int
    unread_avoided_s: float | None
    confidence: str
    incidents: tuple[str, ...] = ()
    """Ids of the incidents that it rests on."""
    lines: tuple[tuple[str, str], ...] = ()
    """Lines to paste, by the client that they are for."""


Propose = Callable[[Rows], Sequence[Proposal]]
"""From the rows of the section `incidents` to proposals."""
