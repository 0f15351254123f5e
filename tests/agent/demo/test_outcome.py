import gzip
from collections import Counter
from pathlib import Path

from agent.demo.outcome import DemoOutcome, read
from metrics.model.sample import Sample, SampleKind, Scope, encode
from metrics.model.status import RebalanceStatus


def _sample(to: int | None, *, client_id: str = "a", **changes: object) -> bytes:
    given: dict[str, object] = {
        "id": f"{to}",
        "kind": SampleKind.TRANSITION,
        "ts": "2026-11-21T06:31:51.400000Z",
        "cluster": "demo",
        "app": "shop",
        "group": "orders",
        "scope": Scope.CONSUMER,
        "client_id": client_id,
        "to": to,
        "source": "logs",
    }
    return encode(Sample(**(given | changes)))  # type: ignore[arg-type]


def test_counts_entries_by_cause_and_ended_rebalances(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(_sample(2) + _sample(0) + _sample(1, client_id="b"))
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(_sample(1)))

    found = read(tmp_path)

    entries = Counter({RebalanceStatus.COORDINATOR_REQUESTED: 2, RebalanceStatus.NEW_MEMBER: 1})
    assert found == DemoOutcome(entries, rebalances=1, members=2)


def test_periodic_samples_and_masked_causes_are_no_entries(tmp_path: Path) -> None:
    kinds = (SampleKind.SAMPLE, SampleKind.SIGNAL, SampleKind.LOST)
    (tmp_path / "a.jsonl").write_bytes(b"".join(_sample(3, kind=kind) for kind in kinds))

    assert read(tmp_path) == DemoOutcome(Counter(), rebalances=0, members=0)


def test_what_an_instance_copies_from_its_consumers_counts_once(tmp_path: Path) -> None:
    copied = _sample(2, scope=Scope.STREAMS)
    (tmp_path / "a.jsonl").write_bytes(_sample(2) + copied + _sample(11, scope=Scope.STREAMS))

    codes = {RebalanceStatus.NEW_MEMBER: 1, RebalanceStatus.ASSIGNMENT_PROBING: 1}
    assert read(tmp_path).entries == codes


def test_the_table_names_each_cause() -> None:
    outcome = DemoOutcome(Counter({RebalanceStatus.USER_REQUESTED: 12}), rebalances=1, members=1)

    assert outcome.table() == ["entered  cause", "     12   6 UserRequested"]
