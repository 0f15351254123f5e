"""Names of members: client ids repeat within a group."""

import pytest
from msgspec.structs import replace

from aggregation.incidents.member_names import read_members
from aggregation.rebalances.segments import member_of
from aggregation.rebalances.twins import number_twins
from metrics.model.sample import Outcome, Sample, SampleKind, Scope


def record(
    client_id: str = "app",
    host: str = "",
    file: str | None = None,
    member_id: str | None = None,
    instance_id: str | None = None,
    ts: str = "2026-11-30T10:00:00.000000Z",
) -> Sample:
    return Sample(
        id=f"{client_id}{host}{file}{member_id}", kind=SampleKind.TRANSITION, ts=ts, cluster="k",
        app="g", group="g", scope=Scope.CONSUMER, client_id=client_id, host=host, log_file=file,
        member_id=member_id, group_instance_id=instance_id, source="logs",
    )  # fmt: skip


def names(*records: Sample) -> list[str]:
    (seen,) = read_members(records).values()
    found = seen.name_all()
    return [found.get(member_of(each), each.client_id or "") for each in records]


def test_a_client_id_of_one_member_is_its_name() -> None:
    moved = record("a", "h1", member_id="a-2", ts="2026-11-30T11:00:00.000000Z")

    assert names(record("a", "h1", member_id="a-1"), record("b", "h2"), moved) == ["a", "b", "a"]


def test_replicas_have_their_hosts() -> None:
    assert names(record(host="h1"), record(host="h2")) == ["app (h1)", "app (h2)"]


def test_static_replicas_have_their_instance_ids_wherever_they_run() -> None:
    found = [record(host="h1", instance_id="i-1"), record(host="h2", instance_id="i-2")]
    moved = record(host="h3", instance_id="i-1")

    assert names(*found, moved) == ["app (i-1)", "app (i-2)", "app (i-1)"]


def test_a_host_of_two_members_is_no_name() -> None:
    found = [record(host="h1", instance_id="i-1"), record(host="h1", instance_id="i-2")]

    assert names(*found, record(host="h2")) == ["app (i-1)", "app (i-2)", "app (h2)"]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("/log/a.log", "/log/b.log", ["a.log", "b.log"]),
        ("/log/a/app.log", "/log/b/app.log", ["a/app.log", "b/app.log"]),
        ("/log/all.log#pay-1", "/log/all.log#pay-2", ["pay-1", "pay-2"]),
        ("/log/app.log", "/app.log", ["log/app.log", "/app.log"]),
        ("C:\\log\\a.log", "C:\\log\\b.log", ["a.log", "b.log"]),
    ],
)
def test_a_file_is_named_by_as_few_parts_as_tell_it_apart(
    one: str, other: str, shown: list[str]
) -> None:
    found = names(record(host="h1", file=one), record(host="h1 ", file=other))

    assert found == ["app (h1)", "app (h1 )"]  # a host goes before a file
    assert names_of_files(one, other) == [f"app ({each})" for each in shown]


def test_consumers_of_one_log_are_named_by_it_and_their_numbers() -> None:
    own = {"outcome": Outcome.SYNCED, "generation": 1, "to": 0}
    files = {"c-1": "/log/app.log", "c-2": "/log/app.log#consumer 2"}
    found = [
        replace(record(host="h", file=file, member_id=name), **own) for name, file in files.items()
    ]

    assert names(*number_twins(found)) == ["app (app.log)", "app (app.log#consumer 2)"]


def names_of_files(one: str, other: str) -> list[str]:
    """Return the names of twins, which have their host in common."""
    same = [record(host="h", file=one), record(host="h", file=other)]
    return names(*number_twins(same))
