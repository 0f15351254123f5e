"""The runner of all benchmarks; it writes their output with machine and versions to the docs page.

A figure is the output of its own script, with its spread, unchanged (`docs/benchmarks.md`). A named
benchmark replaces its own section, so that one can be repeated alone.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
TITLES = {
    "startup": "Start-up",
    "log_tail": "Log tail, beside mtail and grep",
    "footprint": "Footprint of an idle sidecar",
    "capture": "Capture",
    "proxy": "Proxy, beside HAProxy",
    "scrape": "Scrape",
    "pages": "Pages",
    "inspection": "Inspection",
    "hub": "Hub",
    "incidents": "Root causes and incidents",
    "ingest": "Ingest",
    "report": "Report",
    "report_year": "Report: a year",
    "report_day": "Report: a new day",
}
"""In the page's order; one that has no script is left out."""
_PACKAGES = ("kafka-rebalance-agent", "msgspec", "prometheus-client", "uvicorn", "kio", "pyspark")
_SECTION = re.compile(
    r"^## [^\n]*\n\n`benchmarks/(\w+)\.py.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL
)
_INTRO = """\
# Benchmarks

Written by `make bench` (`benchmarks/page.py`): what each script printed at its last run, as it
stands. Every ratio is to a peer that was measured in the same run, round by round. `missed` says
that a script's own limit was not met in that run. Absolute figures are this machine's; `load` is
its load when the run began, and on a loaded machine only ratios and CPU times say something.
"""


def machine() -> str:
    """Return the machine and versions behind the figures, in one line."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cpu = found[1] if found else platform.machine()
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{os.cpu_count()} cores ({cpu}), {memory_gib:.0f} GiB, Linux {platform.release()},"
        f" Python {platform.python_version()}; {packages}"
    )


def section(name: str, *, short: bool) -> str:
    """Run a benchmark and return its part of the page; some have no short form."""
    has_short = '"--short"' in (HERE / f"{name}.py").read_text()
    arguments = ["--short"] if short and has_short else []
    began, load = datetime.now(UTC), os.getloadavg()[0]
    print(f"{name} ...", file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, HERE / f"{name}.py", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        sys.exit(f"{name}: exit code {done.returncode}")
    state = "met" if done.returncode == 0 else "missed"
    called = " ".join([f"benchmarks/{name}.py", *arguments])
    when = f"{began:%Y-%m-%d %H:%M} UTC, load {load:.1f}"
    return (
        f"## {TITLES[name]}\n\n`{called}`: {state}. {when}.\n\n"
        f"{machine()}\n\n```text\n{done.stdout.strip()}\n```"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--short", action="store_true", help="each in its short form, if it has one"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help=f"instead of {PAGE.name}")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TITLES)}")
    chosen = parser.parse_args()
    known = [name for name in TITLES if (HERE / f"{name}.py").exists()]
    if unknown := set(chosen.names) - set(known):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    text = chosen.page.read_text() if chosen.page.exists() else ""
    sections = {match[1]: match[0].strip() for match in _SECTION.finditer(text)}
    for name in chosen.names or known:
        sections[name] = section(name, short=chosen.short)
        written = (sections[each] for each in known if each in sections)
        chosen.page.write_text("\n\n".join([_INTRO.strip(), *written]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
