"""Scenes of the recorded Streams applications."""

from agent.lab.proxy import STREAMS_HEARTBEAT
from tests.system.corpus.take import Take, settle


def kip1071(take: Take) -> None:
    """s1 with two threads starts, s2 with two threads joins (10 on s1) and closes (6); s1 adds a
    thread and removes it again, and closes.
    """
    settings = {"group.protocol": "streams", "num.stream.threads": "2"}
    first = take.streams("s1", settings)
    first.wait_for("state RUNNING")
    settle(5)
    second = take.streams("s2", settings)
    settle(9)
    second.close()
    settle(5)
    first.do("add-thread")
    settle(6)
    first.do("remove-thread")
    settle(6)
    first.close()


def kip1071_faults(take: Take) -> None:
    """A proxy answers s1's heartbeats with the errors 14 (no code), 110 (4) and 25 (3)."""
    remote = {"group.protocol": "streams", "bootstrap.servers": take.lab.proxy.address}
    client = take.streams("s1", remote)
    client.wait_for("state RUNNING")
    settle(4)
    for code in (14, 110, 25):
        take.lab.proxy.fail_next(STREAMS_HEARTBEAT, code)
        settle(6)
    client.close()


def threads(take: Take) -> None:
    """Two instances of two threads (10); s2 adds a thread and removes it again; both close."""
    settings = {"num.stream.threads": "2"}
    first = take.streams("s1", settings)
    first.wait_for("state RUNNING")
    settle()
    second = take.streams("s2", settings)
    second.wait_for("state RUNNING")
    settle(4)
    second.do("add-thread")
    settle(4)
    second.do("remove-thread")
    settle(4)
    second.close()
    settle(9)
    first.close()


def probing(take: Take) -> None:
    """The second instance has to warm up (11), and the tasks move a minute later (10)."""
    settings = {"acceptable.recovery.lag": "0", "probing.rebalance.interval.ms": "60000"}
    take.admin(f"produce {take.topic} 1000")
    first = take.streams("s1", settings)
    first.wait_for("state RUNNING")
    take.admin(f"await {take.group}-counts-changelog 1000")
    second = take.streams("s2", settings)
    second.wait_for("state RUNNING")
    settle(75)
    second.close()
    first.close()


def endpoint(take: Take) -> None:
    """A static instance starts at localhost:8001, stops, and starts at localhost:8002 (13)."""
    static = {"group.instance.id": "i1", "consumer.session.timeout.ms": "30000"}
    for port in (8001, 8002):
        client = take.streams("s1", static | {"application.server": f"localhost:{port}"})
        client.wait_for("state RUNNING")
        settle(4)
        client.close()


def upgrade(take: Take) -> None:
    """The version joins an instance of 2.8.2 (12); the old one stops, the new one upgrades (12)."""
    _upgrade(take, "2.8.2")


def upgrade_old(take: Take) -> None:
    """The version joins an instance of 2.3.1 (12); the old one stops, the new one upgrades (12)."""
    _upgrade(take, "2.3.1")


def _upgrade(take: Take, old_version: str) -> None:
    old = take.streams("old", version=old_version)
    old.wait_for("state RUNNING")
    settle(3)
    new = take.streams("new")
    new.wait_for("state RUNNING")
    settle(5)
    old.close()
    settle(9)
    new.close()
