import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Timestamp
from prometheus_client.samples import Sample as Series
from prometheus_client.utils import floatToGoString

from aggregation.live.live import live
from metrics.exporters.catalog import METRICS, Metric, MetricType
from metrics.exporters.exposition import (
    AgentStats,
    Exposition,
    FileStats,
    Live,
    OutputStats,
    SourceStats,
)
from metrics.exporters.points import HistogramValue, Point, families
from metrics.exporters.prometheus import PageWriter, negotiate, render
from metrics.model.names import label_text
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.snapshot import (
    DURATION_BUCKETS_S,
    AvoidableCost,
    ChangeKey,
    Durations,
    GroupName,
    IncidentKey,
    IncidentTotals,
    InspectedGroup,
    JoinFailureKey,
    MemberRow,
    RebalanceKey,
    Rebalances,
    Snapshot,
    StatusCounts,
    TopicLag,
)
from metrics.model.status import RebalanceStatus as Status
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics.txt"
go: Callable[[float], str] = floatToGoString
OPENMETRICS = "application/openmetrics-text; version=1.0.0"

STATS = AgentStats(
    version="0.1.0",
    python_version="3.11.0",
    external_url="https://rebalances.example.org",
    sources=(
        SourceStats(
            name="logs",
            type="logs",
            up=True,
            members=3,
            read_bytes=1234,
            signals=9,
            unparsed=1,
            lag_s=0.25,
            errors={"permission": 2},
            files=(
                FileStats(
                    path="/var/log/app.log", read_bytes=1234, client_lines=20, signals=9, members=3
                ),
            ),
        ),
    ),
    outputs=(OutputStats(name="spool", written=12, buffered=3, dropped=0, errors=1),),
    reloads={"success": 1, "failure": 0},
)


def member(client_id: str, group: str = "payments-in") -> Member:
    return Member(
        cluster="prod", group=group, client_id=client_id, origin="/var/log/app.log", host="node-1"
    )


def raised(who: Member, status: Status, at: float) -> Signal:
    return Signal(kind=SignalKind.RAISE, at=at, member=who, source=SourceKind.LOGS, status=status)


def synced(who: Member, at: float, streams: FollowUp | None = None) -> Signal:
    return Signal(
        kind=SignalKind.SYNC,
        at=at,
        member=who,
        source=SourceKind.LOGS,
        generation=1,
        streams_follow_up=streams,
    )


def inspected(group: str) -> InspectedGroup:
    return InspectedGroup(
        cluster="prod",
        group=group,
        group_type="classic",
        state="Stable",
        members=2,
        generation=None,
        changes=3,
        lags=(TopicLag("orders", 12, ((0, 5), (1, 7))), TopicLag("gone", None)),
    )


REBALANCES = Rebalances(
    durations=Durations((0, 0, 1, *[0] * 10, 1), 2000.5),
    last_id="3fa9",
    last_s=0.5,
    last_at=1000.5,
    last_member_s=0.5,
    last_member_at=1000.5,
)


def exposition() -> Exposition:
    """Return two consumers and a Streams instance that went through known rounds."""
    calm = msgspec.structs.replace(
        member("consumer-1"), member_id="consumer-1-7d", assignor="range"
    )
    busy = msgspec.structs.replace(member("consumer-2"), software="apache-kafka-java 3.9.0")
    thread = member("shop-StreamThread-1-consumer", group="shop")
    probing = FollowUp(status=Status.ASSIGNMENT_PROBING, at=1002.0, due_at=1600.0)
    tracker = Tracker(StatusConfig(), lambda group: group.partition("-")[0])
    for signal in (
        raised(calm, Status.NEW_MEMBER, 1000.0),
        synced(calm, 1000.5),
        raised(busy, Status.COORDINATOR_REQUESTED, 1001.0),
        raised(busy, Status.STALE_MEMBER, 1001.5),
        raised(busy, Status.NEW_MEMBER, 1001.75),
        raised(thread, Status.NEW_MEMBER, 1001.0),
        synced(thread, 1002.0, probing),
    ):
        tracker.apply(signal)
    whole = {RebalanceKey("prod", "payments-in", "NewMember"): REBALANCES}
    snapshot = replace(
        tracker.snapshot(1010.0),
        inspected=(inspected("payments-in"),),
        rebalances=whole,
        incidents=IncidentTotals(
            final={IncidentKey("prod", "payments-in", "rollout"): 2},
            ongoing={IncidentKey("prod", "payments-in", "poll_timeout"): 1},
            recent={IncidentKey("prod", "payments-in", "poll_timeout"): 1},
            unplanned={GroupName("prod", "payments-in"): 1},
            unread_s={GroupName("prod", "payments-in"): 51.5},
            member_s={GroupName("prod", "payments-in"): 60.25},
            join_failures={JoinFailureKey("prod", "payments-in", "INCONSISTENT_GROUP_PROTOCOL"): 3},
            last_ends={GroupName("prod", "payments-in"): 1000.5},
            avoidable={
                ChangeKey(
                    "prod", "payments-in", "group.instance.id", "static membership"
                ): AvoidableCost(83, 2460.5, 112, 604_800.0)
            },
        ),
    )
    return Exposition(live(snapshot), replace(STATS, tracker=snapshot.counts))


