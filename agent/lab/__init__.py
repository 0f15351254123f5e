"""Real brokers and real Java clients on this machine, for the demo and the system tests."""
