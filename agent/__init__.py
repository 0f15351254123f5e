"""The edge: I/O, commands and configuration."""

VERSION = "0.1.0"
"""That of pyproject.toml: to ask the installed package costs a running agent 0.6 MiB."""
