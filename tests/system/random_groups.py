"""`make random-groups`: random groups of clients of many versions, and where sources disagree.

Theory of operation. Fixed scenes show what their author thought of. Here members of one group, each
with a client and a version of its own, start, close, are killed, frozen, stall, subscribe to other
topics and get errors, some at almost the same time. Some start with another assignor or protocol,
their network hangs, their broker restarts, a topic is deleted. Connect's workers get connectors.
Replicas (`--replicas`) share a client id, and have a folder each. Processes of several consumers
(`--several`) have one log for all of them.
Their logs, the traffic and the broker's log are kept.
The incidents by traffic are printed, and below them those that another source names differently
(`+`), leaves out (`-`), or counts differently (`~`).

A difference is not always a fault: a source may not be able to show a cause (semantics.md). But
logs and traffic together should show all that traffic does.

It needs tcpdump, with the right to capture on the loopback interface.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import click

from agent.lab.artifacts import clients, default_cache, fetch
from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.lab.proxy import CONSUMER_HEARTBEAT, JOIN_GROUP, SYNC_GROUP
from agent.processes.driver import Driver
from agent.processes.errors import ProcessError
from tests.system.corpus.__main__ import hurried_lab, warm
from tests.system.corpus.programs import connect
from tests.system.corpus.take import Settings, Take, Worker

_CLI = Path(sys.executable).with_name("rebalance-agent")
_JAVA = "2.0.1 2.1.1 2.3.1 2.5.1 2.7.2 2.8.2 3.0.2 3.3.2 3.5.2 3.7.2 3.9.1 4.0.1 4.1.1 4.3.0 4.4.0"
_SINCE_2_4 = "2.4.1 2.6.3 2.7.2 3.2.3 3.4.1 3.7.2 3.9.1 4.1.1 4.3.0 4.4.0"
_SINCE_3_9 = "3.9.1 4.0.1 4.1.1 4.2.0 4.3.0 4.4.0"
_SINCE_2_8 = "2.8.2 3.4.1 3.9.1 4.3.0"
_OTHERS = "franz:1.18.1 franz:1.21.0 sarama:1.43.3 confluent-kafka:2.10.1 kafka-python:2.3.0"
_ASSIGNOR = "partition.assignment.strategy"
_CONSUMERS = "org.apache.kafka.clients.consumer"
_KIP848 = {"group.protocol": "consumer"}
_RANGE, _COOPERATIVE = f"{_CONSUMERS}.RangeAssignor", f"{_CONSUMERS}.CooperativeStickyAssignor"
_UPGRADES = (
    {_ASSIGNOR: _RANGE},
    {_ASSIGNOR: f"{_COOPERATIVE},{_RANGE}"},
    {_ASSIGNOR: f"{_COOPERATIVE},{_RANGE}"},
)
_STREAMS = {"num.stream.threads": "2", "replication.factor": "1", "commit.interval.ms": "500"}
_KIP1071 = {**_STREAMS, "group.protocol": "streams"}
_SAME_S = 2.5
"""Begins of one incident by two sources are nearer than this."""
_PAUSES_S = (0.3, 1.5, 4.0, 5.0, 7.0, 9.0)
"""Between two steps; a session takes 6 s, a poll interval 8 s."""
_FAULTS = {
    "classic": [(JOIN_GROUP, 14), (JOIN_GROUP, 25), (SYNC_GROUP, 16), (SYNC_GROUP, 27)],
    "consumer": [(CONSUMER_HEARTBEAT, 16), (CONSUMER_HEARTBEAT, 25), (CONSUMER_HEARTBEAT, 110)],
}


class Family(NamedTuple):
    """A kind of group, and the clients that its members may have."""

    name: str
    versions: str
    settings: Settings
    protocol: str = "classic"
    is_static: bool = False
    others: str = ""
    choices: tuple[Settings, ...] = ({},)
    """Each start takes one of them."""
    has_outages: bool = False
    """The network of some hangs, and the broker restarts."""
    has_one_client_id: bool = False
    """As replicas, and programs with a default client id."""
    consumers: int = 1
    """Of each process."""
    has_default_ids: bool = False
    """Java names its consumers: `consumer-<group>-1` and so on, the same in each process."""
    groups: int = 1
    """Of the consumers of one process."""
    brokers: int = 1
    """With several of them, they stop and die in turn, and groups move between coordinators."""


FAMILIES = (
    Family("eager", _JAVA, {_ASSIGNOR: _RANGE}),
    Family("mixed", _JAVA, {_ASSIGNOR: _RANGE}, others=_OTHERS),
    Family("cooperative", _SINCE_2_4, {_ASSIGNOR: _COOPERATIVE}),
    Family("static", _SINCE_2_4, {}, is_static=True),
    Family("upgrade", _SINCE_2_4, {}, choices=_UPGRADES),
    Family("outages", _JAVA, {_ASSIGNOR: _RANGE}, has_outages=True),
    Family("kip848", _SINCE_3_9, _KIP848, "consumer"),
    Family("kip848-static", _SINCE_3_9, _KIP848, "consumer", is_static=True),
    Family("kip848-outages", _SINCE_3_9, _KIP848, "consumer", has_outages=True),
    Family("migration", _SINCE_3_9, {}, "consumer", choices=({}, _KIP848, _KIP848)),
    Family("share", "4.2.0 4.3.0 4.4.0", {}, "share"),
    Family("streams", "2.4.1 2.8.2 3.3.2 3.7.2 4.0.1 4.3.0 4.4.0", _STREAMS, "streams"),
    Family("kip1071", "4.2.0 4.3.0 4.4.0", _KIP1071, "streams"),
    Family("connect", "2.5.1 2.8.2 3.3.2 3.9.1 4.1.1 4.3.0", {}, "connect"),
)
MOVING = (
    Family("moving", _JAVA, {_ASSIGNOR: _RANGE}, others=_OTHERS, brokers=3),
    Family("moving-cooperative", _SINCE_2_4, {_ASSIGNOR: _COOPERATIVE}, brokers=3),
    Family("moving-kip848", _SINCE_3_9, _KIP848, "consumer", brokers=3),
)
"""Groups of three brokers, in a lab of their own (`--moving`)."""
REPLICAS = tuple(
    family._replace(name=f"replicas-{family.name}", has_one_client_id=True)
    for family in FAMILIES
    if family.name in {"eager", "mixed", "cooperative", "static", "kip848"}
)
"""Groups of members that share a client id (`--replicas`)."""
SEVERAL = tuple(
    family._replace(consumers=3)
    for family in (
        Family("several-default", _SINCE_2_8, {_ASSIGNOR: _RANGE}, has_default_ids=True),
        Family("several-apart", _SINCE_2_8, {_ASSIGNOR: _COOPERATIVE}),
        Family("several-eager", _SINCE_2_8, {_ASSIGNOR: _RANGE}, has_one_client_id=True),
        Family(
            "several-cooperative", _SINCE_2_8, {_ASSIGNOR: _COOPERATIVE}, has_one_client_id=True
        ),
        Family("several-static", _SINCE_2_8, {}, is_static=True, has_one_client_id=True),
        Family("several-kip848", _SINCE_3_9, _KIP848, "consumer", has_one_client_id=True),
        Family("several-groups", _SINCE_2_8, {_ASSIGNOR: _RANGE}, has_one_client_id=True, groups=2),
        Family("several-groups-apart", _SINCE_2_8, {_ASSIGNOR: _COOPERATIVE}, groups=2),
    )
)
"""Processes of three consumers each (`--several`)."""
_SHARED_ID = "app"


class Step(NamedTuple):
    """What was done, and at which time (Unix seconds)."""

    at: float
    member: str
    action: str


@dataclass(slots=True, kw_only=True)
class RandomGroup:
    """One group, its members and what happens to them."""

    family: Family
    take: Take
    chance: random.Random
    versions: dict[str, str] = field(default_factory=dict)
    running: dict[str, Driver] = field(default_factory=dict)
    ending: dict[str, Driver] = field(default_factory=dict)
    frozen: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    partitions: int = 4
    workers: dict[str, Worker] = field(default_factory=dict)
    """Connect's, by member."""
    connectors: int = 0
    has_threads: bool = False
    """Names of threads stand in the logs of processes with several consumers."""

    def choose_versions(self) -> None:
        """Give each member a client: often all have one, as before and after a deploy."""
        of_java, others = self.family.versions.split(), self.family.others.split()
        is_same, common = self.chance.random() < 0.5, self.chance.choice(of_java)
        for number in range(1, 3 if self.family.consumers > 1 else 5):
            chosen = common if is_same or number == 1 else self.chance.choice(of_java)
            is_other = bool(others) and number > 1
            self.versions[f"m{number}"] = self.chance.choice(others) if is_other else chosen
        artifacts = connect if self.family.protocol == "connect" else clients
        for version in {each for each in self.versions.values() if ":" not in each}:
            fetch(artifacts(version), self.take.lab.cache)  # no download within the story

    def play(self, steps: int) -> None:
        """Start two members, do so many random steps, and close all."""
        for member in ("m1", "m2"):
            self.do("start", member)
            time.sleep(6.0)
        for _ in range(steps):
            action, member = self.chance.choice(self._list_actions())
            self.do(action, member)
            time.sleep(self.chance.choice(_PAUSES_S))
        for member in sorted(self.frozen):
            self.do("resume", member)
        self.take.lab.proxy.release()
        time.sleep(8.0)
        for member in list(self.running):
            self.do("close", member)
            time.sleep(3.5)

    def do(self, action: str, member: str) -> None:
        """Do one step, and note it."""
        self.steps.append(Step(time.time(), member, action))
        try:
            self._do(action, member)
        except ProcessError:  # it has ended by itself: a Streams application may
            self.running.pop(member, None)

    def _do(self, action: str, member: str) -> None:
        own = {
            "start": self._start,
            "close": self._close,
            "kill": self._kill,
            "freeze": self._freeze,
            "resume": self._resume,
        }
        of_group = {
            "grow": self._grow,
            "delete": self._delete,
            "add": self._add_connector,
            "drop": self._drop_connector,
            "remove": self._remove,
            "fault": self._inject,
            "hold": self.take.lab.proxy.hold,
            "release": self.take.lab.proxy.release,
            "bounce": self._bounce,
        }
        if "." in member:
            process, _, number = member.partition(".")
            self.running[process].send(f"{number} {action}")
        elif action in own:
            own[action](member)
        elif action in of_group:
            of_group[action]()
        else:
            self.running[member].send(action)

    def _close(self, member: str) -> None:
        self.ending[member] = self.running.pop(member)
        self.ending[member].send("close")

    def _kill(self, member: str) -> None:
        self.running.pop(member).kill()

    def _freeze(self, member: str) -> None:
        self.running[member].pause()
        self.frozen.add(member)

    def _resume(self, member: str) -> None:
        self.frozen.discard(member)
        self.running[member].resume()

    def _grow(self) -> None:
        self.partitions += 2
        self.take.admin(f"set-partitions {self.take.topic} {self.partitions}")

    def _delete(self) -> None:
        """Delete the second topic, which some may read, and create it again later."""
        self.take.admin(f"delete-topic {self.take.topic}-b")
        time.sleep(self.chance.choice((0.5, 6.0)))
        self.take.admin(f"create-topic {self.take.topic}-b 2")

    def _add_connector(self) -> None:
        self.connectors += 1
        name, tasks = f"files-{self.connectors}", self.chance.choice((1, 2, 3))
        self._ask_worker(lambda worker: worker.create(name, self.take.topic, tasks))

    def _drop_connector(self) -> None:
        name = f"files-{self.connectors}"
        self.connectors -= 1
        self._ask_worker(lambda worker: worker.delete(name))

    def _ask_worker(self, request: Callable[[Worker], None]) -> None:
        """Ask a worker that runs in the background: it answers late while its leader is frozen."""
        live = [each for each in self.running if each not in self.frozen]
        if live:
            worker = self.workers[self.chance.choice(live)]
            Thread(target=_try_request, args=(request, worker), daemon=True).start()

    def _remove(self) -> None:
        self.take.lab.admin.send(f"remove-members {self.take.group}")

    def _bounce(self) -> None:
        broker = self.chance.choice(self.take.lab.cluster.brokers)
        is_alone = self.family.brokers == 1
        broker.stop() if is_alone or self.chance.random() < 0.5 else broker.kill()
        time.sleep(self.chance.choice((0.5, 4.0) if is_alone else (4.0, 12.0)))
        broker.restart()

    def _inject(self) -> None:
        fault = self.chance.choice(_FAULTS[self.family.protocol])
        self.take.lab.proxy.fail_next(*fault)

    def _list_actions(self) -> list[tuple[str, str]]:
        found = [("grow", "")] if self.partitions < 8 else []
        found += [("remove", "")] if self.family.is_static else []
        has_delete = self.family.protocol in _FAULTS and self.family.consumers == 1
        found += [("delete", "")] if has_delete else []
        if self.family.protocol == "connect":
            found += [("drop" if self.connectors > 1 else "add", "")] * 3
        if self.family.brokers > 1:
            found += [("bounce", "")] * 4
        if self.family.has_outages:
            turns = [each.action for each in self.steps if each.action in {"hold", "release"}]
            found += [("release" if turns[-1:] == ["hold"] else "hold", "")] * 3 + [("bounce", "")]
        for member in self.versions:
            if member in self.frozen:
                found += [("resume", member)] * 2
            elif member not in self.running:
                found += [("start", member)] * 3
            else:
                ends = ("close", "close", "kill", "freeze")
                if self.family.consumers > 1:
                    found += self._list_of_consumers(member)
                found += [(each, member) for each in (*ends, *self._list_commands(member))]
        return found

    def _list_of_consumers(self, process: str) -> list[tuple[str, str]]:
        """Return what one consumer of a process can do alone."""
        both = f"subscribe {self.take.topic} {self.take.topic}-b"
        actions = ("stall 11000", "stall 11000", "close", "open", both)
        number = self.chance.randint(1, self.family.consumers)
        return [(action, f"{process}.{number}") for action in actions]

    def _list_commands(self, member: str) -> list[str]:
        """Return what the member's driver can do; the lab has one for Java's consumers."""
        version, topic = self.versions[member], self.take.topic
        if self.family.consumers > 1 or ":" in version or self.family.protocol not in _FAULTS:
            return []
        both = f"subscribe {topic} {topic}-b"
        found = ["stall 4000", "stall 11000", both, f"subscribe {topic}", "unsubscribe"]
        has_enforce = self.family.protocol == "classic" and version >= "2.6"
        found += ["enforce because"] if has_enforce else []
        return found + (["fault"] if self._is_remote(member) else [])

    def _is_remote(self, member: str) -> bool:
        """Whether the proxy with errors stands before the member."""
        has_faults = self.family.protocol in _FAULTS and self.family.brokers == 1
        has_faults = has_faults and not self.family.has_one_client_id  # it has another address
        return has_faults and member in {"m2", "m4"}

    def _start(self, member: str) -> None:
        before = self.ending.pop(member, None)
        if before is not None and before.is_running:
            before.wait(60.0)  # two processes would share one log
        version, folder = self.versions[member], self.take.folder / member
        take = replace(self.take, version=version.rpartition(":")[2], folder=folder)
        if self.family.consumers > 1:
            own = {**self.family.settings, **self._name(member)}
            self.running[member] = take.several(own, has_threads=self.has_threads)
        else:
            self.running[member] = self._open(take, member, version.rpartition(":")[0])

    def _open(self, take: Take, member: str, library: str) -> Driver:
        settings = {**self.family.settings, **self.chance.choice(self.family.choices)}
        settings |= {"group.instance.id": f"i-{member}"} if self.family.is_static else {}
        client_id = _SHARED_ID if self.family.has_one_client_id else member
        if library in {"franz", "sarama"}:
            start: Callable[..., Driver] = take.franz if library == "franz" else take.sarama
            return start(client_id)
        if library:
            return take.python(library, client_id, **_PYTHON.get(library, {}))
        if self.family.protocol == "streams":
            return take.streams(member, settings)
        if self.family.protocol == "share":
            return take.share(member, settings)
        if self.family.protocol == "connect":
            self.workers[member] = take.worker(member)
            return self.workers[member].driver
        remote = {"bootstrap.servers": take.lab.proxy.address} if self._is_remote(member) else {}
        return take.consumer(client_id, settings | remote | {"max.poll.interval.ms": "8000"})

    def _name(self, process: str) -> dict[str, str]:
        """Return the names of a process's consumers."""
        found = {"driver.count": str(self.family.consumers), "max.poll.interval.ms": "8000"}
        if self.family.has_one_client_id:
            found["client.id"] = _SHARED_ID
        for number in range(1, self.family.consumers + 1):
            own = f"driver.{number}."
            if self.family.is_static:
                found[f"{own}group.instance.id"] = f"i-{process}.{number}"
            if not self.family.has_one_client_id and not self.family.has_default_ids:
                found[f"{own}client.id"] = f"{process}.{number}"
            if number > 1 and self.family.groups > 1:
                found[f"{own}group.id"] = f"{self.take.group}{_SECOND}"
        return found


