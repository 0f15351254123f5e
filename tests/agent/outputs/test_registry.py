"""A new output type is its folder and one row."""

import asyncio
from pathlib import Path

import pytest

from agent.outputs import registry
from agent.outputs.output_type import AgentOutput, OutputContext, OutputType
from agent.wiring.agent_config import load
from agent.wiring.outputs import OutputsWiring
from metrics.exporters.exposition import AgentStats, OutputStats
from metrics.model.snapshot import Snapshot


class ToyOutput:
    name = "toy"

    def __init__(self, context: OutputContext) -> None:
        self.context = context
        self.started = asyncio.Event()

    async def run(self) -> None:
        self.started.set()
        await asyncio.Event().wait()

    @property
    def stats(self) -> OutputStats:
        return OutputStats(
            name=self.name, written=self.context.last_seq(), buffered=0, dropped=0, errors=0
        )


def test_one_row_adds_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[ToyOutput] = []

    def create(context: OutputContext) -> list[AgentOutput]:
        created.append(ToyOutput(context))
        return [created[0]]

    row = OutputType(name="toy", create=create)
    monkeypatch.setattr(registry.make_outputs, "__defaults__", ((*registry.OUTPUT_TYPES, row),))
    path = tmp_path / "agent.yaml"
    path.write_text(f"state_dir: {tmp_path}\nsources: [{{type: http}}]\n")

    async def scenario() -> None:
        outputs = OutputsWiring(load(path), lambda: 7, nothing)
        tasks = outputs.start()
        await created[0].started.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert [stats.written for stats in outputs.stats()] == [7]

    asyncio.run(scenario())

    assert created[0].context.spool_dir == tmp_path / "spool"


def nothing() -> tuple[Snapshot, AgentStats]:
    return Snapshot(at=0.0), AgentStats(version="0", python_version="0")


@pytest.mark.parametrize("name", [row.name for row in registry.OUTPUT_TYPES])
def test_a_row_costs_two_lines_of_the_registry(name: str) -> None:
    text = Path(registry.__file__).read_text()
    constant = next(
        key
        for key, row in vars(registry).items()
        if isinstance(row, OutputType) and row.name == name
    )

    assert text.count(constant) == 2
