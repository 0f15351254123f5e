"""The source of type ``logs``: clients' log files."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agent.sources.lines.dialect_loader import choose_dialects
from agent.sources.lines.stream_parser import StreamParser
from agent.sources.lines.tail import FileTail
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from agent.sources.logs.config import LogConfig
from agent.sources.logs.diagnosis import describe_consumer


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
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Continue from ``position``, a former `checkpoint`. ``pause`` waits for some seconds.

        Raises:
            DialectError: an unknown dialect, or a rule that is wrong.

        """
        self.name = config.name
        dialects = choose_dialects(config.dialects, config.rules)

        def parser(stream: str) -> StreamParser:
            interpreter = ClientInterpreter(
                stream=stream,
                cluster=cluster,
                group=config.group,
                host=host,
                is_host_configured=host != socket.gethostname(),
            )
            return create_parser(dialects, interpreter, config.timezone or timezone)

        super().__init__(
            config,
            parser,
            position=position,
            orphans=orphans,
            are_streams_apart=True,
            clock=clock,
            pause=pause,
        )
        self._reports.describe = describe_consumer
