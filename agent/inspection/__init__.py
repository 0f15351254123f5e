"""Group inspection: asks the brokers for every group of every type (KIP-40, KIP-1043)."""
