"""The kept corpus, and a short run of each target; `make fuzz` runs them for long."""

import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

pytestmark = pytest.mark.fuzz

_CORPUS = Path(__file__).parent / "corpus"
_MUTANTS = 250
_LENGTHS = (struct.pack(">i", 2**31 - 1), b"\xff\xff\xff\xff\x07", struct.pack("<i", 2**31 - 1))
"""2 GiB: as Kafka's INT32, as its unsigned varint, and as pcap has it."""
_GROWTH_BYTES_MAX = 20 << 20
"""A captured packet may have 16 MiB, which is asked for at once; all else takes far less."""


def _corpus(name: str) -> list[bytes]:
    inputs = [path.read_bytes() for path in sorted((_CORPUS / name).iterdir())]
    assert inputs
    return inputs


def _mutant(inputs: list[bytes], chance: random.Random) -> bytes:
    """Return an input with some bytes changed, cut out, or taken from another one."""
    data = bytearray(chance.choice(inputs))
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                del data[at : at + chance.randrange(1, 9)]
            case 2:
                data[at : at + 5] = chance.choice(_LENGTHS)
            case _:
                data[at:at] = chance.choice(inputs)[:100]
    return bytes(data)


@pytest.mark.parametrize("name", TARGETS)
def test_what_fuzzing_has_found_is_handled(name: str) -> None:
    for data in _corpus(name):
        TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
def test_mutants_of_the_corpus_are_handled(name: str) -> None:
    inputs, chance = _corpus(name), random.Random(12472)
    for _ in range(_MUTANTS):
        data = _mutant(inputs, chance)
        try:
            TARGETS[name](data)
        except Exception as error:
            error.add_note(f"{name}: {data!r}")
            raise


@pytest.mark.parametrize("name", TARGETS)
def test_a_length_of_2_gib_costs_nothing(name: str) -> None:
    inputs, chance = _corpus(name), random.Random(12472)
    TARGETS[name](inputs[0])  # what is loaded once stays
    for data in chance.sample(inputs, min(8, len(inputs))):
        for length in _LENGTHS:
            at = chance.randrange(len(data) + 1)
            tracemalloc.start()
            TARGETS[name](data[:at] + length + data[at:])
            _, peak_bytes = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak_bytes < _GROWTH_BYTES_MAX
