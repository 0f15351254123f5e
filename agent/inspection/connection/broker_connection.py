"""One connection to one broker: TLS, version negotiation, login, then one request at a time."""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from agent.errors import DecodeError
from agent.inspection.connection import error_messages as faults
from agent.inspection.connection.admin_requests import (
    API_VERSIONS_VERSION,
    SUPPORTED_VERSIONS,
    Api,
    correlation_id,
    decode,
    encode,
    throttle_s,
)
from agent.inspection.connection.errors import RefusedError, UnreachableError
from agent.inspection.connection.response_room import (
    FRAME_BYTES_MAX,
    SHORT_BYTES,
    ResponseRoom,
)
from agent.inspection.connection.sasl import Exchange
from agent.inspection.connection.security import CLIENT_ID, Login, Security
from agent.processes.daemon_thread import call_in_daemon
from agent.wire.codec.schema import Fields
from agent.wire.members.error_codes import describe_error as error_name

_VERSION_UNSUPPORTED, _MECHANISM_UNSUPPORTED, _SASL_STATE = 35, 33, 34
MAX_THROTTLE_S = 30.0
"""A quota's delay is a window's length at most, 1 s by default; the field may name 24 days."""
_RENEW_SHARE = 0.8
"""Share of a session's lifetime (KIP-368) after which a new connection renews the login."""
_SOFTWARE = {"client_software_name": CLIENT_ID, "client_software_version": "1"}


_T = TypeVar("_T")


class BrokerResponse(NamedTuple):
    """A broker's response, not decoded yet."""

    address: str
    api: Api
    version: int
    frame: bytes
    element_limit: int

    def read(self) -> Fields:
        """Return the fields.

        Raises:
            RefusedError: the response cannot be decoded.

        """
        try:
            return decode(self.api, self.version, self.frame, self.element_limit)
        except DecodeError as error:
            text = f"{self.address}: {self.api.label}: the response cannot be decoded: {error}"
            raise RefusedError(text, "not_kafka") from error

    async def decode(self, convert: Callable[[Fields], _T]) -> _T:
        """Return the converted fields; proxy and pages do not wait for a long response.

        Raises:
            RefusedError: the response cannot be decoded.

        """
        if len(self.frame) <= SHORT_BYTES:
            return convert(self.read())
        return await call_in_daemon(lambda: convert(self.read()), "decode")

    async def fields(self) -> Fields:
        """Return the fields, as `decode` does."""
        return await self.decode(lambda fields: fields)


