import asyncio
import gzip
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from agent.hub import push_receiver
from agent.hub.push_receiver import MAX_BODY_BYTES, MAX_LINES, PushReceiver, routes
from agent.outputs.hub_push.push import PATH
from metrics.model.partitions import TEXT_MAX_CHARS
from metrics.model.sample import Sample, Scope, encode
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import raised, run

RECORDS = [
    msgspec.structs.replace(record, agent="host-1", seq=number)
    for number, record in enumerate(
        run(Tracker(StatusConfig()), *(raised(code, 10.0 + code) for code in range(1, 6))), 1
    )
]
_PACKED = gzip.compress(b"".join(map(encode, RECORDS)), mtime=0)


@dataclass
class Hub:
    """A hub with a disk that a test can break."""

    intake: PushReceiver
    taken: list[Sample] = field(default_factory=list)
    disk_works: bool = True
    has_room: bool = True

    async def _safe(self) -> bool:
        return self.disk_works

    def ask(self, method: str, body: bytes = b"", **headers: str) -> httpx.Response:
        app = Starlette(
            routes=routes(
                lambda: self.intake,
                self.taken.extend,
                self._safe,
                lambda: self.has_room,
                lambda: 20.0,
            )
        )
        named = {"X-Spool": "s1"} | {k.replace("_", "-"): v for k, v in headers.items()}

        async def request() -> httpx.Response:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
                return await client.request(method, PATH, content=body, headers=named)

        return asyncio.run(request())

    def push(self, *records: Sample, **headers: str) -> Any:
        packed = gzip.compress(b"".join(map(encode, records)))
        return self.ask("POST", packed, Content_Encoding="gzip", **headers).json()

    @property
    def seqs(self) -> list[int]:
        return [record.seq for record in self.taken]


@pytest.fixture
def hub() -> Hub:
    return Hub(PushReceiver("", StatusConfig()))


def test_records_are_taken_in_order_and_shown(hub: Hub) -> None:
    assert hub.push(*RECORDS) == {"seq": 5}

    assert hub.seqs == [1, 2, 3, 4, 5]
    assert [int(row.status) for row in hub.intake.rows(Scope.CONSUMER, 20.0)] == [5]
    assert {record.agent for record in hub.taken} == {"host-1/s1"}


def test_what_comes_again_is_not_taken_again(hub: Hub) -> None:
    hub.push(*RECORDS[:3])

    assert hub.push(*RECORDS[1:], X_After="1") == {"seq": 5}
    assert hub.seqs == [1, 2, 3, 4, 5]


def test_lower_number_behind_a_higher_one_in_a_batch_is_taken(hub: Hub) -> None:
    """All of a batch are acknowledged by the highest number."""
    first, *_, fourth, fifth = RECORDS

    assert hub.push(first, *RECORDS[2:], RECORDS[1]) == {"seq": 5}
    assert hub.seqs == [1, 3, 4, 5, 2]
    assert hub.push(*RECORDS) == {"seq": 5}
    assert hub.push(fifth, fourth, fourth, X_After="3") == {"seq": 5}
    assert hub.seqs == [1, 3, 4, 5, 2]
    assert hub.ask("GET").json() == {"seq": 5, "id": fifth.id}


def test_number_that_is_repeated_in_a_batch_is_taken_once(hub: Hub) -> None:
    assert hub.push(RECORDS[2], RECORDS[0], RECORDS[0], RECORDS[2]) == {"seq": 3}
    assert hub.seqs == [3, 1]


def test_spools_are_counted_apart(hub: Hub) -> None:
    hub.push(*RECORDS)

    assert hub.ask("GET", X_Spool="s2").json() == {"seq": 0}
    assert hub.ask("GET").json() == {"seq": 5, "id": RECORDS[4].id}


def test_nothing_is_said_to_be_safe_that_is_not(hub: Hub) -> None:
    hub.disk_works = False
    refused = hub.push(*RECORDS)

    assert "could not be made safe" in refused["error"]
    assert hub.ask("GET").json() == {"seq": 0}
    hub.disk_works = True
    assert hub.push(*RECORDS) == {"seq": 5}
    assert hub.seqs == [1, 2, 3, 4, 5]


def test_hub_that_forgot_asks_for_what_it_lacks(hub: Hub) -> None:
    answer = hub.ask("POST", encode(RECORDS[4]), X_After="4")

    assert (answer.status_code, answer.json()) == (409, {"error": "wanted what comes after 0"})
    assert hub.taken == []


def test_goes_on_from_its_checkpoint(hub: Hub) -> None:
    hub.push(*RECORDS[:3])
    saved = msgspec.json.decode(msgspec.json.encode(hub.intake.checkpoint()))
    again = Hub(PushReceiver("", StatusConfig(), saved))

    assert again.push(*RECORDS, X_After="3") == {"seq": 5}
    assert again.seqs == [4, 5]


