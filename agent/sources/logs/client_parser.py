"""Line parser of a client's log; its interpreter also reads the client's settings."""

from agent.sources.lines.dialect_matcher import Dialects
from agent.sources.lines.line_parser import LineParser
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.consumer_config import Client, Settings, find_settings


def create_parser(
    dialects: Dialects, interpreter: ClientInterpreter, timezone: str | None = None
) -> LineParser:
    """Create a parser that lets ``interpreter`` look back for a client's settings.

    ``timezone`` is the IANA name for timestamps without a zone; None is the machine's.
    """

    def create(origin: str, host: str) -> ClientInterpreter:
        return interpreter.derive(origin, host)

    parser = LineParser(dialects, interpreter, timezone, create)

    def look_back(client: Client) -> Settings:
        for log, begin, end in parser.bytes_before():
            found = find_settings(client, log, begin, end)
            if found != Settings():
                return found
        return Settings()

    interpreter.look_back = look_back
    return parser
