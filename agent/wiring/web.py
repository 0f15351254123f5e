"""The web server's part in the composition, with access control and TLS if configured."""

import socket
from collections import Counter
from collections.abc import Callable, Sequence

from starlette.types import ASGIApp

from agent.config.web import WebConfig
from agent.web.server import serve


class WebWiring:
    """Serves, as ``web.config_file`` configures it."""

    def __init__(self, config: WebConfig, reloads: Counter[str]) -> None:
        """Read the file, if configured.

        Raises:
            ConfigError: it is wrong.

        """
        self._security = None
        if config.config_file is not None:
            # imported only if configured
            from agent.web.security import WebSecurity  # noqa: PLC0415

            self._security = WebSecurity(config.config_file, reloads)

    def reload(self) -> None:
        """Read the file again.

        Raises:
            ConfigError: it is wrong; the old one stays in force.

        """
        if self._security is not None:
            self._security.reload()

    async def serve(
        self,
        app: ASGIApp,
        sockets: list[socket.socket],
        max_connections: int,
        own_tokens: Sequence[Callable[[str], bool]],
    ) -> None:
        """Serve until cancelled; ``own_tokens`` select the paths with a token of their own."""
        if self._security is None:
            await serve(app, sockets, max_connections)
        else:
            app = self._security.guard(app, own_tokens)
            await serve(app, sockets, max_connections, self._security.tls)
