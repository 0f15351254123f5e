"""The script ``rebalance-agent``, and ``python -m kafka_rebalance_agent``."""

import sys

from kafka_rebalance_agent import enter

_EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command line; Ctrl-C ends it as a shell expects, while it is imported, too."""
    try:
        enter()
        from agent.cli import main as commands  # noqa: PLC0415 - only now it is ours

        commands(prog_name="rebalance-agent")
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
