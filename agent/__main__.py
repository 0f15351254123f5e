"""``python -P -m agent``."""

from agent.cli import main

main(prog_name="rebalance-agent")
