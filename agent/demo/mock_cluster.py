"""librdkafka's mock cluster: three brokers on loopback ports inside this process.

Theory of operation. The brokers speak Kafka's protocol and run the classic group protocol, so any
librdkafka consumer of another process works with them. ``rdkafka_mock.h`` also lets a test bench
inject faults; the Python package does not wrap it, but its library exports it.
Limits, seen with 2.16.0: a broker never requires a member id of a new member by itself (KIP-394),
so the bench injects that error. A group has one session timeout, that of the last member to join,
so members must agree on one: else a waiting member can be removed and never gets a response.

Header: https://github.com/confluentinc/librdkafka/blob/v2.15.0/src/rdkafka_mock.h
"""

import ctypes
from types import TracebackType
from typing import Any, Self

import confluent_kafka.cimpl

from agent.processes.errors import ProcessError

JOIN_GROUP, HEARTBEAT = 11, 12
"""API keys."""
COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID, MEMBER_ID_REQUIRED = 14, 25, 79
"""Error codes."""

_BROKERS = 3
_PRODUCER = 0
_ERROR_BYTES = 512
_INITIAL_DELAY_MS = 300  # group.initial.rebalance.delay.ms; the mock's default is 3 s
_LOG_LEVEL_ERROR = b"3"  # else it warns that the bench itself has no bootstrap servers


class MockCluster:
    """Runs from the start until `close`. A context manager."""

    def __init__(self) -> None:
        """Start the brokers.

        Raises:
            ProcessError: the library starts no cluster.
        """
        self._library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
        self._handle = self._new_handle()
        self._cluster = self._call("mock_cluster_new", self._handle, _BROKERS)
        if not self._cluster:
            raise ProcessError("librdkafka starts no mock cluster")
        self._call("mock_group_initial_rebalance_delay_ms", self._cluster, _INITIAL_DELAY_MS)

    @property
    def bootstrap(self) -> str:
        """Addresses for ``bootstrap.servers``."""
        address = self._call("mock_cluster_bootstraps", self._cluster)
        return str(ctypes.string_at(address).decode())

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic, as an operator would."""
        error = self._call("mock_topic_create", self._cluster, name.encode(), partitions, 1)
        if error:
            raise ProcessError(f"the mock cluster does not create topic {name!r}: error {error}")

    def fail_next(self, api_key: int, error_code: int) -> None:
        """Fail the next such request of any member with a broker's error."""
        codes = (ctypes.c_int * 1)(error_code)
        self._call("mock_push_request_errors_array", self._cluster, api_key, 1, codes)

    def close(self) -> None:
        """Stop the brokers, if they run."""
        if self._cluster:
            self._call("mock_cluster_destroy", self._cluster)
            self._call("destroy", self._handle)
            self._cluster = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _new_handle(self) -> Any:
        errors = ctypes.create_string_buffer(_ERROR_BYTES)
        settings = self._call("conf_new")
        self._call("conf_set", settings, b"log_level", _LOG_LEVEL_ERROR, errors, _ERROR_BYTES)
        handle = self._call("new", _PRODUCER, settings, errors, _ERROR_BYTES)
        if not handle:
            raise ProcessError(f"librdkafka starts no client: {errors.value.decode()}")
        return handle

    def _call(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._library, f"rd_kafka_{name}")
        function.argtypes, function.restype = _SIGNATURES[name]
        return function(*arguments)


_POINTER, _INT, _TEXT, _SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[list[Any], Any]] = {
    "conf_new": ([], _POINTER),
    "conf_set": ([_POINTER, _TEXT, _TEXT, _TEXT, _SIZE], _INT),
    "new": ([_INT, _POINTER, _TEXT, _SIZE], _POINTER),
    "destroy": ([_POINTER], None),
    "mock_cluster_new": ([_POINTER, _INT], _POINTER),
    "mock_cluster_destroy": ([_POINTER], None),
    "mock_cluster_bootstraps": ([_POINTER], _POINTER),
    "mock_group_initial_rebalance_delay_ms": ([_POINTER, ctypes.c_int32], None),
    "mock_topic_create": ([_POINTER, _TEXT, _INT, _INT], _INT),
    "mock_push_request_errors_array": (
        [_POINTER, ctypes.c_int16, _SIZE, ctypes.POINTER(ctypes.c_int)],
        None,
    ),
}
