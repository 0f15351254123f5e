"""Fuzzes one target in this process, and then exits: ``TARGET`` and libFuzzer's own flags."""

import sys

import atheris

if __name__ == "__main__":
    with atheris.instrument_imports(include=["agent", "aggregation", "metrics"]):
        from tests.fuzz.targets import TARGETS
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
