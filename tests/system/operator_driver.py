"""A driver of the lab with an operator's calls: it lists a cluster and creates unread topics.

``operator_driver.py BOOTSTRAP GROUP...``: each line ``look`` on stdin starts one series of calls.
The response is ``saw all``, unless a call failed, for example during a broker's restart (nothing is
tried again), and then ``done look``. It is a process of its own with kafka-python's client, because
librdkafka's admin client aborts its process if a broker leaves during a call.
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
