"""What ``spark-submit`` runs: the commands of the wheel, here ``ingest`` and ``report``."""  # noqa: INP001 - a script

from agent.cli import main

if __name__ == "__main__":
    main()
