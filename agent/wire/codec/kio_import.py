"""An import of kio without its support for tests.

kio registers its types with hypothesis wherever that is installed: 8 MiB and 0.1 s that an agent
never uses.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_HEAVY = "hypothesis"


@contextmanager
def without_hypothesis() -> Iterator[None]:
    """Let imports inside find no hypothesis, unless it is there already."""
    if _HEAVY in sys.modules:
        yield
        return
    sys.modules[_HEAVY] = None  # type: ignore[assignment]  # the import system's mark of absence
    try:
        yield
    finally:
        del sys.modules[_HEAVY]
