"""Extras of the package: a missing one becomes an error that names the command to install it."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec

from agent.errors import ConfigError


@contextlib.contextmanager
def require_extra(name: str, purpose: str) -> Iterator[None]:
    """Turn an import that fails into an error; ``purpose`` is the section or command.

    Raises:
        ConfigError: an import within the block failed.

    """
    try:
        yield
    except ImportError as error:
        advice = f"install the extra {name!r}: {_command([name])}"
        raise ConfigError(f"{purpose}: {error}; {advice}") from error


def check_extras(extras: Mapping[str, str], purpose: str) -> None:
    """Check, without an import, that a package of each extra is installed.

    Args:
        extras: An extra to a package that it brings.
        purpose: What needs them, for the error.

    Raises:
        ConfigError: packages are missing; the command installs all extras at once.

    """
    missing = [package for package in extras.values() if find_spec(package) is None]
    if missing:
        names = ", ".join(missing)
        raise ConfigError(f"{purpose}: not installed: {names}; {_command(extras)}")


def _command(extras: Iterable[str]) -> str:
    return f"pip install 'kafka-rebalance-agent[{','.join(extras)}]'"
