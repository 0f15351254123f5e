"""Every metric that this version sets: name, type, labels, unit and help.

The names are API. `METRICS` has the order of priority under ``limits.series``: the agent's own
first, then aggregates, then members' statuses, then the rest.
"""

from dataclasses import dataclass
from enum import StrEnum


class MetricType(StrEnum):
    """Types in OpenMetrics' words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


GAUGE, COUNTER, HISTOGRAM = MetricType.GAUGE, MetricType.COUNTER, MetricType.HISTOGRAM

CLUSTER = "kafka_cluster"
_CONSUMER = ("app", "group", "client_id", "host", CLUSTER)
_STREAMS = ("application_id", "client_id", "host", CLUSTER)
_GROUP = ("group", "group_type", CLUSTER)
_APP = ("app", CLUSTER)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``unit`` is a suffix of the name, or empty."""

    name: str
    type: MetricType
    labels: tuple[str, ...]
    help: str
    unit: str = ""
    count: str = ""
    """The tracker's count that it exports; empty for other metrics."""


BUILD_INFO = Metric(
    "rebalance_agent_build_info", GAUGE, ("version", "python_version"), "1, and what is running."
)
EXTERNAL_URL = Metric(
    "rebalance_agent_external_url_info",
    GAUGE,
    ("external_url",),
    "1, and the address of the agent's pages, where web.external_url is set.",
)
SOURCE_UP = Metric(
    "rebalance_agent_source_up", GAUGE, ("source",), "1 while the source can read its traces."
)
SOURCE_FILES = Metric(
    "rebalance_agent_source_files",
    GAUGE,
    ("source",),
    "Files that the globs of the source match; 0 is a source that reads nothing.",
)
SOURCE_BLIND_FILES = Metric(
    "rebalance_agent_source_blind_files",
    GAUGE,
    ("source",),
    "Files with at least 20 lines of a client, of which no member came.",
)
SOURCE_FILES_WITHOUT_GROUP = Metric(
    "rebalance_agent_source_files_without_group",
    GAUGE,
    ("source",),
    "Files whose consumers are in no group, because the application assigns their partitions.",
)
SOURCE_ERRORS = Metric(
    "rebalance_agent_source_errors_total",
    COUNTER,
    ("source", "reason"),
    "Faults of the world, and members that had to be forgotten (*_evicted), by a short reason.",
)
SOURCE_LAG = Metric(
    "rebalance_agent_source_lag_seconds",
    GAUGE,
    ("source",),
    "How far the source is behind what it reads.",
    "seconds",
)
SOURCE_READ = Metric(
    "rebalance_agent_source_read_bytes_total", COUNTER, ("source",), "Bytes read.", "bytes"
)
SIGNALS_READ = Metric(
    "rebalance_agent_signals_read_total", COUNTER, ("source",), "Signals that the source made."
)
SIGNALS_UNPARSED = Metric(
    "rebalance_agent_signals_unparsed_total",
    COUNTER,
    ("source",),
    "Entries that looked like a client's own and could not be read.",
)
SOURCE_MEMBERS = Metric(
    "rebalance_agent_source_members", GAUGE, ("source",), "Members that the source reports."
)
SIGNALS_SUPPRESSED = Metric(
    "rebalance_agent_signals_suppressed_total",
    COUNTER,
    (),
    "Signals for a code that a higher or equal status masked.",
    count="suppressed",
)
SIGNALS_LATE = Metric(
    "rebalance_agent_signals_late_total",
    COUNTER,
    (),
    "Signals of a second source that were older than what they would undo.",
    count="late",
)
JOINS_UNEXPLAINED = Metric(
    "rebalance_agent_joins_unexplained_total",
    COUNTER,
    (),
    "Joins without a visible cause.",
    count="unexplained",
)
STATUSES_LOST = Metric(
    "rebalance_agent_statuses_lost_total",
    COUNTER,
    (),
    "Statuses dropped as unconfirmed.",
    count="lost",
)
MEMBERS_EVICTED = Metric(
    "rebalance_agent_members_evicted_total",
    COUNTER,
    (),
    "Members dropped for limits.members or limits.memory.",
    count="evicted",
)
GROUPS_EVICTED = Metric(
    "rebalance_agent_groups_evicted_total",
    COUNTER,
    (),
    "Groups dropped for limits.groups.",
    count="groups_evicted",
)
PARTITIONS_FORGOTTEN = Metric(
    "rebalance_agent_partitions_forgotten_total",
    COUNTER,
    (),
    "Assignments that were not kept, as all members have too many partitions.",
    count="partitions_forgotten",
)
SAMPLES_WRITTEN = Metric(
    "rebalance_agent_samples_written_total", COUNTER, ("sink",), "Samples that the sink took."
)
SAMPLES_BUFFERED = Metric(
    "rebalance_agent_samples_buffered", GAUGE, ("sink",), "Samples that are not yet safe."
)
SAMPLES_DROPPED = Metric(
    "rebalance_agent_samples_dropped_total",
    COUNTER,
    ("sink",),
    "Samples that were given up because a bound was reached.",
)
SINK_ERRORS = Metric(
    "rebalance_agent_sink_errors_total", COUNTER, ("sink",), "Failed writes and commits."
)
RELOADS = Metric(
    "rebalance_agent_config_reloads_total",
    COUNTER,
    ("outcome",),
    "Reloads of the configuration; a failed one keeps the old configuration.",
)
SERIES_DROPPED = Metric(
    "rebalance_agent_series_dropped", GAUGE, (), "Series left out of this page by limits.series."
)