_SECOND = "-two"
"""Behind the name of a second group."""


def _try_request(request: Callable[[Worker], None], worker: Worker) -> None:
    """Let a request fail: its worker may rebalance, or may have ended."""
    with suppress(OSError):
        request(worker)


_PYTHON = {"confluent-kafka": {"debug": "cgrp", "partition_assignment_strategy": "range"}}


class Incident(NamedTuple):
    """What is compared of an incident. ``at`` is seconds since the first step."""

    kind: str
    members: tuple[str, ...]
    at: float
    rebalances: int
    unread: float | None
    """Partition-seconds; None: the source shows no partitions."""

    def __str__(self) -> str:
        cost = "" if self.unread is None else f" unread={self.unread:.1f}"
        return f"{self.at:.1f} {self.kind} {','.join(self.members)} n={self.rebalances}{cost}"


def compare(by_wire: Sequence[Incident], by_other: Iterable[Incident]) -> list[str]:
    """Return the differences of another source, one line each."""
    left, found = list(by_wire), list[str]()
    for each in by_other:
        alike = [known for known in left if _is_same(known, each)]
        if not alike:
            found.append(f"+ {each}")
            continue
        left.remove(alike[0])
        if alike[0].rebalances != each.rebalances or not _costs_as_much(alike[0], each):
            found.append(f"~ {each}")
    return found + [f"- {each}" for each in left]


