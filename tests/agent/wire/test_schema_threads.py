"""Sources decode in threads of their own, and inspection writes by the same schemas."""

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from kio.schema.index import api_key_map, schema_name_map

from agent.inspection.connection.admin_requests import Api, encode
from agent.wire.codec import schema
from agent.wire.codec.apis import APIS

THREADS = 4
VERSIONS = [(key, v) for key in APIS for v in schema_name_map[api_key_map[key]]]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def read_all() -> None:
    for api_key, version in VERSIONS:
        for layout in (schema.request_layout, schema.response_layout):
            assert layout.__wrapped__(api_key, version, ()) is not None


def ask_and_read() -> None:
    group = {"group_id": "g", "topics": None}
    for version in schema_name_map["offset_fetch"]:
        # KIP-709: many groups at once
        asked = {"groups": [group], "require_stable": True} if version > 7 else group
        encode(Api.OFFSET_FETCH, version, 1, "me", **asked)
        schema.response_layout.__wrapped__(Api.OFFSET_FETCH, version, ())


@pytest.fixture(autouse=True)
def _collects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's heap is frozen and small; to look through all that tests have made takes 60 s."""
    monkeypatch.setattr(gc, "get_freeze_count", int)


@pytest.mark.slow
@pytest.mark.parametrize("work", [read_all, ask_and_read])
def test_threads_load_the_same_versions_at_once(work: Callable[[], None]) -> None:
    together = Barrier(THREADS)

    def run() -> None:
        together.wait()
        work()

    with ThreadPoolExecutor(THREADS) as threads:
        for done in [threads.submit(run) for _ in range(THREADS)]:
            done.result()
