"""Silences of agents whose records come one by one, and periodic ones are not kept."""

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aggregation.rebalances.slots import SLOT_CHARS, slot_of
from metrics.model.sample import Sample, SampleKind

if TYPE_CHECKING:
    from aggregation.rebalances.silences import Silences

_HOLES_KEPT = 64


@dataclass(slots=True)
class _Slots:
    """Distances between the slots of ten minutes with a record of one agent."""

    text: str
    """The begin of the times in the last slot."""
    last: int
    is_sampled: bool = False
    regular: int = 0
    """Number of slots right behind another one."""
    holes: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_HOLES_KEPT))
    """The last pairs of slots with none between them."""
    shown: set[tuple[object, ...]] = field(default_factory=set)
    """Members that a sample has shown in the first slot behind the last hole."""


class SilenceTracker:
    """Silences of the latest agents, as `read_silences` finds them in records."""

    def __init__(self, max_agents: int) -> None:
        """``max_agents`` are kept."""
        self._max_agents = max_agents
        self._agents: dict[str, _Slots] = {}

    def add(self, record: Sample) -> bool:
        """Note a record; return whether it is a sample that shows a member behind a silence."""
        own, text = self._agents.pop(record.agent, None), record.ts[:SLOT_CHARS]
        if own is None:
            own = _Slots(text, slot_of(text))
        self._agents[record.agent] = own  # the latest is last
        if len(self._agents) > self._max_agents:
            del self._agents[next(iter(self._agents))]
        if text > own.text:
            _advance(own, text)
        if record.kind is not SampleKind.SAMPLE:
            return False
        own.is_sampled = True
        member = record.group, record.scope, record.client_id, record.host
        is_shown = bool(own.holes) and own.holes[-1][1] == own.last and member not in own.shown
        if is_shown:
            own.shown.add(member)
        return is_shown

    def silences(self) -> "Silences":
        """Return the silences of all agents that write periodic samples."""
        from aggregation.rebalances.silences import select_silences  # noqa: PLC0415 - not at start

        return {
            agent: found
            for agent, own in list(self._agents.items())
            if own.is_sampled and (found := select_silences([*own.holes], own.regular))
        }


def _advance(own: _Slots, text: str) -> None:
    before, own.text, own.last = own.last, text, slot_of(text)
    if own.last == before + 1:
        own.regular += 1
        return
    own.holes.append((before, own.last))
    own.shown.clear()
