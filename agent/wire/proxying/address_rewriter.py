"""A rewriter of the broker addresses in a response's first bytes; nothing else in it changes.

Theory of operation. The addresses of brokers are near the start of a response, except Produce's new
leaders (KIP-951), in small responses, and those of share groups. So the first bytes are read by
hand up to the last address and replaced; the rest passes unread. Brokers also name new leaders at
the end of a Fetch response, after the records; its length was passed on long before. Therefore the
version of Fetch is limited to one without these addresses (`_cap_versions`); the client then needs
one Metadata request more when a leader changes. Share groups have no such version:
`has_addresses_at_end`.
"""

import struct
from collections.abc import Callable

from agent.wire.proxying.address_patch import AddressReader, RewrittenHead, Route, encode_varint

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, DESCRIBE_CLUSTER = 0, 1, 3, 10, 18, 60
SHARE_FETCH, SHARE_ACKNOWLEDGE = 78, 79
_VERSIONS = {
    PRODUCE: range(10, 14),
    METADATA: range(14),
    FIND_COORDINATOR: range(7),
    API_VERSIONS: range(1 << 15),  # all: the versions of the APIs stand first, since 3 in one form
    DESCRIBE_CLUSTER: range(3),
    SHARE_FETCH: range(3),
    SHARE_ACKNOWLEDGE: range(3),
}
"""The versions that are read. Produce's have addresses since KIP-951."""
_LAST_VERSION = {
    PRODUCE: 13,
    FETCH: 15,  # KIP-951 came with 16; 17 and 18 are for replicas
    METADATA: 13,
    FIND_COORDINATOR: 6,
    DESCRIBE_CLUSTER: 2,
    SHARE_FETCH: 2,
    SHARE_ACKNOWLEDGE: 2,
}
"""The highest version that clients may use, so that no address passes by."""
APIS_WITH_ADDRESSES = _VERSIONS.keys() | _LAST_VERSION.keys()
"""The APIs with a version that has, or may have, addresses in its responses."""
_FIRST_FLEXIBLE = {PRODUCE: 9, METADATA: 9, FIND_COORDINATOR: 3}
"""Those of all other APIs are flexible."""
_LAST_BYTES = {PRODUCE: bytes(5), SHARE_FETCH: b"\1\0", SHARE_ACKNOWLEDGE: b"\1\0"}
"""The end of a response without a new leader: no throttle, no tag; no endpoint, no tag."""
_VERSION_RANGE = struct.Struct(">hhh")


def has_addresses(api_key: int, version: int) -> bool:
    """Return whether `rewrite` reads the responses of an API's version."""
    return version in _VERSIONS.get(api_key, ())


def has_addresses_at_end(api_key: int) -> bool:
    """Return whether an API's responses have their addresses at the end."""
    return api_key in {SHARE_FETCH, SHARE_ACKNOWLEDGE}


def names_no_broker(api_key: int, response: bytes) -> bool:
    """Return whether a whole response's last bytes show that it has no address."""
    end = _LAST_BYTES.get(api_key)
    return end is not None and response.endswith(end)


def is_too_new(api_key: int, version: int) -> bool:
    """Return whether an API's version may have addresses that cannot be read here."""
    return version > _LAST_VERSION.get(api_key, version)


def rewrite(api_key: int, version: int, data: bytes, route: Route) -> RewrittenHead:
    """Rewrite the addresses in a response; ``data`` is its start, from the correlation id on.

    Raises:
        TruncatedError: the addresses are not complete yet.
        DecodeError: odd bytes.

    """
    if api_key == API_VERSIONS:
        return _cap_versions(version, data)
    reader = AddressReader(data, route, flexible=version >= _FIRST_FLEXIBLE.get(api_key, 0))
    reader.skip(4)  # correlation id
    reader.tags()
    _REWRITERS[api_key](reader, version)
    return reader.result()


def _rewrite_metadata(reader: AddressReader, version: int) -> None:
    if version >= 3:
        reader.skip(4)  # throttle time
    for _ in range(reader.count()):
        reader.rewrite_address()
        if version >= 1:
            reader.text()  # rack
        reader.tags()


def _rewrite_find_coordinator(reader: AddressReader, version: int) -> None:
    if version >= 1:
        reader.skip(4)  # throttle time
    if version < 4:
        reader.skip(2)  # error
        if version >= 1:
            reader.text()  # its message
        reader.rewrite_address()
        return
    for _ in range(reader.count()):
        reader.text()  # key
        reader.rewrite_address()
        reader.skip(2)  # error
        reader.text()  # its message
        reader.tags()


