"""`rebalance-agent top` with the extra `top`: groups, members and incidents in a terminal."""
