"""The source of type ``logs``: clients' log files."""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agent.sources.base import Emit
from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.lines.following.stream_tail import StreamTail
from agent.sources.lines.following.tail import FileTail
from agent.sources.lines.parsing.stream_parser import StreamParser
from agent.sources.lines.whole_files.log_file import Chunk
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.client_state import ClientState
from agent.sources.logs.config import LogConfig
from agent.sources.logs.diagnosis import KEEP_NAMES, OWN_IDS, describe_consumer
from agent.sources.logs.partition_budget import PartitionBudget

_log = logging.getLogger(__name__)


class LogSource(FileTail):
    """Tail of the logs of Kafka clients."""

    kind = "logs"

    def __init__(  # noqa: PLR0913 - what the composition root passes
        self,
        config: LogConfig,
        *,
        cluster: str = "",
        host: str = "",
        timezone: str | None = None,
        position: dict[str, Any] | None = None,
        orphans: dict[str, Any] | None = None,
        readers: dict[str, object] | None = None,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Continue from ``position``, a former `checkpoint`. ``pause`` waits for some seconds.

        Raises:
            DialectError: an unknown dialect, or a rule that is wrong.

        """
        self.name = config.name
        dialects = choose_dialects(config.dialects, config.rules)
        self._budget, self._forgotten = PartitionBudget(), 0

        def parser(stream: str) -> StreamParser:
            interpreter = ClientInterpreter(
                stream=stream,
                cluster=cluster,
                group=config.group,
                host=host,
                is_host_configured=host != socket.gethostname(),
                budget=self._budget,
                on_mixed=partial(_warn_of_mixed, stream),
            )
            zone = config.timezone or timezone
            return LiveDocuments(create_parser(dialects, interpreter, zone), stream, zone)

        super().__init__(
            config,
            parser,
            position=position,
            orphans=orphans,
            readers=readers,
            are_streams_apart=True,
            clock=clock,
            pause=pause,
        )
        self._reports.describe = describe_consumer

    def _feed_block(self, tail: StreamTail, block: Chunk, now: float, emit: Emit) -> None:
        super()._feed_block(tail, block, now, emit)
        new, self._forgotten = self._budget.forgotten - self._forgotten, self._budget.forgotten
        self._count(Counter(partitions_forgotten=new))


def _warn_of_mixed(stream: str, client: ClientState) -> None:
    """Warn of a log whose numbers are wrong: its clients cannot be distinguished, or not surely."""
    hint = OWN_IDS if client.member.member_id else KEEP_NAMES
    extra = {"path": stream, "clients": client.describe(), "hint": hint}
    _log.warning("log_clients_mixed", extra=extra)
