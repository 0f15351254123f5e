"""Push of the spool to a hub: every record, in order, until the hub acknowledges it.

The hub responds with the last number that it holds; after an interruption of either side the push
resumes from there.
"""

import asyncio
import gzip
import logging
import ssl
import urllib.parse
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from agent.config.hub import HubConfig, read_token
from agent.errors import ConfigError, OutputError
from agent.http_deadline import TimedHttpConnection, TimedHttpsConnection
from agent.outputs.spool.identity import discard_spool_id, spool_id
from agent.outputs.spool.reader import SpoolBatch, batch_after, newest_seq
from agent.processes.daemon_thread import call_in_daemon
from agent.small_files import check_certificates
from metrics.exporters.exposition import OutputStats
from metrics.model.sample import MALFORMED

log = logging.getLogger(__name__)

PATH = "/api/v1/records"
MAX_LINES, MAX_BYTES = 5_000, 2 << 20
ANSWER_BYTES_MAX = 1 << 16
"""A hub's response has some 40 bytes; a proxy's page of an error some KiB."""
_TIMEOUT_S = 30.0
_MAX_WAIT_S = 60.0
_NO_PASSWORD = b""
"""Without one OpenSSL prompts on the terminal."""
_FAULTS = (OSError, HTTPException, OutputError, ConfigError, *MALFORMED)


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class HubProgress(msgspec.Struct):
    """A hub's response: the number of the last durable record of a spool."""

    seq: _Count
    unreadable: _Count = 0
    """Records of the last batch that the hub passes over: of another release, or damaged."""
    id: str = ""
    """The id of record ``seq``, if the hub knows it."""


class _Identified(msgspec.Struct):
    """The id of a line of the spool."""

    id: str = ""


class _Response(NamedTuple):
    status: int
    body: bytes


@dataclass(slots=True)
class _Counts:
    sent: int = 0
    errors: int = 0
    dropped: int = 0


class _Passed(NamedTuple):
    """Records that the hub cannot read and does not count as received: an older release's."""

    hub_seq: int = 0
    """The hub's last number when they were passed over; another one ends this."""
    read_to: int = 0


