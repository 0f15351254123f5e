"""One cluster and one operator for all system tests; clients and an agent for each test."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from agent.lab.artifacts import BROKER, COMPILER, clients, default_cache, fetch_all
from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.lab.errors import LabError
from agent.lab.process import Driver
from agent.lab.proxy import FaultProxy
from tests.system.observer import Observer
from tests.system.stage import Stage

VERSIONS = ("2.8.2", "3.4.1", "3.9.1", "4.3.0")
_numbers = count(1)


@pytest.fixture(scope="session")
def cache() -> Path:
    folder = default_cache()
    try:
        fetch_all([BROKER, COMPILER, *map(clients, VERSIONS)], folder)
    except LabError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"no JVM artifacts: {error}")
    return folder


@pytest.fixture(scope="session")
def proxy() -> Iterator[FaultProxy]:
    with FaultProxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def cluster(
    cache: Path, proxy: FaultProxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, cache, proxy_port=proxy.port) as cluster:
        proxy.upstream = cluster.brokers[0].node.proxied_port
        yield cluster


@pytest.fixture(scope="session")
def admin(
    cluster: Cluster, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    with Clients(cluster.bootstrap, tmp_path_factory.mktemp("admin"), cache) as operators:
        yield operators.admin()


@pytest.fixture
def stage(
    cluster: Cluster, cache: Path, admin: Driver, proxy: FaultProxy, tmp_path: Path
) -> Iterator[Stage]:
    number = next(_numbers)
    topic = f"topic-{number}"
    admin.do(f"create-topic {topic} 4")
    logs = tmp_path / "clients"
    agent = Observer(logs, tmp_path / "agent")
    try:
        agent.wait_ready()
        with Clients(cluster.bootstrap, logs, cache) as started:
            yield Stage(
                clients=started,
                admin=admin,
                agent=agent,
                proxy=proxy,
                group=f"group-{number}",
                topic=topic,
            )
    finally:
        agent.stop()
