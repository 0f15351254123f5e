"""Ports for processes that are yet to start: several tests at a time ask for some."""

import socket

from agent.processes.ports import HOST, free_port


def test_a_port_is_given_once_and_waits_for_who_was_given_it() -> None:
    given = [free_port() for _ in range(500)]

    assert len(set(given)) == len(given)
    for port in given:
        socket.create_server((HOST, port)).close()
