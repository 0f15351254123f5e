"""Positions belong to files: changed paths, damage and upgrades lose and double nothing."""

import asyncio
import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.runtime.checkpoint import VERSION
from agent.wiring import sources
from agent.wiring.agent import Agent
from agent.wiring.agent_config import load
from metrics.model.sample import Sample, SampleKind, decode

_GOLDEN = Path(__file__).parents[2] / "golden" / "upgrade" / "checkpoint-1"
_UPGRADE_AT = 1_795_627_150.0
"""Some seconds after the last line of the recorded log."""
_CONSUMER = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"


def line(at: str, text: str) -> str:
    return f"[2026-11-25 {at}] INFO [Consumer clientId=c0, groupId=g] {text} ({_CONSUMER})\n"


def rebalance(at: str, generation: int) -> str:
    synced = f"Generation{{generationId={generation}, memberId='c0-7d', protocol='range'}}"
    return (
        line(at, "Request joining group due to: need to re-join with the given member-id: c0-7d")
        + line(at, f"Successfully synced group in generation {synced}")
        + line(at, "Adding newly assigned partitions: t-0")
    )


class Bench:
    """A log, a configuration with one source, and an agent that can be started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 1_795_627_200.0
        self.log = folder / "app.log"
        self.state = folder / "state"
        self.type = "logs"

    def configure(self, *names: str, kind: str = "logs", **more: Any) -> None:
        paths = [str(self.folder / name) for name in names]
        where = {"path": paths[0]} if kind == "librdkafka_stats" else {"paths": paths}
        document = {
            "host": "h1",
            "timezone": "UTC",
            "state_dir": str(self.state),
            "web": {"listen": ["127.0.0.1:0"]},
            "samples": {"interval": "1h"},
            "sources": [{"type": kind, **where}],
        } | more
        (self.folder / "agent.yaml").write_text(json.dumps(document))

    def agent(self) -> Agent:
        path = self.folder / "agent.yaml"
        return Agent(load(path), lambda: load(path), clock=lambda: self.now)

    def run(self, act: Callable[[Agent], Any] = lambda _: None) -> None:
        """Run an agent until it has read everything, then `act`, then stop it."""

        async def scenario() -> None:
            agent = self.agent()
            running = asyncio.create_task(agent.run())
            await until_ready(agent)
            result = act(agent)
            if result is not None:
                await result
            agent.stop()
            await running

        asyncio.run(scenario())

    @property
    def checkpoint(self) -> Path:
        return self.state / "checkpoint.json"

    def transitions(self) -> list[Sample]:
        lines = [
            line
            for path in sorted((self.state / "spool").glob("*.jsonl"))
            for line in path.read_bytes().splitlines()
        ]
        return [record for record in map(decode, lines) if record.kind is SampleKind.TRANSITION]


async def until_ready(agent: Agent) -> None:
    async with asyncio.timeout(60):
        while agent.sources_not_ready():  # noqa: ASYNC110 - the agent has no event for it
            await asyncio.sleep(0.01)


def members(agent: Agent) -> list[tuple[str, int]]:
    return sorted((row.client_id, int(row.status)) for row in agent.snapshot()[0].consumers)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.log.write_text(rebalance("17:00:00,000", 1) + rebalance("17:01:00,000", 2))
    bench.configure("app.log")
    return bench


def test_an_added_path_reads_nothing_again_after_a_restart(bench: Bench) -> None:
    bench.run()
    bench.configure("app.log", "other*.log")

    bench.run()

    assert len(bench.transitions()) == 4


def test_an_added_path_reads_nothing_again_after_a_reload(bench: Bench) -> None:
    async def add_a_path(agent: Agent) -> None:
        bench.configure("*.log")
        await agent.reload()
        await until_ready(agent)

    bench.run(add_a_path)

    assert len(bench.transitions()) == 4


def test_a_moved_path_goes_on_where_the_other_source_was(bench: Bench) -> None:
    other = {"type": "logs", "paths": [str(bench.folder / "else.log")]}
    bench.run()
    bench.configure("app.log", "x.log")
    document = json.loads((bench.folder / "agent.yaml").read_text())
    document["sources"].append(other)
    (bench.folder / "agent.yaml").write_text(json.dumps(document))
    with bench.log.open("a") as file:
        file.write(rebalance("17:02:00,000", 3))

    bench.run()

    assert len(bench.transitions()) == 6


def test_a_file_that_two_sources_name_is_read_by_one(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    link = bench.folder / "pods" / "link.log"
    link.parent.mkdir()
    link.symlink_to(bench.log)
    every, one, linked = (
        {"type": "logs", "paths": [str(bench.folder / name)]}
        for name in ("*.log", "app.log", "pods/*.log")
    )
    bench.configure(sources=[one, linked, every])
    bench.run()
    assert len(bench.transitions()) == 4
    assert caplog.text.count("log_shared") == 2

    bench.configure(sources=[every])
    bench.run()
    bench.configure(sources=[one, every])

    async def add_a_source(agent: Agent) -> None:
        bench.configure(sources=[linked, one, every])
        await agent.reload()
        await until_ready(agent)

    bench.run(add_a_source)
    assert len(bench.transitions()) == 4


def test_a_source_that_was_removed_for_a_while_goes_on_where_it_was(bench: Bench) -> None:
    async def remove_and_add(agent: Agent) -> None:
        for name in ("else.log", "app.log"):
            bench.configure(name)
            await agent.reload()
            await until_ready(agent)

    bench.run(remove_and_add)
    for name in ("else.log", "other.log", "app.l*"):
        bench.configure(name)
        bench.run()
    bench.configure(sources=[{"type": "http"}])
    bench.run()
    with bench.log.open("a") as file:
        file.write(rebalance("17:02:00,000", 3))
    bench.configure("app.log")
    bench.run(remove_and_add)

    assert [record.generation for record in bench.transitions() if not record.to] == [1, 2, 3]


def test_positions_that_no_source_needs_are_bounded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The files that were read last keep theirs."""
    monkeypatch.setattr(sources, "UNREAD_MAX", 2)
    names = [f"{number}.log" for number in range(4)]
    for name in names:
        shutil.copy(bench.log, bench.folder / name)
        bench.configure(name)
        bench.run()
    assert caplog.text.count("positions_forgotten") == 1
    read: list[int] = []

    for name in reversed(names):
        bench.configure(name)
        bench.run(lambda agent: read.append(agent.snapshot()[1].sources[0].read_bytes))

    assert read == [0, 0, 0, bench.log.stat().st_size]


