"""A check of a broker's APIs: each version that it offers, and that the agent does not speak.

`python -m tools.check_broker_apis HOST:PORT` prints the table. It ends with 1 where a version is
not spoken and has no reason in `REASONS`: a newer Kafka may have fields that users want to see.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kio.index import KioIndexError, load_request_schema

from agent.config.addresses import parse_address
from agent.inspection.connection.admin_requests import SUPPORTED_VERSIONS, Api
from agent.inspection.connection.broker_connection import Connection
from agent.inspection.connection.security import Security
from agent.wire.codec.apis import APIS
from agent.wire.codec.schema import request_layout, response_layout

REASONS: dict[tuple[int, str], str] = {
    (Api.LIST_OFFSETS, "inspection"): "5 has the end of a partition, as 11 has",
    (Api.METADATA, "inspection"): "4 has the leaders of partitions by topic name, as 13 has",
    (Api.OFFSET_FETCH, "inspection"): "9 has all offsets by topic name; 10 has topic ids",
}
"""Why a newer version is not spoken."""


class Gap(NamedTuple):
    """Versions of an API that the broker offers and one part of the agent does not speak."""

    api_key: int
    name: str
    user: str
    """``inspection``, ``wire``, or nothing where no part uses the API."""
    versions: tuple[int, ...]

    @property
    def reason(self) -> str | None:
        return REASONS.get((self.api_key, self.user)) if self.user else "no part uses it"


def find_gaps(offered: Mapping[int, tuple[int, int]]) -> Iterator[Gap]:
    """Return what is not spoken of the offered versions, by API key."""
    for key, (oldest, newest) in sorted(offered.items()):
        versions = range(oldest, newest + 1)
        name = _name(key, versions)
        users = []
        if key in set(SUPPORTED_VERSIONS) | {Api.API_VERSIONS}:
            users.append("inspection")
            top = newest if key == Api.API_VERSIONS else SUPPORTED_VERSIONS[Api(key)][1]
            yield Gap(key, name, "inspection", tuple(v for v in versions if v > top))
        if key in APIS:
            users.append("wire")
            yield Gap(key, name, "wire", tuple(v for v in versions if not _is_read(key, v)))
        if not users:
            yield Gap(key, name, "", tuple(versions))


async def read_versions(address: str) -> dict[int, tuple[int, int]]:
    """Return the versions that a broker without a login offers, by API key.

    Raises:
        BrokerError: it does not respond.

    """
    node = parse_address(address, "broker")
    connection = await Connection.open(node.host, node.port, Security())
    try:
        return dict(connection.versions)
    finally:
        await connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the gaps; end with 1 if one has no reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("broker", help="HOST:PORT")
    gaps = find_gaps(asyncio.run(read_versions(parser.parse_args(arguments).broker)))
    found = [gap for gap in gaps if gap.versions]
    for gap in found:
        span = f"{gap.versions[0]}-{gap.versions[-1]}" if gap.versions[1:] else gap.versions[0]
        text = gap.reason or "NOT SPOKEN"
        sys.stdout.write(f"{gap.api_key:4} {gap.name:36} {gap.user:11} {span!s:6} {text}\n")
    return int(any(gap.reason is None for gap in found))


def _name(key: int, versions: range) -> str:
    for version in reversed(versions):
        try:
            return str(load_request_schema(key, version).__name__).removesuffix("Request")
        except KioIndexError:
            continue
    return f"API {key}"


def _is_read(key: int, version: int) -> bool:
    """Return whether the wire's decoder reads requests and responses of this version."""
    request, response = APIS[key]
    layouts = []
    if request is not None:
        layouts.append(request_layout(key, version, request.wanted))
    if response is not None:
        layouts.append(response_layout(key, version, response.wanted))
    return None not in layouts


if __name__ == "__main__":
    raise SystemExit(main())
