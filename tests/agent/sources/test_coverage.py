"""The codes that `dialects` lists for sources without logs are those that their code raises."""

import inspect
import re
import subprocess
import sys
from types import ModuleType

from agent.sources.http_events import events as http_events_reading
from agent.sources.registry import REGISTRY
from agent.sources.statistics import interpreter as librdkafka_stats_view
from agent.wire.codec import streams_user_data as streams_userdata
from agent.wire.members import classic_protocol as classic
from agent.wire.members import error_codes
from agent.wire.members import heartbeat_protocol as consumer_group
from agent.wire.members import kip800_reasons as reasons
from metrics.model.status import RebalanceStatus

SHOWN = {row.name: row.codes for row, _ in REGISTRY.coverage()}
LEAVES = {RebalanceStatus.USER_REQUESTED}
ERRORS = {code for code in error_codes._CODES.values() if isinstance(code, RebalanceStatus)}
OF_STREAMS = {RebalanceStatus.ASSIGNMENT_PROBING, RebalanceStatus.ENDPOINT_UPDATE}


def raised_in(module: ModuleType) -> set[RebalanceStatus]:
    names = re.findall(r"RebalanceStatus\.([A-Z_]+)", inspect.getsource(module))
    return {RebalanceStatus[name] for name in names} - {RebalanceStatus.NONE}


def test_the_classic_protocol_on_the_wire() -> None:
    by_itself = raised_in(classic) | raised_in(streams_userdata) | ERRORS | LEAVES

    assert SHOWN["wire-classic"] == by_itself | reasons.CODES
    assert SHOWN["wire-classic-without-reasons"] == by_itself - {RebalanceStatus.DROPPED_GROUP}


def test_the_new_protocols_on_the_wire() -> None:
    raised = raised_in(consumer_group) | ERRORS | LEAVES

    assert SHOWN["wire-streams"] == raised
    assert SHOWN["wire-consumer"] == SHOWN["wire-share"] == raised - OF_STREAMS


def test_librdkafkas_statistics() -> None:
    assert SHOWN["librdkafka-statistics"] == set(librdkafka_stats_view._CAUSES.values())


def test_events_over_http() -> None:
    of_codes = set(http_events_reading._CAUSES.values())

    assert SHOWN["http-events"] == of_codes | raised_in(http_events_reading) | LEAVES


def test_it_needs_no_extra() -> None:
    script = "import sys, agent.sources.registry; sys.exit('kio' in sys.modules)"

    subprocess.run([sys.executable, "-P", "-c", script], check=True)
