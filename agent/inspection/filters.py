"""The filter of `groups list`."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.inspection.model import GroupState, GroupType, Listing

_CONSUMERS = ("consumer", "")
"""Protocol types of consumers' classic groups, as in kafka-groups.sh; '' has only offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFilter:
    """Conditions that must all hold; None and empty mean no condition."""

    group_type: GroupType | None = None
    protocol: str | None = None
    states: tuple[GroupState, ...] = ()
    consumers: bool = False
    has_name: Callable[[str], bool] = lambda _: True

    def needs_type(self, listing: Listing) -> bool:
        """Return whether the filter needs a type that the listing lacks."""
        return listing.type is None and (self.group_type is not None or self.consumers)

    def needs_state(self, listing: Listing) -> bool:
        """Return whether the filter needs a state that the listing lacks."""
        return listing.state is None and bool(self.states)

    def choose(self, listings: Iterable[Listing]) -> list[Listing]:
        """Return the listings that pass."""
        return [listing for listing in listings if self._passes(listing)]

    def _passes(self, listing: Listing) -> bool:
        if not self.has_name(listing.group):
            return False
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
