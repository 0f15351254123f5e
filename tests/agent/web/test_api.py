import asyncio
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from agent.hub.recent_records import RecentRecords, read_spool
from agent.web import api
from agent.web.api import ApiDependencies, routes
from agent.web.shared_turns import MAX_TURNS
from aggregation.rebalances.rebalances import ExplainedRebalance
from metrics.exporters.exposition import SourceStats
from metrics.model.sample import Sample, SampleKind, encode
from metrics.model.snapshot import InspectedGroup, InspectedMember, Snapshot
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.aggregation.live.test_live import INSPECTED
from tests.aggregation.rebalances.test_rebalances import START, A, B, C, left, records, round_of
from tests.metrics.given import raised

LIVE = [*START, left(100.0, A, "closed"), *round_of(2, 101.0, B, C), raised(7, 200.0, B)]


@dataclass
class Running:
    """An agent that has seen `LIVE`, asked over HTTP."""

    tracker: Tracker
    history: RecentRecords
    inspected: tuple[InspectedGroup, ...] = ()

    def look(self) -> tuple[Snapshot, tuple[SourceStats, ...]]:
        return replace(self.tracker.snapshot(210.0), inspected=self.inspected), ()

    def ask(self, path: str) -> httpx.Response:
        app = Starlette(routes=routes(ApiDependencies(self.look, self.history)))

        async def request() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
                return await client.get(f"/api/v1/{path}")

        return asyncio.run(request())

    def get(self, path: str) -> Any:
        answer = self.ask(path)
        assert answer.status_code == 200
        return answer.json()


@pytest.fixture
def running() -> Running:
    tracker, history = Tracker(StatusConfig()), RecentRecords()
    for each in sorted(LIVE, key=lambda signal: signal.at):
        history.add(tracker.apply(each), each.at)
    return Running(tracker, history)


def test_groups_show_the_highest_status(running: Running) -> None:
    (group,) = running.get("groups")

    assert (group["group"], group["status"], group["name"]) == ("g", 7, "MetadataChanged")
    assert (group["client_id"], group["since"]) == ("b", "1970-01-01T00:03:20.000000Z")
    assert running.get("groups?group=other") == []


def test_group_that_only_its_coordinator_tells_of_has_no_status(running: Running) -> None:
    running.inspected = (replace(INSPECTED, group="other"),)

    (group,) = running.get("groups?group=other")

    assert (group["status"], group["state"], group["members"]) == (None, "Stable", 2)


def test_groups_that_are_not_stable_come_first(running: Running) -> None:
    running.inspected = tuple(
        replace(INSPECTED, group=name, state=state)
        for name, state in (("a", "Stable"), ("b", "Empty"), ("z", "PreparingRebalance"))
    )

    assert [group["group"] for group in running.get("groups")] == ["g", "z", "a", "b"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("name=PAY", ["payments-1", "payments-2"]),
        ("name=payments-*", ["payments-1", "payments-2"]),
        ("name=*-2", ["payments-2"]),
        ("type=Share", ["payments-2"]),
        ("type=share&type=streams,consumer", ["payments-2"]),
        ("state=empty", ["payments-2"]),
        ("state=unstable", ["g"]),
        ("state=unstable,Empty", ["g", "payments-2"]),
        ("member=client-7", ["payments-1"]),
        ("member=static-7", ["payments-1"]),
        ("member=b&group=g", ["g"]),
        ("host=10.0.0.*", ["payments-1"]),
        ("host=10.0.0.7&member=other", []),
    ],
)
def test_groups_are_searched(running: Running, query: str, found: list[str]) -> None:
    who = frozenset({InspectedMember("m-7", "client-7", "10.0.0.7", "static-7")})
    running.inspected = (
        replace(INSPECTED, group="payments-1", who=who),
        replace(INSPECTED, group="payments-2", group_type="share", state="Empty"),
    )

    assert [group["group"] for group in running.get(f"groups?{query}")] == found


def test_groups_are_paged(running: Running) -> None:
    names = [f"p-{number}" for number in range(5)]
    running.inspected = tuple(replace(INSPECTED, group=name) for name in names)

    pages = [running.ask(f"groups?name=p-&limit=2&offset={offset}") for offset in (0, 2, 4, 6)]

    assert [group["group"] for page in pages for group in page.json()] == names
    assert [len(page.json()) for page in pages] == [2, 2, 1, 0]
    assert {page.headers["X-Total-Count"] for page in pages} == {"5"}


