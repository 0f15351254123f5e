"""The oracle: the status of a Java client by KAFKA-12472, computed from its DEBUG log.

It is independent of the agent and uses none of its code. The oracle reads the requests and
responses in a DEBUG log (`tests.soak.debug_log`); the agent reads INFO lines and frames. It covers
the classic protocol: consumers, and Streams applications of one version, without endpoints (no 12,
no 13). The reasons to join in the log count, too: a client that is joining already sends a new
reason in no request, nor a reason that another one has replaced.

Some facts are not in the log. Only these are decided by the agent's own result: the oracle chooses
the possibility that fits best.

A *question* (`Question`) has two possible answers, its ``fates``:

- Did the response to the last SyncGroup of a killed process arrive? Did it take partitions from the
  member, or require another rebalance of its instance?
- Was the status of a killed process, or of a living client, lost because nothing confirmed it?
- Did the client apply a SyncGroup response that arrived when its heartbeat thread had just left?
- Was the follow-up of an assignment reported that the client rejects? The wire reports it, unless
  the log was first.
- Was a subscription reported that changed during a join? Only the next join shows it.

A *possible* deviation (`Possible`) is a code that the wire may have in addition, or elsewhere:

- The order of log and wire is open. If a cause is masked by a higher one of seconds before, or came
  just after a leave, another source may have reported it first.
- The broker may have responded to a request that the client gave up, or had sent before its kill.
- A client's own reason may be logged after the wire has reported the end or a higher cause. Then
  the agent records it as a ``signal``.
"""

from collections.abc import Mapping, Sequence

from tests.soak.causes import REVOKE
from tests.soak.client import PROBE, Client, instance_of
from tests.soak.debug_log import BEGINNING, Line
from tests.soak.lives import Lives, Question


def codes(lines: Sequence[Line], fates: Mapping[Question, bool] | None = None) -> Lives:
    """Return the codes of each client and instance, over all processes of the log.

    Questions without a fate are answered with yes.
    """
    process = Process(fates or {})
    for line in lines:
        process.take(line)
    process.end()
    return process.lives


class Process:
    """The clients of one log, and the Streams instance of which they may be threads."""

    def __init__(self, fates: Mapping[Question, bool]) -> None:
        self.lives, self.at = Lives(), 0.0
        self._fates, self._number = fates, 0
        self._clients: dict[str, Client] = {}
        self._instance = 0

    def take(self, line: Line) -> None:
        self._number += 1
        if line.what == BEGINNING:
            self._begin()
            return
        if line.client_id not in self._clients:
            self._clients[line.client_id] = Client(self, line.client_id)
        client, self.at = self._clients[line.client_id], line.at
        self._lose(line)
        match line.what:
            case "Sending":
                client.ask(line.api, line.number, line.body)
            case "Received" | "Unheeded":
                client.answer(line.api, line.number, self._heeded(line, client).body)
            case "Not taken":
                if self._is_so("taken", line.client_id):
                    client.answer(line.api, line.number, line.body)
            case "Cancelled":
                client.cancel(line.number, line.api)
            case _:
                client.request(line.body)

    def is_unanswered(self, client_id: str) -> bool:
        """Return whether the wire has no response to a SyncGroup that a client gave up."""
        return self._is_so("unanswered", client_id)

    def is_changed(self, client_id: str) -> bool:
        """Return whether the agent noticed the topics that a join changed without a reason."""
        return self._is_so("changed", client_id)

    def _heeded(self, line: Line, client: Client) -> Line:
        if line.what == "Received" or not client.demands(line.body):
            return line
        return line if self._is_so("heeded", line.client_id) else line.without_assignment()

    def end(self) -> None:
        """Give up the requests in flight."""
        for client in self._clients.values():
            client.end()

    def follow(self, client_id: str, masked: int = 0) -> None:
        """Update the instance after a thread's status has changed, or a masked cause has come."""
        name, status = instance_of(client_id), self._target()
        if name is None:
            return
        if status > self._instance or status == 0 != self._instance:
            self._instance = status
            self.lives.tell(name, status, self.at)
        elif 0 < (code := masked or status) < self._instance:
            self.lives.mask(name, code, self.at)

    def give_up(self, client_id: str, codes: Sequence[int]) -> None:
        self.lives.give_up(client_id, codes)
        if name := instance_of(client_id):
            self.lives.give_up(name, [*codes, PROBE] if REVOKE in codes else codes)

    def position(self, client_id: str) -> dict[str, int]:
        """Return the numbers of codes so far of the client and of its instance."""
        names = filter(None, (client_id, instance_of(client_id)))
        return {name: len(self.lives.got[name]) for name in names}

    def _target(self) -> int:
        threads = self._clients.values()
        return max(each.demand for each in threads) or max(each.status for each in threads)

    def _lose(self, before: Line) -> None:
        """Drop statuses that nothing has confirmed for long, if they were lost before this line."""
        if before.is_quiet:
            return
        for client_id, client in self._clients.items():
            if client.is_in_doubt(self.at) and not self._is_so("kept", client_id):
                client.status = client.demand = 0
                self._instance = self._instance and self._target() and self._instance

    def _begin(self) -> None:
        for client_id, client in self._clients.items():
            if client.status and client.waits_for_sync and self._is_so("synced", client_id):
                self._leave_synced(client_id, client)
            client.end()
            client.begin_anew()
        is_open = self._instance or any(each.status for each in self._clients.values())
        if is_open and not self._is_so("kept"):
            self._clients, self._instance = {}, 0

    def _leave_synced(self, client_id: str, client: Client) -> None:
        """Apply a SyncGroup response that the killed process has not logged."""
        if client.has_owned and not self._is_so("spared", client_id):
            client.revoke()
            return
        if instance_of(client_id) and not self._is_so("content", client_id):
            client.demand = REVOKE
        client.settle()

    def _is_so(self, about: str, client_id: str = "") -> bool:
        question = Question(self._number, client_id, about)
        self.lives.questions.append(question)
        return self._fates.get(question, True)