def page(shown: Exposition, accept: str = "", limit: int = 1000, *, states: bool = False) -> str:
    return render(shown, accept, limit, state_sets=states)[0].decode()


def hostile(client_id: str) -> Exposition:
    row = MemberRow(
        cluster="",
        app="a",
        group="g",
        group_type="classic",
        client_id=client_id,
        host="h",
        status=Status.NEW_MEMBER,
        peak=Status.NEW_MEMBER,
        since_at=0.0,
        counts=StatusCounts({}, {}, {}),
    )
    return Exposition(live(Snapshot(at=1.0, consumers=(row,))), STATS)


def series(text: str) -> dict[str, list[Series]]:
    return {family.name: list(family.samples) for family in parse_text(text)}


def test_the_page_is_the_golden_one(pytestconfig: pytest.Config) -> None:
    text = page(exposition())

    if pytestconfig.getoption("--update-golden"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("states", [False, True])
def test_promtool_finds_nothing_to_say(*, states: bool) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        assert os.environ.get("CI") != "true", "promtool (Debian's package prometheus) is missing"
        pytest.skip("promtool (Debian's package prometheus) is not installed")
    text = page(exposition(), states=states)

    done = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("states", [False, True])
def test_openmetrics_is_valid_and_shows_the_same(*, states: bool) -> None:
    body, content_type = render(exposition(), OPENMETRICS, 1000, state_sets=states)

    families = list(parse_openmetrics(body.decode()))  # type: ignore[no-untyped-call]
    plain = series(page(exposition(), states=states))
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert {sample.name: sample.value for family in families for sample in family.samples} == {
        sample.name: sample.value for samples in plain.values() for sample in samples
    }


@pytest.mark.parametrize(
    "accept", ["", "text/html", "*/*;;;", "application/openmetrics-text; version=x"]
)
def test_any_other_accept_header_gets_the_text_format(accept: str) -> None:
    _, content_type = render(exposition(), accept, 1000)

    assert content_type == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("client_id", "shown"),
    [
        ('say "hi"', 'say "hi"'),
        ("\\n", "\\\\n"),
        ("a\nb", "a\\nb"),
        ("\x00\x1b[31m\r\t\x85\u2028\u202e", r"\x00\x1b[31m\r\t\x85\u2028\u202e"),
        ("a\udcffb", r"a\udcffb"),
        ("x" * 10_240, "x" * 10_240),
        ("é漢😀", "é漢😀"),
        ("", ""),
    ],
)
def test_a_hostile_client_id_is_shown_and_does_nothing(client_id: str, shown: str) -> None:
    text = page(hostile(client_id), OPENMETRICS)

    found = [
        sample.labels["client_id"]
        for family in parse_openmetrics(text)  # type: ignore[no-untyped-call]
        if family.name == "kafka_consumer_rebalance_status"
        for sample in family.samples
    ]
    assert found == [shown]
    assert all(line.isprintable() for line in text.split("\n"))


@given(st.text())
def test_any_client_id_gives_a_page_of_valid_lines(client_id: str) -> None:
    lines = page(hostile(client_id)).split("\n")

    well_formed = re.compile(
        r'(# (HELP|TYPE) .*|[a-z_]+(\{([a-z_]+="([^"\\\n]|\\[\\"n])*",?)*\})? \S+|)'
    )
    assert [line for line in lines if not well_formed.fullmatch(line)] == []


