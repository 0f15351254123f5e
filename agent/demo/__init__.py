"""The demo: real clients that rebalance, observed by a real agent."""
