"""All fuzz targets by name."""

from collections.abc import Callable

from tests.fuzz import file_targets, wire_targets

Target = Callable[[bytes], None]

TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        wire_targets.messages,
        wire_targets.user_data,
        wire_targets.conversation,
        wire_targets.reassembly,
        wire_targets.segments,
        wire_targets.packets,
        wire_targets.watched,
        file_targets.captures,
        file_targets.log_lines,
        file_targets.documents,
        file_targets.broker_logs,
        file_targets.statistics,
        file_targets.events,
        file_targets.configurations,
        file_targets.web_configurations,
        file_targets.rules,
        file_targets.samples,
    )
}
