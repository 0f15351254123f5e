"""Group inspection: lists and describes every group of every type (KIP-40, KIP-1043)."""