@pytest.mark.parametrize(
    "malformed",
    [
        b"{torn",
        b'{"id":"\xff"}',
        b'{"x":' + b"[" * 100_000,
        encode(msgspec.structs.replace(RECORDS[1], ts="yesterday")).strip(),
        encode(msgspec.structs.replace(RECORDS[1], joined_ts="yesterday")).strip(),
        encode(msgspec.structs.replace(RECORDS[1], ts=f"2026-11-21T06:00:00.{'0' * 99}Z")).strip(),
        encode(msgspec.structs.replace(RECORDS[1], to=14)).strip(),
        encode(msgspec.structs.replace(RECORDS[1], from_=-1)).strip(),
        encode(msgspec.structs.replace(RECORDS[1], peak=99)).strip(),
    ],
    ids=[
        "torn",
        "not utf-8",
        "deep",
        "no time",
        "no time of a join",
        "long time",
        "to",
        "from",
        "peak",
    ],
)
def test_malformed_line_is_counted_and_the_rest_taken(hub: Hub, malformed: bytes) -> None:
    hub.ask("POST", encode(RECORDS[0]) + malformed + b"\n" + encode(RECORDS[2]))

    assert hub.seqs == [1, 3]
    assert hub.intake.health.unparsed == 1


def test_long_names_of_an_agent_are_clipped_and_counted(hub: Hub) -> None:
    names = ("group", "client_id", "member_id", "group_instance_id", "host", "cluster", "app")
    long = {name: name[0] * 30_000 for name in (*names, "reason", "episode", "id", "source")}

    hub.push(msgspec.structs.replace(RECORDS[0], agent="a" * 30_000, **long))

    [record] = hub.taken
    lengths = {len(text) for text in msgspec.to_builtins(record).values() if isinstance(text, str)}
    assert max(lengths) == 258  # the agent's name has its spool's behind it
    [row] = hub.intake.rows(Scope.CONSUMER, 20.0)
    assert len(row.group) == len(row.client_id) == len(row.reason or "") == 255
    assert hub.intake.health.errors == {"name_clipped": 12}


def test_long_values_of_a_change_are_clipped_and_counted(hub: Hub) -> None:
    long = " ".join(f"topic{number}:0" for number in range(100_000))
    names = {"subject": "s" * 30_000, "field": "f" * 30_000}

    hub.push(msgspec.structs.replace(RECORDS[0], before=long, after=long, **names))

    [record] = hub.taken
    assert len(record.subject or "") == len(record.field or "") == 255
    assert record.before == record.after
    assert record.after is not None
    assert len(record.after) <= TEXT_MAX_CHARS
    assert long.startswith(f"{record.after} ")
    assert hub.intake.health.errors == {"name_clipped": 4}


@pytest.mark.parametrize("shown", ["", "Bearer wrong", "Bearer secretsecret"])
def test_without_the_token_nobody_writes(shown: str) -> None:
    guarded = Hub(PushReceiver("secret", StatusConfig()))

    answer = guarded.ask("POST", encode(RECORDS[0]), Authorization=shown)

    assert (answer.status_code, guarded.taken) == (401, [])
    assert guarded.push(RECORDS[0], Authorization="Bearer secret") == {"seq": 1}


@pytest.mark.parametrize(
    ("body", "headers", "status_code", "text"),
    [
        (b"", {"X_Spool": "../x"}, 400, "X-Spool: found '../x'"),
        (b"", {"X_After": "many"}, 400, "X-After: found 'many'"),
        (b"", {"X_After": "9" * 5000}, 400, "X-After: found '999"),
        (b"no gzip", {"Content_Encoding": "gzip"}, 400, "the body is no gzip"),
        (b"x" * (MAX_BODY_BYTES + 1), {}, 413, "bytes or less"),
        (
            gzip.compress(b"x" * (MAX_BODY_BYTES + 1), mtime=0),
            {"Content_Encoding": "gzip"},
            413,
            "bytes or less when unpacked",
        ),
        (
            gzip.compress(b"\n" * (MAX_LINES + 1), mtime=0),
            {"Content_Encoding": "gzip"},
            413,
            "lines or less",
        ),
        (b"\r" * (MAX_LINES + 1), {}, 413, "lines or less"),
        (_PACKED[:-9], {"Content_Encoding": "gzip"}, 400, "the body is no gzip"),
        (_PACKED + b"x", {"Content_Encoding": "gzip"}, 400, "the body is no gzip"),
        (_PACKED + _PACKED, {"Content_Encoding": "gzip"}, 400, "the body is no gzip"),
    ],
)
def test_wrong_request_is_told(
    hub: Hub, body: bytes, headers: dict[str, str], status_code: int, text: str
) -> None:
    answer = hub.ask("POST", body, **headers)

    assert (answer.status_code, text in answer.json()["error"]) == (status_code, True)
    assert hub.taken == []