class HubPush:
    """Sends one spool to one hub."""

    def __init__(self, url: str, config: HubConfig, folder: Path) -> None:
        """Read the token and the certificates.

        Raises:
            RebalanceAgentError: one of them cannot be read.

        """
        parts = urllib.parse.urlsplit(url)
        self.name = f"hub:{parts.hostname}:{parts.port}" if parts.port else f"hub:{parts.hostname}"
        self._folder, self._interval_s = folder, config.interval_s
        self._url, self._config = parts, config
        self._path = parts.path.rstrip("/")
        self._token, self._connection = (
            read_token(config.token_file),
            _open_connection(parts, config),
        )
        self._spool = ""
        self._seq: int | None = None
        """The hub's last number of this spool; None: it is requested first."""
        self._passed = _Passed()
        self._newest = 0
        self._counts = _Counts()
        self._fault = ""

    async def run(self) -> None:
        """Push until cancelled; retry an unreachable hub with growing pauses."""
        wait, self._seq = self._interval_s, None
        while True:
            try:
                more = await call_in_daemon(self.push, self.name)
                wait = 0.0 if more else self._interval_s
                self._log_change("")
            except _FAULTS as error:
                self._counts.errors += 1
                self._seq = None  # request the hub's number again
                wait = min(max(2 * wait, self._interval_s), _MAX_WAIT_S)
                self._log_change(str(error) or repr(error))
            await asyncio.sleep(wait)

    def push(self) -> bool:
        """Send the next batch; return whether more may follow.

        Raises:
            OSError: the hub is unreachable or refuses.
            OutputError: its response is too long, or names records that the spool does not have.
            ConfigError: the token or a certificate is no longer readable.

        """
        if self._seq is None:
            self._spool = spool_id(self._folder)
            self._connect()
            progress = self._request(None)
            self._seq = progress.seq
            self._check_numbering(progress)
        begin = self._read_to(self._seq)
        batch = batch_after(self._folder, begin, MAX_LINES, MAX_BYTES)
        if batch is None:
            self._request(b"")  # a sign of life without records
            return False
        self._counts.dropped += batch.first - begin - 1  # evicted while the hub was unreachable
        progress = self._request(b"".join(batch.lines))
        self._newest = max(self._newest, batch.last)
        self._accept(batch, progress)
        return _is_full(batch)

    def _read_to(self, seq: int) -> int:
        """Return the last record that needs no push, if the hub's last number is ``seq``."""
        return self._passed.read_to if self._passed.hub_seq == seq else seq

    def _accept(self, batch: SpoolBatch, progress: HubProgress) -> None:
        """Continue after a batch that the hub has acknowledged.

        Raises:
            OutputError: it acknowledges records that this spool does not have.

        """
        if progress.seq > batch.last and progress.seq > newest_seq(self._folder):
            raise OutputError(f"found record {progress.seq}, wanted at most {batch.last}")
        unreadable = min(progress.unreadable, len(batch.lines))
        if progress.seq < batch.last:  # an older hub's number stays before records it cannot read
            unreadable = sum(1 for number in batch.numbers if number > progress.seq)
            self._passed = _Passed(progress.seq, batch.last)
        self._seq = progress.seq
        self._counts.sent += len(batch.lines) - unreadable
        self._skip(unreadable)

    def _check_numbering(self, progress: HubProgress) -> None:
        """Give the spool a new id if the hub has other records under its numbers.

        Either the numbering began again, or another agent pushes a copy of the spool.

        Raises:
            OutputError: the id cannot be written.

        """
        newest = newest_seq(self._folder)
        if not newest or not self._is_other_spool(progress, newest):
            return
        keys = {"hub": self.name, "hub_seq": progress.seq, "spool_seq": newest}
        log.warning("spool_renumbered", extra=keys)
        discard_spool_id(self._folder)
        self._spool = spool_id(self._folder)
        self._seq = self._request(None).seq

    def _is_other_spool(self, progress: HubProgress, newest: int) -> bool:
        if progress.seq > newest:
            return True
        batch = batch_after(self._folder, progress.seq - 1, 1, 1) if progress.id else None
        if batch is None or batch.first != progress.seq:  # evicted
            return False
        return msgspec.json.decode(batch.lines[0], type=_Identified).id != progress.id

    def _skip(self, unreadable: int) -> None:
        """Count and log records that the hub passes over."""
        if unreadable:
            self._counts.dropped += unreadable
            keys = {"hub": self.name, "records": unreadable}
            log.warning("hub_cannot_read_records", extra=keys)

    @property
    def stats(self) -> OutputStats:
        """Counts since the start."""
        counts = self._counts
        behind = 0 if self._seq is None else max(0, self._newest - self._read_to(self._seq))
        return OutputStats(
            name=self.name,
            written=counts.sent,
            buffered=behind,
            dropped=counts.dropped,
            errors=counts.errors,
        )

    def _connect(self) -> None:
        """Open a new connection, with the token and certificates as the files hold them now."""
        self._connection.close()
        self._token = read_token(self._config.token_file)
        self._connection = _open_connection(self._url, self._config)

    def _request(self, body: bytes | None) -> HubProgress:
        """Send lines, or request the hub's last number."""
        headers = {"Content-Type": "application/x-ndjson", "X-Spool": self._spool}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if self._seq is not None:
            headers["X-After"] = str(self._seq)
        if body:
            headers["Content-Encoding"] = "gzip"
            body = gzip.compress(body, 1)
        try:
            answer = self._send("GET" if body is None else "POST", body, headers)
        except (OSError, HTTPException, OutputError):
            self._connection.close()  # the next request opens another
            raise
        if answer.status != HTTPStatus.OK:
            raise ConnectionRefusedError(f"{answer.status}: {_error_text(answer.body)}")
        return msgspec.json.decode(answer.body, type=HubProgress)

    def _send(self, method: str, body: bytes | None, headers: dict[str, str]) -> _Response:
        self._connection.request(method, f"{self._path}{PATH}", body, headers)
        answer = self._connection.getresponse()
        body = answer.read(ANSWER_BYTES_MAX + 1)
        if len(body) > ANSWER_BYTES_MAX:
            raise OutputError(f"found a response of more than {ANSWER_BYTES_MAX} bytes")
        return _Response(answer.status, body)

    def _log_change(self, fault: str) -> None:
        if fault and fault != self._fault:
            log.warning("hub_unreachable", extra={"hub": self.name, "error": fault})
        elif self._fault and not fault:
            log.info("hub_reachable", extra={"hub": self.name})
        self._fault = fault


def _is_full(batch: SpoolBatch) -> bool:
    return len(batch.lines) >= MAX_LINES or sum(map(len, batch.lines)) >= MAX_BYTES // 2


def _error_text(body: bytes) -> str:
    try:
        return str(msgspec.json.decode(body)["error"])
    except (*MALFORMED, KeyError, TypeError):
        return body[:200].decode(errors="replace")


def _open_connection(url: urllib.parse.SplitResult, config: HubConfig) -> HTTPConnection:
    host, port = url.hostname or "", url.port
    if url.scheme == "http":
        return TimedHttpConnection(host, port, timeout=_TIMEOUT_S)
    return TimedHttpsConnection(host, port, timeout=_TIMEOUT_S, context=_tls(config))


def _tls(config: HubConfig) -> ssl.SSLContext:
    name, path = "ca_file", config.ca_file
    try:
        check_certificates(path)
        context = ssl.create_default_context(cafile=path)
        if config.certificate_file is not None:
            name, path = "certificate_file", config.certificate_file
            check_certificates(path)
            context.load_cert_chain(path, password=_NO_PASSWORD)
    except (OSError, ValueError) as error:
        raise ConfigError(f"hub.{name}: {path}: {error}; wanted PEM") from error
    return context
