"""A new source type is its folder and one row: everything else reads the registry."""

import asyncio
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agent.cli import replay_files
from agent.cli.dialects import dialects
from agent.errors import ConfigError
from agent.kubernetes.sidecar import read_sidecar
from agent.sources import registry
from agent.sources.base import Detach, Emit, Source, SourceHealth
from agent.sources.coverage import SourceCoverage
from agent.sources.registry import SOURCE_TYPES, SourceRegistry
from agent.sources.source_type import (
    Capability,
    Mount,
    Replay,
    SourceContext,
    SourceType,
)
from agent.wiring import capabilities, sources
from agent.wiring.agent_config import effective, load
from metrics.model.status import RebalanceStatus
from metrics.model.units import Duration

_ROOT = Path(__file__).parents[3]
_COVERAGE = SourceCoverage("toy", "toys", "any", frozenset({RebalanceStatus.NEW_MEMBER}))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyConfig:
    """The configuration of a source that exists in this test alone."""

    folder: str
    timeout_s: Duration = field(default=3.0, metadata={"key": "timeout"})

    @property
    def name(self) -> str:
        return f"toy:{self.folder}"


class ToySource:
    kind = "toy"

    def __init__(self, config: ToyConfig, context: SourceContext) -> None:
        self.name, self.context = config.name, context
        self.health = SourceHealth()

    async def run(self, emit: Emit, detach: Detach) -> None:
        del emit, detach
        await asyncio.Event().wait()

    def watermark(self, now: float) -> float:
        return now

    def checkpoint(self) -> dict[str, Any]:
        return {}


def create(config: ToyConfig, context: SourceContext) -> Source:
    return ToySource(config, context)


TOY = SourceType(
    name="toy",
    config=ToyConfig,
    create=create,
    capabilities=lambda _: frozenset({Capability.NET_RAW}),
    mounts=lambda config: (Mount(f"{config.folder}/*.toy"),),
    coverage=(_COVERAGE,),
    replay=Replay(kind="toy", read=lambda paths, _: [iter(()) for _ in paths]),
)


@pytest.fixture
def with_toy(monkeypatch: pytest.MonkeyPatch) -> SourceRegistry:
    """Add one row to the registry; nothing else."""
    extended = SourceRegistry((*SOURCE_TYPES, TOY))
    monkeypatch.setattr(registry.REGISTRY, "by_name", extended.by_name)
    monkeypatch.setattr(registry.REGISTRY, "_by_config", extended._by_config)
    monkeypatch.setattr(replay_files, "KINDS", extended.replays())
    return extended


def written(folder: Path) -> Path:
    path = folder / "agent.yaml"
    path.write_text(
        f"state_dir: {folder}\nsources: [{{type: toy, folder: /var/toys, timeout: 5s}}]\n"
    )
    return path


@pytest.mark.usefixtures("with_toy")
class TestOneRow:
    def test_is_configured_and_shown(self, tmp_path: Path) -> None:
        config = load(written(tmp_path))

        assert config.sources == (ToyConfig(folder="/var/toys", timeout_s=5.0),)
        assert effective(config)["sources"] == [
            {"type": "toy", "folder": "/var/toys", "timeout": "5s"}
        ]

    def test_is_created_at_its_position(self, tmp_path: Path) -> None:
        config = load(written(tmp_path))

        (source,) = sources.make_sources(config, {"toy:/var/toys": {"at": 7}})

        assert isinstance(source, ToySource)
        assert source.context.position == {"at": 7}

    def test_keeps_its_capabilities(self, tmp_path: Path) -> None:
        needed = capabilities.capabilities_for(load(written(tmp_path)))

        assert needed == {Capability.NET_RAW, Capability.DAC_READ_SEARCH}

    def test_shares_its_files_with_a_sidecar(self, tmp_path: Path) -> None:
        sidecar = read_sidecar(written(tmp_path), {})

        assert [str(folder.path) for folder in sidecar.folders] == ["/var/toys"]
        assert sidecar.captures

    def test_shows_its_codes(self) -> None:
        assert "\ntoy  " in CliRunner().invoke(dialects, []).stdout

    def test_is_replayed(self) -> None:
        files = replay_files.group_by_kind(None, ["toy:a"])

        assert files["toy"] == ["a"]


def test_unknown_type_is_explained_with_the_rows_of_the_registry(tmp_path: Path) -> None:
    path = written(tmp_path)

    with pytest.raises(ConfigError, match=r"unknown source 'toy'; allowed: "):
        load(path)


@pytest.mark.parametrize("row", SOURCE_TYPES, ids=lambda row: row.name)
def test_no_module_outside_its_folder_names_a_source_type(row: SourceType[Any]) -> None:
    """Counts the places of an addition: the folder, and its import and its line in the registry."""
    found = subprocess.run(
        ["git", "grep", "-lw", row.config.__name__, "--", "agent"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    folder = row.config.__module__.rpartition(".")[0].replace(".", "/")
    users_of_its_settings = {"logs": ["agent/cli/replay.py"]}.get(row.name, [])

    outside = [path for path in found if not path.startswith(f"{folder}/")]

    assert outside == users_of_its_settings


@pytest.mark.parametrize("row", SOURCE_TYPES, ids=lambda row: row.name)
def test_a_row_costs_two_lines_of_the_registry(row: SourceType[Any]) -> None:
    folder = row.config.__module__.rpartition(".")[0]
    lines = Path(registry.__file__).read_text().splitlines()
    constant = next(
        line.rpartition(" ")[2]
        for line in lines
        if line.startswith(f"from {folder}.registration import ")
    )

    assert [line.strip() for line in lines if constant in line.replace(",", " ").split()] == [
        f"from {folder}.registration import {constant}",
        f"{constant},",
    ]


def test_thousands_of_sources_are_checked() -> None:
    """As many as a file of 1 MiB can name; compared with each other they would take an hour."""
    entries = [{"type": "logs", "paths": [f"/{number}"]} for number in range(30_000)]
    last = {"type": "logs", "paths": ["/0"]}
    with pytest.raises(ConfigError) as error:
        SourceRegistry().decode_all([*entries, last], "sources")
    assert str(error.value) == "sources[30000]: reads the same as sources[0]"
