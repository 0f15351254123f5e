"""What one system test plays on."""

from dataclasses import dataclass

from agent.lab.clients import Clients
from agent.lab.process import Driver
from agent.lab.proxy import FaultProxy
from tests.system.observer import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    clients: Clients
    admin: Driver
    agent: Observer
    proxy: FaultProxy
    group: str
    topic: str