@pytest.mark.parametrize("kind", ["logs", "broker_log", "librdkafka_stats"])
def test_each_type_of_files_keeps_its_positions(bench: Bench, kind: str) -> None:
    bench.configure("app.log", kind=kind)
    bench.run()
    bench.configure("app.l*", kind=kind)
    read: list[int] = []

    bench.run(lambda agent: read.append(agent.snapshot()[1].sources[0].read_bytes))

    assert read == [0]


def test_a_rebalance_without_an_end_keeps_no_source_from_being_ready(bench: Bench) -> None:
    """The client was killed before it logged its assignment; its sync is held back for minutes."""
    bench.log.write_text("".join(rebalance("17:00:00,000", 1).splitlines(keepends=True)[:2]))
    bench.now = 1_795_626_030.0

    bench.run()  # until it is ready

    assert [record.to for record in bench.transitions()] == [2]


def test_members_of_a_removed_source_are_not_shown_after_a_restart(bench: Bench) -> None:
    bench.log.write_text(line("17:00:00,000", "Request joining group due to: rebalance timeout"))
    bench.now = 1_795_626_001.0
    shown: list[list[tuple[str, int]]] = []
    groups: list[list[str]] = []

    def look(agent: Agent) -> None:
        shown.append(members(agent))
        groups.append([key.group for key in agent.snapshot()[0].groups])

    bench.run(look)
    bench.configure("else.log")

    bench.run(look)

    assert [bool(rows) for rows in shown] == [True, False]
    assert groups == [["g"], []]