def test_group_of_which_no_agent_sees_a_member_is_explained_as_such(running: Running) -> None:
    running.inspected = (replace(INSPECTED, group="other", changes=3),)

    (got,) = running.get("explain?group=other")

    assert got["answer"].startswith("no agent sees a member of other, so who began what")
    assert got["answer"].endswith(" says Stable, 2 members, 3 changes of membership so far.")


def test_members_are_by_name(running: Running) -> None:
    found = running.get("members?group=g")

    assert [(row["client_id"], row["status"], row["scope"]) for row in found] == [
        ("a", 0, "consumer"),
        ("b", 7, "consumer"),
        ("c", 0, "consumer"),
    ]


def test_episodes_are_explained(running: Running) -> None:
    found = running.get("episodes?last=2")

    assert [(each["status"], each["client_id"], each["is_open"]) for each in found] == [
        ("UserRequested", "a", False),
        ("MetadataChanged", "b", True),
    ]


def test_incidents_are_shown_latest_first(running: Running) -> None:
    found = running.get("incidents?group=g")

    assert [(each["kind"], each["status"], each["ongoing"]) for each in found] == [
        ("metadata_changed", "MetadataChanged", True),
        ("member_left", "UserRequested", False),
        ("member_joined", "NewMember", False),
    ]
    assert running.get("incidents?group=g&last=1") == found[:1]
    assert running.get("explain?group=g")[0]["incidents"] == found[::-1]


def test_explain_answers_in_words(running: Running) -> None:
    (got,) = running.get("explain?group=g&at=150")

    assert got["answer"].startswith(
        "g: nothing is ongoing; last, 1970-01-01 00:01:40: a left, 1.5 s. 1 incident with"
    )
    assert got["advice"]


def test_explain_since_leaves_out_what_is_older(running: Running) -> None:
    (all_of_it,) = running.get("explain?group=g")
    (got,) = running.get("explain?group=g&since_seconds=100000000")

    assert got["incidents"] == all_of_it["incidents"]
    (now,) = running.get("explain?group=g&since_seconds=0")
    assert [each["ongoing"] for each in now["incidents"]] == [True]


def test_quiet_group_is_explained_too(running: Running) -> None:
    quiet = Running(running.tracker, RecentRecords())

    assert quiet.get("explain?group=g")[0]["answer"] == "g did not rebalance, as far as was seen."


@pytest.mark.parametrize(
    ("path", "status_code", "error"),
    [
        ("explain", 400, "wanted the name of a group: ?group=NAME"),
        ("explain?group=h", 404, "no record of group 'h'; groups that were seen: g"),
        ("episodes?last=0", 400, "last: found '0', wanted 1 to 1000"),
        ("episodes?last=many", 400, "last: found 'many', wanted 1 to 1000"),
        (f"episodes?last={'0' * 9}9", 400, "last: found '0000000009', wanted 1 to 1000"),
        (
            f"episodes?last=000000001{'9' * 5000}",
            400,
            "last: found '00000000199999999999', wanted 1 to 1000",
        ),
        ("episodes?at=noon", 400, "at: found 'noon', wanted Unix seconds"),
        ("explain?group=g&at=nan", 400, "at: found 'nan', wanted Unix seconds"),
        ("explain?group=g&at=-inf", 400, "at: found '-inf', wanted Unix seconds"),
        ("groups?limit=-1", 400, "limit: found '-1', wanted a number from 0"),
        ("groups?offset=x", 400, "offset: found 'x', wanted a number from 0"),
        (
            "groups?type=simple",
            400,
            "type: found 'simple', wanted classic, consumer, share, streams",
        ),
    ],
)
def test_wrong_query_is_told(running: Running, path: str, status_code: int, error: str) -> None:
    answer = running.ask(path)

    assert (answer.status_code, answer.json()) == (status_code, {"error": error})


