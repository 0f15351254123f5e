"""Episodes that nobody ends any more do not go on for ever."""

from msgspec.structs import replace

from aggregation.incidents.incidents import analyze
from aggregation.rebalances.lost_episodes import STALE_S, end_lost_episodes
from aggregation.rebalances.rebalances import explain_rebalances
from metrics.model.sample import Sample, SampleKind, format_time, parse_time
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, records, round_of

SEEN_BY = {"a": "pod-a", "b": "pod-b", "c": "pod-c"}


def of_pods(found: list[Sample]) -> list[Sample]:
    """Each member has an agent of its own beside it."""
    return [replace(record, agent=SEEN_BY[record.client_id or ""]) for record in found]


def without_end(found: list[Sample], client_id: str, after: str) -> list[Sample]:
    ends = [r for r in found if r.client_id == client_id and r.to == 0 and r.ts > after]
    return [record for record in found if record is not ends[0]]


GOT = records(*START, *round_of(2, 1_000.0, A, B, C), *round_of(3, 5_000.0, A, B, C))
SECOND = next(r.ts for r in GOT if r.generation == 1 and r.from_ == 0 and r.to)


def test_next_episode_of_the_member_shows_that_the_one_before_is_over() -> None:
    found = explain_rebalances(without_end(GOT, "b", SECOND))

    assert [each.round.is_open for each in found] == [False, False, False]
    assert [each.seconds for each in found] == [e.seconds for e in explain_rebalances(GOT)]


def test_member_whose_pod_is_gone_with_its_agent_holds_nobody_up() -> None:
    cut = without_end(of_pods(GOT), "b", SECOND)
    first_open = next(r for r in cut if r.client_id == "b" and r.ts >= SECOND and r.to)
    gone = [r for r in cut if r.client_id != "b" or r.ts <= first_open.ts]
    analysis = analyze(gone)

    assert [each.round.is_open for each in analysis.rebalances] == [False, False, False]
    assert all(incident.ended_at is not None for incident in analysis.incidents)


def test_episode_is_open_while_its_agent_lives_or_may_live() -> None:
    got = of_pods(GOT)
    opened = next(r for r in got if r.client_id == "b" and r.from_ == 0 and r.ts > SECOND)
    cut = [r for r in got if r.client_id != "b" or r.ts <= opened.ts]

    def ends(heard: dict[str, float]) -> list[Sample]:
        return [*end_lost_episodes(cut, heard, 9_000.0).records][len(cut) :]

    assert ends({"pod-b": 9_000.0}) == ends({"pod-b": 9_001.0 - STALE_S}) == []
    assert [(each.kind, each.to) for each in ends({"pod-b": 9_000.0 - STALE_S})] == [
        (SampleKind.LOST, None)
    ]
    assert ends({}) == []  # nothing is known of the agent


def test_process_that_died_is_open_while_its_successor_begins() -> None:
    opened = next(r for r in GOT if r.client_id == "b" and r.from_ == 0 and r.ts > SECOND)

    def ends(member_id: str | None, after_s: float) -> int:
        start = replace(
            opened,
            ts=format_time(parse_time(opened.ts) + after_s),
            episode="another",
            member_id=member_id,
        )
        return len(end_lost_episodes([opened, start], {}, 9_000.0).records) - 2

    assert ends(opened.member_id, 30.0) == 1
    assert ends("of another process", 30.0) == 0
    assert ends("of another process", STALE_S) == 1


def test_periodic_samples_at_0_show_that_an_episode_is_over() -> None:
    """Its end was lost, its agent lives, and the member is quiet from then on."""
    first_open = next(r for r in GOT if r.client_id == "b" and r.from_ == 0 and r.ts > SECOND)
    cut = [r for r in GOT if r.client_id != "b" or r.ts <= first_open.ts]

    def shown(to: int, after_s: float) -> Sample:
        ts = format_time(parse_time(first_open.ts) + after_s)
        return replace(first_open, id=ts, kind=SampleKind.SAMPLE, ts=ts, episode=None, to=to)

    def are_open(*samples: Sample) -> list[bool]:
        return [each.round.is_open for each in explain_rebalances([*cut, *samples])]

    assert are_open() == are_open(shown(0, STALE_S - 1.0)) == [False, False, True]
    assert are_open(shown(0, STALE_S)) == [False, False, False]
    assert are_open(shown(0, STALE_S), shown(1, STALE_S + 60.0)) == [False, False, True]
