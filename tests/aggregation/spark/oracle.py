"""The expected sums of members' episodes, in plain Python and by another way: record by record."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from metrics.model.sample import Sample, SampleKind, parse_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One member's episode as far as its records tell."""

    group: str
    client_id: str | None
    started_at: float
    cause: int
    gravest: int
    state: str
    seconds: float | None
    held: tuple[tuple[int, float], ...]
    """Codes and the seconds in them, of an ended one."""


def read(samples: Iterable[Sample]) -> list[Episode]:
    """Follow each chain of records."""
    chains = defaultdict[tuple[object, ...], list[Sample]](list)
    for sample in samples:
        if sample.kind in (SampleKind.TRANSITION, SampleKind.LOST):
            chains[sample.group, sample.scope, sample.client_id, sample.episode].append(sample)
    return [_follow(sorted(chain, key=_place)) for chain in chains.values()]


def _place(sample: Sample) -> tuple[float, int, int]:
    return (parse_time(sample.ts), sample.seq, sample.to or 99)


def _follow(chain: list[Sample]) -> Episode:
    first = chain[0]
    codes = [sample.to for sample in chain if sample.to]
    state = _state(chain)
    at = [parse_time(sample.ts) for sample in chain]
    held = tuple(
        (sample.to, until - since)
        for sample, since, until in zip(chain, at, at[1:], strict=False)
        if sample.to and state == "ended"
    )
    return Episode(
        group=first.group,
        client_id=first.client_id,
        started_at=at[0],
        cause=codes[0] if codes else 0,
        gravest=max(codes, default=0),
        state=state,
        seconds=at[-1] - at[0] if state == "ended" else None,
        held=held,
    )


def _state(chain: list[Sample]) -> str:
    last = chain[-1]
    if chain[0].from_ != 0:
        return "headless"
    if last.kind is SampleKind.LOST:
        return "lost"
    if any(b.from_ != (a.to or 0) for a, b in pairwise(chain)):
        return "gap"
    return "open" if last.to else "ended"
