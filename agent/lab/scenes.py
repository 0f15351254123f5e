"""A play for the demo: real clients rebalance for all thirteen reasons, in about a minute.

Each act is a generator: it yields the caption of the next event, then makes it happen.
"""

from collections.abc import Iterator

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.lab.proxy import JOIN_GROUP

_COOPERATIVE = {
    "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
}
_LOADING = 14
"""COORDINATOR_LOAD_IN_PROGRESS."""


def play(lab: Lab, clients: Clients, far: str) -> Iterator[str]:
    """Play all acts and yield their captions. The caller ends the clients that still run.

    ``far`` is the bootstrap address of clients that reach the broker through the lab's proxy.

    Raises:
        ProcessError: a client did not execute a command.

    """
    yield from _payments(lab, clients)
    yield from _shipping(lab, clients, far)
    for act in (_audit, _warm_up, _upgrade, _gateway):
        yield from act(lab, clients)


def _payments(lab: Lab, clients: Clients) -> Iterator[str]:
    lab.admin.do("create-topic payments-in 4")
    lab.admin.do("create-topic refunds-in 2")

    hurried = {"max.poll.interval.ms": "3000", "session.timeout.ms": "2500"}
    yield "payments: a consumer joins"
    first = clients.consumer("3.9.1", "payments-1", "payments", ["payments-in"], hurried)
    first.wait_for("assigned")
    yield "payments: another one joins, and the first has to rebalance"
    second = clients.consumer("3.9.1", "payments-2", "payments", ["payments-in"], hurried)
    second.wait_for("assigned")
    first.wait_for("assigned")
    yield "payments: a host freezes for longer than the session"
    # Before any topic changes: a TopicMetadataChanged (7) while frozen would mask the 3.
    first.pause()
    second.wait_for("assigned")
    first.resume()
    first.wait_for("assigned")
    yield "payments: the topic gets more partitions"
    lab.admin.do("set-partitions payments-in 6")
    first.wait_for("assigned")
    yield "payments: a consumer subscribes to one more topic"
    second.do("subscribe payments-in refunds-in")
    second.wait_for("assigned")
    yield "payments: an operator enforces a rebalance"
    first.do("enforce new fraud rules")
    first.wait_for("assigned")
    yield "payments: a consumer is stuck in one record for too long"
    second.do("stall 5000")
    second.wait_for("assigned")
    yield "payments: a consumer closes"
    second.close()


def _shipping(lab: Lab, clients: Clients, far: str) -> Iterator[str]:
    lab.admin.do("create-topic parcels 4")
    hurried = {"session.timeout.ms": "30000", "max.poll.interval.ms": "3000"}
    remote = {"bootstrap.servers": far}
    yield "shipping: the coordinator is still loading"
    lab.proxy.fail_next(JOIN_GROUP, _LOADING)
    other = clients.consumer("4.3.0", "shipping-2", "shipping", ["parcels"], hurried | remote)
    other.wait_for("assigned")
    other.close()
    held = clients.consumer(
        "4.3.0",
        "shipping-1",
        "shipping",
        ["parcels"],
        hurried | remote | {"group.instance.id": "dock-1"},
    )
    held.wait_for("assigned")
    local = clients.consumer("4.3.0", "shipping-3", "shipping", ["parcels"], hurried)
    local.wait_for("assigned")
    held.wait_for("assigned")
    yield "shipping: the network hangs, and the group goes on without a member"
    lab.proxy.hold()
    local.do("enforce new routes")
    local.wait_for("assigned")
    lab.proxy.release()
    held.wait_for("assigned")


def _audit(lab: Lab, clients: Clients) -> Iterator[str]:
    lab.admin.do("create-topic ledger 4")
    yield "audit: partitions move cooperatively"
    for client_id in ("audit-1", "audit-2"):
        consumer = clients.consumer("3.4.1", client_id, "audit", ["ledger"], _COOPERATIVE)
        consumer.wait_for("assigned ledger")


def _warm_up(lab: Lab, clients: Clients) -> Iterator[str]:
    lab.admin.do("create-topic clicks 4")
    lab.admin.do("produce clicks 1000")
    patient = {"acceptable.recovery.lag": "0"}
    yield "counts: a Streams instance starts and fills its store"
    clients.streams("4.3.0", "counts-1", "counts", "clicks", patient).wait_for("state RUNNING")
    lab.admin.do("await counts-counts-changelog 1000")
    yield "counts: a second one starts; it has to warm up before it takes over"
    clients.streams("4.3.0", "counts-2", "counts", "clicks", patient).wait_for("state RUNNING")


def _upgrade(lab: Lab, clients: Clients) -> Iterator[str]:
    lab.admin.do("create-topic sessions 4")
    for version, client_id in (("2.8.2", "upgrade-old"), ("3.9.1", "upgrade-new")):
        yield f"upgrade: a Streams instance of Kafka {version} starts"
        instance = clients.streams(version, client_id, "upgrade", "sessions")
        instance.wait_for("state RUNNING")


def _gateway(lab: Lab, clients: Clients) -> Iterator[str]:
    lab.admin.do("create-topic views 4")
    static = {"group.instance.id": "gateway", "consumer.session.timeout.ms": "120000"}
    for port in (8001, 8002):
        yield f"gateway: a static Streams instance starts at localhost:{port}"
        endpoint = static | {"application.server": f"localhost:{port}"}
        instance = clients.streams("3.4.1", "gateway-1", "gateway", "views", endpoint)
        instance.wait_for("state RUNNING")
        if port == 8001:
            instance.close()
