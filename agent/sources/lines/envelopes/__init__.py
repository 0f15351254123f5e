"""What a collector puts around a line: its prefix, its stream, its time."""
