"""A reload of an agent with a proxy: connections that survive it, and connections that do not."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from agent.sources.proxy.source import ProxySource
from agent.wiring.agent import Agent
from agent.wiring.agent_config import AgentConfig, load

WITHIN_S = 20.0
TLS_HELLO = bytes.fromhex("16030100f0") + bytes(300)
"""No Kafka: it passes both ways as it is."""
pytestmark = pytest.mark.timeout(60)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


async def _until_reloaded(agent: Agent, times: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while agent.snapshot()[1].reloads["success"] < times:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Return the response to some bytes; empty if the connection has ended."""
    writer.write(TLS_HELLO)
    async with asyncio.timeout(WITHIN_S):
        try:
            return await reader.readexactly(len(TLS_HELLO))
        except (asyncio.IncompleteReadError, ConnectionResetError):
            return b""


def _write(file: Path, server: asyncio.Server, drain: str, more: str = "") -> None:
    upstream = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    source = f'{{type: proxy, listen: "127.0.0.1:0", upstream: ["{upstream}"], drain: {drain}}}'
    web = '{listen: ["127.0.0.1:0"]}'
    file.write_text(f"{{state_dir: {file.parent}, sources: [{source}], web: {web}{more}}}")


async def _play(file: Path) -> None:
    def read() -> AgentConfig:
        return load(file, environ={})

    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    _write(file, server, "0s")
    agent = Agent(read(), read)
    running = asyncio.create_task(agent.run())
    source = agent._sources[0]
    assert isinstance(source, ProxySource)
    async with asyncio.timeout(WITHIN_S):
        while source.address is None:  # noqa: ASYNC110 - another thread makes it true
            await asyncio.sleep(0.01)
    client = await asyncio.open_connection(*source.address)
    assert await _answer(*client) == TLS_HELLO

    _write(file, server, "0s", ", apps: {payments: [payments-in]}")
    os.kill(os.getpid(), signal.SIGHUP)
    await _until_reloaded(agent, 1)
    assert await _answer(*client) == TLS_HELLO
    assert agent._sources == [source]

    _write(file, server, "1s")  # a changed section
    os.kill(os.getpid(), signal.SIGHUP)
    await _until_reloaded(agent, 2)
    assert await _answer(*client) == TLS_HELLO

    _write(file, server, "0s", ", cluster: {name: other}")  # what is told of open connections
    os.kill(os.getpid(), signal.SIGHUP)
    await _until_reloaded(agent, 3)
    assert await _answer(*client) == b""

    agent.stop()
    await asyncio.wait_for(running, WITHIN_S)
    client[1].close()
    server.close()


@pytest.mark.slow
def test_connections_outlive_a_reload_that_leaves_their_listener_alone(tmp_path: Path) -> None:
    asyncio.run(_play(tmp_path / "agent.yaml"))
