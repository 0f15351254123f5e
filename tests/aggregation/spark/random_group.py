"""Random histories of one group, with the truth of each incident, written beside its records.

It knows nothing of how the product finds incidents. Scenes follow each other after more than the
time in which another event could join them (incidents.md, 1a): so each scene is one incident, or
two where a member is away for longer than that.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from metrics.model.sample import Outcome, Sample, SampleKind, Scope, digest, format_time
from metrics.model.status import RebalanceStatus as S
from tests.aggregation.spark.histories import DAY_S, START_AT

_APART_S = 700.0
"""Restarts that begin within 10 minutes are one rollout."""
_RETURN_S = 3_600.0
_LONG_S = 5.0
"""A longer rebalance, of which no join is seen, may itself have waited for a member."""
_SESSION_S = 45.0
_MIDNIGHT_CHANCE = 0.25
_SAMPLED_S = 600.0
_WORDS = {
    S.NEW_MEMBER: "need to re-join with the given member-id",
    S.UNKNOWN_MEMBER: "encountered UNKNOWN_MEMBER_ID",
    S.DROPPED_GROUP: "consumer poll timeout has expired.",
    S.USER_REQUESTED: "the consumer is being closed",
    S.METADATA_CHANGED: "cached metadata has changed",
    S.SUBSCRIPTION_CHANGED: "the subscription has changed",
    S.COORDINATOR_REQUESTED: "group is already rebalancing",
}


class Truth(NamedTuple):
    """One incident. ``started_at`` is Unix seconds; rebalances are counted."""

    started_at: float
    kind: str
    members: tuple[str, ...]
    rebalances: int
    member_s: float


@dataclass(eq=False, kw_only=True)
class Member:
    """One place of the group, and the episode that is open there."""

    client_id: str
    agent: str
    process: int = 0
    left_at: list[tuple[float, float]] = field(default_factory=list)
    """Times without a process; the last one may have no end (infinity)."""
    moves: list[tuple[float, int]] = field(default_factory=list)
    since: float = 0.0
    status: int = 0

    def is_there(self, at: float) -> bool:
        """Return whether a process runs at a time."""
        return not any(since <= at < until for since, until in self.left_at)

    def status_at(self, at: float) -> int:
        """Return the code that the member has at a time."""
        return next((code for since, code in reversed(self.moves) if since <= at), 0)


def end_of(member: Member) -> float:
    """Return the time of a member's last move (Unix seconds)."""
    return member.moves[-1][0]


