"""Child processes of ours: start, watch and end them."""