@pytest.mark.parametrize("is_reload", [False, True])
def test_members_of_a_source_without_files_go_with_it(bench: Bench, *, is_reload: bool) -> None:
    bench.configure("app.log", sources=[{"type": "http"}])
    seen: list[tuple[int, int]] = []

    def look(agent: Agent) -> None:
        snapshot = agent.snapshot()[0]
        seen.append((len(snapshot.consumers), len(snapshot.groups)))

    async def post(agent: Agent) -> None:
        source = agent._http_source()
        assert source is not None
        source.take_events(b'{"group":"g","client_id":"c1","event":"assigned"}', "127.0.0.1")
        look(agent)
        if is_reload:
            bench.configure("else.log")
            await agent.reload()
            look(agent)

    bench.run(post)
    bench.configure("else.log")
    bench.run(look)

    assert seen == [(1, 1), *[(0, 0)] * (1 + is_reload)]


def damage(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"head_bytes":', '"head_bytes":922337203685477580'),
        ('"offset":', '"offset":-'),
        ('"buckets":[', '"buckets":[0,'),
    ],
)
def test_a_number_out_of_bounds_is_damage(bench: Bench, old: str, new: str) -> None:
    bench.run()
    before = {record.id for record in bench.transitions()}
    damage(bench.checkpoint, old, new)

    bench.run()

    after = [record.id for record in bench.transitions()]
    assert (len(after), set(after)) == (4, before)
    assert bench.checkpoint.with_name("checkpoint.json.corrupt").exists()


@pytest.mark.parametrize("key", ['"inode"', '"speakers"', '"offset"'])
def test_a_damaged_position_doubles_nothing(bench: Bench, key: str) -> None:
    bench.run()
    before = {record.id for record in bench.transitions()}
    damage(bench.checkpoint, key, '"damaged"')

    bench.run()

    after = [record.id for record in bench.transitions()]
    assert (len(after), set(after)) == (4, before)
    assert bench.checkpoint.with_name("checkpoint.json.corrupt").exists()


@pytest.mark.parametrize("field", ["head", "inode", "offset"])
def test_a_place_of_which_a_value_alone_is_damaged_is_said_and_doubles_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture, field: str
) -> None:
    """Another digest is one, as another inode is: they would name another file."""
    bench.run()
    before = {record.id for record in bench.transitions()}
    text = bench.checkpoint.read_text()
    found = re.search(rf'"{field}":"?(\w)', text)
    assert found is not None
    other = str((int(found[1], 16) + 1) % 8)
    bench.checkpoint.write_text(text[: found.start(1)] + other + text[found.end(1) :])
    errors: list[int] = []

    bench.run(
        lambda agent: errors.extend(
            source.errors.get("position", 0) for source in agent.snapshot()[1].sources
        )
    )

    after = [record.id for record in bench.transitions()]
    assert (len(after), set(after)) == (4, before)
    assert bench.checkpoint.with_name("checkpoint.json.corrupt").exists()
    assert "position_unusable" in [record.getMessage() for record in caplog.records]
    assert errors == [1]


def test_a_damaged_position_of_one_source_leaves_the_other_alone(bench: Bench) -> None:
    other = bench.folder / "b" / "other.log"
    other.parent.mkdir()
    other.write_text(bench.log.read_text().replace("c0", "d0"))
    sources = [{"type": "logs", "paths": [str(path)]} for path in (bench.log, other)]
    bench.configure("app.log", sources=sources)
    bench.run()
    damage(bench.checkpoint, '"inode"', '"damaged"')
    read: list[int] = []

    bench.run(
        lambda agent: read.extend(source.read_bytes for source in agent.snapshot()[1].sources)
    )

    assert read == [len(bench.log.read_bytes()), 0]
    assert len(bench.transitions()) == 8