def _is_same(one: Incident, other: Incident) -> bool:
    is_near = abs(one.at - other.at) < _SAME_S
    return is_near and (one.kind, one.members) == (other.kind, other.members)


def _costs_as_much(one: Incident, other: Incident) -> bool:
    if one.unread is None or other.unread is None:
        return True
    return abs(one.unread - other.unread) <= max(1.0, 0.25 * one.unread)


def read_names(wire: Path) -> dict[str, str]:
    """Return names by member id and instance id: a broker's log may show these alone.

    They are client ids, and for replicas the folders whose logs show the member ids.
    """
    names = {f"i-m{number}": f"m{number}" for number in range(1, 5)}
    processes = _read_processes(wire.parent)
    names |= processes
    for log in () if processes else wire.parent.glob(f"m?/{_SHARED_ID}.log"):
        lines = _replay("logs", [log]).splitlines()
        ids = {json.loads(line).get("member_id") for line in lines} - {None}
        names |= dict.fromkeys(ids, log.parent.name)
    for line in _replay("pcap", [wire]).splitlines():
        record = json.loads(line)
        for name in (record.get("member_id"), record.get("group_instance_id")):
            if name and record["client_id"]:
                names.setdefault(name, record["client_id"])
    return names


def _read_processes(folder: Path) -> dict[str, str]:
    """Return `PROCESS.NUMBER` by member id and instance id, as the processes have noted them."""
    names: dict[str, str] = {}
    for path in folder.glob("m?/app.members"):
        for number, member_id in map(str.split, path.read_text().splitlines()):
            name = f"{path.parent.name}.{number}"
            names |= {member_id: name, f"i-{name}": name}
    return names


