"""What the rollups must come to, in plain Python and another way: chain by chain, row by row."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from metrics.sample import Sample, SampleKind, parse_time


@dataclass(slots=True, kw_only=True)
class Episode:
    """One member's episode as far as its records tell."""

    member: tuple[str, str | None]
    started_at: float
    cause: int
    gravest: int
    state: str
    seconds: float | None = None


@dataclass(slots=True)
class Truth:
    """All that the records tell."""

    episodes: list[Episode] = field(default_factory=list)
    gaps: int = 0
    held: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    """Seconds by group and status."""


def read(samples: Iterable[Sample]) -> Truth:
    """Follow each chain of records."""
    chains = defaultdict[tuple[object, ...], list[Sample]](list)
    for sample in samples:
        if sample.kind in (SampleKind.TRANSITION, SampleKind.LOST):
            chains[sample.group, sample.client_id, sample.episode].append(sample)
    truth = Truth()
    for chain in chains.values():
        _follow(sorted(chain, key=_place), truth)
    return truth


def _place(sample: Sample) -> tuple[float, int, int]:
    return (parse_time(sample.ts), sample.seq, sample.to or 99)


def _follow(chain: list[Sample], truth: Truth) -> None:
    episode: Episode | None = None
    before: Sample | None = None
    for sample in chain:
        linked = before is not None and sample.from_ == (before.to or 0)
        truth.gaps += before is not None and not linked
        if episode is None or not linked or sample.from_ == 0:
            episode = _begin(sample)
            truth.episodes.append(episode)
        elif before is not None and before.to and sample.kind is SampleKind.TRANSITION:
            truth.held[sample.group, before.to] += parse_time(sample.ts) - parse_time(before.ts)
        _extend(episode, sample)
        before = sample


def _begin(sample: Sample) -> Episode:
    return Episode(
        member=(sample.group, sample.client_id),
        started_at=parse_time(sample.ts),
        cause=sample.to or 0,
        gravest=0,
        state="open" if sample.from_ == 0 else "headless",
    )


def _extend(episode: Episode, sample: Sample) -> None:
    episode.gravest = max(episode.gravest, sample.to or 0)
    if sample.kind is SampleKind.LOST:
        episode.state = "lost"
    elif sample.to == 0 and episode.state == "open":
        episode.state = "ended"
        episode.seconds = parse_time(sample.ts) - episode.started_at
