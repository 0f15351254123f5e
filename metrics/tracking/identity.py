"""Member identity: the consumer of a signal, for any number of sources.

Theory of operation. A source knows a member by its client id and its origin (a log's path, an
address), so two sources name one member differently; they share the member id.

- A known view is found by its own name.
- A new view belongs to the member with its member id. If one of the two has no id yet, it belongs
  to the only candidate: same group and client id, no view of the same kind of source. Else it is a
  new member.
- A first member id corrects errors: the view moves to the member with that id, or becomes a member
  of its own, and two entries of one member are merged. The identity is that of the first view.

A broker's log has no client id for static members and for the new protocols: it has their instance
id or member id. Such a placeholder is merged into the member that its own source reports.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from metrics.model.signals import Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.consumer import Consumer, MemberView
from metrics.tracking.source_traits import TRAITS

_Key = tuple[str, ...]
_SAME_JOIN_S = 1.0
"""A log and the traffic show one join no further apart."""


class Identity(NamedTuple):
    """The consumer of a signal; None: a new member."""

    consumer: Consumer | None
    merged: Consumer | None = None
    """Another entry of the same member; its views have moved already."""


class MemberIndex:
    """Every consumer, the longest silent first."""

    def __init__(self, consumers: list[Consumer]) -> None:
        self._by_key: dict[_Key, Consumer] = {}
        self._by_view = defaultdict[str, dict[_Key, Consumer]](dict)
        """By origin: all views of one origin end at once."""
        self._by_id: dict[tuple[str, str], Consumer] = {}
        self._by_name: dict[tuple[str, str], tuple[Consumer, ...]] = {}
        """Tuples: nearly every name has one consumer, and a dict takes 250 bytes."""
        self.has_clients = False
        """A source other than brokers has reported a member."""
        for consumer in consumers:
            self.add(consumer)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._by_key.values()))

    @property
    def longest_silent(self) -> Consumer:
        """The consumer with the oldest last signal."""
        return next(iter(self._by_key.values()))

    def of_origin(self, origin: str) -> list[Consumer]:
        """Return the consumers that an origin reports, in an order that a restart keeps."""
        views = self._by_view.get(origin, {})
        consumers = {consumer.track.key: consumer for consumer in views.values()}
        return [consumers[key] for key in sorted(consumers)]

    def identify(self, signal: Signal) -> Identity:
        """Return the consumer of a signal; correct the index by its member id."""
        member = signal.member
        views = self._by_view.get(member.origin)
        known = None if views is None else views.get(_view_key(signal.source, member))
        view = None if known is None else known.view_of(signal)
        if view is not None and view.member is member and not self._is_taken(known, signal):
            return Identity(known)
        by_id = self._find_by_member_id(signal)
        if known is None or view is None:
            consumer = by_id or self._by_key.get(member.key) or self._find_candidate(signal)
            return self._replace_placeholder(consumer, signal)
        if by_id is known or not member.member_id:
            return Identity(known)
        if by_id is not None:
            return self._correct(known, view, by_id, signal)
        return self._identify_new_id(known, view, signal)

    def record_view(self, consumer: Consumer, signal: Signal) -> None:
        """Update the view of a signal's source, and move its consumer to the end."""
        key = consumer.track.key
        self._by_key[key] = self._by_key.pop(key)
        view = consumer.view_of(signal)
        if view is None or view.member is not signal.member or not view.attached:
            self._unindex(consumer)
            consumer.record_view(signal)
            self._index(consumer)

    def key_for(self, member: Member) -> _Key:
        """Return the key of a new consumer: its own, unless another consumer has it already."""
        key: _Key = tuple(member.key)
        while key in self._by_key:
            key = (*key, member.member_id or "")
        return key

    def add(self, consumer: Consumer) -> None:
        """Add a new consumer."""
        self._by_key[consumer.track.key] = consumer
        self._index(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer and its index entries."""
        self._unindex(consumer)
        del self._by_key[consumer.track.key]

    def candidates(self, member: Member) -> list[Consumer]:
        """Return the consumers of the same group that share a name with this one."""
        return [entry for name in _names(member) for entry in self._by_name.get(name, ())]

    def _is_taken(self, known: Consumer | None, signal: Signal) -> bool:
        """Whether another process, with another client id, has the place of a static member.

        A broker's log names both by their instance id.
        """
        member = signal.member
        if known is None or member.group_instance_id is None or not TRAITS[signal.source].is_broker:
            return False
        owner = self._by_id.get((member.group, member.member_id or ""))
        return (
            owner is not None
            and owner is not known
            and not owner.is_broker_only
            and not known.is_broker_only
            and owner.track.member.client_id != known.track.member.client_id
        )

    def _replace_placeholder(self, consumer: Consumer | None, signal: Signal) -> Identity:
        """Return a new view's consumer; a placeholder makes room for the real member."""
        if consumer is None or not _is_placeholder(consumer, signal):
            return Identity(consumer)
        self.remove(consumer)
        return Identity(None, consumer)

    def _find_by_member_id(self, signal: Signal) -> Consumer | None:
        member = signal.member
        consumer = self._by_id.get((member.group, member.member_id or ""))
        return consumer if consumer is not None and _is_compatible(consumer, signal) else None

    def _find_candidate(self, signal: Signal) -> Consumer | None:
        """Return the only member that a new view can be of, as far as is known without an id."""
        member = signal.member
        candidates = [c for c in self.candidates(member) if _is_compatible(c, signal)]
        for consumer in candidates:
            # the same view, which has learned its cluster; or a static member
            if consumer.view_of(signal) is not None or member.group_instance_id is not None:
                return consumer
        others = [c for c in candidates if c.is_attached and _may_be_seen_by(signal, c)]
        if len(others) > 1:  # replicas of one machine: that of the log whose member joins just now
            others = [c for c in others if _joins_at(signal.at, c)]
        return others[0] if len(others) == 1 else None

    def _identify_new_id(self, known: Consumer, view: MemberView, signal: Signal) -> Identity:
        """Return the consumer of a known view with a member id that no consumer has."""
        other = self._find_other_joining(known, signal)
        if other is None and (view.has_member_id or not known.member_ids):
            return Identity(known)
        self._remove_view(known, view)
        return Identity(other)

    def _find_other_joining(self, known: Consumer, signal: Signal) -> Consumer | None:
        """Return another member whose log shows the join that a new member id is of.

        Of several processes of one name on one machine, the traffic takes a new one for the one
        that has ended; the log of that one stays, without a join.
        """
        if signal.kind is not SignalKind.RAISE or _joins_at(signal.at, known):
            return None
        others = (c for c in self.candidates(signal.member) if c is not known)
        joining = [
            consumer
            for consumer in others
            if consumer.is_attached
            and _is_compatible(consumer, signal)
            and _may_be_seen_by(signal, consumer)
            and _joins_at(signal.at, consumer)
        ]
        return joining[0] if len(joining) == 1 else None

    def _correct(
        self, known: Consumer, view: MemberView, by_id: Consumer, signal: Signal
    ) -> Identity:
        """Move a view, or merge its consumer, as its member id belongs to another consumer."""
        if self._is_taken(known, signal):
            self._remove_view(known, view)
            return Identity(by_id)
        member_id = signal.member.member_id
        if view.has_member_id and _shows_another(signal.source, member_id, by_id):
            return self._claim_id(known, by_id, signal)
        are_apart = any(
            other.attached and _shows_another(other.source, other.member.member_id, by_id)
            for other in known.views
            if other is not view
        )
        if not are_apart and (view.has_member_id or len(known.views) == 1):
            if by_id.is_broker_only and not known.is_broker_only:
                by_id, known = known, by_id
            self.remove(known)
            self._unindex(by_id)
            by_id.absorb(known)
            self._index(by_id)
            return Identity(by_id, known)
        others = [other for other in known.views if other is not view]
        if by_id.is_broker_only and all(TRAITS[other.source].is_broker for other in others):
            return self._take_over(known, view, by_id)
        self._remove_view(known, view)
        return Identity(by_id)

    def _claim_id(self, known: Consumer, by_id: Consumer, signal: Signal) -> Identity:
        """Move the views with a member id to the member that a live source shows with it.

        Two consumers of one log were removed, and which of them got which id was a guess.
        """
        member_id = signal.member.member_id
        self._unindex(known)
        self._unindex(by_id)
        known.views += [each for each in by_id.views if each.member.member_id == member_id]
        by_id.views = [each for each in by_id.views if each.member.member_id != member_id]
        by_id.member_ids = [each for each in by_id.member_ids if each != member_id]
        by_id.track.member = by_id.merge_views()
        self._index(by_id)
        self._index(known)
        return Identity(known)

    def _take_over(self, known: Consumer, view: MemberView, by_id: Consumer) -> Identity:
        """Give a broker's entry to the client with that id, in place of the view it had before.

        A client whose join has failed gets another member id with the next one, and the first view
        of the broker's log was taken for it. What its own log has shown stays the client's.
        """
        self.remove(by_id)
        self._unindex(known)
        known.views, known.member_ids = [view], []
        known.pending = [signal for signal in known.pending if signal.source is view.source]
        known.absorb(by_id)
        self._index(known)
        return Identity(known, by_id)

    def _remove_view(self, consumer: Consumer, view: MemberView) -> None:
        self._unindex(consumer)
        consumer.views.remove(view)
        self._index(consumer)

    def _index(self, consumer: Consumer) -> None:
        self.has_clients = self.has_clients or not consumer.is_broker_only
        for view in consumer.views:
            self._by_view[view.member.origin][_view_key(view.source, view.member)] = consumer
        for member_id in consumer.member_ids:
            self._by_id[consumer.track.member.group, member_id] = consumer
        for name in _names(consumer.track.member):
            self._by_name[name] = (*self._by_name.get(name, ()), consumer)

    def _unindex(self, consumer: Consumer) -> None:
        for view in consumer.views:
            origin = view.member.origin
            views = self._by_view[origin]
            views.pop(_view_key(view.source, view.member), None)
            if not views:
                del self._by_view[origin]
        for member_id in consumer.member_ids:
            self._by_id.pop((consumer.track.member.group, member_id), None)
        for name in _names(consumer.track.member):
            others = tuple(c for c in self._by_name.pop(name, ()) if c is not consumer)
            if others:
                self._by_name[name] = others


def _may_be_seen_by(signal: Signal, consumer: Consumer) -> bool:
    """Return True if no live view is of the same kind of source, nor has another member id."""
    return not any(
        view.attached
        and (view.source is signal.source or (view.has_member_id and signal.member.member_id))
        for view in consumer.views
    )


def _shows_another(source: SourceKind, member_id: str | None, consumer: Consumer) -> bool:
    """Return True if a source of requests shows the consumer, live, by another member id."""
    return TRAITS[source].sees_protocol and any(
        view.attached
        and view.source is source
        and view.has_member_id
        and view.member.member_id != member_id
        for view in consumer.views
    )


def _joins_at(at: float, consumer: Consumer) -> bool:
    """Return True if the consumer's sources have shown its join at about that time."""
    track = consumer.track
    begins = [] if track.status is not RebalanceStatus.NEW_MEMBER else [track.since_at]
    begins += [] if track.joined_at is None else [track.joined_at]
    return any(abs(begin - at) <= _SAME_JOIN_S for begin in begins)


def _view_key(source: SourceKind, member: Member) -> _Key:
    return (source, *member.key)


def _names(member: Member) -> set[tuple[str, str]]:
    """Return a member's possible names: a broker may know a static one by its instance id."""
    return {(member.group, name) for name in (member.client_id, member.group_instance_id) if name}


def _is_compatible(consumer: Consumer, signal: Signal) -> bool:
    """Return True if no label contradicts; an unknown cluster may be any."""
    known, member = consumer.track.member, signal.member
    if len({known.cluster, member.cluster} - {""}) > 1:
        return False
    if _is_placeholder(consumer, signal):
        return _is_other_id_of(known, member, [member.member_id])
    if TRAITS[signal.source].is_broker and known.client_id != member.client_id:
        return _is_other_id_of(member, known, consumer.member_ids)
    if known.group_instance_id != member.group_instance_id:
        return False
    if known.client_id == member.client_id:
        return True
    # franz-go's log has no client id: a static member is named by its instance id
    is_named_by_instance = known.group_instance_id in {known.client_id, member.client_id}
    return is_named_by_instance and member.member_id in consumer.member_ids


def _is_placeholder(consumer: Consumer, signal: Signal) -> bool:
    """Return True if only brokers report the consumer, by another name than the signal's."""
    return consumer.is_broker_only and consumer.track.member.client_id != signal.member.client_id


def _is_other_id_of(placeholder: Member, member: Member, ids: Sequence[str | None]) -> bool:
    """Return True if a placeholder's client id is another id of the member."""
    return placeholder.client_id in {*ids, member.group_instance_id} and (
        placeholder.group_instance_id in {None, member.group_instance_id}
    )