def test_prometheus_max_by_group_is_the_groups_row() -> None:
    found = series(page(exposition()))

    members: dict[str, float] = {}
    for sample in found["kafka_consumer_rebalance_status"]:
        group = sample.labels["group"]
        members[group] = max(members.get(group, 0), sample.value)
    for sample in found["kafka_streams_rebalance_status"]:
        group = sample.labels["application_id"]
        members[group] = max(members.get(group, 0), sample.value)
    groups = {s.labels["group"]: s.value for s in found["kafka_group_rebalance_status"]}
    assert groups == members == {"payments-in": 4, "shop": 11}


def test_a_status_counter_appears_with_its_first_count() -> None:
    found = series(page(exposition()))

    counted = {
        (s.labels["client_id"], s.labels["status"]): s.value
        for s in found["kafka_consumer_rebalance_transitions"]
        if s.labels["group"] == "payments-in"
    }
    assert counted == {
        ("consumer-1", "NewMember"): 1,
        ("consumer-2", "CoordinatorRequested"): 1,
        ("consumer-2", "StaleMember"): 1,
    }


def test_state_sets_hold_one_1_per_row() -> None:
    found = series(page(exposition(), states=True))

    held = [
        (s.labels["client_id"], s.labels["status"])
        for s in found["kafka_consumer_rebalance_status_state"]
        if s.value == 1
    ]
    assert len(found["kafka_consumer_rebalance_status_state"]) == 3 * 11
    assert held == [
        ("consumer-1", "None"),
        ("consumer-2", "StaleMember"),
        ("shop-StreamThread-1-consumer", "None"),
    ]


def test_the_series_bound_keeps_aggregates_and_counts_what_it_drops() -> None:
    everything = series(page(exposition()))
    kafka = sum(len(v) for name, v in everything.items() if name.startswith("kafka_"))

    bounded = series(page(exposition(), limit=4))

    kept = {name: len(v) for name, v in bounded.items() if name.startswith("kafka_")}
    assert kept == {"kafka_group_rebalance_status": 2, "kafka_app_rebalance_status": 2}
    assert bounded["rebalance_agent_series_dropped"][0].value == kafka - 4


@given(st.integers(min_value=0, max_value=120))
def test_never_more_series_than_the_bound(limit: int) -> None:
    found = series(page(exposition(), limit=limit))

    assert sum(len(v) for name, v in found.items() if name.startswith("kafka_")) <= limit


def test_every_metric_of_the_catalogue_is_set() -> None:
    shown = {
        line.split()[2] for line in page(exposition(), states=True).split("\n") if "# TYPE" in line
    }

    assert shown == {metric.name for metric in METRICS}


def test_openmetrics_shows_the_last_rebalance_as_an_exemplar() -> None:
    text = page(exposition(), "application/openmetrics-text; version=1.0.0")

    group, member = sorted(line for line in text.split("\n") if "# {" in line)[::-1]
    assert 'kafka_group_rebalance_duration_seconds_bucket{group="payments-in"' in group
    assert 'le="0.5",status="NewMember"} 1.0 # {episode_id="3fa9"} 0.5 1000.500000000' in group
    assert member.startswith('kafka_consumer_rebalance_duration_seconds_bucket{app="payments"')
    assert 'le="0.5"} 1.0 # {episode_id="3fa9"} 0.5 1000.500000000' in member


def test_a_members_exemplar_is_of_the_groups_newest_rebalance() -> None:
    shown = exposition()
    newer = replace(REBALANCES, last_id="77aa", last_at=1009.0, last_member_at=1008.0)
    whole = shown.live.rebalances | {RebalanceKey("prod", "payments-in", "Unknown"): newer}
    text = page(Exposition(replace(shown.live, rebalances=whole), shown.agent), OPENMETRICS)

    (line,) = (each for each in text.split("\n") if "kafka_consumer" in each and "# {" in each)
    assert line.endswith('# {episode_id="77aa"} 0.5 1008.000000000')


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
@given(client_id=st.text(), seconds=st.floats(0, 1e12))
def test_every_line_is_as_the_library_would_write_it(
    accept: str, client_id: str, seconds: float
) -> None:
    shown = hostile(client_id)
    counted = StatusCounts({Status.STALE_MEMBER: 7}, {}, {Status.NONE: seconds})
    row = replace(shown.live.consumers[0], counts=counted)
    shown = replace(exposition(), live=replace(exposition().live, consumers=(row,)))

    assert page(shown, accept) == by_library(shown, accept)


