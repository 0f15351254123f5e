"""Log lines of a broker's group coordinator, for tests."""

from agent.sources.broker_logs.coordinator_interpreter import CoordinatorInterpreter
from agent.sources.broker_logs.source import create_broker_dialects
from agent.sources.lines.parsing.line_parser import LineParser
from metrics.model.signals import Signal

_ARRIVAL_AT = 1_900_000_000.0


class Broker:
    """A broker that logs the lines of a test, one a second."""

    def __init__(self) -> None:
        self.gone: list[str] = []
        self.view = CoordinatorInterpreter(on_departure=lambda stream, _: self.gone.append(stream))
        self.parser = LineParser(create_broker_dialects(), self.view, "UTC")
        self.seconds = 0
        self.broker_id = 1

    def prints(self, *texts: str) -> list[Signal]:
        return [signal for text in texts for signal in self._print(text)]

    def _print(self, text: str) -> list[Signal]:
        self.seconds += 1
        minutes, seconds = divmod(self.seconds, 60)
        stamp = f"[2026-11-21 06:{minutes:02}:{seconds:02},000] INFO"
        head = f"[GroupCoordinator id={self.broker_id} topic=__consumer_offsets partition=2]"
        return self._feed(f"{stamp} {head} {text}\n")

    def _feed(self, line: str) -> list[Signal]:
        return self.parser.feed(line.encode(), _ARRIVAL_AT)

    def joins(self, member_id: str) -> list[Signal]:
        return self.prints(
            "Dynamic member with unknown member id joins group g in Stable state. Created a new "
            f"member id {member_id} and requesting the member to rejoin with this id.",
            "Preparing to rebalance group g in state PreparingRebalance with old generation 1 "
            f"(reason: Adding new member {member_id} with group instance id null; "
            f"client reason: need to re-join with the given member-id: {member_id}).",
        )

    def settles(self, leader: str, members: int) -> list[Signal]:
        return self.prints(
            f"Stabilized group g generation 2 with {members} members.",
            f"Assignment received from leader {leader} for group g for generation 2. "
            f"The group has {members} members, 0 of which are static.",
        )

    def leaves(self, member_id: str, words: str) -> list[Signal]:
        return self.prints(
            f"[Group g] Member {member_id} has left group through explicit `LeaveGroup` request; "
            f"client reason: {words}"
        )
