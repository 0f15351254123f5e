"""The system tests' broker, for what wants a real one."""

from tests.system.conftest import cache

__all__ = ["cache"]