def by_library(shown: Exposition, accept: str) -> str:
    """Return the page as prometheus_client writes it."""
    encode, _ = choose_encoder(accept)

    class Everything(Collector):
        def collect(self) -> Iterator[Family]:
            for row, points in families(shown, 1000, state_sets=False):
                yield as_library(row, points)

    return encode(Everything()).decode()


def as_library(row: Metric, points: list[Point]) -> Family:
    is_counter = row.type is MetricType.COUNTER
    name = row.name.removesuffix("_total") if is_counter else row.name
    family = Family(name, row.help, row.type, row.unit)
    for values, value in points:
        labels = dict(zip(row.labels, map(label_text, values), strict=True))
        if not isinstance(value, HistogramValue):
            family.add_sample(row.name, labels, value)
            continue
        counts, example = list(accumulate(value.durations.buckets)), value.example
        for bound, below, count in zip(
            (*DURATION_BUCKETS_S, math.inf), (0.0, *DURATION_BUCKETS_S), counts, strict=True
        ):
            le, held = {"le": go(bound)}, None
            if example is not None and below < example.value <= bound:
                at = Timestamp(int(example.at), int(example.at % 1 * 1e9))
                held = Exemplar({"episode_id": example.episode}, example.value, at)
            family.add_sample(f"{row.name}_bucket", labels | le, count, exemplar=held)
        family.add_sample(f"{row.name}_sum", labels, value.durations.sum_s)
        family.add_sample(f"{row.name}_count", labels, counts[-1])
    return family


def test_what_has_gone_leaves_the_writers_memory() -> None:
    writer, many = PageWriter(), [f"client-{number}" for number in range(9)]
    rows = tuple(hostile(name).live.consumers[0] for name in many)
    shown = replace(hostile("client-0"), live=replace(hostile("").live, consumers=rows))

    writer.write(shown, "", 1000)
    writer.write(hostile("client-0"), "", 1000)
    writer.write(replace(shown, live=Live()), "", 1000)

    assert max(map(len, writer._texts.values())) <= 2


def test_a_row_keeps_one_text_for_all_its_series() -> None:
    writer, shown = PageWriter(), hostile("a")
    once, seconds = dict.fromkeys(Status, 1), dict.fromkeys(Status, 1.0)
    counts = StatusCounts(once, once, seconds)
    row = replace(shown.live.consumers[0], counts=counts)

    pieces, _ = writer.write(
        replace(shown, live=replace(Live(), consumers=(row,))), "", 1000, state_sets=True
    )

    assert b"".join(pieces).count(b'client_id="a"') > 40
    kept = [texts for shape, texts in writer._texts.items() if "client_id" in shape.names]
    assert sum(map(len, kept)) == 1


def test_a_writer_writes_what_has_changed() -> None:
    writer, first, second = PageWriter(), exposition(), hostile("a")

    pages = [
        b"".join(writer.write(shown, "", 1000)[0]).decode() for shown in (first, second, first)
    ]

    assert pages == [page(first), page(second), page(first)]


def test_a_scrape_changes_nothing() -> None:
    shown = exposition()

    assert page(shown) == page(shown)


def test_a_count_of_the_tracker_is_exported_by_its_row_in_the_catalogue() -> None:
    counts = {metric.count: number for number, metric in enumerate(METRICS, 1) if metric.count}
    shown = Exposition(Live(), replace(STATS, tracker=counts))
    text = page(shown)

    assert counts
    assert [f"\n{m.name} {counts[m.count]}.0\n" in text for m in METRICS if m.count] == [
        True for m in METRICS if m.count
    ]


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "text/plain;version=1.0.0;escaping=allow-utf-8",
        "text/plain;version=0.0.4",
        *(
            f"application/openmetrics-text;version={version};escaping={escaping}"
            for version in ("0.0.1", "1.0.0", "2.0.0")
            for escaping in ("allow-utf-8", "underscores", "dots", "values")
        ),
    ],
)
def test_a_negotiated_type_negotiates_itself(accept: str) -> None:
    """Scrapers that get the same type share a page; it is rendered by its type."""
    content_type = negotiate(accept)

    assert negotiate(content_type) == content_type == render(exposition(), accept, 1000)[1]
