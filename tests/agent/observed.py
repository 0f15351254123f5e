"""A source with signals of a test, and signals for it."""

import asyncio
from typing import Any

from agent.sources.base import Detach, Emit, SourceHealth
from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus


class ScriptedSource:
    """Passes on the signals given to `say`; its position is their number."""

    kind = "scripted"

    def __init__(self, name: str = "scripted", position: dict[str, Any] | None = None) -> None:
        self.name = name
        self.health = SourceHealth()
        self.position = position or {"said": 0}
        self.behind_at: float | None = None
        self.runs = 0
        self._waiting: list[Signal] = []
        self._woken = asyncio.Event()

    def say(self, *signals: Signal) -> None:
        self._waiting += signals
        self._woken.set()

    async def run(self, emit: Emit, detach: Detach) -> None:
        del detach
        self.runs += 1
        self.health.up = True
        while True:
            signals, self._waiting = self._waiting, []
            emit(signals)
            self.position = {"said": self.position["said"] + len(signals)}
            self._woken.clear()
            await self._woken.wait()

    def watermark(self, now: float) -> float:
        return now if self.behind_at is None else self.behind_at

    def checkpoint(self) -> dict[str, Any]:
        return self.position


def member(client_id: str = "c1", group: str = "payments-in") -> Member:
    return Member(group=group, client_id=client_id, origin="/var/log/app.log", host="node-1")


def raised(status: RebalanceStatus, at: float, who: Member | None = None) -> Signal:
    return Signal(
        kind=SignalKind.RAISE,
        at=at,
        member=who or member(),
        source=SourceKind.LOGS,
        status=status,
    )


def synced(at: float, who: Member | None = None) -> Signal:
    return Signal(kind=SignalKind.SYNC, at=at, member=who or member(), source=SourceKind.LOGS)