def _replay(source: str, files: Sequence[Path]) -> bytes:
    flags = ("--source", source, "--timezone", "UTC", "--signals")
    replay: list[str | Path] = [_CLI, "replay", *flags, *files]
    return subprocess.run(replay, capture_output=True, check=True).stdout


def read_incidents(
    source: str,
    files: Sequence[Path],
    group: str,
    since: float,
    names: Mapping[str, str] | None = None,
) -> list[Incident]:
    """Return the incidents that a source names; ``names`` are client ids by other ids."""
    chosen = ("--from", "-", "--last", "1000", "--output", "json")
    explain: list[str | Path] = [_CLI, "explain", group, *chosen]
    records = _replay(source, files)
    answer = subprocess.run(explain, input=records, capture_output=True, check=False)
    documents = [json.loads(line) for line in answer.stdout.splitlines()]
    return [_read(each, since, names or {}) for found in documents for each in found["incidents"]]


def _read(incident: Mapping[str, Any], since: float, names: Mapping[str, str]) -> Incident:
    begin = datetime.fromisoformat(incident["started_at"]).timestamp()
    own = {
        names.get(member["member_id"]) or member["client_id"] or member["group_instance_id"]
        for member in incident["members"]
    }
    return Incident(
        kind=incident["kind"],
        members=tuple(sorted({_THREAD.sub("", names.get(name, name)) for name in own})),
        at=begin - since,
        rebalances=len(incident["rebalances"]),
        unread=incident["cost"]["unread_partition_seconds"],
    )


