"""A module of ours as a child process, as ``python -m`` would run it."""

import runpy
import sys

from kafka_rebalance_agent import enter

CHILD = (sys.executable, "-P", "-m", "kafka_rebalance_agent.child")
"""Starts a child; the module's name and its arguments come behind."""


def main() -> None:
    """Run the module that the first argument names, with the arguments behind it."""
    enter()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
