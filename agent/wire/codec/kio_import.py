"""An import of kio without its support for tests.

kio registers its types with hypothesis if that is installed. That takes 8 MiB and 0.1 s, and an
agent never uses it.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_HEAVY = "hypothesis"


@contextmanager
def without_hypothesis() -> Iterator[None]:
    """Hide hypothesis from imports inside this context, unless it is imported already."""
    if _HEAVY in sys.modules:
        yield
        return
    sys.modules[_HEAVY] = None  # type: ignore[assignment]  # the import system's mark of absence
    try:
        yield
    finally:
        del sys.modules[_HEAVY]
