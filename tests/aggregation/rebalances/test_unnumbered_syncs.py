"""Assignments without generations: they are bounded, and forgotten ones prove nothing."""

from collections.abc import Iterator

from aggregation.rebalances.unnumbered_syncs import UnnumberedSyncs
from metrics.model.sample import Sample
from tests.aggregation.rebalances.test_agent_clocks import LOG, WIRE, record

_SHARED = 64
_MEMBERS = 5_000


def reports(members: int, ahead_s: float = 0.0) -> Iterator[Sample]:
    """Yield an assignment of each member, as the wire and a log have it."""
    for number in range(members):
        at, member = 40.0 * number, f"m-{number}"
        yield record("tap", at, source=WIRE, generation=1, member_id=member)
        yield record("log", at, ahead_s, source=LOG, member_id=member)


def test_members_of_two_agents_are_bounded() -> None:
    syncs = UnnumberedSyncs(kept=8)
    for each in reports(_MEMBERS + 100):
        syncs.observe(each, each.agent)

    assert len(list(syncs.find_hints("log", "tap", [0.0, 3600.0]))) == _SHARED
    assert len(syncs.state()) == 2 * _MEMBERS


def test_agents_of_a_member_are_bounded() -> None:
    syncs = UnnumberedSyncs(kept=8)
    for number in range(100):
        syncs.observe(record(f"log-{number}", 1.0), f"log-{number}")

    assert len(syncs.state()) == 16


def test_a_forgotten_assignment_is_no_hint() -> None:
    """The wire's own of an hour before may have been one."""
    syncs = UnnumberedSyncs(kept=8)
    syncs.observe(record("log", 0.0), "log")
    for number in range(8):
        syncs.observe(record("tap", 40.0 * number, source=WIRE), "tap")
    assert len(list(syncs.find_hints("log", "tap", [0.0, 3600.0]))) == 1

    syncs.observe(record("tap", 400.0, source=WIRE), "tap")

    assert list(syncs.find_hints("log", "tap", [0.0, 3600.0])) == []


def test_the_latest_assignments_are_kept() -> None:
    syncs = UnnumberedSyncs(kept=8)
    for number in range(20):
        syncs.observe(record("log", float(number)), "log")

    (found,) = syncs.state()
    assert len(found.times) == 8
    assert found.is_cut
