from msgspec.structs import replace

from agent.hub.recent_incidents import RecentIncidents
from agent.hub.recent_records import RecentRecords
from aggregation.rebalances.grouping import GroupRef
from metrics.model.sample import Sample
from tests.agent.web.pages.scene import BUSY, NOW, STUCK, WAITING, records


class Counting(RecentRecords):
    """Records that count the analyses by group."""

    def __init__(self, found: list[Sample], limit: int = 20_000) -> None:
        self.analysed: list[set[str]] = []
        super().__init__(found, limit)

    def analyze(self, records: list[Sample], now: float):  # type: ignore[no-untyped-def]  # noqa: ANN201
        self.analysed.append({each.group for each in records})
        return super().analyze(records, now)


def later(times: int) -> list[Sample]:
    """Return later records of one group, several times, each with an id of its own."""
    found = [each for each in records(NOW + 1000) if each.group == BUSY] * times
    return [replace(each, id=f"{each.id}-{number}") for number, each in enumerate(found)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_incidents_are_those_of_an_analysis_of_everything() -> None:
    history, clock = RecentRecords(records()), Clock()
    kept = RecentIncidents(history, clock)
    kept.read(NOW)
    clock.now = 100.0

    found = kept.read(NOW + 5)

    whole = history.analyze(history.records(), NOW + 5).incidents
    assert {ref: each.incidents for ref, each in found.items()} == {
        ref: [each for each in whole if each.ref == ref] for ref in {i.ref for i in whole}
    }


def test_only_what_changed_or_goes_on_is_analysed_again() -> None:
    history, clock = Counting(records()), Clock()
    kept = RecentIncidents(history, clock)
    kept.read(NOW)

    kept.read(NOW)
    assert len(history.analysed) == 1
    clock.now = 100.0
    kept.read(NOW + 1)
    assert history.analysed[1:] == [{WAITING, STUCK}]
    clock.now = 100.1
    history.add(later(1), NOW)
    kept.read(NOW + 1)
    assert history.analysed[2:] == [{BUSY}]


def test_incidents_go_with_their_records() -> None:
    history = RecentRecords(records(), 400)
    kept = RecentIncidents(history)
    assert GroupRef("prod", STUCK) in kept.read(NOW)

    history.add(later(9), NOW)

    assert set(kept.read(NOW + 1000)) == {GroupRef("prod", BUSY)}