def _rewrite_describe_cluster(reader: AddressReader, version: int) -> None:
    reader.skip(4 + 2)  # throttle time, error
    reader.text()  # its message
    if version >= 1:
        reader.skip(1)  # kind of endpoints
    reader.text()  # cluster id
    reader.skip(4)  # controller
    for _ in range(reader.count()):
        reader.rewrite_address()
        reader.text()  # rack
        if version >= 2:
            reader.skip(1)  # whether it is fenced
        reader.tags()


def _rewrite_produce(reader: AddressReader, version: int) -> None:
    for _ in range(reader.count()):
        if version >= 13:
            reader.skip(16)  # topic id
        else:
            reader.text()  # topic
        for _ in range(reader.count()):
            reader.skip(4 + 2 + 8 + 8 + 8)  # partition, error, base offset, time, start offset
            for _ in range(reader.count()):
                reader.skip(4)  # index in the batch
                reader.text()  # the fault of this record
                reader.tags()
            reader.text()  # the error's message
            reader.tags()
        reader.tags()
    reader.skip(4)  # throttle time
    for _ in range(reader.varint()):
        tag, start = reader.varint(), reader.at
        field = reader.take_part(reader.varint())
        if tag == 0:
            _rewrite_endpoints(field)
            changed = field.result().head
            reader.replace(start, encode_varint(len(changed)) + changed)


def _rewrite_share_fetch(reader: AddressReader, version: int) -> None:
    reader.skip(4 + 2)  # throttle time, error
    reader.text()  # its message
    if version >= 1:
        reader.skip(4)  # acquisition lock's timeout
    for _ in range(reader.count()):
        reader.skip(16)  # topic id
        for _ in range(reader.count()):
            reader.skip(4)  # partition
            for _ in range(2):  # of the fetch, and of the acknowledgements
                reader.skip(2)  # error
                reader.text()  # its message
            reader.skip(4 + 4)  # current leader and its epoch
            reader.tags()
            reader.skip(max(0, reader.count()))  # records
            for _ in range(reader.count()):
                reader.skip(8 + 8 + 2)  # first and last offset acquired, deliveries
                reader.tags()
            reader.tags()
        reader.tags()
    _rewrite_endpoints(reader)


def _rewrite_share_acknowledge(reader: AddressReader, version: int) -> None:
    reader.skip(4 + 2)  # throttle time, error
    reader.text()  # its message
    if version >= 2:
        reader.skip(4)  # acquisition lock's timeout
    for _ in range(reader.count()):
        reader.skip(16)  # topic id
        for _ in range(reader.count()):
            reader.skip(4 + 2)  # partition, error
            reader.text()  # its message
            reader.skip(4 + 4)  # current leader and its epoch
            reader.tags()
            reader.tags()
        reader.tags()
    _rewrite_endpoints(reader)


def _rewrite_endpoints(reader: AddressReader) -> None:
    for _ in range(reader.count()):
        reader.rewrite_address()
        reader.text()  # rack
        reader.tags()


_REWRITERS: dict[int, Callable[[AddressReader, int], None]] = {
    PRODUCE: _rewrite_produce,
    METADATA: _rewrite_metadata,
    FIND_COORDINATOR: _rewrite_find_coordinator,
    DESCRIBE_CLUSTER: _rewrite_describe_cluster,
    SHARE_FETCH: _rewrite_share_fetch,
    SHARE_ACKNOWLEDGE: _rewrite_share_acknowledge,
}


def _cap_versions(version: int, data: bytes) -> RewrittenHead:
    """Hold APIs with addresses to the versions that are read; the size stays."""
    flexible = version >= 3
    reader = AddressReader(data, lambda _host, _port: None, flexible=flexible)
    reader.skip(4 + 2)  # correlation id (its header has no tags in any version), error
    if data[4:6] != b"\0\0":  # such a response may be of version 0, whatever the request's
        return reader.result()
    for _ in range(reader.count()):
        start = reader.at
        reader.skip(_VERSION_RANGE.size)
        api_key, first, last = _VERSION_RANGE.unpack_from(data, start)
        capped = max(first, min(last, _LAST_VERSION.get(api_key, last)))
        if capped != last:
            reader.replace(start, _VERSION_RANGE.pack(api_key, first, capped))
        reader.tags()
    return reader.result()
