"""The one name that the wheel installs: ``agent``, ``aggregation`` and ``metrics`` lie below it.

Theory of operation. Our packages import each other by these three names, which are common: an
application has a ``metrics`` of its own on ``PYTHONPATH``, in its working directory or beside us.
So the wheel installs none of the three at the top. `enter` puts a finder before all others, which
knows the three names and no other: in this process they are ours, in the application's they stay
its own. In a checkout they lie beside this folder.

A process that is to run our code enters first: the script and ``python -m kafka_rebalance_agent``,
children (``kafka_rebalance_agent.child``), and Spark's Python workers
(``kafka_rebalance_agent.worker``).
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

PACKAGES = ("agent", "aggregation", "metrics")

_HERE: str = __path__[0]
_PLACES = (_HERE, os.path.dirname(_HERE))  # noqa: PTH120 - pathlib takes 3 ms of each start
"""The wheel's place, which may be in a zip, and a checkout's."""


class _Finder:
    """Finds our packages at their own place, wherever else their names may be."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path
        return PathFinder.find_spec(name, _PLACES, target) if name in PACKAGES else None


def enter() -> None:
    """Make the three names ours in this process; others that were imported before give way."""
    if _Finder in sys.meta_path:
        return
    for name in PACKAGES:
        if name in sys.modules and not _is_ours(sys.modules[name]):
            for each in [each for each in sys.modules if f"{each}.".startswith(f"{name}.")]:
                del sys.modules[each]
    sys.meta_path.insert(0, _Finder)


def _is_ours(module: ModuleType) -> bool:
    spec = _Finder.find_spec(module.__name__)
    return spec is not None and spec.origin == getattr(module, "__file__", None)
