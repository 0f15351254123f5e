"""Who is who: which consumer a signal is of, however many sources tell of it.

Theory of operation. A source knows a member by its client id and by where it was seen (a log's
path, an address), so two sources name one member differently; the member id is what they share.
A voice that was heard before is found by its own name. A new one belongs to the member that has its
member id; where one of both does not know an id yet, to the only member of the same group and
client id that no source of its kind tells of; else it is a member of its own. What the first id
shows to be wrong is put right: a voice moves to the member that has the id, or becomes one of its
own, and two members that turn out to be one are folded. Identity is the first voice's.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from metrics.consumer import Consumer, Voice
from metrics.signals import Member, Signal, SourceKind

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
        self._by_voice: dict[_Key, Consumer] = {}
        self._by_id: dict[tuple[str, str], Consumer] = {}
        self._by_name = defaultdict[tuple[str, str], dict[_Key, Consumer]](dict)
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

    def meet(self, signal: Signal) -> Met:
        """Return whose a signal is, and what its member id shows."""
        member = signal.member
        known = self._by_voice.get(_voice_key(signal.source, member))
        voice = None if known is None else known.voice_of(signal)
        if voice is not None and voice.member is member:
            return Met(known)
        named = self._named(member)
        if known is None or voice is None:
            return Met(named or self._by_key.get(member.key) or self._near(signal))
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

    def add(self, entry: Consumer) -> None:
        """Take a new consumer."""
        self._by_key[entry.track.key] = entry
        self._by_name[_name(entry)][entry.track.key] = entry
        self._index(entry)

    def remove(self, entry: Consumer) -> None:
        """Forget a consumer and all that leads to it."""
        self._unindex(entry)
        del self._by_key[entry.track.key]
        kin = self._by_name[_name(entry)]
        del kin[entry.track.key]
        if not kin:
            del self._by_name[_name(entry)]

    def kin(self, entry: Consumer) -> list[Consumer]:
        """Return the consumers of the same group and client id, this one too."""
        return list(self._by_name.get(_name(entry), {}).values())

    def _named(self, member: Member) -> Consumer | None:
        found = self._by_id.get((member.group, member.member_id or ""))
        return found if found is not None and _can_be(found, member) else None

    def _near(self, signal: Signal) -> Consumer | None:
        """Return the member that a new voice must be of, as far as can be told without an id."""
        member = signal.member
        kin = [
            entry
            for entry in self._by_name.get((member.group, member.client_id), {}).values()
            if _can_be(entry, member)
        ]
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
        for voice in entry.voices:
            self._by_voice[_voice_key(voice.source, voice.member)] = entry
        for member_id in entry.ids:
            self._by_id[entry.track.member.group, member_id] = entry

    def _unindex(self, entry: Consumer) -> None:
        for voice in entry.voices:
            self._by_voice.pop(_voice_key(voice.source, voice.member), None)
        for member_id in entry.ids:
            self._by_id.pop((entry.track.member.group, member_id), None)


def _voice_key(source: SourceKind, member: Member) -> _Key:
    return (source, member.stream, *member.key)


def _name(entry: Consumer) -> tuple[str, str]:
    return entry.track.member.group, entry.track.member.client_id


def _can_be(entry: Consumer, member: Member) -> bool:
    """Tell whether nothing speaks against it: a cluster that is not known yet may be any."""
    known = entry.track.member
    clusters = {known.cluster, member.cluster} - {""}
    return (
        len(clusters) < 2
        and known.client_id == member.client_id
        and known.group_instance_id == member.group_instance_id
    )
