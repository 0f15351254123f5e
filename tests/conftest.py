"""How much hypothesis tries, what runs beside what, and what no test may leave behind."""

import gc
import os
import signal
from collections.abc import Generator, Iterator
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer

from agent.sources.proxy import source as wire_proxy
from tests import left_over
from tests.side_by_side import Lanes, begin_with_the_long
from tests.spark_start import pyspark_arguments

# a deadline would measure the machine, not the code
settings.register_profile("quick", deadline=None)
settings.register_profile("unit", deadline=None, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=2_000)
# mutmut runs all tests again and again in one process, each time as new objects; a mutant lives or
# dies by the same examples every time
settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors],
)
_default = "mutants" if "MUTANT_UNDER_TEST" in os.environ else "quick"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", _default))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files instead of comparing"
    )


def pytest_configure(config: pytest.Config) -> None:
    # a shell's background job ignores Ctrl-C, and so would all that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    left_over.register(config)
    # no JVM of a test lives long enough to earn back what its better compiler costs
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", pyspark_arguments())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Lanes:
    config.option.loadscopereorder = False  # as the workers have ordered them
    return Lanes(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported is not garbage: do not look for any, now and in all that follows."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)  # a test's own garbage can wait
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not os.environ.get("FIELD"):
        skip = pytest.mark.skip(reason="runs for minutes: make field")
        for item in items:
            if item.get_closest_marker("field"):
                item.add_marker(skip)
    if hasattr(config, "workerinput"):
        begin_with_the_long(items)


@pytest.fixture(autouse=True, scope="session")
def _memory_of_ours() -> Iterator[None]:
    """Keep a proxy that runs in this process from collecting and freezing what tests are made of.

    It took 0.2 s each time. Frozen, the garbage of one test was found in another, wherever a
    schema was loaded, and told there as a fault of its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire_proxy, "gc", SimpleNamespace(collect=int, freeze=int), raising=False)
        yield
