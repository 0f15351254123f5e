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
from metrics.tracking.consumer import Consumer, Voice

_Key = tuple[str, ...]


class Met(NamedTuple):
    """Whose a signal is; None: a member that is not known yet."""

    entry: Consumer | None
    folded: Consumer | None = None
    """A member that turned out to be this one; its voices have moved already."""


class Members:
    """Every consumer, the longest silent first."""

    def __init__(self, entries: list[Consumer]) -> None:
        self._by_key: dict[_Key, Consumer] = {}
        self._by_voice = defaultdict[str, dict[_Key, Consumer]](dict)
        """By stream, for that is how many of them end at once."""
        self._by_id: dict[tuple[str, str], Consumer] = {}
        self._by_name: dict[tuple[str, str], tuple[Consumer, ...]] = {}
        """Tuples: nearly every name is one consumer's, and a dict takes 250 bytes."""
        self.has_clients = False
        """A member was heard of by itself, not by brokers alone."""
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[Consumer]:
        return iter(list(self._by_key.values()))

    @property
    def oldest(self) -> Consumer:
        """The consumer that was silent for longest."""
        return next(iter(self._by_key.values()))

    def of_stream(self, stream: str) -> list[Consumer]:
        """Return the consumers that a stream tells of, in an order that a restart keeps."""
        voices = self._by_voice.get(stream, {})
        entries = {entry.track.key: entry for entry in voices.values()}
        return [entries[key] for key in sorted(entries)]

    def meet(self, signal: Signal) -> Met:
        """Return whose a signal is, and what its member id shows."""
        member = signal.member
        voices = self._by_voice.get(member.stream)
        known = None if voices is None else voices.get(_voice_key(signal.source, member))
        voice = None if known is None else known.voice_of(signal)
        if voice is not None and voice.member is member:
            return Met(known)
        named = self._named(signal)
        if known is None or voice is None:
            return self._first(named or self._by_key.get(member.key) or self._near(signal), signal)
        if named is known or not member.member_id:
            return Met(known)
        if named is not None:
            return self._join(known, voice, named)
        if voice.named or not known.ids:
            return Met(known)
        self._part(known, voice)
        return Met(None)

    def hear(self, entry: Consumer, signal: Signal) -> None:
        """Take a signal's voice, and put its member last."""
        key = entry.track.key
        self._by_key[key] = self._by_key.pop(key)
        voice = entry.voice_of(signal)
        if voice is None or voice.member is not signal.member or not voice.attached:
            self._unindex(entry)
            entry.hear(signal)
            self._index(entry)

    def key_for(self, member: Member) -> _Key:
        """Return the key of a new consumer: its own, unless a voice that was parted began one."""
        key: _Key = tuple(member.key)
        while key in self._by_key:
            key = (*key, member.member_id or "")
        return key

    def add(self, entry: Consumer) -> None:
        """Take a new consumer."""
        self._by_key[entry.track.key] = entry
        self._index(entry)

    def remove(self, entry: Consumer) -> None:
        """Forget a consumer and all that leads to it."""
        self._unindex(entry)
        del self._by_key[entry.track.key]

    def kin(self, member: Member) -> list[Consumer]:
        """Return the consumers of the same group that share a name with this one."""
        return [entry for name in _names(member) for entry in self._by_name.get(name, ())]

    def _first(self, found: Consumer | None, signal: Signal) -> Met:
        """Return whose a new voice is; who tells of itself is no stand-in from then on."""
        if found is None or not _is_stand_in(found, signal):
            return Met(found)
        self.remove(found)
        return Met(None, found)

    def _named(self, signal: Signal) -> Consumer | None:
        member = signal.member
        found = self._by_id.get((member.group, member.member_id or ""))
        return found if found is not None and _can_be(found, signal) else None

    def _near(self, signal: Signal) -> Consumer | None:
        """Return the member that a new voice must be of, as far as can be told without an id."""
        member = signal.member
        kin = [entry for entry in self.kin(member) if _can_be(entry, signal)]
        for entry in kin:  # the same voice, which has learned its cluster; or a static member
            if entry.voice_of(signal) is not None or member.group_instance_id is not None:
                return entry
        others = [
            entry
            for entry in kin
            if entry.attached
            and not (entry.ids and member.member_id)
            and all(voice.source is not signal.source for voice in entry.voices)
        ]
        return others[0] if len(others) == 1 else None

    def _join(self, known: Consumer, voice: Voice, named: Consumer) -> Met:
        """Put right whom a voice speaks of: its id is another member's."""
        if voice.named or len(known.voices) == 1:
            if named.is_told_by_brokers and not known.is_told_by_brokers:
                named, known = known, named
            self.remove(known)
            self._unindex(named)
            named.absorb(known)
            self._index(named)
            return Met(named, known)
        self._part(known, voice)
        return Met(named)

    def _part(self, entry: Consumer, voice: Voice) -> None:
        self._unindex(entry)
        entry.voices.remove(voice)
        self._index(entry)

    def _index(self, entry: Consumer) -> None:
        self.has_clients = self.has_clients or not entry.is_told_by_brokers
        for voice in entry.voices:
            self._by_voice[voice.member.stream][_voice_key(voice.source, voice.member)] = entry
        for member_id in entry.ids:
            self._by_id[entry.track.member.group, member_id] = entry
        for name in _names(entry.track.member):
            self._by_name[name] = (*self._by_name.get(name, ()), entry)

    def _unindex(self, entry: Consumer) -> None:
        for voice in entry.voices:
            stream = voice.member.stream
            voices = self._by_voice[stream]
            voices.pop(_voice_key(voice.source, voice.member), None)
            if not voices:
                del self._by_voice[stream]
        for member_id in entry.ids:
            self._by_id.pop((entry.track.member.group, member_id), None)
        for name in _names(entry.track.member):
            kin = tuple(each for each in self._by_name.pop(name, ()) if each is not entry)
            if kin:
                self._by_name[name] = kin


def _voice_key(source: SourceKind, member: Member) -> _Key:
    return (source, *member.key)


def _names(member: Member) -> set[tuple[str, str]]:
    """Return what may name a member: a broker calls a static one by its instance id."""
    return {(member.group, name) for name in (member.client_id, member.group_instance_id) if name}


def _can_be(entry: Consumer, signal: Signal) -> bool:
    """Tell whether nothing speaks against it: a cluster that is not known yet may be any."""
    known, member = entry.track.member, signal.member
    if len({known.cluster, member.cluster} - {""}) > 1:
        return False
    if _is_stand_in(entry, signal):
        return _stands_for(known, member, [member.member_id])
    if signal.source is SourceKind.BROKER_LOG and known.client_id != member.client_id:
        return _stands_for(member, known, entry.ids)
    return (known.client_id, known.group_instance_id) == (
        member.client_id,
        member.group_instance_id,
    )


def _is_stand_in(entry: Consumer, signal: Signal) -> bool:
    """Tell whether a broker has only called the member by another name than the signal does."""
    return entry.is_told_by_brokers and entry.track.member.client_id != signal.member.client_id


def _stands_for(stand_in: Member, member: Member, ids: Sequence[str | None]) -> bool:
    """Tell whether what a broker took for the client id is another id of the member."""
    return stand_in.client_id in {*ids, member.group_instance_id} and (
        stand_in.group_instance_id in {None, member.group_instance_id}
    )
