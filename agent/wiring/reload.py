"""Reload of the configuration: the tracker's state moves on, some sections need a restart."""

import logging

from agent.wiring.agent_config import AgentConfig
from metrics.tracking.tracker import Tracker, TrackerState

log = logging.getLogger(__name__)


def make_tracker(config: AgentConfig, state: TrackerState) -> Tracker:
    """Return a tracker with a previous state, with applications of the new configuration."""
    app_of = config.app_of
    for track in [*(entry.track for entry in state.consumers), *state.instances]:
        track.app = app_of(track.member.group)
    for entry in state.groups:
        entry.key = entry.key._replace(app=app_of(entry.key.group))
    return Tracker(config.status, app_of, state, config.workload.values)


def log_restart_needed(old: AgentConfig, new: AgentConfig) -> None:
    """Log the changed sections that need a restart."""
    changed = [
        name
        for name, before, after in (
            ("web", old.web, new.web),
            ("otlp", old.otlp, new.otlp),
            ("state_dir", old.state_dir, new.state_dir),
            ("samples.spool", old.samples.spool, new.samples.spool),
            ("samples.kafka", old.samples.kafka, new.samples.kafka),
            ("hub.topic", old.hub.topic, new.hub.topic),
            ("limits.series", old.limits.series, new.limits.series),
        )
        if before != after
    ]
    if changed:
        log.warning("restart_needed", extra={"sections": ",".join(changed)})