_THREAD = re.compile(r"-StreamThread-\d+(-consumer)?$")


def _record(lab: Lab, folder: Path, family: Family, seed: int, steps: int) -> None:
    """Play one group, and print the sources' differences."""
    part = folder / f"{family.name}-{seed}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    take = Take(
        lab=lab,
        clients=Clients(lab.cluster.bootstrap, part / "clients", lab.cache),
        folder=part,
        version="",
        group=f"g-{family.name}-{seed}-{time.time():.0f}",
    )
    chance = random.Random(seed)
    group = RandomGroup(family=family, take=take, chance=chance, has_threads=seed % 2 == 1)
    group.choose_versions()
    lab.admin.do(f"create-topic {take.topic} 4")
    lab.admin.do(f"create-topic {take.topic}-b 2")
    skipped = {broker.log: broker.log.stat().st_size for broker in lab.cluster.brokers}
    numbers = [lab.proxy.port, *(broker.node.port for broker in lab.cluster.brokers)]
    ports = " or ".join(f"tcp port {number}" for number in numbers)
    flags = ("-i", "lo", "-s", "0", "-U", "-B", "32768")
    dump: list[str | Path] = ["tcpdump", *flags, "-w", part / "wire.pcap", ports]
    with subprocess.Popen(dump, stderr=subprocess.DEVNULL) as capture:
        time.sleep(1.0)
        try:
            group.play(steps)
        finally:
            for client in take.started:
                client.kill()
            capture.terminate()
    for number, (path, size) in enumerate(skipped.items()):
        (part / f"server{number or ''}.log").write_bytes(path.read_bytes()[size:])
    _print(group, part)