GROUP_STATUS = Metric(
    "kafka_group_rebalance_status",
    GAUGE,
    _GROUP,
    "Rebalance status 0-13 of a group: the max over its members.",
)
APP_STATUS = Metric(
    "kafka_app_rebalance_status",
    GAUGE,
    _APP,
    "Rebalance status 0-13 of an application: the max over its consumers and Streams instances.",
)
GROUP_PEAK = Metric(
    "kafka_group_rebalance_status_peak",
    GAUGE,
    _GROUP,
    "Highest rebalance status of the group within the peak window.",
)
APP_PEAK = Metric(
    "kafka_app_rebalance_status_peak",
    GAUGE,
    _APP,
    "Highest rebalance status of the application within the peak window.",
)
STREAMS_STATUS = Metric(
    "kafka_streams_rebalance_status",
    GAUGE,
    _STREAMS,
    "Rebalance status 0-13 of a Kafka Streams instance.",
)
CONSUMER_STATUS = Metric(
    "kafka_consumer_rebalance_status",
    GAUGE,
    _CONSUMER,
    "Rebalance status 0-10 of a consumer; 0 means that no rebalance is going on.",
)
STREAMS_PEAK = Metric(
    "kafka_streams_rebalance_status_peak",
    GAUGE,
    _STREAMS,
    "Highest rebalance status of the Streams instance within the peak window.",
)
CONSUMER_PEAK = Metric(
    "kafka_consumer_rebalance_status_peak",
    GAUGE,
    _CONSUMER,
    "Highest rebalance status of the consumer within the peak window.",
)
GROUP_MEMBERS = Metric(
    "kafka_group_members", GAUGE, _GROUP, "Members of the group, as its coordinator counts them."
)
GROUP_GENERATION = Metric(
    "kafka_group_generation",
    GAUGE,
    _GROUP,
    "The group's epoch; a classic group's generation, where its members are observed, too.",
)
MEMBERSHIP_CHANGES = Metric(
    "kafka_group_membership_changes_total",
    COUNTER,
    _GROUP,
    "Polls that found another epoch, other members or assignments than the poll before.",
)
COORDINATOR_STATE = Metric(
    "kafka_group_state",
    GAUGE,
    (*_GROUP, "state"),
    "1 for the state that the group's coordinator reports, 0 for the others of its type.",
)
GROUP_LAG = Metric(
    "kafka_group_lag",
    GAUGE,
    ("group", "topic", CLUSTER),
    "Records between the group's committed offsets and the ends of the topic's partitions.",
)
REBALANCES = Metric(
    "kafka_consumer_rebalances_total",
    COUNTER,
    (*_CONSUMER, "status"),
    "Rebalances that ended, by their highest status.",
)
TRANSITIONS = Metric(
    "kafka_consumer_rebalance_transitions_total",
    COUNTER,
    (*_CONSUMER, "status"),
    "Entries into each status.",
)
STATUS_SECONDS = Metric(
    "kafka_consumer_rebalance_status_seconds_total",
    COUNTER,
    (*_CONSUMER, "status"),
    "Time in each status.",
    "seconds",
)
DURATION = Metric(
    "kafka_consumer_rebalance_duration_seconds",
    HISTOGRAM,
    ("app", "group", CLUSTER),
    "Length of the members' rebalances.",
    "seconds",
)
GROUP_REBALANCES = Metric(
    "kafka_group_rebalances_total",
    COUNTER,
    ("group", "status", CLUSTER),
    "Rebalances of a whole group that are over, by the status of their trigger.",
)
GROUP_DURATION = Metric(
    "kafka_group_rebalance_duration_seconds",
    HISTOGRAM,
    ("group", "status", CLUSTER),
    "From the first member's start to the last one's end, by the status of the trigger.",
    "seconds",
)
LAST_REBALANCE = Metric(
    "kafka_group_last_rebalance_timestamp_seconds",
    GAUGE,
    ("group", CLUSTER),
    "End of the group's last rebalance, in Unix seconds.",
    "seconds",
)
INCIDENTS = Metric(
    "kafka_group_incidents_total",
    COUNTER,
    ("group", "kind", CLUSTER),
    "Incidents of the group that are final: over, and ten minutes without another event of them.",
)
INCIDENT_ONGOING = Metric(
    "kafka_group_incident_ongoing",
    GAUGE,
    ("group", "kind", CLUSTER),
    "Incidents of the group that are going on, by their kind so far.",
)
RECENT_INCIDENTS = Metric(
    "kafka_group_recent_incidents",
    GAUGE,
    ("group", "kind", CLUSTER),
    "Incidents of the group that go on or ended within ten minutes, by their kind so far.",
)
RECENT_UNPLANNED = Metric(
    "kafka_group_recent_unplanned_incidents",
    GAUGE,
    ("group", CLUSTER),
    "Those among the recent incidents of the group that nobody wanted, such as crashes and drops.",
)
UNREAD = Metric(
    "kafka_group_unread_partition_seconds_total",
    COUNTER,
    ("group", CLUSTER),
    "Time that partitions of the group could not be read because of an incident; it grows live.",
    "seconds",
)
MEMBER_SECONDS = Metric(
    "kafka_group_rebalance_member_seconds_total",
    COUNTER,
    ("group", CLUSTER),
    "Time of the group's members that rebalanced instead of consuming; it grows live.",
    "seconds",
)
JOIN_FAILURES = Metric(
    "kafka_group_join_failures_total",
    COUNTER,
    ("group", "error", CLUSTER),
    "Joins of the group that failed, by Kafka's name of the error.",
)
_CHANGE = ("group", "setting", "change", CLUSTER)
AVOIDABLE_REBALANCES = Metric(
    "kafka_group_avoidable_rebalances",
    GAUGE,
    _CHANGE,
    "Rebalances that the best change of one setting would have avoided, of those remembered.",
)
AVOIDABLE_UNREAD = Metric(
    "kafka_group_avoidable_unread_partition_seconds",
    GAUGE,
    _CHANGE,
    "Unread time of partitions that the same change would have avoided, where it is known.",
    "seconds",
)
REMEMBERED_REBALANCES = Metric(
    "kafka_group_remembered_rebalances",
    GAUGE,
    ("group", CLUSTER),
    "Rebalances of the incidents of the group that are remembered, where a change avoids some.",
)
REMEMBERED_SECONDS = Metric(
    "kafka_group_remembered_seconds",
    GAUGE,
    ("group", CLUSTER),
    "Time from the first of those incidents to the end of the last one.",
    "seconds",
)
MEMBER_INFO = Metric(
    "kafka_consumer_member_info",
    GAUGE,
    (
        "group",
        "client_id",
        "member_id",
        "group_instance_id",
        "protocol",
        "assignor",
        "software",
        CLUSTER,
    ),
    "1, and who the consumer is.",
)

# State sets: 0 or 1 for each status that the row can hold. Optional, for their cardinality.
GROUP_STATE = Metric(
    "kafka_group_rebalance_status_state",
    GAUGE,
    (*_GROUP, "status"),
    "1 for the status that the group holds, 0 for the others.",
)
APP_STATE = Metric(
    "kafka_app_rebalance_status_state",
    GAUGE,
    (*_APP, "status"),
    "1 for the status that the application holds, 0 for the others.",
)
STREAMS_STATE = Metric(
    "kafka_streams_rebalance_status_state",
    GAUGE,
    (*_STREAMS, "status"),
    "1 for the status that the Streams instance holds, 0 for the others.",
)
CONSUMER_STATE = Metric(
    "kafka_consumer_rebalance_status_state",
    GAUGE,
    (*_CONSUMER, "status"),
    "1 for the status that the consumer holds, 0 for the others.",
)

PARTITION_LAG = Metric(
    "kafka_group_partition_lag",
    GAUGE,
    ("group", "topic", "partition", CLUSTER),
    "Records between the group's committed offset and the end of the partition.",
)
METRICS = tuple(metric for metric in vars().values() if isinstance(metric, Metric))
