import gc
import logging
import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import OutputError
from agent.outputs.spool.spool import SpoolMark
from agent.runtime.checkpoint import (
    LEAST_MAX_BYTES,
    VERSION,
    Checkpoint,
    encode_parts,
    load,
    save,
)
from agent.sources.base import Tick
from metrics.model.signals import FollowUp, Member, Signal, SignalKind, SourceKind
from metrics.model.status import RebalanceStatus
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker

NOW = 1795242824.209
_MEMBER_BYTES_MAX = 3_000

MEMBERS = st.builds(
    Member,
    group=st.sampled_from(["g1", "g2"]),
    client_id=st.sampled_from(["m1", "s1-StreamThread-1-consumer", "s1-StreamThread-2-consumer"]),
    origin=st.sampled_from(["/a.log", "/b.log"]),
    group_instance_id=st.sampled_from([None, "i1"]),
    max_poll_interval_s=st.sampled_from([None, 300.0]),
)
FOLLOW_UPS = st.builds(
    FollowUp,
    status=st.sampled_from([RebalanceStatus.REVOCATION_NEEDED, RebalanceStatus.ASSIGNMENT_PROBING]),
    at=st.floats(NOW, NOW + 1000),
)
SIGNALS = st.builds(
    Signal,
    kind=st.sampled_from(SignalKind),
    at=st.floats(NOW, NOW + 1000),
    member=MEMBERS,
    source=st.sampled_from(SourceKind),
    status=st.sampled_from(RebalanceStatus),
    reason=st.none() | st.text(max_size=300),
    generation=st.none() | st.integers(0, 100),
    streams_follow_up=st.none() | FOLLOW_UPS,
)


def a_checkpoint(
    signals: list[Signal], sources: dict[str, dict[str, Any]], held: Sequence[Signal | Tick] = ()
) -> Checkpoint:
    tracker = Tracker(StatusConfig())
    for signal in signals:
        tracker.apply(signal)
    return Checkpoint(
        spool=SpoolMark(seq=7, settled=5),
        tracker=tracker.state(),
        sources=sources,
        held=[*held],
    )


@given(st.lists(SIGNALS, max_size=20), st.floats(NOW, NOW + 2000))
def test_a_tracker_goes_on_from_its_checkpoint_as_if_nothing_had_been(
    tmp_path_factory: pytest.TempPathFactory, signals: list[Signal], now: float
) -> None:
    path = tmp_path_factory.mktemp("state") / "checkpoint.json"
    held: list[Signal | Tick] = [*signals, Tick(NOW, ("/a.log",))]
    before = a_checkpoint(signals, {"logs": {"/a.log": msgspec.Raw(b'{"offset":5}')}}, held)
    save(path, before)
    after = load(path)
    assert after == before
    assert after is not None
    restarted = Tracker(StatusConfig(), state=after.tracker)
    original = Tracker(StatusConfig(), state=before.tracker)
    assert restarted.snapshot(now) == original.snapshot(now)
    assert restarted.advance(now) == original.advance(now)


@given(st.lists(SIGNALS, max_size=20))
def test_a_file_that_is_written_in_pieces_is_the_checkpoint_as_one(
    tmp_path_factory: pytest.TempPathFactory, signals: list[Signal]
) -> None:
    path = tmp_path_factory.mktemp("state") / "checkpoint.json"
    positions = {"logs": {"/a.log": {"offset": 5}}, "proxy": {}}
    checkpoint = a_checkpoint(signals, positions, signals)
    save(path, checkpoint)

    assert path.read_bytes() == msgspec.json.encode(checkpoint)


def test_no_piece_of_a_file_grows_with_the_members() -> None:
    members = [Member(group="g", client_id=f"m{number}", origin="/a.log") for number in range(2000)]
    joined = [
        Signal(kind=SignalKind.JOIN, at=NOW, member=member, source=SourceKind.LOGS)
        for member in members
    ]

    sizes = [len(piece) for piece in encode_parts(a_checkpoint(joined, {}))]
    assert max(sizes) < sum(sizes) / 5


