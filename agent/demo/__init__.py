"""What ``rebalance-agent demo`` shows: real clients that rebalance, observed by a real agent."""
