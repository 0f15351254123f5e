"""JAAS login modules: ``sasl.jaas.config``, or the section KafkaClient of a file in KAFKA_OPTS."""

import base64
import json
import re
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, reason_of
from agent.small_files import read_text

_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^\s";]+))')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SECTION = re.compile(r"\bKafkaClient\s*\{(.*?;)\s*\}\s*;", re.DOTALL)
_FILE_FLAG = "-Djava.security.auth.login.config="
_UNSECURED = "unsecuredLogin"
_LIFETIME_S = 3600

Options = Mapping[str, str]


def parse_options(jaas: str) -> dict[str, str]:
    """Return the options of a login module."""
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) or plain
        for name, quoted, plain in _OPTION.findall(jaas)
    }


def find_jaas_file(environ: Mapping[str, str]) -> Path | None:
    """Return the JAAS file that KAFKA_OPTS names."""
    for flag in shlex.split(environ.get("KAFKA_OPTS", "")):
        if flag.startswith(_FILE_FLAG):
            return Path(flag.removeprefix(_FILE_FLAG).removeprefix("="))
    return None


def read_client_section(path: Path) -> str:
    """Return the login module in a JAAS file's section KafkaClient.

    Raises:
        ConfigError: the file cannot be read, or has no such section.

    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"KAFKA_OPTS: {path} cannot be read: {reason_of(error)}") from error
    match = _SECTION.search(_COMMENT.sub(" ", text))
    if match is None:
        raise ConfigError(f"KAFKA_OPTS: {path}: found no section KafkaClient")
    return match[1]


def has_unsecured_claims(options: Options) -> bool:
    """Return whether options describe an unsecured token (OAUTHBEARER of development setups)."""
    return any(name.startswith(_UNSECURED) for name in options)


def make_unsecured_token(options: Options, now: float | None = None) -> str:
    """Return an unsigned JWT with the claims of a login module's options, as Kafka makes it."""
    issued_at = time.time() if now is None else now
    lifetime_s = float(options.get(f"{_UNSECURED}LifetimeSeconds", _LIFETIME_S))
    claims: dict[str, Any] = {"iat": issued_at, "exp": issued_at + lifetime_s}
    for name, value in options.items():
        for kind, read in (("String", str), ("Number", float), ("List", _read_list)):
            prefix = f"{_UNSECURED}{kind}Claim_"
            if name.startswith(prefix):
                claims[name.removeprefix(prefix)] = read(value)
    return ".".join(_encode(part) for part in ({"alg": "none"}, claims)) + "."


def _read_list(value: str) -> list[str]:
    """Return a list claim: its first character separates the items, unless it is a letter."""
    if value and not value[0].isalnum():
        return value[1:].split(value[0])
    return [value]


def _encode(part: Mapping[str, Any]) -> str:
    text = json.dumps(part, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")
