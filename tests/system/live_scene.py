"""A group of real consumers behind an agent's proxy, checked once a second in every view.

The truth comes from the consumers' own callbacks; the agent sees only what goes over the wire.
"""

import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from threading import Thread
from typing import NamedTuple, Self, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from agent.cli.explain import as_text
from agent.client.api_client import ask
from agent.lab.artifacts import BROKER_VERSION
from agent.lab.lab import Lab
from agent.processes.ports import HOST, free_port
from aggregation.explain.explanation import Explanation
from aggregation.incidents.answers import IncidentAnswer
from tests.system.corpus.programs import member_command
from tests.system.observer import Observer
from tests.system.repeated_looks import RepeatedLooks

_SCRIPT = Path(__file__).parent / "librdkafka_member.py"
_WITHIN_S = 120.0
_EVERY_S = 1.0
PARTITIONS = 6
_numbers = count(1)
_T = TypeVar("_T")
LAG_S = 2.5
"""The agent looks once a second, and a request takes a while on a busy machine."""
OF_THE_BROKER = {"session.timeout.ms", "heartbeat.interval.ms"}
"""Settings that members of the new protocol have from the broker."""
QUICK = {
    "session.timeout.ms": "4000",
    "heartbeat.interval.ms": "500",
    "max.poll.interval.ms": "4000",
    "topic.metadata.refresh.interval.ms": "1000",
    "auto.offset.reset": "earliest",
    "debug": "cgrp",  # its log shows why it leaves, which the wire does not
}
QUICK_JAVA = {
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "500",
    "metadata.max.age.ms": "3000",
    "auto.offset.reset": "earliest",
}
NEW_PROTOCOL = {key: value for key, value in QUICK.items() if key not in OF_THE_BROKER} | {
    "debug": "cgrp,consumer"  # `consumer` has the answers that fence a member
}

Ongoing = frozenset[tuple[str, frozenset[str]]]
"""Kinds of what goes on, and whose doing each is."""
NOTHING: Ongoing = frozenset()


def going(kind: str, *members: str) -> Ongoing:
    """Return one incident that goes on."""
    return frozenset({(kind, frozenset(members))})


class Happening(NamedTuple):
    """An event of a member. ``at`` is Unix seconds."""

    at: float
    member: str
    what: str
    partitions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The true state of the group between two instants (Unix seconds)."""

    name: str
    start: float
    end: float
    ongoing: Ongoing
    status: int | None = None
    """The group's highest status; None: it changes."""
    waiting: frozenset[str] | None = None
    """Members that have not joined; None: it changes."""
    last: tuple[str, frozenset[str]] | None = None
    """Kind and members of the latest incident; None: it is not checked."""
    on_the_way: frozenset[Ongoing] = frozenset()
    """What may go on between the phase before and this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The contents of all views, read between two instants (Unix seconds)."""

    start: float
    end: float
    incidents: list[IncidentAnswer]
    explained: Explanation | None
    text: str
    page: str
    metrics: dict[tuple[str, str], float]
    """The group's metrics, by name and by the label that distinguishes its series."""


