"""The lab itself, the base of the demo and of the other system tests."""

import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from agent.lab.broker import Cluster
from agent.lab.clients import Clients

pytestmark = [pytest.mark.kafka, pytest.mark.jvm, pytest.mark.timeout(900)]

_ABANDON = """\
import os, signal, sys
from pathlib import Path
from agent.lab.broker import Cluster
from agent.lab.clients import Clients

folder, cache = Path(sys.argv[1]), Path(sys.argv[2])
cluster = Cluster(folder / "cluster", cache)
client = Clients(cluster.bootstrap, folder, cache).consumer("4.3.0", "m1", "g", ["t"])
client.wait_for("started")
print(cluster.brokers[0].pid, client.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_goes_on_without_one_of_its_brokers(cache: Path, tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "cluster", cache, brokers=3) as cluster,
        Clients(cluster.bootstrap, tmp_path / "clients", cache) as clients,
    ):
        admin = clients.admin()
        admin.do("create-topic before 1")
        cluster.brokers[2].kill()
        admin.do("create-topic between 1", timeout_s=60.0)

        cluster.brokers[2].restart()

        admin.do("create-topic after 1")


def test_nothing_outlives_a_killed_program(cache: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-c", _ABANDON, str(tmp_path), str(cache)]

    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)

    assert done.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    _, alive = psutil.wait_procs(
        [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=15.0
    )
    assert alive == []


def test_a_cluster_id_may_begin_with_a_dash(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" * 16))

    with Cluster(tmp_path, cache) as cluster:
        assert cluster.brokers[0].address == cluster.bootstrap


def test_a_killed_client_leaves_nothing_in_the_machines_temporary_folder(
    cache: Path, tmp_path: Path
) -> None:
    with (
        Cluster(tmp_path / "cluster", cache) as cluster,
        Clients(cluster.bootstrap, tmp_path / "clients", cache) as clients,
    ):
        clients.admin().do("create-topic in 1")
        for _life in range(2):
            instance = clients.streams("4.3.0", "s1", "app", "in")
            instance.wait_for("state RUNNING", 60.0)
            left = [path.name[:7] for path in tmp_path.glob("clients/scratch/s1/lib*")]
            assert left == ["librock"]
            instance.kill()

    assert not (tmp_path / "clients" / "scratch").exists()
