"""An operator who looks at a cluster and makes topics that nobody reads, as a driver of the lab.

``operator_driver.py BOOTSTRAP GROUP...``: each line ``look`` on stdin is one look around. It is
answered by ``saw all``, unless a call failed, as while a broker restarts (nothing is tried again),
and by ``done look``. A process of its own, and kafka-python's client: librdkafka's admin client
aborts its process where a broker leaves in mid-call.
"""

import sys
from contextlib import suppress

from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError


def main(bootstrap: str, groups: list[str]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    for number, _ in enumerate(sys.stdin):
        with suppress(KafkaError):
            admin.list_topics()
            admin.list_groups()
            admin.describe_groups(groups)
            admin.create_topics([NewTopic(f"unread-{number}", 1, 1)])
            sys.stdout.write("saw all\n")
        sys.stdout.write("done look\n")
        sys.stdout.flush()
    admin.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
