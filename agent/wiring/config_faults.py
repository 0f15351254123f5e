"""All faults of a configuration file at once, and of the files that it names.

Theory of operation. A configuration is checked as a whole, and the check ends at its first fault.
The key of that fault is taken out and the rest is checked again, until nothing is wrong. A key that
is missed only since then is no fault of the file, so its section is taken out.
"""

import importlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.config.hub import read_token
from agent.errors import RebalanceAgentError
from agent.extras import require_extra
from agent.files import check_folder
from agent.web.server import check_listen
from agent.wiring.agent_config import AgentConfig, Overrides, build, read_document
from agent.wiring.hub import HubWiring
from agent.wiring.sources import make_sources
from agent.wiring.web import WebWiring

_KEY = re.compile(r"([a-z_]+)(?:\[(\d+)\])?(?:\.([a-z_]+))?")
_REQUIRED = ("sources",)
"""The key that each configuration needs."""
_SHOW_TOKEN = {("role",), ("hub", "push_to")}
"""Keys that show whether the hub's token is read."""
_MISSING = object()
MAX_FAULTS = 100
"""The check is repeated for each fault, and 30,000 wrong sources would take a day."""


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """A configuration, or its faults."""

    faults: Sequence[str]
    config: AgentConfig | None = None


def check_file(
    path: Path, overrides: Overrides | None = None, environ: Mapping[str, str] = os.environ
) -> CheckedConfig:
    """Check a configuration: one message for each fault of it, and of the files it names.

    The file is read once: one with 30,000 sources takes seconds.
    """
    overrides = overrides or Overrides()
    try:
        document, where = read_document(path, overrides, environ), f"{path}: "
    except RebalanceAgentError as error:
        return CheckedConfig([str(error)])
    faults, removed = list[str](), set[tuple[str, ...]]()
    while len(faults) < MAX_FAULTS:
        try:
            config = build(deepcopy(document), where)
        except RebalanceAgentError as error:
            text = str(error)
            key = _find_key(text.removeprefix(where))
            if key not in removed:
                faults.append(overrides.name_origin(text, where))
            if not _remove(document, key, removed):
                return CheckedConfig(faults)
        else:
            faults += _check_files(config, removed)
            return CheckedConfig(faults, config)
    return CheckedConfig([*faults, f"{path}: there may be more faults; correct these first"])


def _find_key(text: str) -> tuple[str, ...]:
    """Return the key that a message begins with: a section and its own, or a source."""
    match = _KEY.match(text)
    if match is None:
        return ()
    section, number, name = match.groups()
    return tuple(part for part in (section, number or name) if part)


def _remove(document: dict[str, Any], key: tuple[str, ...], removed: set[tuple[str, ...]]) -> bool:
    """Remove a key, or its section if that does not help; False: neither is there."""
    section = document.get(key[0]) if key else None
    if len(key) > 1 and key not in removed:
        removed.add(key)
        if isinstance(section, list):
            section[int(key[1])] = {"type": "logs", "paths": [f"/{key[1]}"]}
            return True
        if isinstance(section, dict) and key[1] in section:
            del section[key[1]]
            return True
    is_new = bool(key) and key[:1] not in removed
    removed |= {key, key[:1]}
    if key[:1] == _REQUIRED:
        document[key[0]] = [{"type": "logs", "paths": ["/"]}]
        return is_new
    return document.pop(key[0], _MISSING) is not _MISSING if key else False


def _check_files(config: AgentConfig, removed: AbstractSet[tuple[str, ...]]) -> Iterator[str]:
    """Yield the faults for which `run` would refuse the files that the configuration names.

    A hub's source and the push to a hub read the hub's token. It is also read if the key that
    would show them is ``removed``, as a fault of it must not hide one of the token.
    """
    each_source = [replace(config, sources=(source,)) for source in config.sources] or [config]
    checks: list[Callable[[], object]] = [
        *(partial(make_sources, each, {}) for each in each_source),
        lambda: WebWiring(config.web, Counter()),
        lambda: HubWiring(config, time.time),
        lambda: check_folder(config.state_dir, "state_dir"),
        lambda: check_folder(config.samples.spool.dir, "samples.spool.dir"),
        lambda: _check_hubs(config),
        lambda: read_token(config.hub.token_file if removed & _SHOW_TOKEN else None),
        lambda: _check_otlp(config),
        lambda: _check_kafka(config),
        *(partial(check_listen, address) for address in config.web.listen),
    ]
    found = list[str]()
    for check in checks:
        try:
            check()
        except RebalanceAgentError as error:
            found.append(str(error))
    yield from [*dict.fromkeys(found)][:MAX_FAULTS]  # the hub's token is also each source's


def _check_hubs(config: AgentConfig) -> None:
    if config.hub.push_to:
        from agent.outputs.hub_push.push import HubPush  # noqa: PLC0415 - only if configured

        for url in config.hub.push_to:
            HubPush(url, config.hub, config.samples.spool.dir)


def _check_otlp(config: AgentConfig) -> None:
    if config.otlp is not None:
        with require_extra("otel", "otlp"):
            from agent.outputs.otlp.senders import OtlpSender  # noqa: PLC0415 - an extra, and large
        OtlpSender(config.otlp).close()


def _check_kafka(config: AgentConfig) -> None:
    """Check what the output needs; it also opens the spool, so it is not built."""
    if config.samples.kafka is not None:
        with require_extra("kafka", "samples.kafka"):
            importlib.import_module("confluent_kafka")
        from agent.outputs.kafka.client_config import client_properties  # noqa: PLC0415 - an extra

        client_properties(config.samples.kafka.access(config.cluster.access))
