"""Recommendations by cause: settings by their documented names, each with its price.

The names are those of Kafka's documentation: sections "Consumer Configs", "Kafka Streams Configs",
"Broker Configs" and "Group Configs" of https://kafka.apache.org/documentation/.
"""

from metrics.model.status import RebalanceStatus

ADVICE: dict[RebalanceStatus, tuple[str, ...]] = {
    RebalanceStatus.COORDINATOR_REQUESTED: (
        (
            "Nobody who is watched began it: let the agent watch all members, or one agent read "
            "the "
            "brokers' logs (source broker_log)."
        ),
    ),
    RebalanceStatus.NEW_MEMBER: (
        (
            "Members come with deploys, restarts and scaling. With a group.instance.id (static "
            "membership) a restart within session.timeout.ms moves nothing; the price: a member "
            "that "
            "died is missed only after session.timeout.ms."
        ),
        (
            "CooperativeStickyAssignor (partition.assignment.strategy), or "
            "group.protocol=consumer with "
            "brokers from 4.0, lets the others go on consuming meanwhile."
        ),
        (
            "Many that start together: group.initial.rebalance.delay.ms (broker) gathers the first "
            "joins; the first records come that much later."
        ),
    ),
    RebalanceStatus.UNKNOWN_MEMBER: (
        (
            "The coordinator had given the member up: look for long garbage collections, CPU "
            "throttling, a suspended machine or a broken network at that time."
        ),
        (
            "A longer session.timeout.ms (heartbeat.interval.ms at most a third of it) forgives "
            "longer "
            "pauses; the price: a member that is really dead blocks its partitions for longer."
        ),
    ),
    RebalanceStatus.STALE_MEMBER: (
        (
            "The group went on without the member, which was paused or cut off: look for the same "
            "reasons as for a lost session, and at max.poll.interval.ms, which is also the time "
            "that a "
            "rebalance waits for each member."
        ),
    ),
    RebalanceStatus.DROPPED_GROUP: (
        (
            "Between two polls it worked for longer than max.poll.interval.ms. Fewer records a "
            "poll "
            "(max.poll.records) keep the interval; more overhead per record is the price."
        ),
        (
            "A longer max.poll.interval.ms gives more time; the price: a hung consumer is noticed "
            "later, and every rebalance may wait that long for it."
        ),
        (
            "Slow calls (databases, HTTP) belong under a time-out, or in a thread of their own "
            "with the "
            "partitions paused."
        ),
    ),
    RebalanceStatus.USER_REQUESTED: (
        (
            "The application closed or unsubscribed its consumer, or called enforceRebalance. In a "
            "rollout, static membership (group.instance.id) avoids it: such members do not leave."
        ),
        "Roll out with fewer, larger steps or with a surge of one; each step is a rebalance.",
    ),
    RebalanceStatus.METADATA_CHANGED: (
        (
            "Partitions or topics appeared or went away. Add partitions at quiet hours; a pattern "
            "subscription joins every new topic that matches: name topics where they are known."
        ),
        (
            "A longer metadata.max.age.ms gathers several changes into one rebalance; new "
            "partitions "
            "are then read later."
        ),
    ),
    RebalanceStatus.SUBSCRIPTION_CHANGED: (
        (
            "Members subscribe to other topics than before. Subscribe once, at the start, and to "
            "the "
            "same topics in all members; members that change in turn rebalance once each."
        ),
    ),
    RebalanceStatus.RETRY_ON_ERROR: (
        "Joins failed and were repeated: look at the coordinator's broker, at its restart or load.",
    ),
    RebalanceStatus.REVOCATION_NEEDED: (
        (
            "Cooperative assignment takes a second round to hand partitions over. That is its "
            "normal "
            "way: the others go on consuming."
        ),
    ),
    RebalanceStatus.ASSIGNMENT_PROBING: (
        (
            "Kafka Streams warms up replicas and looks every probing.rebalance.interval.ms whether "
            "they have caught up. More max.warmup.replicas end it sooner, for more load; a higher "
            "acceptable.recovery.lag moves tasks earlier, for a longer restore."
        ),
        "num.standby.replicas of 1 or more leave less to warm up; the price is disk and traffic.",
    ),
    RebalanceStatus.VERSION_PROBING: (
        (
            "Streams instances of two versions are in one application. Finish the upgrade, or set "
            "upgrade.from as the upgrade guide says for that pair of versions."
        ),
    ),
    RebalanceStatus.ENDPOINT_UPDATE: (
        (
            "An instance came back with another application.server. A name that stays (a "
            "StatefulSet's, "
            "not a pod's address) avoids it."
        ),
    ),
}

SLOW_MEMBER = (
    "A rebalance waits for the slowest member to poll again. Fewer max.poll.records, shorter work "
    "in onPartitionsRevoked and fewer slow calls there make it shorter for all."
)
UNSEEN = ADVICE[RebalanceStatus.COORDINATOR_REQUESTED][0]
