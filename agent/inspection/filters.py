"""Which groups `groups list` shows."""

from collections.abc import Iterable
from dataclasses import dataclass

from agent.inspection.model import GroupState, GroupType, Listing

_CONSUMERS = ("consumer", "")
"""Protocol types of classic groups of consumers, as kafka-groups.sh has it; '' has only offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """All that is said must hold; None and empty say nothing."""

    group_type: GroupType | None = None
    protocol: str | None = None
    states: tuple[GroupState, ...] = ()
    consumers: bool = False

    def needs_type(self, listing: Listing) -> bool:
        """Return whether it is still to be asked what type a group has."""
        return listing.type is None and (self.group_type is not None or self.consumers)

    def needs_state(self, listing: Listing) -> bool:
        """Return whether it is still to be asked what state a group has."""
        return listing.state is None and bool(self.states)

    def choose(self, listings: Iterable[Listing]) -> list[Listing]:
        """Return those that pass."""
        return [listing for listing in listings if self._passes(listing)]

    def _passes(self, listing: Listing) -> bool:
        if self.group_type not in (None, listing.type):
            return False
        if self.protocol not in (None, listing.protocol):
            return False
        if self.states and listing.state not in self.states:
            return False
        return not self.consumers or _is_consumers(listing)


def _is_consumers(listing: Listing) -> bool:
    classic = listing.type is GroupType.CLASSIC and listing.protocol in _CONSUMERS
    return classic or listing.type is GroupType.CONSUMER
