"""The configuration of a source of type ``capture``; it imports nothing of the decoder."""

from dataclasses import dataclass

from agent.errors import ConfigError

ANY = "any"
_PORTS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureConfig:
    """One source of type ``capture``."""

    interface: str = ANY
    ports: tuple[int, ...] = (9092,)
    """Brokers' plaintext ports for bootstrap; ports in brokers' responses are added."""

    def __post_init__(self) -> None:
        """Check the values beyond their types.

        Raises:
            ConfigError: no interface, no ports, or no port numbers.

        """
        if not self.interface:
            raise ConfigError(f"interface: found none, wanted a name or {ANY!r}")
        if not 0 < len(self.ports) <= _PORTS_MAX:
            raise ConfigError(f"ports: found {len(self.ports)}, wanted 1 to {_PORTS_MAX}")
        for i, port in enumerate(self.ports):
            if not 0 < port < 1 << 16:
                raise ConfigError(f"ports[{i}]: found {port}, wanted 1 to 65535")

    @property
    def name(self) -> str:
        """The source's name in metrics and in the checkpoint."""
        return f"capture:{self.interface}:{','.join(map(str, self.ports))}"