def test_openapi_describes_what_is_answered(running: Running) -> None:
    document = running.get("openapi.json")
    schemas = document["components"]["schemas"]

    for path, schema in (
        ("groups", schemas["Group"]),
        ("members", schemas["Member"]),
        ("explain?group=g", schemas["Explanation"]),
    ):
        assert set(running.get(path)[0]) == set(schema["properties"])
    incident = running.get("incidents")[0]
    assert set(incident) == set(schemas["Incident"]["properties"])
    assert set(incident["cost"]) == set(schemas["Cost"]["properties"])
    happening = set(schemas["GroupRebalance"]["properties"])
    assert set(running.get("episodes")[0]) == happening | {"cluster", "group"}
    assert set(document["paths"]) == {
        f"/api/v1/{name}"
        for name in ("groups", "members", "episodes", "explain", "incidents", "sources")
    }


class TestHistory:
    def test_is_bounded_and_forgets_the_oldest(self) -> None:
        got = records(*LIVE)
        history = RecentRecords(got, max_records=3)

        assert history.records() == got[-3:]

    def test_periodic_samples_take_no_room(self) -> None:
        tracker = Tracker(StatusConfig())
        history = RecentRecords(tracker.apply(raised(7, 1.0, A)))
        history.add(tracker.sample(15.0, 15.0), 15.0)

        assert [each.kind for each in history.records()] == [SampleKind.TRANSITION]

    def test_groups_are_due_once_they_are_quiet(self) -> None:
        history = RecentRecords(records(*LIVE))
        assert history.take_quiet(1_000.0, 30.0) == []

        news = records(raised(7, 1_000.0, A))
        history.add(news, 1_000.0)

        assert history.take_quiet(1_029.0, 30.0) == []
        assert history.take_quiet(1_030.0, 30.0)[-1:] == news
        assert history.take_quiet(1_031.0, 30.0) == []

    def test_group_that_is_never_quiet_is_due_too(self) -> None:
        history = RecentRecords()
        got = records(*LIVE)
        due = 0
        for second in range(121):
            history.add([msgspec.structs.replace(got[0], id=str(second))], float(second))
            due += bool(history.take_quiet(float(second), 30.0))

        assert due == 2

    def test_goes_on_from_the_spool(self, tmp_path: Path) -> None:
        got = records(*LIVE)
        half = len(got) // 2
        (tmp_path / "1.jsonl").write_bytes(b"".join(map(encode, got[:half])))
        (tmp_path / "2.jsonl").write_bytes(b"".join(map(encode, got[half:])) + b"{torn")

        assert read_spool(tmp_path) == got
        assert read_spool(tmp_path / "none") == []


@pytest.mark.parametrize("rows", [0, 1, 200, 201, 1_000])
def test_a_long_list_is_encoded_in_parts(rows: int) -> None:
    body = [{"number": number, "text": "ü\n"} for number in range(rows)]

    assert msgspec.json.decode(b"".join(api._encode(body))) == body


class SlowHistory(RecentRecords):
    """A history of which an analysis waits until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end, self.running, self.most = threading.Event(), 0, 0

    def episodes(self, records: list[Sample], now: float) -> list[ExplainedRebalance]:
        self.running += 1
        self.most = max(self.most, self.running)
        assert self.may_end.wait(60.0)
        found = super().episodes(records, now)
        self.running -= 1
        return found


def test_a_flood_of_analyses_runs_one_at_a_time_and_others_are_answered(running: Running) -> None:
    history = SlowHistory()
    app = Starlette(routes=routes(ApiDependencies(running.look, history)))

    async def flood() -> tuple[list[httpx.Response], httpx.Response]:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://agent") as client:
            requests = [
                asyncio.create_task(client.get(f"/api/v1/episodes?last={last}"))
                for last in range(1, MAX_TURNS + 6)
            ]
            refused, _ = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
            while len(refused) < 5:
                refused = {each for each in requests if each.done()}
                await asyncio.sleep(0)
            groups = await client.get("/api/v1/groups")
            history.may_end.set()
            return await asyncio.gather(*requests), groups

    answers, groups = asyncio.run(flood())

    refusals = [answer for answer in answers if answer.status_code == 503]
    assert len(refusals) == 5
    assert {answer.headers["Retry-After"] for answer in refusals} == {"5"}
    assert [answer.status_code for answer in answers].count(200) == MAX_TURNS
    assert groups.status_code == 200
    assert history.most == 1