async def _open_streams(
    host: str, port: int, tls: ssl.SSLContext | None, lookups: asyncio.Semaphore
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address of a host that accepts.

    The event loop would resolve the name in its small pool of threads, which pages and analyses
    need, too: a name server that does not respond would block all of them.
    """
    look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    async with lookups:
        addresses = [str(row[4][0]) for row in await call_in_daemon(look_up, "name lookup")]
    name = host if tls is not None else None
    for address in addresses[:-1]:
        with suppress(OSError):
            return await asyncio.open_connection(address, port, ssl=tls, server_hostname=name)
    return await asyncio.open_connection(addresses[-1], port, ssl=tls, server_hostname=name)


def _advance(exchange: Exchange, received: bytes) -> bytes | None:
    """Return the next message of a login, or None at its end."""
    try:
        return exchange.send(received)
    except StopIteration:
        return None


class Connection:
    """An open connection; `send` is for one caller at a time."""

    def __init__(
        self,
        address: str,
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        security: Security,
        timeout_s: float,
        room: ResponseRoom,
    ) -> None:
        self.address = address
        self.read_bytes = 0
        self._room, self._frame_limit = room, SHORT_BYTES  # until the login is done
        self._reader, self._writer = streams
        self._security, self._timeout_s = security, timeout_s
        self._correlation_id = self._response_count = 0
        self._versions: dict[int, tuple[int, int]] = {}
        self._expires_s = float("inf")
        self._throttle_s = 0.0

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        security: Security,
        *,
        timeout_s: float = 10.0,
        room: ResponseRoom | None = None,
    ) -> Self:
        """Connect, negotiate versions and log in; connections of a pool share its ``room``.

        Raises:
            RefusedError: certificates, credentials or the port are wrong.
            UnreachableError: the broker does not respond.

        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        tls, room = security.tls, room or ResponseRoom()
        try:
            async with asyncio.timeout(timeout_s):
                streams = await _open_streams(host, port, tls, room.lookups)
        except (OSError, EOFError, ValueError, OverflowError) as error:  # an address that cannot be
            raise faults.connect_error(address, error, tls=tls is not None) from error
        connection = cls(address, streams, security, timeout_s, room)
        try:
            await connection._negotiate_versions()
            if security.login is not None:
                await connection._log_in(security.login)
        except BaseException:
            await connection.close()
            raise
        connection._frame_limit = connection._room.limits.frame_bytes
        return connection

    @property
    def is_usable(self) -> bool:
        """Whether the connection can take another request."""
        ended = self._writer.is_closing() or self._reader.at_eof()
        return not ended and time.monotonic() < self._expires_s

    @property
    def versions(self) -> Mapping[int, tuple[int, int]]:
        """The oldest and newest version that the broker offers, by API key."""
        return self._versions

    def version(self, api: Api) -> int | None:
        """Return the newest common version of an API, or None if there is none."""
        oldest, newest = SUPPORTED_VERSIONS[api]
        if api not in self._versions:
            return None
        low, high = self._versions[api]
        version = min(newest, high)
        return version if version >= max(oldest, low) else None

    async def send(self, api: Api, **values: Any) -> "BrokerResponse":
        """Send a request and return the response; fields that the version lacks are left out.

        Raises:
            RefusedError: the broker lacks the API, or the peer is not a broker; it is closed.
            UnreachableError: the connection broke, and is closed.

        """
        version = self.version(api)
        if version is None:
            text = f"{self.address}: does not have {api.label}: Kafka 2.1 or newer is wanted"
            await self.close()  # a later attempt negotiates again
            raise RefusedError(text, "too_old")
        return await self._send(api, version, **values)

    async def close(self) -> None:
        """Close the socket."""
        self._writer.close()
        try:
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        except (OSError, EOFError):
            self._writer.transport.abort()

    async def _send(self, api: Api, version: int, **values: Any) -> "BrokerResponse":
        self._correlation_id += 1
        request = encode(api, version, self._correlation_id, self._security.client_id, **values)
        async with self._request_guard(api):
            self._writer.write(request)
            await self._writer.drain()
            size = await self._read_size(api)
        frame = await self._read_frame(api, size)
        if correlation_id(frame) != self._correlation_id:
            self._room.leave(size)
            await self.close()
            raise RefusedError(f"{self.address}: does not respond like Kafka", "not_kafka")
        self._response_count += 1
        self._throttle_s = min(MAX_THROTTLE_S, throttle_s(api, version, frame))
        if api is Api.API_VERSIONS and frame[4:6] == b"\0\x23":
            version = 0  # an older broker refuses in the oldest version
        return BrokerResponse(self.address, api, version, frame, self._room.limits.elements)

    async def _read_size(self, api: Api) -> int:
        head = await self._reader.readexactly(4)
        size = int.from_bytes(head, "big", signed=True)
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise faults.protocol_error(self.address, head, size)
        if size > self._frame_limit:
            raise faults.length_error(self.address, api.label, size, self._frame_limit)
        return size

    async def _read_frame(self, api: Api, size: int) -> bytes:
        """Return a response's bytes, once there is room; the caller gives it back."""
        try:
            await self._room.enter(size)
        except BaseException as error:
            self._writer.transport.abort()
            if isinstance(error, TimeoutError):
                raise faults.room_error(self.address, api.label) from error
            raise
        try:
            async with self._request_guard(api):
                frame = await self._reader.readexactly(size)
        except BaseException:
            self._room.leave(size)
            raise
        self.read_bytes += size
        return frame

    @asynccontextmanager
    async def _request_guard(self, api: Api) -> AsyncIterator[None]:
        """Turn the faults of a request into our errors; a fault ends the connection."""
        try:
            async with asyncio.timeout(self._timeout_s + self._throttle_s):
                yield
        except TimeoutError as error:
            self._writer.transport.abort()
            raise self._timeout_error(api) from error
        except ssl.SSLError as error:
            self._writer.transport.abort()
            raise faults.tls_error(self.address, error) from error
        except (OSError, EOFError) as error:
            self._writer.transport.abort()
            raise self._close_error(api) from error
        except BaseException:
            self._writer.transport.abort()
            raise

    def _timeout_error(self, api: Api) -> UnreachableError:
        if not self._response_count:
            return faults.silence_error(self.address, self._timeout_s)
        timeout_s = self._timeout_s + self._throttle_s
        text = f"{self.address}: no response to {api.label} in {timeout_s:g} s"
        if self._throttle_s:
            text += f", of which its quota for this client takes {self._throttle_s:g} s"
        return UnreachableError(text, "timeout")

    def _close_error(self, api: Api) -> Exception:
        sasl = self._security.login is not None
        first = self._response_count < (3 if sasl else 2)  # brokers respond to any ApiVersions
        tls = self._security.tls is not None
        return faults.close_error(self.address, api.label, first=first, tls=tls, sasl=sasl)

    async def _negotiate_versions(self) -> None:
        answer = await self._send(Api.API_VERSIONS, API_VERSIONS_VERSION, **_SOFTWARE)
        if (await answer.fields())["error_code"] == _VERSION_UNSUPPORTED:
            answer = await self._send(Api.API_VERSIONS, 0)
        fields = await answer.fields()
        if fields["error_code"]:
            text = f"{self.address}: ApiVersions: {error_name(fields['error_code'])}"
            raise RefusedError(text, "not_kafka")
        self._versions = {
            each["api_key"]: (each["min_version"], each["max_version"])
            for each in fields["api_keys"] or ()
        }

    async def _log_in(self, login: Login) -> None:
        answer = await self.send(Api.SASL_HANDSHAKE, mechanism=login.mechanism.value)
        hello = await answer.fields()
        if hello["error_code"] == _MECHANISM_UNSUPPORTED:
            there = ", ".join(hello["mechanisms"] or ()) or "none"
            text = f"{self.address}: does not have {login.mechanism}; it has {there}"
            raise RefusedError(text, "password")
        if hello["error_code"]:
            hint = "; this port wants no login" if hello["error_code"] == _SASL_STATE else ""
            text = f"{self.address}: SASL: {error_name(hello['error_code'])}{hint}"
            raise RefusedError(text, "password")
        try:
            await self._authenticate(login)
        except RefusedError as error:
            if str(error).startswith(self.address):
                raise
            raise RefusedError(f"{self.address}: {error}", error.reason) from error

    async def _authenticate(self, login: Login) -> None:
        exchange = await call_in_daemon(login.exchange, "login")
        message = next(exchange)
        while True:
            response = await self.send(Api.SASL_AUTHENTICATE, auth_bytes=message)
            fields = await response.fields()
            self._check_login(login, fields)
            lifetime_s = fields.get("session_lifetime", 0) / 1000
            if lifetime_s:
                self._expires_s = time.monotonic() + _RENEW_SHARE * lifetime_s
            # in a thread: a broker may want a second of CPU (SCRAM's iterations)
            advance = partial(_advance, exchange, fields["auth_bytes"])
            following = await call_in_daemon(advance, "login")
            if following is None:
                return
            message = following

    def _check_login(self, login: Login, fields: Fields) -> None:
        if not fields["error_code"]:
            return
        said = fields["error_message"] or error_name(fields["error_code"])
        text = f"{self.address}: the login of {login.username or 'the token'!r} is refused: {said}"
        raise RefusedError(text, "password")
