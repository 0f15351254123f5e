"""The program of ``spark-submit``: the wheel's commands, here ``ingest`` and ``report``."""  # noqa: INP001 - a script

from kafka_rebalance_agent.__main__ import main

if __name__ == "__main__":
    main()