class MemberProcess:
    """A consumer's process, and all its events so far."""

    def __init__(self, name: str, command: list[str], log: Path, happened: list[Happening]) -> None:
        self.name, self._happened = name, happened
        with log.open("a") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                bufsize=1,
            )
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, command: str) -> float:
        """Send a command; return when (Unix seconds)."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        return time.time()

    def kill(self) -> float:
        """End the process without a farewell; return when (Unix seconds)."""
        at = time.time()
        self._process.kill()
        self._end()
        return at

    def freeze(self) -> float:
        """Stop the process by SIGSTOP; return when (Unix seconds)."""
        self._process.send_signal(SIGSTOP)
        return time.time()

    def thaw(self) -> float:
        """Let a frozen process go on; return when (Unix seconds)."""
        self._process.send_signal(SIGCONT)
        return time.time()

    def close(self) -> float:
        """Close the consumer and wait; return when it began (Unix seconds)."""
        at = self.send("close")
        self._end()
        return at

    def _end(self) -> None:
        self._process.wait(_WITHIN_S)
        self._thread.join(_WITHIN_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            what, at, *names = line.split()
            partitions = frozenset(map(int, names[0].split(","))) if names else frozenset[int]()
            self._happened.append(Happening(float(at), self.name, what, partitions))


class LiveGroup:
    """Members of one group, and their events."""

    def __init__(
        self, stack: ExitStack, logs: Path, bootstrap: str, group: str, topic: str
    ) -> None:
        self.group, self.topic = group, topic
        self.happened: list[Happening] = []
        self._stack, self._logs, self.bootstrap = stack, logs, bootstrap

    def start(self, name: str, **settings: str) -> MemberProcess:
        """Start a member; it joins by itself."""
        named = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "client.id": name}
        own = {key.replace("_", "."): value for key, value in settings.items()}
        kept = NEW_PROTOCOL if own.get("group.protocol") == "consumer" else QUICK
        arguments = [f"{key}={value}" for key, value in (named | kept | own).items()]
        return self._enter(
            name, [sys.executable, "-P", str(_SCRIPT), self.topic, *arguments], "log"
        )

    def start_java(self, name: str, cache: Path, settings: Mapping[str, str]) -> MemberProcess:
        """Start a member of Java's client; it joins by itself."""
        named = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "client.id": name}
        own = QUICK_JAVA | dict(settings) | named | {"driver.topics": self.topic}
        if own.get("group.protocol") == "consumer":
            own = {key: value for key, value in own.items() if key not in OF_THE_BROKER}
        command = member_command(BROKER_VERSION, self._logs / f"{name}.log", cache)
        return self._enter(name, [*map(str, command), *(f"{k}={v}" for k, v in own.items())], "err")

    def _enter(self, name: str, command: list[str], suffix: str) -> MemberProcess:
        log = self._logs / f"{name}.{suffix}"
        return self._stack.enter_context(MemberProcess(name, command, log, self.happened))

    def forget(self, member: str) -> None:
        """Forget the events of a process that was killed: the next one has its name."""
        self.happened[:] = [event for event in self.happened if event.member != member]

    def wait(self, what: str, member: str, since: float) -> Happening:
        """Return a member's first event of a kind at or after an instant, once it is there."""
        return until(lambda: self.find(what, member, since), f"{member} {what}")

    def find(self, what: str, member: str, since: float) -> Happening | None:
        found = (e for e in list(self.happened) if (e.what, e.member) == (what, member))
        return next((event for event in found if event.at >= since), None)

    def owners(self) -> dict[str, frozenset[int]]:
        """Return the partitions of each member, by its own callbacks."""
        owned: dict[str, frozenset[int]] = {}
        for event in sorted(self.happened):
            before = owned.get(event.member, frozenset())
            if event.what == "assigned":
                owned[event.member] = before | event.partitions
            elif event.what in {"revoked", "lost"}:
                owned[event.member] = before - event.partitions
            elif event.what == "closed":
                owned.pop(event.member, None)
        return owned

    def settle(self, names: Iterable[str], partitions: int) -> float:
        """Wait until these members read all partitions between them; return when they began."""
        wanted = set(names)

        def settled() -> float | None:
            owned = {name: parts for name, parts in self.owners().items() if name in wanted}
            whole = sum(map(len, owned.values())) == partitions == len(set().union(*owned.values()))
            if not (set(owned) == wanted and all(owned.values()) and whole):
                return None
            return max(e.at for e in self.happened if e.what == "assigned")

        return until(settled, f"all of {sorted(wanted)} read")


class Looker(RepeatedLooks[Look]):
    """Looks at a group's incidents, words, page and metrics, a second after the last look."""

    def __init__(self, url: str, group: str) -> None:
        super().__init__(self._look_once, _EVERY_S)
        self._url, self._group = url, group

    def wait_past(self, at: float) -> None:
        """Wait until it has looked after an instant (Unix seconds)."""
        until(lambda: (self.looks and self.looks[-1].start > at) or None, f"look after {at}")

    def _look_once(self) -> Look:
        start = time.time()
        incidents = ask(self._url, "incidents", list[IncidentAnswer], group=self._group)
        answers = ask(self._url, "explain", list[Explanation], group=self._group)
        query = urllib.parse.urlencode({"group": self._group})
        page = self._get(f"/group?{query}")
        metrics = self._get("/metrics")
        return Look(
            start=start,
            end=time.time(),
            incidents=incidents,
            explained=answers[0] if answers else None,
            text="\n".join(map(as_text, answers)),
            page=page,
            metrics=_of_group(metrics, self._group),
        )

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(self._url + path, timeout=_WITHIN_S) as answer:
            return str(answer.read().decode())


def _of_group(page: str, group: str) -> dict[tuple[str, str], float]:
    lines = "".join(
        line for line in page.splitlines(keepends=True) if line.startswith("kafka_group_")
    )
    return {
        (sample.name, sample.labels.get("kind", sample.labels.get("status", ""))): sample.value
        for family in text_string_to_metric_families(lines)
        for sample in family.samples
        if sample.labels.get("group") == group
    }


