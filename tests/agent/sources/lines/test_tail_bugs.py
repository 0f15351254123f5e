"""A bug in the reading of one file: the other files are read, and the file goes on behind it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.sources.lines.dialects.dialect_loader import choose_dialects
from agent.sources.lines.following.config import FilesConfig
from agent.sources.lines.following.live_documents import LiveDocuments
from agent.sources.lines.following.tail import SCAN_S, FileTail
from agent.sources.logs.client_interpreter import ClientInterpreter
from agent.sources.logs.client_parser import create_parser
from metrics.model.signals import Signal
from tests.agent.sources.lines.following.test_tail import START_AT, line, lines

_BUG = b"the text that shows a bug"
_DIALECTS = choose_dialects("auto")


class Fragile(LiveDocuments):
    """A parser that fails for ever at bytes that it holds."""

    _is_broken = False

    def __init__(self, stream: str) -> None:
        parser = create_parser(_DIALECTS, ClientInterpreter(stream=stream), "UTC")
        super().__init__(parser, stream, "UTC")

    def feed(self, data: bytes, arrival_at: float) -> list[Signal]:
        self._is_broken = self._is_broken or _BUG in data
        if self._is_broken:
            raise TypeError("a bug")
        return super().feed(data, arrival_at)


class Bench:
    """Two files, of which the first one shows the bug."""

    def __init__(self, folder: Path) -> None:
        self.paths = folder / "a.log", folder / "b.log"
        for path in self.paths:
            path.write_bytes(line(1))
        self.now = START_AT + 10_000
        self.found: list[tuple[str, int]] = []
        self._config = FilesConfig(paths=(str(folder / "*.log"),))
        self.source = FileTail(self._config, Fragile, clock=lambda: self.now)

    def restart(self) -> None:
        position = self.source.checkpoint()
        self.close()
        self.source = FileTail(self._config, Fragile, position=position, clock=lambda: self.now)

    def close(self) -> None:
        for tail in self.source._tails.values():
            tail.follower.close()

    def append(self, data: bytes, number: int) -> None:
        with self.paths[number].open("ab") as file:
            file.write(data)

    def read(self) -> list[tuple[str, int]]:
        """Step once; return the file and the line of each signal."""
        self.now += SCAN_S
        self.found.clear()
        self.source.step(self._emit, lambda _stream, _at: None)
        return list(self.found)

    def _emit(self, signals: object) -> None:
        assert isinstance(signals, list)
        self.found += [
            (Path(signal.member.origin).name, round(signal.at - START_AT)) for signal in signals
        ]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    assert bench.read() == [("a.log", 1), ("b.log", 1)]
    yield bench
    bench.close()


def test_other_files_are_read_beside_a_file_that_shows_a_bug(bench: Bench) -> None:
    bench.append(_BUG + b"\n", 0)
    bench.append(line(2), 1)

    with pytest.raises(TypeError, match="a bug") as error:
        bench.read()

    assert bench.found == [("b.log", 2)]
    assert error.value.__notes__ == [f"in {bench.paths[0]}: its bytes are passed over"]
    assert bench.source.health.errors == {"bug": 1}


def test_file_is_read_behind_the_bytes_that_show_a_bug(bench: Bench) -> None:
    bench.append(_BUG + b"\n", 0)
    with pytest.raises(TypeError):
        bench.read()

    bench.append(lines(3, 4), 0)

    assert bench.read() == [("a.log", 3), ("a.log", 4)]


def test_restart_does_not_read_the_bytes_that_show_a_bug_again(bench: Bench) -> None:
    bench.append(_BUG, 0)
    with pytest.raises(TypeError):
        bench.read()
    bench.restart()

    bench.append(b"\n" + line(3), 0)

    assert bench.read() == [("a.log", 3)]
