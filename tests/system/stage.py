"""The resources of one system test."""

from dataclasses import dataclass

from agent.lab.clients import Clients
from agent.lab.lab import Lab
from tests.system.observer import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The group and the topic are the test's own; the lab is everyone's."""

    lab: Lab
    clients: Clients
    agent: Observer
    group: str
    topic: str
