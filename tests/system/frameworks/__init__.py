"""Programs of real frameworks with default logging, beside the packets of the same run."""
