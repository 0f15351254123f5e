"""`make corpus`: record the dialects' golden logs again, from the real clients of versions.yaml."""

import argparse
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import yaml

from agent.lab.artifacts import default_cache
from agent.lab.broker import Cluster
from agent.lab.clients import Clients
from agent.lab.lab import Lab
from agent.lab.proxy import FaultProxy
from tests.system.corpus.scenes import SCENES
from tests.system.corpus.take import Take

_HERE = Path(__file__).parent
_GOLDEN = _HERE.parents[1] / "golden" / "dialects"
_STAMP = re.compile(
    r"(?:\[sarama\] |\[)?(\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d[.,]\d+)|%\d\|(\d+\.\d+)"
)


_HURRIED = {
    f"group.{kind}.{setting}": value
    for kind in ("share", "streams")
    for setting, value in (
        ("min.session.timeout.ms", "3000"),
        ("session.timeout.ms", "6000"),
        ("min.heartbeat.interval.ms", "1000"),
        ("heartbeat.interval.ms", "1000"),
    )
} | {"group.streams.initial.rebalance.delay.ms": "300"}


class Plan(NamedTuple):
    """The recordings for one dialect's golden folder."""

    dialect: str
    title: str
    keep: re.Pattern[str]
    merge: bool
    """Whether the clients' lines are merged by time; else the logs follow each other."""
    takes: list[tuple[str, str]]
    """Version and scene."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.system.corpus", description=__doc__)
    parser.add_argument("dialect", nargs="*", help="record these alone (default: all)")
    parser.add_argument(
        "--keep",
        type=Path,
        help="a folder for the whole logs; a scene whose logs are there is not played again",
    )
    parser.add_argument("--golden", type=Path, default=_GOLDEN, help="where the folders are")
    arguments = parser.parse_args()
    plans = [
        _plan(name, entry)
        for name, entry in yaml.safe_load((_HERE / "versions.yaml").read_text()).items()
        if not arguments.dialect or name in arguments.dialect
    ]
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        logs = arguments.keep or Path(folder) / "logs"
        with hurried_lab(Path(folder) / "lab", default_cache()) as lab:
            warm(lab, Path(folder) / "warm")
            for plan in plans:
                _record(plan, lab, logs, arguments.golden / plan.dialect)


@contextmanager
def hurried_lab(folder: Path, cache: Path, brokers: int = 1) -> Iterator[Lab]:
    """Open a lab with short sessions and quick heartbeats for all types of groups.

    The proxy with errors stands before the first broker alone.
    """
    with (
        FaultProxy() as proxy,
        Cluster(
            folder,
            cache,
            brokers=brokers,
            proxy_port=proxy.port if brokers == 1 else None,
            extra=lambda _: _HURRIED,
        ) as cluster,
        Clients(cluster.bootstrap, folder / "admin", cache) as operators,
    ):
        proxy.upstream = cluster.brokers[0].node.proxied_port
        yield Lab(cluster=cluster, proxy=proxy, admin=operators.admin(), cache=cache)


def _plan(name: str, entry: dict[str, Any]) -> Plan:
    takes = [tuple(str(take).split()) for take in entry["takes"]]
    return Plan(
        dialect=name,
        title=entry["title"],
        keep=re.compile(entry["keep"]),
        merge=entry.get("merge", True),
        takes=[(version, scene) for version, scene in takes],
    )


def warm(lab: Lab, folder: Path) -> None:
    """Have the coordinator loaded: the first group of all would see it load (9)."""
    lab.admin.do("create-topic warm 1")
    with lab.clients(folder) as clients:
        clients.consumer("4.3.0", "warm", "warm", ["warm"]).wait_for("assigned")


def _record(plan: Plan, lab: Lab, logs: Path, golden: Path) -> None:
    """Write the folder once all takes are there, so that a failure leaves the old one."""
    lines: list[str] = []
    for version, scene in plan.takes:
        click.echo(f"{time.strftime('%H:%M:%S')} {plan.dialect}: {version} {scene}")
        folder = logs / f"{version}-{scene}"
        if not folder.exists():
            _play(lab, version, scene, folder)
        found = sorted(folder.glob("*.log"))
        groups = [found] if plan.merge else [[log] for log in found]
        for group in groups:
            lines += _merged(group, plan.keep)
    golden.mkdir(parents=True, exist_ok=True)
    (golden / "input.log").write_text("".join(f"{line}\n" for line in lines))
    (golden / "README.md").write_text(_readme(plan))


def _play(lab: Lab, version: str, scene: str, folder: Path) -> None:
    """Play a scene; its folder is there once it is whole, however the recorder ends."""
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    take = Take(
        lab=lab,
        clients=Clients(lab.cluster.bootstrap, part, lab.cache),
        folder=part,
        version=version,
        group=f"g-{scene}-{version}",
    )
    lab.admin.do(f"create-topic {take.topic} 4")
    try:
        SCENES[scene](take)
    finally:
        for client in take.started:
            client.kill()
    part.rename(folder)


def _merged(logs: Iterable[Path], keep: re.Pattern[str]) -> list[str]:
    """Return the entries that are kept, by time; lines without a time go with their entry."""
    entries: list[tuple[str, list[str]]] = []
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            stamp = _STAMP.match(line)
            if stamp is not None:
                entries.append((stamp[1] or stamp[2], [line]))
            elif entries:
                entries[-1][1].append(line)
    kept = sorted((entry for entry in entries if keep.search(entry[1][0])), key=lambda e: e[0])
    return [line for _, lines in kept for line in lines]


def _readme(plan: Plan) -> str:
    takes = "".join(
        f"- {version}, group `g-{scene}-{version}`: {_got(scene)}\n"
        for version, scene in plan.takes
    )
    return _README.format(
        title=plan.title,
        date=time.strftime("%Y-%m-%d"),
        takes=takes,
        order="their lines were merged by time" if plan.merge else "their logs follow each other",
    )


def _got(scene: str) -> str:
    return " ".join((SCENES[scene].__doc__ or "").split())


_README = """\
# {title}

Recorded on {date} by `make corpus` (`tests/system/corpus`), against a Kafka broker of the lab:

{takes}
Several clients share the file: {order}. Lines that no rule is about (configuration,
positions, metrics) are left out; nothing in a line was changed. `expected.jsonl` is one signal a
line, as the interpreter gives them (`pytest --update-golden` writes it): check it against what each
client was told to do.
"""

if __name__ == "__main__":
    main()
