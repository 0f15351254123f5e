"""Time of a start: `--version`, and `run` until it is ready, beside Python's own start.

Each round starts all three one after the other, so that load affects all alike. The targets are
medians on an idle machine: 0.15 s and 0.7 s. The CPU time is printed too, since it depends less on
other load.
"""

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

VERSION_MAX_S, READY_MAX_S = 0.15, 0.7
WITHIN_S = 60.0
CONFIG = """\
state_dir: {folder}/state
sources:
  - {{type: logs, paths: ["{folder}/app.log"]}}
web: {{listen: ["127.0.0.1:0"]}}
"""


class Took(NamedTuple):
    wall_s: float
    cpu_s: float


def of_command(*command: str | Path) -> Took:
    before, begun_s = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall_s, after = time.perf_counter() - begun_s, os.times()
    cpu_s = after.children_user + after.children_system
    return Took(wall_s, cpu_s - before.children_user - before.children_system)


def of_run(script: Path) -> Took:
    """Start an agent and ask until it is ready; end it."""
    with tempfile.TemporaryDirectory() as name:
        config = Path(name) / "agent.yaml"
        config.write_text(CONFIG.format(folder=name))
        begun_s = time.perf_counter()
        with subprocess.Popen(
            [script, "run", "-c", config], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            address = ""
            while "event=listening" not in address:
                address = process.stderr.readline()
            where = address.split("address=")[1].split()[0]
            while not is_ready(where):
                assert time.perf_counter() < begun_s + WITHIN_S, "never ready"
            wall_s = time.perf_counter() - begun_s
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            process.terminate()
    return Took(wall_s, (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))


def is_ready(where: str) -> bool:
    try:
        link = http.client.HTTPConnection(where, timeout=5)
        link.request("GET", "/-/ready")
        return link.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        link.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="3 rounds instead of 15")
    rounds = 3 if parser.parse_args().short else 15
    script = Path(sys.executable).with_name("rebalance-agent")
    python, version, ready = list[Took](), list[Took](), list[Took]()
    for _ in range(rounds):
        python.append(of_command(sys.executable, "-c", "pass"))
        version.append(of_command(script, "--version"))
        ready.append(of_run(script))
    for name, took, wanted_s in (
        ("python -c pass", python, None),
        ("--version", version, VERSION_MAX_S),
        ("run until ready", ready, READY_MAX_S),
    ):
        walls = sorted(each.wall_s for each in took)
        wanted = "" if wanted_s is None else f" (wanted: at most {wanted_s})"
        cpu_s = median(each.cpu_s for each in took)
        print(
            f"{name}: {median(walls):.3f} s, {walls[0]:.3f} to {walls[-1]:.3f},"
            f" CPU {cpu_s:.2f} s{wanted}"
        )
    for name, took in (("--version", version), ("run until ready", ready)):
        ratios = [ours.wall_s / bare.wall_s for ours, bare in zip(took, python, strict=True)]
        low, middle, high = min(ratios), median(ratios), max(ratios)
        print(f"{name} / python -c pass: {middle:.1f} ({low:.1f}-{high:.1f})")
    ok = median(t.wall_s for t in version) <= VERSION_MAX_S
    return 0 if ok and median(t.wall_s for t in ready) <= READY_MAX_S else 1


if __name__ == "__main__":
    sys.exit(main())