class RandomGroup:
    """A group, some days of its history, and the truth."""

    def __init__(self, seed: int, days: int = 4, name: str = "g") -> None:
        """Write the whole history."""
        self.rng = random.Random(seed)
        self.name, self.until = name, START_AT + days * DAY_S
        self.samples: list[Sample] = []
        self.truth: list[Truth] = []
        self.generation, self._cost = 1, 0.0
        agents = self.rng.choice(("own", "node", "one"))
        self.shows_joins = self.rng.random() < 0.7
        self.samples_of_dead = self.rng.random() < 0.5
        count = self.rng.randint(3, 12)
        numbers = {"own": range(count), "node": [n % 2 for n in range(count)], "one": [0] * count}
        self.all = [
            Member(client_id=f"c-{n}", agent=f"{name}-agent-{numbers[agents][n]}")
            for n in range(count)
        ]
        self.present: list[Member] = []
        self._write()

    def _write(self) -> None:
        at = START_AT + self.rng.uniform(0.0, 7_200.0)
        self.present = [*self.all]
        for member in self.all:
            member.process += 1
            member.left_at.append((0.0, at))
        end, _ = self._round(at, dict.fromkeys(self.all, S.NEW_MEMBER))
        self._note(at, "member_joined", self.all, 1)
        scenes = (
            *(self._leave, self._crash, self._restart, self._rollout, self._change),
            *(self._change, self._drop, self._freeze),
        )
        while True:
            gap = self.rng.choice((0.0, 300.0, 2_000.0, 9_000.0)) * self.rng.uniform(0.5, 1.5)
            at = end + _APART_S + gap
            midnight = START_AT + ((at - START_AT) // DAY_S + 1) * DAY_S
            if self.rng.random() < _MIDNIGHT_CHANCE:
                at = max(at, midnight - self.rng.choice((2.0, 30.0, 300.0)))
            if at > self.until - 20_000.0:
                break
            end = self.rng.choice(scenes)(round(at, 3))
        self._sample()

    def _leave(self, at: float) -> float:
        """One member leaves, and a new one comes more than ten minutes later."""
        member = self.rng.choice(self.present)
        end = self._go(at, member)
        self._note(at, "member_left", [member], 1)
        return self._come_anew(end + 1_300.0, member)

    def _come_anew(self, at: float, member: Member) -> float:
        end = self._come(at, member)
        self._note(at, "member_joined", [member], 1)
        return end

    def _crash(self, at: float) -> float:
        """A member is killed: the others show its expiry 45 s later, and it comes back or not."""
        member = self.rng.choice(self.present)
        self.present.remove(member)
        member.left_at.append((at, float("inf")))
        expired_at = at + _SESSION_S
        end, began_at = self._round(expired_at, {})
        is_known = self.shows_joins or end - began_at <= _LONG_S
        away_s = self.rng.choice((20.0, 200.0, 5_000.0))
        kind, whose = ("session_expired", [member]) if is_known else ("unknown", [])
        if away_s > _RETURN_S:
            self._note(began_at, kind, whose, 1)
            return self._come_anew(end + away_s, member)
        end = self._come(end + away_s, member)
        self._note(began_at, kind, whose, 2)
        return end

    def _restart(self, at: float) -> float:
        member = self.rng.choice(self.present)
        end = self._come(self._go(at, member) + self.rng.choice((5.0, 20.0, 60.0)), member)
        self._note(at, "restart", [member], 2)
        return end

    def _rollout(self, at: float) -> float:
        members = self.rng.sample(self.present, self.rng.randint(2, len(self.present)))
        since, end = at, at
        for member in members:
            end = self._come(self._go(since, member) + self.rng.choice((5.0, 20.0, 60.0)), member)
            since = round(end + self.rng.choice((5.0, 30.0, 200.0)), 3)
        self._note(at, "rollout", members, 2 * len(members))
        return end

    def _change(self, at: float) -> float:
        code = self.rng.choice((S.METADATA_CHANGED, S.SUBSCRIPTION_CHANGED))
        member = self.rng.choice(self.present)
        end, _ = self._round(at, {member: code})
        is_nobodys = code is S.METADATA_CHANGED
        kind = "metadata_changed" if is_nobodys else "subscription_changed"
        self._note(at, kind, [] if is_nobodys else [member], 1)
        return end

    def _drop(self, at: float) -> float:
        """A member is dropped and comes back: to the next rebalance or after hours."""
        member = self.rng.choice(self.present)
        self.present.remove(member)
        self._move(member, at, S.DROPPED_GROUP)
        end, _ = self._round(at + 0.1, {})
        out_s = self.rng.choice((30.0, 300.0, 3_000.0, 15_000.0))
        back_at = round(end + out_s, 3)
        self.present.append(member)
        if out_s <= _RETURN_S:
            end, _ = self._round(back_at, {}, already=member)
            self._note(at, "poll_timeout", [member], 2)
            return end
        before, self._cost = self._cost, 0.0
        end, began_at = self._round(back_at, {}, already=member)
        # where no join is seen, nobody knows when it was back: at its assignment, at the latest
        seen_s = (back_at if self.shows_joins else end_of(member)) - at
        after, self._cost = self._cost - seen_s, before + seen_s
        self._note(at, "poll_timeout", [member], 1)
        self._cost = after
        self._note(began_at, "member_joined", [member], 1)
        return end

    def _freeze(self, at: float) -> float:
        """The coordinator removes a frozen member, which learns of that when it goes on."""
        member = self.rng.choice(self.present)
        self.present.remove(member)
        end, began_at = self._round(at + _SESSION_S, {})
        back_at = round(end + self.rng.choice((5.0, 100.0, 3_000.0)), 3)
        self.present.append(member)
        end, _ = self._round(back_at, {member: S.UNKNOWN_MEMBER})
        self._note(began_at, "session_expired", [member], 2)
        return end

    def _go(self, at: float, member: Member) -> float:
        self._move(member, at, S.USER_REQUESTED)
        self._move(member, at, S.NONE, outcome=Outcome.LEFT)
        self.present.remove(member)
        member.left_at.append((at, float("inf")))
        end, _ = self._round(at + 0.1, {})
        return end

    def _come(self, at: float, member: Member) -> float:
        if member.left_at and member.left_at[-1][1] == float("inf"):
            member.left_at[-1] = (member.left_at[-1][0], at)
        member.process += 1
        self.present.append(member)
        end, _ = self._round(round(at, 3), {member: S.NEW_MEMBER})
        return end

    def _round(
        self,
        at: float,
        causes: Mapping[Member, S],
        already: Member | None = None,
    ) -> tuple[float, float]:
        """Write one rebalance of all present members; returns its end and its begin."""
        before, self.generation = self.generation, self.generation + 1
        starts: dict[Member, float] = {}
        for member in self.present:
            is_first = member in causes or member is already
            noticed = at if is_first else at + self.rng.uniform(0.05, 2.05)
            starts[member] = round(noticed, 3)
            if member is not already:
                code = causes.get(member, S.COORDINATOR_REQUESTED)
                self._move(member, starts[member], code, generation=before)
        sync = max(starts.values()) + self.rng.choice((0.3, 1.0, 3.0, 8.0))
        ends: list[float] = []
        for number, member in enumerate(self.present):
            end = round(sync + 0.001 * number, 3)
            ends.append(end)
            # the others finish what they have read before they join
            is_ready = member in causes or member is already
            joined_at = starts[member] if is_ready else max(starts[member], sync - 0.3)
            joined = format_time(joined_at) if self.shows_joins else None
            self._move(member, end, S.NONE, outcome=Outcome.SYNCED, joined_ts=joined)
        seen = (at for m, at in starts.items() if self.shows_joins or m is not already)
        return max(ends), min(seen)

    def _move(
        self,
        member: Member,
        at: float,
        code: S,
        outcome: Outcome | None = None,
        joined_ts: str | None = None,
        generation: int | None = None,
    ) -> None:
        if member.status == 0:
            member.since = at
        else:
            self._cost += at - member.since if code is S.NONE else 0.0
        generation = self.generation if generation is None else generation
        episode = digest(self.name, member.client_id, member.since)[:16]
        self._record(
            member, at, SampleKind.TRANSITION, episode, member.status, code,
            reason=_WORDS.get(code), outcome=outcome, joined_ts=joined_ts, generation=generation,
        )  # fmt: skip
        member.status = code
        member.moves.append((at, int(code)))

    def _record(
        self, member: Member, at: float, kind: SampleKind, episode: str | None,
        before: int | None, code: int, reason: str | None = None, outcome: Outcome | None = None,
        joined_ts: str | None = None, generation: int | None = None,
    ) -> None:  # fmt: skip
        number = len(self.samples) + 1
        self.samples.append(
            Sample(
                id=digest(self.name, member.client_id, kind, at, number)[:32],
                kind=kind,
                ts=format_time(at),
                agent=member.agent,
                seq=number,
                cluster="prod-eu",
                app="shop",
                group=self.name,
                group_type="classic",
                scope=Scope.CONSUMER,
                client_id=member.client_id,
                member_id=f"{member.client_id}-{member.process}",
                host=f"pod-{member.client_id}",
                from_=before,
                to=int(code),
                peak=int(code) if kind is SampleKind.SAMPLE else None,
                status=S(code).label,
                reason=reason,
                generation=generation,
                episode=episode,
                outcome=outcome,
                joined_ts=joined_ts,
                source="logs" if kind is SampleKind.TRANSITION else "timer",
            )
        )

    def _note(self, at: float, kind: str, members: Sequence[Member], rebalances: int) -> None:
        names = tuple(sorted(member.client_id for member in members))
        self.truth.append(Truth(at, kind, names, rebalances, self._cost))
        self._cost = 0.0

    def _sample(self) -> None:
        for member in self.all:
            at = START_AT + _SAMPLED_S
            first = member.moves[0][0]
            while at < self.until:
                if at > first and (member.is_there(at) or self._shows_dead(member, at)):
                    self._record(member, at, SampleKind.SAMPLE, None, None, member.status_at(at))
                at += _SAMPLED_S

    def _shows_dead(self, member: Member, at: float) -> bool:
        """Return whether the agent still shows a killed member: its log is still there."""
        return self.samples_of_dead and any(
            since <= at < since + _SESSION_S + 300.0 for since, _ in member.left_at
        )
