"""Files that grow: rotation, positions, pieces."""
