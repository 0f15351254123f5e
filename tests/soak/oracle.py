"""What a Java client's DEBUG log says of its status: KAFKA-12472 once more, by other means.

It reads requests and answers (`tests.soak.debug_log`), which the agent does not: that has INFO
lines and frames. Nothing of the agent is used here. For the classic protocol: consumers, and
Streams applications of one version, without endpoints (no 12, no 13). What is asked of a client
counts too: one that is joining already never sends that, nor what another reason has replaced.

Some things are open, and only they may be decided by what was found. A process that was killed has
not logged how it ended: whether the answer to a SyncGroup that it had sent came, whether that took
partitions from it or demanded another rebalance of its instance, and whether what it had begun was
lost (a status that nothing confirms is, after a time; so is a living client's). An answer to a
SyncGroup that came when the heartbeat thread had just left is none to the client. What an
assignment demands that the client rejects is told by the wire, unless the log was first.
A subscription that changes while a join is under way is told by the next join alone.
Those are ``fates``. What crosses on its way has no one order: where a cause is masked by a higher
one of seconds before, or came just behind a leave, another source may have met it first. A request
that the client gave up, or left behind as it was killed, may have been answered on the wire. And
what was asked of a client may be told when the wire has told the end, or a higher cause: then it is
a ``signal``. Those are ``Possible``.
"""

from collections.abc import Mapping, Sequence

from tests.soak.causes import REVOKE
from tests.soak.client import PROBE, Client, instance_of
from tests.soak.debug_log import BEGINNING, Line
from tests.soak.lives import Lives, Question


def codes(lines: Sequence[Line], fates: Mapping[Question, bool] | None = None) -> Lives:
    """Return the codes that each client and instance went to, through all processes.

    Questions without a fate are answered with yes.
    """
    process = Process(fates or {})
    for line in lines:
        process.take(line)
    process.end()
    return process.lives


class Process:
    """The clients of one log, and the Streams instance that they may be."""

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
        """Tell whether no answer has passed the wire to a SyncGroup that a client gave up."""
        return self._is_so("unanswered", client_id)

    def is_changed(self, client_id: str) -> bool:
        """Tell whether topics that a client's join changed, without a reason, were noticed."""
        return self._is_so("changed", client_id)

    def _heeded(self, line: Line, client: Client) -> Line:
        if line.what == "Received" or not client.demands(line.body):
            return line
        return line if self._is_so("heeded", line.client_id) else line.without_assignment()

    def end(self) -> None:
        """Leave behind what is in flight."""
        for client in self._clients.values():
            client.end()

    def follow(self, client_id: str, masked: int = 0) -> None:
        """Bring the instance up to date after a thread of it has moved, or been raised in vain."""
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
        """Return where the client and its instance are."""
        names = filter(None, (client_id, instance_of(client_id)))
        return {name: len(self.lives.got[name]) for name in names}

    def _target(self) -> int:
        threads = self._clients.values()
        return max(each.demand for each in threads) or max(each.status for each in threads)

    def _lose(self, before: Line) -> None:
        """Let go of what nothing has confirmed for long, if it was lost before this line."""
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
        """End what an answer ended that the process has not logged, or demand what it demanded."""
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