def test_a_restart_shares_the_texts_and_counts_of_members(tmp_path: Path) -> None:
    members = [
        Member(group="g", client_id=f"m{number}", origin=f"/var/log/{number}.log", host="h1")
        for number in range(500)
    ]
    signals = [
        Signal(kind=kind, at=NOW + at, member=member, source=SourceKind.LOGS, status=status)
        for at, kind, status in (
            (0, SignalKind.RAISE, RebalanceStatus.NEW_MEMBER),
            (1, SignalKind.SYNC, RebalanceStatus.NONE),
        )
        for member in members
    ]
    path = tmp_path / "checkpoint.json"
    save(path, a_checkpoint(signals, {}))
    gc.collect()
    tracemalloc.start()

    found = load(path)

    gc.collect()
    sizes = [trace.size for trace in tracemalloc.take_snapshot().traces]
    tracemalloc.stop()
    taken = sum(size for size in sizes if size < 1 << 16)  # not Python's table of shared texts
    assert taken / len(members) < _MEMBER_BYTES_MAX
    assert found is not None
    one, other = (consumer.track for consumer in found.tracker.consumers[:2])
    assert one.member.host is other.member.host
    assert one.rebalances is other.rebalances
    assert one.member.origin is one.origin


def test_no_piece_of_a_file_grows_with_the_files_of_a_source() -> None:
    positions = {f"/{number}.log": {"place": {"offset": number}} for number in range(5000)}

    pieces = list(encode_parts(a_checkpoint([], {"logs": positions, "other": {}})))

    sizes = [len(piece) for piece in pieces]
    assert max(sizes) < sum(sizes) / 5
    found = msgspec.json.decode(b"".join(pieces))
    assert found["sources"] == {"logs": positions, "other": {}}


def test_no_file_is_no_checkpoint(tmp_path: Path) -> None:
    assert load(tmp_path / "checkpoint.json") is None


def test_a_new_one_replaces_the_old_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "checkpoint.json"
    save(path, a_checkpoint([], {"logs": {"a": 1}}))
    save(path, a_checkpoint([], {"logs": {"a": 2}}))
    found = load(path)
    assert found is not None
    assert found.sources == {"logs": {"a": msgspec.Raw(b"2")}}
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "truncated"),
        (b"\0" * 100, "malformed"),
        (b'{"version":1,"spool":{"seq":', "truncated"),
        (b'{"version":1,"spool":{"seq":"x"}}', "Expected `int`"),
        (b"[" * 100_000, "Expected `object`"),
        (b'{"version":1,"sources":{"a":' + b"[" * 100_000, "recursion"),
        (b'{"version":1,"sources":{"a":{"b":"\xff"}}}', "'utf-8' codec can't decode byte 0xff"),
        (b'{"version":99}', "version is 99, this agent knows 1"),
    ],
)
def test_an_unusable_file_is_kept_aside_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, data: bytes, fault: str
) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert load(path) is None
    assert not path.exists()
    assert (tmp_path / "checkpoint.json.corrupt").read_bytes() == data
    assert fault in vars(caplog.records[0])["fault"]


def test_fields_of_a_later_minor_version_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    path.write_bytes(msgspec.json.encode({"version": VERSION, "novelty": 1}))
    assert load(path) == Checkpoint()


def test_a_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="Is a directory"):
        load(tmp_path)


def test_a_pipe_is_a_clear_error(tmp_path: Path) -> None:
    """An agent that waits for its writer neither reads nor opens its port."""
    os.mkfifo(tmp_path / "checkpoint.json")

    with pytest.raises(OutputError, match="is no file"):
        load(tmp_path / "checkpoint.json")


def test_a_checkpoint_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file, wanted a folder"):
        save(tmp_path / "file" / "checkpoint.json", Checkpoint())


@pytest.mark.parametrize(
    ("limit", "is_read"), [(LEAST_MAX_BYTES, False), (LEAST_MAX_BYTES + 1, True), (1, False)]
)
def test_a_file_beyond_the_memory_is_kept_aside_unread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, limit: int, is_read: bool
) -> None:
    path = tmp_path / "checkpoint.json"
    save(path, Checkpoint())
    os.truncate(path, LEAST_MAX_BYTES + 1)  # a hole, which takes no place on the disk

    with caplog.at_level(logging.WARNING):
        assert load(path, limit) is None

    fault = str(vars(caplog.records[0])["fault"])
    assert ("bytes, wanted" in fault) is not is_read
    assert (tmp_path / "checkpoint.json.corrupt").stat().st_size == LEAST_MAX_BYTES + 1
    assert not path.exists()


def test_a_file_of_a_terabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.json"
    path.touch()
    os.truncate(path, 1 << 40)

    assert load(path) is None