def until(look: Callable[[], _T | None], what: str) -> _T:
    """Wait until a look finds something, and return it."""
    deadline_s = time.monotonic() + _WITHIN_S
    while (found := look()) is None:
        assert time.monotonic() < deadline_s, f"no {what} within {_WITHIN_S} s"
        time.sleep(0.05)
    return found


def check(looks: list[Look], phases: list[Phase]) -> list[str]:
    """Return the faults of all views in all looks; each phase needs a look at least."""
    wrong: list[str] = []
    for phase in phases:
        inside = [
            look for look in looks if phase.start + LAG_S <= look.start and look.end <= phase.end
        ]
        wrong += [] if inside else [f"{phase.name}: nobody looked within {phase}"]
        wrong += [
            f"{phase.name} +{look.start - phase.start:.1f} s: {fault}"
            for look in inside
            for fault in _faults(look, phase)
        ]
    for before, after in pairwise(phases):
        wrong += [
            f"before {after.name} {look.start - after.start:+.1f} s: {fault}"
            for look in looks
            if before.end < look.end and look.start < after.start + LAG_S
            for fault in _faults_between(look, before, after)
        ]
    return wrong


def _faults_between(look: Look, before: Phase, after: Phase) -> Iterator[str]:
    """Yield the faults at the change of phases: a view may be a moment ahead or behind."""
    last = {frozenset({after.last})} if after.last is not None else set()
    allowed = {before.ongoing, after.ongoing, *after.on_the_way, *last}
    wanted = " or ".join(map(_show, allowed))
    explained = () if look.explained is None else look.explained.incidents
    for view, shown in (
        ("API", _ongoing(look.incidents)),
        ("explain --output json", _ongoing(explained)),
    ):
        if shown not in allowed:
            yield f"{view}: {_show(shown)}, wanted {wanted}"
    first = look.text.partition("\n")[0]
    if ("ongoing since" in first) != bool(_ongoing(explained)):
        yield f"explain: {first!r}, but its data: {_show(_ongoing(explained))}"
    card = _card(look)
    if not any(bool(card) == bool(each) and _names_all(card, each) for each in allowed):
        yield f"page: {card[:200]!r}, wanted {wanted}"
    kinds = _ongoing_kinds(look)
    if not any(kinds == Counter(kind for kind, _ in each) for each in allowed):
        yield f"metrics: ongoing {kinds}, wanted {wanted}"


def _names_all(text: str, ongoing: Ongoing) -> bool:
    """Check that a text names all members, or the first ones "and N more"."""
    most = _NAMES_MAX if " more" in text else sys.maxsize
    return all(
        sum(name in text for name in members) >= min(most, len(members)) for _, members in ongoing
    )


_NAMES_MAX = 3


def _card(look: Look) -> str:
    """Return the page's card of an ongoing incident; empty: it has none."""
    return look.page.partition('class="card going"')[2].partition("</article>")[0]


def _ongoing_kinds(look: Look) -> dict[str, int]:
    return {
        label: int(value)
        for (name, label), value in look.metrics.items()
        if name == "kafka_group_incident_ongoing" and value
    }


def _faults(look: Look, phase: Phase) -> Iterable[str]:
    wanted = _show(phase.ongoing)
    explained = () if look.explained is None else look.explained.incidents
    for view, shown in (
        ("API", _ongoing(look.incidents)),
        ("explain --output json", _ongoing(explained)),
    ):
        if shown != phase.ongoing:
            yield f"{view}: {_show(shown)}, wanted {wanted}"
    first = look.text.partition("\n")[0]
    is_said = ("ongoing since" in first) == bool(phase.ongoing)
    if not is_said or not _names_all(first, phase.ongoing):
        yield f"explain: {first!r}, wanted {wanted}"
    card = _card(look)
    if bool(card) != bool(phase.ongoing) or not _names_all(card, phase.ongoing):
        yield f"page: {card[:200]!r}, wanted {wanted}"
    yield from _metric_faults(look, phase)
    waits = (wait for each in look.incidents if each.ongoing for wait in each.waiting_for)
    waiting = {wait.client_id for wait in waits}
    last = [(each.kind, _names(each)) for each in look.incidents[:1]]
    if phase.last is not None and last != [phase.last]:
        yield f"API: last {last}, wanted {phase.last}"
    if phase.waiting is not None and waiting != phase.waiting:
        yield f"API: waiting for {waiting}, wanted {set(phase.waiting)}"


