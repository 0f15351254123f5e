"""Who is who: which consumer a signal is of, however many sources tell of it.

Theory of operation. A source knows a member by its client id and by where it was seen (a log's
path, an address), so two sources name one member differently; the member id is what they share.
A voice that was heard before is found by its own name. A new one belongs to the member that has its
member id; where one of both does not know an id yet, to the only member of the same group and
client id that no source of its kind tells of; else it is a member of its own. What the first id
shows to be wrong is put right: a voice moves to the member that has the id, or becomes one of its
own, and two members that turn out to be one are folded. Identity is the first voice's.

A broker's log has no client id for a static member and for one of the new protocols: it calls them
by their instance id or member id. Such a stand-in is folded into the member that tells of itself.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from metrics.model.signals import Member, Signal, SourceKind
from metrics.tracking.consumer import Consumer, MemberView

_Key = tuple[str, ...]


class Identity(NamedTuple):
    """Whose a signal is; None: a member that is not known yet."""

    consumer: Consumer | None
    merged: Consumer | None = None
    """A member that turned out to be this one; its voices have moved already."""


class MemberIndex:
    """Every consumer, the longest silent first."""

    def __init__(self, entries: list[Consumer]) -> None:
        self._by_key: dict[_Key, Consumer] = {}
        self._by_view = defaultdict[str, dict[_Key, Consumer]](dict)
        """By stream, for that is how many of them end at once."""
        self._by_id: dict[tuple[str, str], Consumer] = {}
        self._by_name: dict[tuple[str, str], tuple[Consumer, ...]] = {}
        """Tuples: nearly every name is one consumer's, and a dict takes 250 bytes."""
        self.has_clients = False
        """A member was heard of by itself, not by brokers alone."""
        for consumer in entries:
            self.add(consumer)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._by_key.values()))

    @property
    def longest_silent(self) -> Consumer:
        """The consumer that was silent for longest."""
        return next(iter(self._by_key.values()))

    def of_origin(self, stream: str) -> list[Consumer]:
        """Return the consumers that a stream tells of, in an order that a restart keeps."""
        voices = self._by_view.get(stream, {})
        entries = {consumer.track.key: consumer for consumer in voices.values()}
        return [entries[key] for key in sorted(entries)]

    def identify(self, signal: Signal) -> Identity:
        """Return whose a signal is, and what its member id shows."""
        member = signal.member
        voices = self._by_view.get(member.origin)
        known = None if voices is None else voices.get(_view_key(signal.source, member))
        voice = None if known is None else known.view_of(signal)
        if voice is not None and voice.member is member:
            return Identity(known)
        named = self._find_by_member_id(signal)
        if known is None or voice is None:
            return self._replace_placeholder(
                named or self._by_key.get(member.key) or self._find_candidate(signal), signal
            )
        if named is known or not member.member_id:
            return Identity(known)
        if named is not None:
            return self._join(known, voice, named)
        if voice.has_member_id or not known.member_ids:
            return Identity(known)
        self._part(known, voice)
        return Identity(None)

    def record_view(self, consumer: Consumer, signal: Signal) -> None:
        """Take a signal's voice, and put its member last."""
        key = consumer.track.key
        self._by_key[key] = self._by_key.pop(key)
        voice = consumer.view_of(signal)
        if voice is None or voice.member is not signal.member or not voice.attached:
            self._unindex(consumer)
            consumer.record_view(signal)
            self._index(consumer)

    def key_for(self, member: Member) -> _Key:
        """Return the key of a new consumer: its own, unless a voice that was parted began one."""
        key: _Key = tuple(member.key)
        while key in self._by_key:
            key = (*key, member.member_id or "")
        return key

    def add(self, consumer: Consumer) -> None:
        """Take a new consumer."""
        self._by_key[consumer.track.key] = consumer
        self._index(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Forget a consumer and all that leads to it."""
        self._unindex(consumer)
        del self._by_key[consumer.track.key]

    def candidates(self, member: Member) -> list[Consumer]:
        """Return the consumers of the same group that share a name with this one."""
        return [consumer for name in _names(member) for consumer in self._by_name.get(name, ())]

    def _replace_placeholder(self, found: Consumer | None, signal: Signal) -> Identity:
        """Return whose a new voice is; who tells of itself is no stand-in from then on."""
        if found is None or not _is_placeholder(found, signal):
            return Identity(found)
        self.remove(found)
        return Identity(None, found)

    def _find_by_member_id(self, signal: Signal) -> Consumer | None:
        member = signal.member
        found = self._by_id.get((member.group, member.member_id or ""))
        return found if found is not None and _is_compatible(found, signal) else None

    def _find_candidate(self, signal: Signal) -> Consumer | None:
        """Return the member that a new voice must be of, as far as can be told without an id."""
        member = signal.member
        kin = [consumer for consumer in self.candidates(member) if _is_compatible(consumer, signal)]
        for consumer in kin:  # the same voice, which has learned its cluster; or a static member
            if consumer.view_of(signal) is not None or member.group_instance_id is not None:
                return consumer
        others = [
            consumer
            for consumer in kin
            if consumer.is_attached
            and not (consumer.member_ids and member.member_id)
            and all(voice.source is not signal.source for voice in consumer.views)
        ]
        return others[0] if len(others) == 1 else None

    def _join(self, known: Consumer, voice: MemberView, named: Consumer) -> Identity:
        """Put right whom a voice speaks of: its id is another member's."""
        if voice.has_member_id or len(known.views) == 1:
            if named.is_broker_only and not known.is_broker_only:
                named, known = known, named
            self.remove(known)
            self._unindex(named)
            named.absorb(known)
            self._index(named)
            return Identity(named, known)
        self._part(known, voice)
        return Identity(named)

    def _part(self, consumer: Consumer, voice: MemberView) -> None:
        self._unindex(consumer)
        consumer.views.remove(voice)
        self._index(consumer)

    def _index(self, consumer: Consumer) -> None:
        self.has_clients = self.has_clients or not consumer.is_broker_only
        for voice in consumer.views:
            self._by_view[voice.member.origin][_view_key(voice.source, voice.member)] = consumer
        for member_id in consumer.member_ids:
            self._by_id[consumer.track.member.group, member_id] = consumer
        for name in _names(consumer.track.member):
            self._by_name[name] = (*self._by_name.get(name, ()), consumer)

    def _unindex(self, consumer: Consumer) -> None:
        for voice in consumer.views:
            stream = voice.member.origin
            voices = self._by_view[stream]
            voices.pop(_view_key(voice.source, voice.member), None)
            if not voices:
                del self._by_view[stream]
        for member_id in consumer.member_ids:
            self._by_id.pop((consumer.track.member.group, member_id), None)
        for name in _names(consumer.track.member):
            kin = tuple(each for each in self._by_name.pop(name, ()) if each is not consumer)
            if kin:
                self._by_name[name] = kin


def _view_key(source: SourceKind, member: Member) -> _Key:
    return (source, *member.key)


def _names(member: Member) -> set[tuple[str, str]]:
    """Return what may name a member: a broker calls a static one by its instance id."""
    return {(member.group, name) for name in (member.client_id, member.group_instance_id) if name}


def _is_compatible(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether nothing speaks against it: a cluster that is not known yet may be any."""
    known, member = consumer.track.member, signal.member
    if len({known.cluster, member.cluster} - {""}) > 1:
        return False
    if _is_placeholder(consumer, signal):
        return _is_other_id_of(known, member, [member.member_id])
    if signal.source is SourceKind.BROKER_LOG and known.client_id != member.client_id:
        return _is_other_id_of(member, known, consumer.member_ids)
    if known.group_instance_id != member.group_instance_id:
        return False
    if known.client_id == member.client_id:
        return True
    # franz-go's log has no client id: a static member is named by its instance id
    is_named_by_instance = known.group_instance_id in {known.client_id, member.client_id}
    return is_named_by_instance and member.member_id in consumer.member_ids


def _is_placeholder(consumer: Consumer, signal: Signal) -> bool:
    """Tell whether a broker has only called the member by another name than the signal does."""
    return consumer.is_broker_only and consumer.track.member.client_id != signal.member.client_id


def _is_other_id_of(stand_in: Member, member: Member, ids: Sequence[str | None]) -> bool:
    """Tell whether what a broker took for the client id is another id of the member."""
    return stand_in.client_id in {*ids, member.group_instance_id} and (
        stand_in.group_instance_id in {None, member.group_instance_id}
    )
