"""Scenes of the recorded Connect workers and clients in other languages."""

import shutil
import subprocess
import sys

from agent.lab.proxy import CONSUMER_HEARTBEAT, HEARTBEAT
from tests.system.corpus.take import Take, settle


def connect(take: Take) -> None:
    """c1 starts; two connectors are added (invisible); c2 starts and takes tasks over (10 on c1);
    c1 is frozen by SIGSTOP and comes back (3, then 10); c2 stops, then c1 does (6).
    """
    first = take.worker("c1")
    first.wait_ready()
    settle(3)
    first.create("numbers", take.topic, 1)
    settle(4)
    first.create("letters", take.topic, 1)
    settle(4)
    second = take.worker("c2")
    second.wait_ready()
    settle(12)
    first.driver.pause()
    settle(10)
    first.driver.resume()
    settle(12)
    second.driver.close()
    settle(8)
    first.driver.close()


def connect_sink(take: Take) -> None:
    """c1 starts; a sink of two tasks is added: two consumers in c1's log (2); the topic gets more
    partitions (7 on one, 1 on the other); the sink is deleted (6, and 10 on c1); c1 stops (6).
    """
    worker = take.worker("c1")
    worker.wait_ready()
    settle(3)
    worker.create_sink("letters", take.topic, 2)
    settle(12)
    take.admin(f"set-partitions {take.topic} 8")
    settle(9)
    worker.delete("letters")
    settle(8)
    worker.driver.close()


def franz(take: Take) -> None:
    """m1 and m2 join (2, 1); ForceRebalance (6); m2 adds a topic; the topic gets more partitions;
    m1 is frozen by SIGSTOP (3); both close (6).
    """
    first = take.franz("m1")
    first.wait_for("assigned")
    settle(3)
    second = take.franz("m2")
    second.wait_for("assigned")
    settle(3)
    first.do("enforce")
    first.wait_for("assigned")
    settle(3)
    take.admin(f"create-topic {take.topic}-b 2")
    second.do(f"subscribe {take.topic}-b")
    settle(6)
    take.admin(f"set-partitions {take.topic} 8")
    settle(8)
    first.pause()
    settle(10)
    first.resume()
    settle(6)
    second.close()
    settle(4)
    first.close()


def franz_cooperative(take: Take) -> None:
    """m1 and a static m2 join with the cooperative balancer (10); a proxy answers a heartbeat of
    m1 as one of an older generation (4); both close (m1: 6).
    """
    first = take.franz("m1", balancer="cooperative", bootstrap=take.lab.proxy.address)
    first.wait_for("assigned")
    settle(3)
    second = take.franz("m2", balancer="cooperative", instance="i2")
    second.wait_for(f"assigned map[{take.topic}")
    settle(4)
    take.lab.proxy.fail_next(HEARTBEAT, 22)
    settle(8)
    second.close()
    settle(3)
    first.close()


def sarama(take: Take) -> None:
    """m1 and m2 join; the topic gets more partitions; m1 is frozen by SIGSTOP; both close."""
    first = take.sarama("m1")
    first.wait_for("assigned")
    settle(3)
    second = take.sarama("m2")
    second.wait_for("assigned")
    settle(3)
    take.admin(f"set-partitions {take.topic} 8")
    settle(8)
    first.pause()
    settle(10)
    first.resume()
    settle(6)
    second.close()
    settle(4)
    first.close()


def python_members(take: Take) -> None:
    """m1 and m2 join (2 where it is printed); m1 stalls for longer than its poll interval or its
    session (5, 3); it is frozen by SIGSTOP (3); m2 subscribes to one more topic; the topic gets
    more partitions; both close (6).
    """
    library = "aiokafka" if take.version.startswith("0.") else "kafka-python"
    hurried = {} if library == "aiokafka" else {"max_poll_interval_ms": "4000"}
    first = take.python(library, "m1", **hurried)
    settle(4)
    second = take.python(library, "m2")
    settle(6)
    first.send("stall 8")
    settle(14)
    first.pause()
    settle(9)
    first.resume()
    settle(6)
    take.admin(f"create-topic {take.topic}-b 2")
    second.send(f"subscribe {take.topic} {take.topic}-b")
    settle(6)
    take.admin(f"set-partitions {take.topic} 8")
    settle(9)
    for client in (second, first):
        client.send("close")
        client.wait_for("done close")
        settle(4)


def librdkafka(take: Take) -> None:
    """The demo's own consumers (confluent-kafka and its mock cluster): orders-1 is frozen (3), then
    comes back late (4); orders-2 subscribes anew (8); orders-3 unsubscribes (6); payments-1 gives
    partitions away (10), then stalls (5); audit-1 sees a new topic (7); returns-1 meets a
    coordinator that still loads (9).
    """
    output = take.folder / "demo"
    options = ["--no-report", "--seconds", "0", "--keep", "--output", str(output)]
    command = [sys.executable, "-P", "-m", "agent", "demo", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for log in (output / "logs").glob("*.log"):
        shutil.copy(log, take.folder)


def librdkafka_default(take: Take) -> None:
    """Without `debug`, m1 stalls for longer than its poll interval (5, of no group that is named),
    is frozen by SIGSTOP for longer than its session, and closes.
    """
    client = take.python("confluent-kafka", "m1", max_poll_interval_ms="6000")
    settle(6)
    client.send("stall 9")
    settle(16)
    client.pause()
    settle(9)
    client.resume()
    settle(6)
    client.send("close")
    client.wait_for("done close")


def librdkafka_kip848(take: Take) -> None:
    """m1 and m2 join (2; m1: 1, 10); m2 subscribes to one more topic (8); the topic gets more
    partitions (1); m1 stalls for longer than its poll interval (5); it is frozen by SIGSTOP for
    longer than its session (3); a proxy answers a heartbeat of m2 as one of an older epoch (4);
    both close (6).
    """
    new = {"group_protocol": "consumer", "debug": "cgrp,consumer", "max_poll_interval_ms": "6000"}
    first = take.python("confluent-kafka", "m1", **new)
    settle(6)
    second = take.python(
        "confluent-kafka", "m2", **new | {"bootstrap_servers": take.lab.proxy.address}
    )
    settle(8)
    take.admin(f"create-topic {take.topic}-b 2")
    second.send(f"subscribe {take.topic} {take.topic}-b")
    settle(8)
    take.admin(f"set-partitions {take.topic} 8")
    settle(10)
    first.send("stall 9")
    settle(16)
    first.pause()
    settle(12)
    first.resume()
    settle(10)
    take.lab.proxy.fail_next(CONSUMER_HEARTBEAT, 110)
    settle(10)
    for client in (second, first):
        client.send("close")
        client.wait_for("done close")
        settle(6)
