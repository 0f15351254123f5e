"""Cost of root causes and incidents a transition: a rolling deploy, and a day-long loop.

A generated rolling deploy of 200 members is two rebalances of all members for each step; the loop
is one rebalance of twenty members a minute. The records are built before; the CPU time is the least
of three runs.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from aggregation.incidents.incidents import analyze
from metrics.model.sample import Outcome, Sample, SampleKind, Scope, digest, format_time

LIMIT_US = 40.0
"""At most so much CPU time a transition."""
DEPLOY_MEMBERS, LOOP_MEMBERS = 200, 20
LOOPS = 24 * 60
RUNS = 3
_START_AT = 1_772_445_600.0
_STEP_S = 20.0


def transition(
    member: str, at: float, change: tuple[int, int], episode: str, generation: int
) -> Sample:
    """Return one transition; a change to 0 is a sync."""
    from_, to = change
    return Sample(
        id=digest(member, at, *change),
        kind=SampleKind.TRANSITION,
        ts=format_time(at),
        agent="a",
        cluster="k",
        app="g",
        group="g",
        protocol_type="consumer",
        scope=Scope.CONSUMER,
        client_id=member,
        host=member,
        from_=from_,
        to=to,
        generation=generation if to == 0 else generation - 1,
        episode=episode,
        outcome=None if to else Outcome.SYNCED,
        source="logs",
    )


def rebalance(
    members: list[str], at: float, generation: int, cause: tuple[str, int]
) -> Iterator[Sample]:
    """Yield a rebalance of all members, begun by one of them with a code."""
    for number, member in enumerate(members):
        code = cause[1] if member == cause[0] else 1
        began = at + (0.0 if member == cause[0] else 0.001 * (1 + number))
        episode = f"{generation}-{member}"
        yield transition(member, began, (0, code), episode, generation)
        yield transition(member, at + 2.0, (code, 0), episode, generation)


def leave(member: str, at: float, generation: int) -> Iterator[Sample]:
    """Yield that a member leaves by its own will."""
    episode = f"leave-{generation}-{member}"
    yield transition(member, at, (0, 6), episode, generation)
    left = transition(member, at, (6, 0), episode, generation)
    yield Sample(
        **{**{f: getattr(left, f) for f in left.__struct_fields__}, "outcome": Outcome.LEFT}
    )


def deploy(count: int) -> list[Sample]:
    """Return a rolling deploy: each member leaves, and joins again 20 s later."""
    members, at, generation = [f"m{n}" for n in range(count)], _START_AT, 1
    found = list(rebalance(members, at, generation, (members[0], 2)))
    for member in members:
        at, generation = at + _STEP_S, generation + 2
        found += leave(member, at, generation - 1)
        others = [each for each in members if each != member]
        found += rebalance(others, at + 0.5, generation - 1, ("", 0))
        at += _STEP_S
        found += rebalance(members, at, generation, (member, 2))
    return found


def loop(count: int, loops: int) -> list[Sample]:
    """Return a group that rebalances once a minute, for changed metadata."""
    members = [f"m{n}" for n in range(count)]
    return [
        record
        for number in range(loops)
        for record in rebalance(members, _START_AT + 60.0 * number, number + 1, (members[0], 7))
    ]


def measure(name: str, records: list[Sample]) -> bool:
    """Print the cost of one history, the least of some runs; return whether it is in the limit."""
    seconds = float("inf")
    for _ in range(RUNS):  # others use the same cores and caches
        began = time.process_time()
        analysis = analyze(records)
        seconds = min(seconds, time.process_time() - began)
    cost_us = 1e6 * seconds / len(records)
    print(
        f"{name}: {len(records):,} transitions, {len(analysis.rebalances):,} rebalances,"
        f" {len(analysis.incidents):,} incidents: {seconds:.2f} s of CPU,"
        f" {cost_us:.1f} us a transition (at most {LIMIT_US:.0f})"
    )
    return cost_us <= LIMIT_US


def main() -> int:
    """Measure both histories."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="an eighth of the sizes")
    share = 8 if parser.parse_args().short else 1
    met = [
        measure("rolling deploy", deploy(DEPLOY_MEMBERS // share)),
        measure("loop once a minute for a day", loop(LOOP_MEMBERS, LOOPS // share)),
    ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
