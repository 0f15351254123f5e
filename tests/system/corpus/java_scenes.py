"""Scenes of the recorded Java consumers. A scene's docstring is in the golden README, too."""

from itertools import cycle

from agent.lab.proxy import CONSUMER_HEARTBEAT, JOIN_GROUP, SHARE_HEARTBEAT, SYNC_GROUP
from tests.system.corpus.take import Take, settle

_COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
_NO_COMMITS = {
    "enable.auto.commit": "false"
}  # else a commit may hear first that its member is gone
_KIP848 = {"group.protocol": "consumer"}
_FAULTS = ((JOIN_GROUP, 14), (JOIN_GROUP, 16), (SYNC_GROUP, 16), (SYNC_GROUP, 27))


def classic(take: Take) -> None:
    """m1 and m2 join; m1 stalls (5); m1 is frozen by SIGSTOP and comes back (3, or 5 where it finds
    its poll interval expired before it hears of the group); m2 subscribes to one more topic (8);
    the topic gets more partitions (7); m2 unsubscribes (6) and subscribes again; both close (6).
    """
    first = take.consumer("m1", {"max.poll.interval.ms": "3000"} | _NO_COMMITS)
    first.wait_for("assigned")
    settle()
    second = take.consumer("m2")
    second.wait_for("assigned")
    settle()
    first.send("stall 6000")
    second.wait_for("assigned")
    first.wait_for("done stall")
    first.wait_for("assigned")
    settle()
    first.pause()
    settle(9)
    first.resume()
    first.wait_for("assigned")
    settle()
    take.admin(f"create-topic {take.topic}-b 2")
    second.do(f"subscribe {take.topic} {take.topic}-b")
    second.wait_for("assigned")
    settle()
    take.admin(f"set-partitions {take.topic} 8")
    settle(8)
    second.do("unsubscribe")
    first.wait_for("assigned")
    settle()
    second.do(f"subscribe {take.topic}")
    second.wait_for("assigned")
    settle()
    second.close()
    settle()
    first.close()


def cooperative(take: Take) -> None:
    """m1 and m2 join with the cooperative assignor (10), and close (6)."""
    first = take.consumer("m1", _COOPERATIVE)
    first.wait_for("assigned")
    settle()
    second = take.consumer("m2", _COOPERATIVE)
    second.wait_for(f"assigned {take.topic}")
    settle()
    second.close()
    settle(3)
    first.close()


def stale(take: Take) -> None:
    """A proxy holds the static member m1, while m2 subscribes to one more topic and the group goes
    on without m1 (4 where the version prints it); m2 changes its topics again and again (8), and
    the proxy answers m1's joins and syncs with the errors 14 and 16 (9), 16 (9) and 27 (1).
    """
    calm = {"session.timeout.ms": "30000", "max.poll.interval.ms": "4000"} | _NO_COMMITS
    remote = {"bootstrap.servers": take.lab.proxy.address, "group.instance.id": "i1"}
    take.admin(f"create-topic {take.topic}-b 2")
    topics = cycle([f"{take.topic} {take.topic}-b", take.topic])
    first = take.consumer("m1", calm | remote)
    first.wait_for("assigned")
    second = take.consumer("m2", calm)
    second.wait_for("assigned")
    settle()
    take.lab.proxy.hold()
    second.do(f"subscribe {next(topics)}")
    second.wait_for("assigned")
    take.lab.proxy.release()
    first.wait_for("assigned")
    settle()
    for api_key, code in _FAULTS:
        take.lab.proxy.fail_next(api_key, code)
        second.do(f"subscribe {next(topics)}")
        second.wait_for("assigned")
        settle(4)
    second.close()
    settle()
    first.close()


def join(take: Take) -> None:
    """m1 joins (2) and closes (6)."""
    client = take.consumer("m1")
    client.wait_for("assigned")
    settle()
    client.close()


def enforce(take: Take) -> None:
    """m1 and m2 join; enforceRebalance() by m1 with a reason of its own, by m2 with one that looks
    like Kafka's (6); both close.
    """
    first = take.consumer("m1")
    first.wait_for("assigned")
    settle()
    second = take.consumer("m2")
    second.wait_for("assigned")
    settle()
    first.do("enforce new deploy of payments")
    first.wait_for("assigned")
    settle()
    second.do("enforce rebalance enforced by user")
    second.wait_for("assigned")
    settle()
    second.close()
    settle()
    first.close()


def kip848(take: Take) -> None:
    """m1 and m2 join (2, then 1 and 10); m1 stalls (5); m2 subscribes to one more topic (8),
    unsubscribes (6) and subscribes again; m1 is frozen by SIGSTOP (3); the topic gets more
    partitions (1); enforceRebalance() is refused; both close (6).
    """
    first = take.consumer("m1", _KIP848 | {"max.poll.interval.ms": "3000"})
    first.wait_for("assigned")
    settle(3)
    second = take.consumer("m2", _KIP848)
    second.wait_for(f"assigned {take.topic}")
    settle(3)
    first.send("stall 6000")
    first.wait_for("done stall")
    first.wait_for(f"assigned {take.topic}")
    settle(5)
    take.admin(f"create-topic {take.topic}-b 2")
    second.do(f"subscribe {take.topic} {take.topic}-b")
    settle(5)
    second.do("unsubscribe")
    settle(3)
    second.do(f"subscribe {take.topic}")
    settle(6)
    first.pause()
    settle(10)
    first.resume()
    settle(7)
    take.admin(f"set-partitions {take.topic} 8")
    settle(8)
    first.do("enforce please")
    settle(1)
    second.close()
    settle(4)
    first.close()


def kip848_faults(take: Take) -> None:
    """A proxy answers m1's heartbeats with the errors 14, 16 and 15 (no code), 110 (4), 25 (3) and
    113, on which the client gives up.
    """
    client = take.consumer("m1", _KIP848 | {"bootstrap.servers": take.lab.proxy.address})
    client.wait_for("assigned")
    settle(3)
    for code in (14, 16, 15, 110, 25, 113):
        take.lab.proxy.fail_next(CONSUMER_HEARTBEAT, code)
        settle(6)


def share(take: Take) -> None:
    """m1 and m2 join (2); m1 stalls (5); m2 subscribes to one more topic (8), unsubscribes (6) and
    subscribes again; m1 is frozen by SIGSTOP (3, or 5 where it finds its poll interval expired
    before it hears of the group); both close (6).
    """
    first = take.share("m1", {"max.poll.interval.ms": "3000"})
    first.wait_for("started")
    settle(5)
    second = take.share("m2")
    second.wait_for("started")
    settle(5)
    first.send("stall 6000")
    first.wait_for("done stall")
    settle(5)
    take.admin(f"create-topic {take.topic}-b 2")
    second.do(f"subscribe {take.topic} {take.topic}-b")
    settle(5)
    second.do("unsubscribe")
    settle(3)
    second.do(f"subscribe {take.topic}")
    settle(4)
    first.pause()
    settle(10)
    first.resume()
    settle(6)
    second.close()
    settle(4)
    first.close()


def share_faults(take: Take) -> None:
    """A proxy answers m1's heartbeats with the errors 14 (no code), 110 (4) and 25 (3)."""
    client = take.share("m1", {"bootstrap.servers": take.lab.proxy.address})
    client.wait_for("started")
    settle(6)
    for code in (14, 110, 25):
        take.lab.proxy.fail_next(SHARE_HEARTBEAT, code)
        settle(6)
    client.close()
