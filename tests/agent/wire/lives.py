"""Random conversations of several members over own and shared connections, with their truth.

A member is one for the broker from its first successful join or heartbeat until it leaves, and
until its last connection has been closed for longer than a reconnection takes.
"""

import random
from dataclasses import dataclass, field
from typing import Any

from agent.wire.connection import ConnectionClosed
from agent.wire.members.disconnects import RECONNECT_S, DisconnectTracker
from metrics.model.signals import Signal
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.agent.wire.frames import CONSUMER_HEARTBEAT, LEAVE_GROUP
from tests.agent.wire.talk import Talk, Wire

_UNKNOWN_MEMBER, _ID_REQUIRED = 25, 79


@dataclass(slots=True, eq=False)
class Life:
    """A member as its broker knows it."""

    client_id: str
    group: str
    is_new_protocol: bool
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = 0
    talks: set[int] = field(default_factory=set)
    """Ports of the open connections that it has used."""


class Conversation:
    """Plays random steps; the tracker beside it sees the packets alone."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.wire = Wire()
        self.tracker = Tracker(StatusConfig())
        self.disconnects = DisconnectTracker(self.wire.interpreter.registry)
        self.lives: list[Life] = []
        self.talks: dict[int, Talk] = {}
        self._ids = 0

    def play(self, steps: int) -> None:
        often = [self.begin] * 2 + [self.beat] * 6 + [self.close] * 2
        often += [self.rejoin, self.move, self.leave, self.expel, self.pass_time]
        for _ in range(steps):
            step = self.dice.choice(often)
            step()

    def begin(self) -> None:
        """A client begins: on a connection of its own, or on one that others use."""
        is_static = self.dice.random() < 0.2
        life = Life(
            client_id=f"c{self.dice.randrange(4)}",
            group=f"g{self.dice.randrange(3)}",
            is_new_protocol=self.dice.random() < 0.4,
            instance_id=f"i{self.dice.randrange(3)}" if is_static else None,
        )
        if any(self._is_like(life, each) for each in self.lives):
            return
        shared = [talk for talk in self.talks.values() if talk.client_id == life.client_id]
        talk = self.dice.choice(shared) if shared and self.dice.random() < 0.4 else self._open(life)
        self.lives.append(life)
        self._enter(life, talk)

    def _is_like(self, life: Life, other: Life) -> bool:
        """Whether no packet would tell the two apart: a client joins a group once."""
        same = (life.group, life.client_id) == (other.group, other.client_id)
        return same or (life.instance_id is not None and life.instance_id == other.instance_id)

    def beat(self) -> None:
        life = self._any()
        if life is not None:
            self._beat(life, self._talk_of(life))

    def rejoin(self) -> None:
        life = self._any()
        if life is not None and not life.is_new_protocol:
            self._join(life, self._talk_of(life), life.member_id)

    def move(self) -> None:
        """A member goes on on another connection, while the first one may stay open."""
        life = self._any()
        if life is not None:
            talk = self._open(life)
            if self.dice.random() < 0.6:
                for port in list(life.talks):
                    self._close(self.talks[port])
            self._beat(life, talk)

    def leave(self) -> None:
        life = self._any()
        if life is None:
            return
        talk = self._talk_of(life)
        if life.is_new_protocol:
            self._heartbeat(life, talk, -1)
        else:
            members = ({"member_id": life.member_id, "group_instance_id": life.instance_id},)
            self._take(talk.ask(LEAVE_GROUP, 5, group_id=life.group, members=members))
            self._take(talk.tell(members=members))
        self.lives.remove(life)
        used = set().union(*(each.talks for each in self.lives))
        for port in life.talks - used:  # those of others go on
            self._close(self.talks[port])

    def close(self) -> None:
        if self.talks:
            self._close(self.dice.choice(list(self.talks.values())))

    def expel(self) -> None:
        """The broker no longer knows a member; it joins again as a new one."""
        life = self._any()
        if life is None:
            return
        talk = self._talk_of(life)
        if life.is_new_protocol:
            self._heartbeat(life, talk, life.epoch, error=_UNKNOWN_MEMBER)
        else:
            self._take(talk.heartbeat(life.member_id, error=_UNKNOWN_MEMBER, group=life.group))
        self._enter(life, talk)

    def pass_time(self) -> None:
        self.wire.at += self.dice.choice((0.0, 20.0, RECONNECT_S + 1.0))
        self._end_origins()

    def finish(self) -> None:
        """Let the time of reconnection pass; members without connections are none any more."""
        for life in self.lives:
            if life.talks:
                self._beat(life, self._talk_of(life))
        self.wire.at += RECONNECT_S + 1.0
        self._end_origins()

    def close_all(self) -> None:
        for talk in list(self.talks.values()):
            self._close(talk)
        self.finish()

    def attached(self) -> set[tuple[str, str | None]]:
        """Return the members that the tracker takes for connected ones, but for those that left."""
        return {
            (track.member.client_id, track.member.member_id)
            for consumer in self.tracker._members
            for track in [consumer.track]
            if consumer.is_attached and track.left_at is None
        }

    def members(self) -> set[tuple[str, str | None]]:
        """Return the truth."""
        return {(each.client_id, each.member_id) for each in self.lives if each.talks}

    def _any(self) -> Life | None:
        return self.dice.choice(self.lives) if self.lives else None

    def _talk_of(self, life: Life) -> Talk:
        if life.talks:
            return self.talks[self.dice.choice(sorted(life.talks))]
        return self._open(life)

    def _open(self, life: Life) -> Talk:
        talk = self.wire.connect(life.client_id)
        self.talks[talk.connection.client.port] = talk
        return talk

    def _close(self, talk: Talk) -> None:
        port = talk.connection.client.port
        self.wire.at += 0.1
        by_client = self.dice.random() < 0.5
        end = ConnectionClosed(talk.connection, self.wire.at, by_client=by_client)
        self.disconnects.record(end)
        self._take(self.wire.interpreter.decode(end))
        del self.talks[port]
        for life in self.lives:
            life.talks.discard(port)

    def _enter(self, life: Life, talk: Talk) -> None:
        self._ids += 1
        new_id = f"{life.client_id}-{self._ids}"
        if life.is_new_protocol:
            life.member_id, life.epoch = new_id, 0
            self._heartbeat(life, talk, 0, answered=1)
            life.epoch = 1
        elif life.instance_id is None:
            self._ask_join(life, talk, "")
            self._take(talk.joined(new_id, error=_ID_REQUIRED))
            life.member_id = new_id
            self._join(life, talk, new_id)
        else:
            life.member_id = new_id
            self._join(life, talk, "")
        life.talks.add(talk.connection.client.port)

    def _ask_join(self, life: Life, talk: Talk, member_id: str) -> None:
        self._take(talk.join(member_id, group=life.group, group_instance_id=life.instance_id))

    def _join(self, life: Life, talk: Talk, member_id: str) -> None:
        self._ask_join(life, talk, member_id)
        self._take(talk.joined(life.member_id))
        self._take(talk.sync(life.member_id, group=life.group, group_instance_id=life.instance_id))
        self._take(talk.synced({"t": [0]}))
        life.talks.add(talk.connection.client.port)

    def _beat(self, life: Life, talk: Talk) -> None:
        if life.is_new_protocol:
            self._heartbeat(life, talk, life.epoch, answered=life.epoch)
        else:
            self._take(talk.heartbeat(life.member_id, group=life.group))
        life.talks.add(talk.connection.client.port)

    def _heartbeat(
        self, life: Life, talk: Talk, epoch: int, *, answered: int = 0, error: int = 0
    ) -> None:
        first: dict[str, Any] = {}
        if epoch == 0:
            first = {"subscribed_topic_names": ("t",), "topic_partitions": ()}
        names = {
            "group_id": life.group,
            "member_id": life.member_id,
            "instance_id": life.instance_id,
        }
        self._take(talk.ask(CONSUMER_HEARTBEAT, 1, **names, member_epoch=epoch, **first))
        self._take(talk.tell(member_id=life.member_id, member_epoch=answered, error_code=error))

    def _take(self, signals: list[Signal]) -> None:
        for signal in signals:
            self.tracker.apply(signal)
        if self.dice.random() < 0.2:
            self._end_origins()

    def _end_origins(self) -> None:
        for end in self.disconnects.take_expired(self.wire.at):
            self.tracker.detach(end.name, self.wire.at, is_cut=not end.by_client)
        self.tracker.advance(self.wire.at)
