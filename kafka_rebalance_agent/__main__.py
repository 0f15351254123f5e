"""The script ``rebalance-agent``, and ``python -m kafka_rebalance_agent``."""

from kafka_rebalance_agent import enter


def main() -> None:
    """Run the command line."""
    enter()
    from agent.cli import main as commands  # noqa: PLC0415 - only now it is ours

    commands(prog_name="rebalance-agent")


if __name__ == "__main__":
    main()