def test_a_hub_starts_with_a_damaged_position(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.configure("app.log", role="hub", sources=[])
    bench.run()
    document = json.loads(bench.checkpoint.read_text())
    document["sources"]["intake"]["fleet"].pop("heard")
    bench.checkpoint.write_text(json.dumps(document))

    bench.run()

    events = [record.getMessage() for record in caplog.records]
    assert {"position_unusable", "checkpoint_damaged"} <= set(events)


_PROXY = {"type": "proxy", "upstream": ["127.0.0.1:9"], "listen": "127.0.0.1:0"}
_TOPIC = {
    "role": "hub",
    "sources": [],
    "cluster": {"bootstrap_servers": ["127.0.0.1:9"]},
    "hub": {"topic": "t"},
}
_BAD_MAPS: list[Any] = [
    None,
    5,
    "x",
    [[]],
    {"a": 9},
    {"a:b": 9},
    {"h:1": 0},
    {"h:1": 2**70},
    {"h:1": "9"},
]


@pytest.mark.parametrize(
    ("config", "name", "key", "values"),
    [
        ({"sources": [{"type": "http"}]}, "http", "alive", [5, [5], "http:a", {}, None]),
        ({"sources": [_PROXY]}, "proxy:127.0.0.1:0", "ports", _BAD_MAPS),
        (_TOPIC, "topic", "offsets", [*_BAD_MAPS, {"0": -1}, {"-1": 0}]),
    ],
)
def test_a_damaged_position_of_a_source_without_files_is_set_aside(
    bench: Bench, config: dict[str, Any], name: str, key: str, values: list[Any]
) -> None:
    bench.configure("app.log", **config)
    bench.agent().close()
    document = json.loads(bench.checkpoint.read_text())
    before = dict(document["sources"][name])
    for value in values:
        document["sources"][name] = before | {key: value}
        bench.checkpoint.write_text(json.dumps(document))

        with contextlib.closing(bench.agent()) as agent:
            positions = agent._pipeline.positions()

        aside = bench.checkpoint.with_name("checkpoint.json.corrupt")
        assert json.loads(aside.read_text()) == document
        assert positions[name] == before, value
        aside.unlink()


def test_a_state_folder_has_one_agent(bench: Bench) -> None:
    first = bench.agent()
    with contextlib.closing(first):
        bench.configure("app.log", samples={"spool": {"dir": str(bench.folder / "spool-2")}})

        with pytest.raises(Exception, match=r"state_dir .* another process uses it"):
            bench.agent()


class TestUpgrade:
    """From the state of the last release, with the same configuration."""

    def prepare(self, bench: Bench, role: str) -> None:
        shutil.rmtree(bench.state, ignore_errors=True)
        shutil.copytree(_GOLDEN / role, bench.state)
        for path in bench.state.rglob("*.json*"):
            path.write_text(path.read_text().replace("@FOLDER@", str(bench.folder)))
        shutil.copy(_GOLDEN / "app.log", bench.log)
        bench.now = _UPGRADE_AT

    def test_loses_and_doubles_nothing(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        self.prepare(bench, "sidecar")
        before = bench.transitions()
        shown: list[list[tuple[str, int]]] = []
        with bench.log.open("a") as file:
            file.write(rebalance("17:18:55,000", 4))

        bench.run(lambda agent: shown.append(members(agent)))

        new = bench.transitions()[len(before) :]
        assert [(record.client_id, record.from_, record.to) for record in new] == [
            ("c0", 1, 2),
            ("c0", 2, 0),
        ]
        assert shown == [[("c0", 0), ("c1", 0), ("c2", 0)]]
        events = [record.getMessage() for record in caplog.records]
        assert "checkpoint_of_other_release" in events
        assert "checkpoint_unusable: starting afresh" not in events

    def test_keeps_an_open_rebalance_and_the_counters(self, bench: Bench) -> None:
        self.prepare(bench, "sidecar")
        with contextlib.closing(bench.agent()) as agent:
            rows = {row.client_id: row for row in agent.snapshot()[0].consumers}

        assert {name: int(row.status) for name, row in rows.items()} == {"c0": 1, "c1": 0, "c2": 0}
        assert [sum(row.counts.rebalances.values()) for row in rows.values()] == [3, 3, 3]

    def test_of_a_hub_keeps_its_members(self, bench: Bench) -> None:
        self.prepare(bench, "hub")
        bench.configure("app.log", role="hub", sources=[])
        with contextlib.closing(bench.agent()) as agent:
            assert members(agent) == [("c0", 1), ("c1", 0), ("c2", 0)]

    def test_of_an_unknown_format_starts_afresh_and_doubles_nothing(
        self, bench: Bench, caplog: pytest.LogCaptureFixture
    ) -> None:
        bench.run()
        before = [record.id for record in bench.transitions()]
        document = json.loads(bench.checkpoint.read_text())
        bench.checkpoint.write_bytes(msgspec.json.encode(document | {"version": VERSION + 1}))

        bench.run()

        assert [record.id for record in bench.transitions()] == before
        assert "checkpoint_unusable: starting afresh" in caplog.text
