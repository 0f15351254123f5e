"""Invented histories of groups, written the way an agent writes them."""

import gzip
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from metrics.model.sample import Outcome, Sample, SampleKind, Scope, digest, encode, format_time
from metrics.model.status import RebalanceStatus

S = RebalanceStatus
START_AT = 1_763_942_400.0
"""Monday, 24 November 2025, 00:00 UTC."""
DAY_S = 86_400.0
NOTICED_S = (0.2, 2.3)
"""When a member's heartbeat tells it of a rebalance."""

_numbers = count()


@dataclass(kw_only=True)
class Client:
    """A member with a chain of records like a tracker's."""

    group: str
    client_id: str
    app: str = "shop"
    cluster: str = "prod-eu"
    host: str = "pod-1"
    scope: Scope = Scope.CONSUMER
    status: int = 0
    episode: str | None = None
    generation: int = 1
    written: list[Sample] = field(default_factory=list)

    def record(self, at: float, **columns: Any) -> Sample:
        """Write any record of this member."""
        number = next(_numbers)
        given: dict[str, Any] = {
            "id": digest(self.group, self.client_id, at, number),
            "kind": SampleKind.TRANSITION,
            "ts": format_time(at),
            "agent": "agent-1",
            "seq": number,
            "cluster": self.cluster,
            "app": self.app,
            "group": self.group,
            "scope": self.scope,
            "client_id": self.client_id,
            "member_id": f"{self.client_id}-{self.generation}",
            "host": self.host,
            "generation": self.generation,
            "episode": self.episode,
            "source": "logs",
        }
        sample = Sample(**(given | columns))
        self.written.append(sample)
        return sample

    def move(self, at: float, to: int, reason: str | None = None, **columns: Any) -> Sample:
        """Write a transition."""
        if self.status == 0:
            self.episode = digest(self.group, self.client_id, self.host, self.scope, at)[:16]
        sample = self.record(
            at, from_=self.status, to=to, status=S(to).label, reason=reason, **columns
        )
        self.status = to
        if to == 0:
            self.episode = None
        return sample

    def settle(self, at: float, outcome: Outcome = Outcome.SYNCED) -> Sample:
        """End the episode."""
        self.generation += 1
        return self.move(at, 0, outcome=outcome)

    def sample(self, at: float) -> Sample:
        """Write a periodic sample."""
        return self.record(
            at,
            kind=SampleKind.SAMPLE,
            to=self.status,
            peak=self.status,
            status=S(self.status).label,
        )


REASONS = {
    S.NEW_MEMBER: "need to re-join with the given member-id",
    S.DROPPED_GROUP: "consumer poll timeout has expired",
    S.USER_REQUESTED: "the consumer is being closed",
    S.METADATA_CHANGED: "cached metadata has changed",
    S.SUBSCRIPTION_CHANGED: "the subscription has changed",
}


def rebalance(group: list[Client], at: float, cause: S, length_s: float) -> None:
    """Let the first member trigger a rebalance that the others notice."""
    trigger, *others = group
    trigger.move(at, cause, REASONS.get(cause))
    if cause is S.USER_REQUESTED:
        trigger.settle(at, Outcome.LEFT)
    for n, member in enumerate(others):
        member.move(at + NOTICED_S[n % 2], S.COORDINATOR_REQUESTED, "group is rebalancing")
    for n, member in enumerate(others):
        if n == 0 and cause is S.NEW_MEMBER:
            member.move(at + length_s - 0.1, S.REVOCATION_NEEDED, "revoked partitions")
        member.settle(at + length_s + n * 0.001)
    if trigger.status:
        trigger.settle(at + length_s + (40.0 if cause is S.DROPPED_GROUP else 0.0))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The written records, and the true results for them."""

    samples: list[Sample]
    causes: Counter[tuple[str, int]]
    """Rebalances by group and cause."""


def fleet(seed: int, days: int = 7, sampled_every_s: int = 600) -> Fleet:
    """Write some days of several groups; rebalances of a group are minutes apart."""
    causes = Counter[tuple[str, int]]()
    rng = random.Random(seed)
    out: list[Sample] = []
    for number, name in enumerate(
        ["payments-in", "payments-out", "orders", "audit-log", "search-indexer", "etl-clicks"]
    ):
        members = [
            Client(
                group=name,
                client_id=f"{name}-{n}",
                app="payments" if name.startswith("payments") else name,
                host=f"pod-{n}",
            )
            for n in range(3 + number)
        ]
        at = START_AT + rng.uniform(0, 3600)
        while at < START_AT + days * DAY_S - 3600:
            rng.shuffle(members)
            cause = rng.choice([*REASONS, S.NEW_MEMBER, S.UNKNOWN_MEMBER, S.STALE_MEMBER])
            if cause is not S.DROPPED_GROUP or number == 1:
                rebalance(members, at, cause, 3.0 + rng.expovariate(0.2))
                causes[name, cause.value] += 1
            at += rng.expovariate(1 / (3600 * (2 + number * 3))) + 300
        for tick in range(0, int(days * DAY_S), sampled_every_s):
            for member in members:
                member.sample(START_AT + tick)
        out += [sample for member in members for sample in member.written]
    return Fleet(sorted(out, key=lambda sample: sample.ts), causes)


def write_spool(
    folder: Path, samples: Iterable[Sample], *, name: str = "samples", compress: bool = False
) -> Path:
    """Write one spool file, as one that is complete when it appears."""
    body = b"".join(map(encode, samples))
    return write_lines(folder, body, name=name, compress=compress)


def write_lines(folder: Path, body: bytes, *, name: str, compress: bool = False) -> Path:
    """Write any bytes as a spool file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.jsonl{'.gz' if compress else ''}"
    partial = folder / f".{path.name}.part"
    partial.write_bytes(gzip.compress(body) if compress else body)
    return partial.rename(path)


def chunks(samples: list[Sample], size: int) -> Iterator[list[Sample]]:
    """Cut a list into pieces."""
    for start in range(0, len(samples), size):
        yield samples[start : start + size]