def _metric_faults(look: Look, phase: Phase) -> Iterable[str]:
    kinds = _ongoing_kinds(look)
    if kinds != Counter(kind for kind, _ in phase.ongoing):
        yield f"metrics: ongoing {kinds}, wanted {_show(phase.ongoing)}"
    status = look.metrics.get(("kafka_group_rebalance_status", ""))
    if phase.status is not None and status != phase.status:
        yield f"metrics: status {status}, wanted {phase.status}"


def _ongoing(incidents: Iterable[IncidentAnswer]) -> Ongoing:
    return frozenset((each.kind, _names(each)) for each in incidents if each.ongoing)


def _names(incident: IncidentAnswer) -> frozenset[str]:
    return frozenset(member.client_id for member in incident.members)


def _show(ongoing: Ongoing) -> str:
    return ", ".join(f"{kind} of {sorted(members)}" for kind, members in ongoing) or "nothing"


def unread_seconds(happened: list[Happening], stops: dict[str, float], since: float) -> float:
    """Return the time without a reader, summed over partitions, by the callbacks (seconds).

    ``stops`` are the times (Unix seconds) of departures without a callback, by member.
    """
    stopped = [Happening(at, name, "gone", frozenset()) for name, at in stops.items()]
    readers: dict[str, frozenset[int]] = {}
    lost_at: dict[int, float] = {}
    total = 0.0
    for event in sorted([*happened, *stopped]):
        before = readers.get(event.member, frozenset())
        if event.what == "assigned":
            after = before | event.partitions
        elif event.what in {"revoked", "lost"}:
            after = before - event.partitions
        elif event.what in {"closed", "gone"}:
            after = frozenset()
        else:
            continue
        readers[event.member] = after
        read = frozenset().union(*readers.values())
        for partition in before - read:
            lost_at.setdefault(partition, event.at)
        for partition in after & lost_at.keys():
            at = lost_at.pop(partition)
            total += event.at - at if at >= since else 0.0
    return total


def check_cost(last: Look, seconds: float, off: float) -> list[str]:
    """Return the faults of the cost in all views at the end; the true cost is ``seconds``."""
    costs = [each.cost.unread_partition_seconds or 0.0 for each in last.incidents]
    shown = sum(costs)
    wrong = [] if abs(shown - seconds) <= off else [f"unread: {shown:.1f}, wanted {seconds:.1f}"]
    if last.explained is not None:
        explained = [e.cost.unread_partition_seconds or 0.0 for e in last.explained.incidents]
        wrong += [] if explained[::-1] == costs else [f"explain: {explained}, API {costs}"]
    metric = last.metrics.get(("kafka_group_unread_partition_seconds_total", ""), 0.0)
    wrong += [] if abs(metric - shown) < 0.01 else [f"metrics: unread {metric}, API {shown}"]
    members = sum(each.cost.member_seconds for each in last.incidents)
    metric = last.metrics.get(("kafka_group_rebalance_member_seconds_total", ""), 0.0)
    wrong += [] if abs(metric - members) < 0.01 else [f"metrics: members {metric}, API {members}"]
    return wrong


@contextmanager
def live_group(lab: Lab, folder: Path) -> Iterator[tuple[LiveGroup, str]]:
    """Give a group behind a standalone agent's proxy, and the agent's address."""
    number = next(_numbers)
    topic, bootstrap = f"live-{number}", f"{HOST}:{free_port()}"
    lab.admin.do(f"create-topic {topic} {PARTITIONS}")
    logs = folder / "clients"
    proxy = f'{{type: proxy, listen: "{bootstrap}", upstream: ["{lab.cluster.bootstrap}"]}}'
    sources = f'{proxy}\n  - {{type: logs, paths: ["{logs}/*.log"]}}'
    with (
        Observer(logs, folder / "agent", sources, "standalone") as agent,
        ExitStack() as stack,
    ):
        agent.wait_ready()
        yield LiveGroup(stack, logs, bootstrap, f"live-{number}", topic), agent.url


def pass_by(at: float) -> None:
    """Wait until an instant (Unix seconds): members read meanwhile."""
    until(lambda: time.time() > at or None, f"the instant {at}")


def shown_after(url: str, group: LiveGroup, at: float) -> tuple[str, list[str]]:
    """Return kind and members of the latest incident, once nothing is ongoing after an instant."""

    def found() -> tuple[str, list[str]] | None:
        incidents = ask(url, "incidents", group=group.group)
        is_over = incidents and not any(each["ongoing"] for each in incidents)
        if not is_over or time.time() < at + LAG_S:
            return None
        (last, *_) = incidents
        return last["kind"], sorted({each["client_id"] for each in last["members"]})

    return until(found, "end of what is ongoing")
