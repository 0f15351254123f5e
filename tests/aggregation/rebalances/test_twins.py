"""Members of one client id and host: their member ids tell them apart."""

import pytest
from msgspec.structs import replace

from aggregation.explain.explanation import explanations
from aggregation.incidents.answers import answer_of
from aggregation.incidents.incidents import analyze
from aggregation.rebalances.identities import unify_identities
from aggregation.rebalances.segments import member_of
from aggregation.rebalances.twins import number_twins
from metrics.model.sample import DUPLICATE, Outcome, Sample, SampleKind, Scope, format_time
from metrics.model.signals import Member
from tests.aggregation.incidents.invented import read, records
from tests.aggregation.rebalances.test_rebalances import NEW, round_of
from tests.aggregation.rebalances.test_rebalances import records as tracked


def event(member_id: str, at: float, to: int, generation: int = 0, episode: str = "") -> Sample:
    return Sample(
        id=f"{member_id}{at}{to}{episode}", kind=SampleKind.TRANSITION, ts=format_time(at),
        cluster="k", app="g", group="g", scope=Scope.CONSUMER, client_id="app", host="h",
        member_id=member_id or None, to=to, generation=generation or None,
        episode=episode or f"{member_id}-{at:.0f}",
        outcome=None if to else Outcome.SYNCED, source="logs",
    )  # fmt: skip


def numbers(found: list[Sample]) -> list[int]:
    return [member_of(each).twin for each in number_twins(found)]


def test_two_ids_in_one_generation_are_two_members() -> None:
    assert numbers([event("a", 1, 0, 5), event("b", 1, 0, 5), event("a", 2, 1)]) == [0, 1, 0]


def test_a_process_that_joins_again_with_a_new_id_is_one_member() -> None:
    assert numbers([event("a", 1, 0, 5), event("b", 9, 0, 6), event("c", 20, 0, 7)]) == [0, 0, 0]


def test_a_group_that_begins_again_has_its_generations_again() -> None:
    assert numbers([event("a", 1, 0, 1), event("b", 900, 0, 1)]) == [0, 0]


def test_ids_of_one_episode_are_one_process() -> None:
    beside = [event("a", 1, 0, 5), event("b", 1, 0, 5), event("a", 2, 0, 6), event("b", 2, 0, 6)]
    expired = [event("b", 30, 3, episode="e"), event("b2", 31, 0, 7, episode="e")]
    others = [event("a", 30, 1), event("a", 31, 0, 7)]

    assert numbers([*beside, *expired, *others]) == [0, 1, 0, 1, 1, 1, 0, 0]


def test_a_record_without_a_member_id_goes_by_its_episode() -> None:
    joins = [event("", 1, 2, episode="e"), event("b", 2, 0, 5, episode="e")]

    assert numbers([event("a", 1, 0, 4), event("a", 2, 0, 5), *joins]) == [0, 0, 1, 1]


def test_an_episode_that_another_source_has_too_is_nobodys() -> None:
    """A log shows a new process before its member id is known; the wire shows it as well."""
    beside = [event("a", 1, 0, 5), event("b", 1, 0, 5)]
    twice = event("", 3, 2, episode="e")
    lost = replace(twice, id="l", kind=SampleKind.LOST, to=None, reason=DUPLICATE)

    assert unify_identities([*beside, twice, lost]) == unify_identities(beside)


@pytest.mark.parametrize("name", ["replicas-on-one-host", "replicas-with-one-client-id"])
def test_twins_are_told_apart_by_the_shortest_text(name: str) -> None:
    analysis = analyze(records(name), now=read(name)["now"])
    (explained,) = explanations(analysis.rebalances, 20, None, analysis.incidents)
    apart = ("a2", "b2", "c2") if name == "replicas-on-one-host" else ("h1", "h2", "h3")

    assert all(f"app ({each})" in explained.answer for each in apart), explained.answer


def test_an_incident_keeps_its_id_whatever_number_its_member_gets() -> None:
    """The others' records may come later than those of a new process."""
    found = records("replicas-on-one-host")
    early = [each for each in found if each.ts <= format_time(1010.1)]
    late = [each for each in found if each.ts <= format_time(1011.0)]

    def ids(seen: list[Sample]) -> list[str]:
        return [answer_of(each).id for each in analyze(seen).incidents]

    assert ids(early) == ids(late)


def in_file(record: Sample, file: str) -> Sample:
    return replace(record, log_file=file)


