"""Brokers on loopback that speak Kafka's protocol by kio's writers, about groups that a test gives.

They run on a thread of their own, so that commands can be tested beside them.
"""

import asyncio
import io
import ssl
import struct
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from kio.index import load_response_schema
from kio.serial import entity_writer

from agent.inspection.connection.admin_requests import Api
from agent.inspection.end_offsets import EARLIEST
from agent.wire.codec.schema import Fields
from tests.agent.inspection.simulated_messages import (
    KAFKA_28,
    KAFKA_43,
    OF_TYPE,
    Group,
    Versions,
    member,
    read_request,
)
from tests.agent.wire.frames import _fill

__all__ = ["HOST", "KAFKA_28", "KAFKA_43", "Group", "Simulated"]

HOST = "127.0.0.1"
CLUSTER_ID = "simulated"
NOT_FOUND, NOT_COORDINATOR, UNSUPPORTED_VERSION, NOT_LEADER = 69, 16, 35, 6


@dataclass(slots=True)
class Simulated:
    """A cluster. Its fields may be changed while it runs."""

    groups: dict[str, Group] = field(default_factory=dict)
    nodes: int = 1
    versions: Versions = field(default_factory=lambda: KAFKA_43)
    errors: dict[tuple[Api, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Error codes that an API gives for a group before it answers; '' is the whole answer."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of topics' partitions; the broker ``1 + partition % nodes`` leads each."""
    start: int = 0
    """The first offset of every partition."""
    times: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    """Timestamps of records in Unix milliseconds, by partition and offset."""
    leader_shift: int = 0
    """Moves every partition to another leader."""
    omitted: set[str] = field(default_factory=set)
    """Groups that no coordinator says anything about."""
    fenced: set[int] = field(default_factory=set)
    operations: int = 1 << 8
    tls: ssl.SSLContext | None = None
    passwords: dict[str, str] | None = None
    """By user, for SASL PLAIN; None: a port without a login."""
    asked: Counter[tuple[int, Api]] = field(default_factory=Counter)
    most_at_once: int = 0
    """Requests in flight on one broker, at most."""
    in_flight: Counter[int] = field(default_factory=Counter)
    ports: dict[int, int] = field(default_factory=dict)
    cached: bool = False
    """Give the same bytes for the same request: for benchmarks."""
    _cache: dict[bytes, bytes] = field(default_factory=dict)
    _servers: dict[int, asyncio.Server] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread = field(init=False)
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, name="simulated brokers")
        self._thread.start()
        for node_id in range(1, self.nodes + 1):
            self._do(self._listen(node_id))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node_id in list(self._servers):
            self.kill(node_id)
        self._do(self._drain())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self.close()

    def drop_connections(self) -> None:
        """Close the clients' connections, like a broker that restarts."""
        self._do(self._drop())

    def close(self) -> None:
        """Release the resources that a cluster has even before it is entered."""
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports.values())

    def kill(self, node_id: int) -> None:
        """End a broker; its port refuses from now on."""
        self._do(self._close(self._servers.pop(node_id)))

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)

    async def _listen(self, node_id: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            try:
                await self._serve(node_id, reader, writer)
            except (OSError, EOFError):
                pass
            finally:
                self._writers.discard(writer)
                writer.close()

        server = await asyncio.start_server(serve, HOST, 0, ssl=self.tls)
        self._servers[node_id] = server
        self.ports[node_id] = server.sockets[0].getsockname()[1]

    async def _close(self, server: asyncio.Server) -> None:
        server.close()
        await self._drop()  # other brokers' clients connect again

    async def _drop(self) -> None:
        for writer in list(self._writers):
            writer.close()

    async def _drain(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(
        self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        logged_in = self.passwords is None
        while True:
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            frame = await reader.readexactly(size)
            self.in_flight[node_id] += 1
            self.most_at_once = max(self.most_at_once, self.in_flight[node_id])
            await asyncio.sleep(0)
            api, version, correlation_id = struct.unpack(">hhi", frame[:8])
            api = Api(api)
            self.asked[node_id, api] += 1
            anonymous = (Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE)
            if not logged_in and api not in anonymous:
                return
            body = self._reply(node_id, api, version, frame)
            logged_in = logged_in or (api is Api.SASL_AUTHENTICATE and body[:2] == b"\0\0")
            self.in_flight[node_id] -= 1
            head = struct.pack(">i", correlation_id)
            if load_response_schema(api, version).__flexible__ and api is not Api.API_VERSIONS:
                head += b"\0"
            writer.write(struct.pack(">i", len(head + body)) + head + body)
            await writer.drain()

    def _reply(self, node_id: int, api: Api, version: int, frame: bytes) -> bytes:
        if api is Api.API_VERSIONS and version > self.versions[api][1]:
            return struct.pack(">hi", UNSUPPORTED_VERSION, 0)  # in the oldest words
        key = struct.pack(">i", node_id) + frame[:4] + frame[8:]
        if not self.cached or key not in self._cache:
            asked = read_request(api, version, frame)
            self._cache[key] = self.encoded(node_id, api, version, asked)
        return self._cache[key]

    def encoded(self, node_id: int, api: Api, version: int, asked: Fields) -> bytes:
        """Return an answer's bytes behind its header."""
        out, schema = io.BytesIO(), load_response_schema(api, version)
        entity_writer(schema)(out, _fill(schema, self._answer(node_id, api, asked)))
        return out.getvalue()

    def _answer(  # noqa: C901, PLR0911 - one a request
        self, node_id: int, api: Api, asked: Fields
    ) -> Fields:
        match api:
            case Api.API_VERSIONS:
                versions = self.versions.items()
                keys = [
                    {"api_key": k, "min_version": a, "max_version": b} for k, (a, b) in versions
                ]
                return {"api_keys": keys}
            case Api.SASL_HANDSHAKE:
                wrong = 33 if asked["mechanism"] != "PLAIN" else 0
                return {"error_code": wrong if self.passwords else 34, "mechanisms": ["PLAIN"]}
            case Api.SASL_AUTHENTICATE:
                return self._log_in(asked["auth_bytes"])
            case Api.DESCRIBE_CLUSTER:
                return self._cluster()
            case Api.LIST_GROUPS:
                return self._list(node_id)
            case Api.DESCRIBE_CONFIGS:
                return {"results": [self._config(each) for each in asked["resources"]]}
            case Api.FIND_COORDINATOR:
                return self._find(asked)
            case api if api in OF_TYPE:
                return self._describe(node_id, api, asked)
            case _:
                return self._offsets(node_id, api, asked)

    def _log_in(self, shown: bytes) -> Fields:
        _, user, password = shown.decode().split("\0")
        if (self.passwords or {}).get(user) == password:
            return {"error_code": 0, "error_message": None, "auth_bytes": b""}
        text = "Authentication failed: Invalid username or password"
        return {"error_code": 58, "error_message": text, "auth_bytes": b""}

    def _cluster(self) -> Fields:
        brokers = [
            {"broker_id": node_id, "host": HOST, "port": port, "is_fenced": node_id in self.fenced}
            for node_id, port in self.ports.items()
        ]
        return {
            "cluster_id": CLUSTER_ID,
            "brokers": brokers,
            "endpoint_type": 1,
            "cluster_authorized_operations": self.operations,
        }

    def _config(self, asked: Fields) -> Fields:
        """Return the wanted settings of a group, as a broker of 4.x does."""
        name = asked["resource_name"]
        error = self._error(Api.DESCRIBE_CONFIGS, name)
        wanted = () if error or name not in self.groups else asked["configuration_keys"]
        return {
            "error_code": error,
            "resource_type": asked["resource_type"],
            "resource_name": name,
            "configs": [{"name": key, "value": self.groups[name].session_ms} for key in wanted],
        }

    def _offsets(self, node_id: int, api: Api, asked: Fields) -> Fields:
        if api is Api.DESCRIBE_SHARE_GROUP_OFFSETS:
            return {"groups": [self._share_offsets(each["group_id"]) for each in asked["groups"]]}
        if api is Api.OFFSET_FETCH:
            if "groups" in asked:
                names = [each["group_id"] for each in asked["groups"]]
                return {"groups": [self._committed(node_id, name) for name in names]}
            return self._committed(node_id, asked["group_id"])
        if api is Api.METADATA:
            return self._metadata([each["name"] for each in asked["topics"]])
        return self._ends(node_id, asked["topics"])

    def _share_offsets(self, name: str) -> Fields:
        topics: dict[str, list[Fields]] = defaultdict(list)
        group = self.groups[name]
        for (topic, number), offset in group.committed.items():
            lag = group.lags.get((topic, number), -1)
            topics[topic].append({"partition_index": number, "start_offset": offset, "lag": lag})
        found = [{"topic_name": topic, "partitions": each} for topic, each in topics.items()]
        return {"group_id": name, "topics": found}

    def _committed(self, node_id: int, name: str) -> Fields:
        if error := self._error(Api.OFFSET_FETCH, name):
            return {"group_id": name, "error_code": error, "topics": []}
        if self.groups[name].node_id != node_id:
            return {"group_id": name, "error_code": NOT_COORDINATOR, "topics": []}
        topics: dict[str, list[Fields]] = defaultdict(list)
        for (topic, number), offset in self.groups[name].committed.items():
            topics[topic].append({"partition_index": number, "committed_offset": offset})
        found = [{"name": topic, "partitions": each} for topic, each in topics.items()]
        return {"group_id": name, "topics": found}

    def _leader(self, partition: int) -> int:
        return 1 + (partition + self.leader_shift) % self.nodes

    def _metadata(self, names: list[str]) -> Fields:
        brokers = [{"node_id": n, "host": HOST, "port": port} for n, port in self.ports.items()]
        topics: dict[str, list[Fields]] = {name: [] for name in names}
        for topic, number in self.ends:
            if topic in topics:
                leader = self._leader(number)
                topics[topic].append({"partition_index": number, "leader_id": leader})
        found = [{"name": name, "partitions": each} for name, each in topics.items()]
        return {"brokers": brokers, "topics": found, "cluster_id": CLUSTER_ID}

    def _ends(self, node_id: int, topics: list[Fields]) -> Fields:
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        self._end(node_id, topic["name"], each) for each in topic["partitions"]
                    ],
                }
                for topic in topics
            ]
        }

    def _end(self, node_id: int, topic: str, asked: Fields) -> Fields:
        number, at = asked["partition_index"], asked["timestamp"]
        error = 0 if self._leader(number) == node_id else NOT_LEADER
        named = {"partition_index": number, "error_code": error}
        if at < 0:
            offset = self.start if at == EARLIEST else self.ends[topic, number]
            return named | {"offset": offset, "timestamp": -1}
        times = self.times.get((topic, number), {})
        first = next((offset for offset, written in times.items() if written >= at), -1)
        return named | {"offset": first, "timestamp": times.get(first, -1)}

    def _list(self, node_id: int) -> Fields:
        if error := self._error(Api.LIST_GROUPS, ""):
            return {"error_code": error}
        groups = [
            {
                "group_id": name,
                "protocol_type": group.protocol,
                "group_state": group.state,
                "group_type": group.type.capitalize(),
            }
            for name, group in self.groups.items()
            if group.node_id == node_id
        ]
        return {"groups": groups}

    def _find(self, asked: Fields) -> Fields:
        keys = asked["coordinator_keys"] if "coordinator_keys" in asked else [asked["key"]]
        found = [self._coordinator(key) for key in keys]
        return found[0] | {"coordinators": found}

    def _coordinator(self, name: str) -> Fields:
        error = self._error(Api.FIND_COORDINATOR, name)
        node_id = self.groups[name].node_id if name in self.groups else min(self.ports)
        if error:
            return {"key": name, "node_id": -1, "host": "", "port": -1, "error_code": error}
        return {"key": name, "node_id": node_id, "host": HOST, "port": self.ports[node_id]}

    def _describe(self, node_id: int, api: Api, asked: Fields) -> Fields:
        names = asked.get("group_ids") or asked.get("groups") or ()
        return {
            "groups": [
                self._described(node_id, api, name) for name in names if name not in self.omitted
            ]
        }

    def _described(self, node_id: int, api: Api, name: str) -> Fields:
        group, kind = self.groups.get(name), OF_TYPE[api]
        error = self._error(api, name)
        if error:
            return {"group_id": name, "error_code": error}
        if group is not None and group.node_id != node_id:
            return {"group_id": name, "error_code": NOT_COORDINATOR}
        if group is None or group.type != kind:
            said = f"Group {name} not found." if group is None else f"Group {name} is not a {kind}."
            if self.versions[Api.DESCRIBE_GROUPS][1] < 6:
                return {"group_id": name, "group_state": "Dead"}
            return {"group_id": name, "error_code": NOT_FOUND, "error_message": said}
        return {
            "group_id": name,
            "group_state": group.state,
            "protocol_type": group.protocol,
            "protocol_data": group.assignor if group.members else "",
            "assignor_name": "uniform",
            "group_epoch": group.epoch,
            "assignment_epoch": group.epoch,
            "authorized_operations": 1 << 3 | 1 << 8,
            "topology": {"epoch": 1, "subtopologies": group.subtopologies},
            "members": [member(kind, group, *each) for each in group.members.items()],
        }

    def _error(self, api: Api, name: str) -> int:
        waiting = self.errors[api, name]
        return waiting.pop(0) if waiting else 0
