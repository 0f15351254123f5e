"""From a line to signals, stream by stream."""