def test_files_that_are_written_at_one_time_are_two_members() -> None:
    """Java's log has no member id before 2.4."""
    first, second, last = event("", 1, 1, 5), event("", 2, 0, 5), event("", 3, 1, 6)

    found = [in_file(first, "a"), in_file(second, "b"), in_file(last, "a")]

    assert numbers(found) == [0, 1, 0]


def test_a_file_for_each_start_is_one_member() -> None:
    found = [in_file(event("", at, 0, at), f"/log/app-2026-11-0{at}.log") for at in (1, 5, 9)]
    others = [in_file(event("b", at, 0, at), "/log/b.log") for at in (1, 9)]

    assert numbers([*found, *others]) == [0, 0, 0, 1, 1]


def test_two_logs_of_one_process_are_one_member() -> None:
    """As a program's log, and what it prints to the console."""
    moves = [event("", at, to, 5) for at, to in ((1, 1), (2, 0), (3, 1), (4, 0))]
    once = [in_file(each, "/app.log") for each in moves]
    again = [replace(in_file(each, "/console.log"), id=f"{each.id}-c") for each in moves]

    others = [in_file(event("", at, to, 5, "o"), "/b/app.log") for at, to in ((1.2, 1), (2, 0))]

    assert numbers([*once, *again]) == [0] * 8
    assert numbers([*once, *again, *others]) == [0] * 8 + [1, 1]


def test_two_files_with_one_member_id_are_logs_of_one_process() -> None:
    """Java's log before 2.4 shows the member id with the leave alone."""
    once = [in_file(event(name, at, to), "/app.log") for name, at, to in (("", 1, 1), ("a", 2, 0))]
    again = [replace(in_file(each, "/console.log"), id=f"{each.id}-c") for each in once]
    others = [in_file(event("", at, 1, episode="o"), "/b/app.log") for at in (1.2, 2)]

    assert numbers([*once, *again, *others]) == [0, 0, 0, 0, 1, 1]


def test_a_member_id_is_of_the_file_that_it_has_in_the_end() -> None:
    """Three consumers in one log: the traffic's first member id goes to the log without one."""
    first = in_file(event("a", 1, 2, episode="a1"), "/app.log#consumer 2")
    right = in_file(event("a", 3, 0, 1, "a1"), "/app.log")
    other = [
        in_file(event("b", at, to, 1, "b1"), "/app.log#consumer 2") for at, to in ((2, 2), (4, 0))
    ]

    assert numbers([first, right, *other]) == [0, 0, 1, 1]


def test_another_file_is_another_member_although_its_process_began_later() -> None:
    found = [in_file(event("", at, 0, at), f"/app-{at}/app.log") for at in (1, 5, 9)]
    others = [in_file(event("b", at, 0, at), "/log/b.log") for at in (1, 9)]

    assert numbers([*found, *others]) == [0, 2, 3, 1, 1]


def test_a_restart_in_the_same_file_keeps_the_number() -> None:
    """Two processes of two files go away together: each one's successor is that of its file."""
    old = [in_file(event("a", 1, 0, 5), "a"), in_file(event("b", 1.1, 0, 5), "b")]
    end = [in_file(event("a", 2, 0, 5), "a"), in_file(event("b", 2.1, 0, 5), "b")]
    new = [in_file(event("b2", 9, 0, 6), "b"), in_file(event("a2", 10, 0, 6), "a")]

    assert numbers([*old, *end, *new]) == [0, 1, 0, 1, 1, 0]


def test_a_record_of_the_wire_goes_with_the_file_that_has_its_member_id() -> None:
    logs = [
        in_file(event("a", 2, 1), "a"),
        in_file(event("b", 2, 1), "b"),
        in_file(event("a", 3, 0), "a"),
    ]

    assert numbers([event("b", 1, 2), event("a", 1, 2), *logs]) == [0, 1, 1, 0, 1]


def test_one_that_comes_back_is_not_the_successor_of_another_one() -> None:
    """Both processes of a machine are killed, and one starts again; the other one comes later."""

    def process(file: str, member_id: str) -> Member:
        return Member(
            cluster="k", group="g", client_id="app", origin=file, host="h", log_file=file,
            member_id=member_id,
        )  # fmt: skip

    one, two = process("a.log", "a-1"), process("b.log", "b-1")
    new = process("a.log", "a-2")
    given = tracked(
        *round_of(1, 0.0, one, two, causes={"app": NEW}),
        *round_of(2, 100.0, new, causes={"app": NEW}),
    )

    incident = analyze(given, now=200.0).incidents[-1]

    returned = {each.member.twin for each in incident.departures if each.returned_at is not None}
    assert len(incident.departures) == 2
    assert len(returned) == 1
