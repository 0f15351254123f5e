"""Origins that no source reads any more, of a configuration with many sources."""

from pathlib import Path
from typing import Any, cast

from agent.wiring.agent_config import load
from agent.wiring.sources import ConfiguredOrigins
from metrics.model.signals import SourceKind

_SOURCES = 300


class Reader:
    """A source of one file that counts how often its position is looked at."""

    kind = "logs"

    def __init__(self, stream: str) -> None:
        self.name, self.stream, self.looks = f"logs:{stream}", stream, 0

    def checkpoint(self) -> dict[str, Any]:
        self.looks += 1
        return {self.stream: {}}


def test_renamed_sources_are_each_looked_at_once(tmp_path: Path) -> None:
    """All are under new names: those with a known stream go on, the others have departed."""
    (tmp_path / "agent.yaml").write_text("sources: [{type: logs, paths: [/x]}]")
    kept = [f"/kept/{n}.log" for n in range(_SOURCES)]
    gone = [f"/gone/{n}.log" for n in range(_SOURCES)]
    readers = [Reader(stream) for stream in kept]
    positions: dict[str, Any] = {f"logs:old-{stream}": {stream: {}} for stream in (*kept, *gone)}

    origins = ConfiguredOrigins(load(tmp_path / "agent.yaml"), positions, cast("Any", readers))

    assert not any(origins.is_departed(SourceKind.LOGS, stream) for stream in kept)
    assert all(origins.is_departed(SourceKind.LOGS, stream) for stream in gone)
    assert {reader.looks for reader in readers} == {1}
