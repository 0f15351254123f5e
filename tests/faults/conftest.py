"""The system tests' broker, for tests that need a real one."""

from tests.system.conftest import cache

__all__ = ["cache"]
