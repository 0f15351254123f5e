"""Line parser of a client's log; its interpreter also reads the client's settings."""

import weakref

from agent.sources.lines.dialects.dialect_matcher import Dialects
from agent.sources.lines.parsing.line_parser import KEPT_LONG_BYTES, LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.consumer_config import (
    Client,
    Settings,
    condense_settings,
    find_settings,
    has_settings,
)
from agent.sources.logs.group_names import find_group


def create_parser(
    dialects: Dialects, interpreter: ClientInterpreter, timezone: str | None = None
) -> LineParser:
    """Create a parser that lets ``interpreter`` look back for a client's settings.

    ``timezone`` is the IANA name for timestamps without a zone; None is the machine's.
    """

    def create(origin: str, host: str) -> ClientInterpreter:
        return interpreter.derive(origin, host)

    parser = LineParser(dialects, interpreter, timezone, create)

    parser.begins_long = has_settings
    look_back = _LookBack(parser)
    parser.condense = look_back.condense
    interpreter.look_back, interpreter.find_group = look_back.find, look_back.find_group
    return parser


class _LookBack:
    """Search for a client's settings in the bytes above the line; those without are read once."""

    def __init__(self, parser: LineParser) -> None:
        self._parser = weakref.ref(parser)  # the parser owns it, and is freed without a collection
        self._block_number, self._bare_to = -1, 0
        """The block that was searched last, and up to where it holds no settings at all."""
        self._is_bare_above = False
        """No settings stand before that block."""

    def find(self, client: Client) -> Settings:
        """Return the client's settings; none where its log does not hold them."""
        found, parser = self._search(client), self._parser()
        if parser is not None and found != Settings():
            parser.release_long()
        return found

    def condense(self, log: bytes) -> bytes:
        """Return what later lines may refer to in the last bytes, for a checkpoint."""
        return condense_settings(log, self._is_used) if has_settings(log, 0, len(log)) else b""

    def _is_used(self, client: Client, head: str) -> bool:
        """Return whether a client has these settings."""
        parser = self._parser()
        interpreters = () if parser is None else parser.interpreters
        return any(
            isinstance(each, ClientInterpreter) and each.has_settings(client, head)
            for each in interpreters
        )

    def _search(self, client: Client) -> Settings:
        parser = self._parser()
        if parser is None:
            return Settings()
        regions = parser.bytes_before(KEPT_LONG_BYTES)
        block, begin, end = next(regions)
        number = parser.block_number
        if number != self._block_number:
            self._block_number, self._bare_to, self._is_bare_above = number, begin, False
        if has_settings(block, max(begin, self._bare_to), end):
            found = find_settings(client, block, begin, end)
            if found != Settings():
                return found
        else:
            self._bare_to = end
        if not self._is_bare_above:
            for above, begin_above, end_above in regions:
                self._is_bare_above = not has_settings(above, begin_above, end_above)
                return find_settings(client, above, begin_above, end_above)
        return Settings()

    def find_group(self, handle: str) -> str:
        """Return the group that a line above names; an empty text where none does."""
        parser = self._parser()
        regions = [] if parser is None else parser.bytes_before()
        return next(filter(None, (find_group(handle, *region) for region in regions)), "")
