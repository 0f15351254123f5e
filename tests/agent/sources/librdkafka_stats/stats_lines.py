"""Objects of librdkafka's statistics, for tests."""

import json

NOW = 1_795_000_000


class Client:
    """A client that hands out statistics once a second, from `NOW` on."""

    def __init__(self, name: str = "m1") -> None:
        self.name, self.seconds = name, 0

    def says(self, state: str = "steady", count: int = 1, reason: str = "", age: int = 0) -> bytes:
        self.seconds += 1
        return self.line(
            cgrp={
                "state": "up",
                "join_state": state,
                "rebalance_age": age,
                "rebalance_cnt": count,
                "rebalance_reason": reason,
            }
        )

    def line(self, **more: object) -> bytes:
        stats = {
            "name": f"{self.name}#consumer-1",
            "client_id": self.name,
            "type": "consumer",
            "ts": self.seconds * 1_000_000,
            "time": NOW + self.seconds,
            "age": self.seconds * 1_000_000,
        }
        return json.dumps(stats | more).encode() + b"\n"