def test_a_batch_without_room_is_not_taken_and_comes_again(hub: Hub) -> None:
    hub.has_room = False
    refused = hub.push(*RECORDS)
    assert "takes no records" in refused["error"]
    assert (hub.seqs, list(hub.intake.rows(Scope.CONSUMER, 20.0))) == ([], [])

    hub.has_room = True

    assert hub.push(*RECORDS) == {"seq": 5}
    assert hub.seqs == [1, 2, 3, 4, 5]


def test_records_that_cannot_be_read_are_passed_over_and_reported(hub: Hub) -> None:
    unknown = [encode(record).replace(b'"to":', b'"to":9') for record in RECORDS[:3]]
    lines = b"".join([*unknown, encode(RECORDS[3])])

    assert hub.ask("POST", b"".join(unknown)).json() == {"seq": 3, "unreadable": 3}
    assert hub.ask("POST", lines, X_After="3").json() == {"seq": 4, "unreadable": 3}
    assert hub.seqs == [4]
    assert hub.intake.health.unparsed == 6


@pytest.mark.parametrize("key", ["seq", "generation", "gained", "lag"])
def test_a_number_without_end_is_passed_over(hub: Hub, key: str) -> None:
    """One in a checkpoint took the positions of all agents."""
    document = msgspec.json.decode(encode(RECORDS[0]))
    for number in (2**63, 10**400):
        wrong = msgspec.json.encode(document | {key: number}) + b"\n"
        assert hub.ask("POST", wrong).json()["unreadable"] == 1

    hub.push(RECORDS[1])
    assert hub.seqs == [RECORDS[1].seq]


def test_spools_are_bounded_and_the_longest_silent_goes_first(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_receiver, "MAX_SPOOLS", 3)

    for number in range(10):
        hub.push(*RECORDS, X_Spool=f"spool{number}")

    state = hub.intake.checkpoint()
    assert list(state["seqs"]) == ["spool7", "spool8", "spool9"]
    assert len(state["told"]) <= 3


def other(record: Sample, number: int) -> Sample:
    """Return a record that a copy of the spool has under this number."""
    return msgspec.structs.replace(record, id=f"other{number}", seq=number)


def test_a_copy_of_a_spool_is_refused_where_it_differs(hub: Hub) -> None:
    hub.push(*RECORDS[:3])
    copied = [*RECORDS[:2], other(RECORDS[2], 3), other(RECORDS[3], 4)]

    refused = [hub.push(*copied, X_After="2"), hub.push(*copied[2:3], X_After="2")]
    behind = hub.push(other(RECORDS[1], 2), X_After="1")

    text = "another agent has pushed other records of this spool"
    assert [*refused, behind] == [{"error": text}] * 3
    assert hub.seqs == [1, 2, 3]
    assert hub.intake.health.errors["spool_copied"] == 3
    assert hub.ask("GET").json() == {"seq": 3, "id": RECORDS[2].id}
    assert hub.push(*copied, X_Spool="s2") == {"seq": 4}


def test_a_batch_that_is_repeated_after_a_timeout_is_taken_once(hub: Hub) -> None:
    hub.disk_works = False
    hub.push(*RECORDS[:2])
    hub.disk_works = True

    assert hub.push(*RECORDS[:4], X_After="0") == {"seq": 4}
    assert hub.push(*RECORDS[:4], X_After="0") == {"seq": 4}
    assert hub.push(RECORDS[4], X_After="4") == {"seq": 5}
    assert hub.seqs == [1, 2, 3, 4, 5]


def test_batches_that_arrive_at_once_are_taken_once_and_wait_for_the_disk() -> None:
    """A request that timed out may still arrive, beside those that repeat it."""
    taken, acknowledged = list[Sample](), list[int]()
    intake, disk = PushReceiver("", StatusConfig()), asyncio.Event()

    async def wait_durable() -> bool:
        return await disk.wait()

    async def play() -> None:
        app = Starlette(
            routes=routes(lambda: intake, taken.extend, wait_durable, lambda: True, lambda: 20.0)
        )
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:

            async def push(number: int) -> None:
                lines = b"".join(map(encode, RECORDS[:number]))
                found = await client.post(PATH, content=lines, headers={"X-Spool": "s1"})
                acknowledged.append(found.json()["seq"])

            pushes = [asyncio.create_task(push(number)) for number in (3, 5, 5, 5)]
            while len(taken) < len(RECORDS):  # noqa: ASYNC110 - what is taken shows itself alone
                await asyncio.sleep(0)
            assert acknowledged == []
            disk.set()
            await asyncio.gather(*pushes)

    asyncio.run(asyncio.wait_for(play(), 60.0))

    assert [record.seq for record in taken] == [1, 2, 3, 4, 5]
    assert sorted(acknowledged)[1:] == [5, 5, 5]
    assert min(acknowledged) >= 3