def _print(group: RandomGroup, part: Path) -> None:
    begin = group.steps[0].at
    click.echo(f"\n{part.name}: {group.versions}")
    for step in group.steps:
        click.echo(f"  {step.at - begin:6.1f} {step.member} {step.action}")
    logs = sorted((*part.glob("m?/*.log"), *part.glob("clients/m?.log")))  # the latter are Streams
    wire = part / "wire.pcap"
    inputs = {
        "pcap": [wire],
        "logs,pcap": [*logs, wire],
        "logs": logs,
        "broker_log": sorted(part.glob("server*.log")),
    }
    names = read_names(wire)
    own = [group.take.group, f"{group.take.group}{_SECOND}"][: group.family.groups]
    (part / "story.json").write_text(json.dumps({"begin": begin, "groups": own}))
    for name in own:
        _print_group(name, inputs, begin, names)


def _print_group(
    group: str, inputs: Mapping[str, Sequence[Path]], begin: float, names: Mapping[str, str]
) -> None:
    click.echo(f"  {group}")
    found = {
        source: read_incidents(source, files, group, begin, names)
        for source, files in inputs.items()
    }
    for each in found["pcap"]:
        click.echo(f"  pcap: {each}")
    for source in ("logs,pcap", "logs", "broker_log"):
        for line in compare(found["pcap"], found[source]) or ["as pcap"]:
            click.echo(f"  {source}: {line}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.system.random_groups")
    parser.add_argument("--minutes", type=float, default=20.0, help="no group begins later")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first group")
    parser.add_argument("--steps", type=int, default=9, help="random steps of each group")
    parser.add_argument("--moving", action="store_true", help="three brokers that stop and die")
    parser.add_argument("--replicas", action="store_true", help="members with one client id")
    parser.add_argument("--several", action="store_true", help="three consumers a process")
    names = [family.name for family in (*FAMILIES, *MOVING, *REPLICAS, *SEVERAL)]
    parser.add_argument("--family", action="append", choices=names, help="one of these alone")
    parser.add_argument("--keep", type=Path, help="a folder for the recordings")
    arguments = parser.parse_args()
    kinds = MOVING if arguments.moving else REPLICAS if arguments.replicas else FAMILIES
    kinds = SEVERAL if arguments.several else kinds
    families = [each for each in kinds if each.name in (arguments.family or names)]
    if not families:
        parser.error("that family is of another kind: with or without --moving or --replicas")
    until = time.monotonic() + 60.0 * arguments.minutes
    with tempfile.TemporaryDirectory(prefix="random-groups-") as name:
        folder = Path(name)
        with hurried_lab(folder / "lab", default_cache(), families[0].brokers) as lab:
            warm(lab, folder / "warm")
            seed = arguments.seed
            while time.monotonic() < until:
                family = families[seed % len(families)]
                _record(lab, arguments.keep or folder / "groups", family, seed, arguments.steps)
                seed += 1


if __name__ == "__main__":
    main()
