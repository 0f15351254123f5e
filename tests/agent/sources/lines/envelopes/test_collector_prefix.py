import pytest

from agent.sources.lines.envelopes.collector_prefix import match_prefix

TEXT = "2026-11-20 13:20:05,123 INFO [Consumer clientId=m1, groupId=g] (Re-)joining group"
NAMED = {
    "payments-1  | ": "payments-1",
    "shop_payments_1 | ": "shop_payments_1",
    "shop_payments.2.k3x9@node-b    | ": "shop_payments.2.k3x9@node-b",
    "2026-11-20T13:20:05.123456789Z HOSTNAME=payments-1,tag=x ": "",
    "0a1b2c3d4e5f ": "0a1b2c3d4e5f",
    "[pod/payments-7d9f8b6c5-x2x9z/app] ": "payments-7d9f8b6c5-x2x9z/app",
    "payments-7d9f8b6c5-x2x9z app ": "payments-7d9f8b6c5-x2x9z/app",
    "shop payments-0 app ": "payments-0/app",
    "2026-11-20T13:20:05.123456+00:00 app[web.1]: ": "web.1",
    "   2026-11-20T13:20:05.12+0000 [APP/PROC/WEB/0] OUT ": "APP/PROC/WEB/0",
    "Nov 20 13:20:05 host-a payments[71]: ": "host-a/payments",
    "<14>Nov 20 13:20:05 host-a payments: ": "host-a/payments",
    "2026-11-20T13:20:05+0000 host-a payments[71]: ": "host-a/payments",
    "<165>1 2026-11-20T13:20:05.123Z host-a payments 71 ID47 - ": "host-a/payments",
    '<165>1 2026-11-20T13:20:05Z host-a payments 71 - [x y="z"] ': "host-a/payments",
    "2026-11-20T13:20:05+00:00 payments/app/0123456789abcdef0123456789abcdef ": (
        "payments/app/0123456789abcdef0123456789abcdef"
    ),
    '2026-11-20T13:20:05Z {app="payments", pod="payments-0"} ': "payments-0",
    "payments:payments_00 stdout | ": "payments_00",
    "2026-11-20T13:20:05.123456+00:00 host-a local0.info payments[71]: ": "host-a/payments",
    "payments-7d9f8b6c5-x2x9z app 11-20 13:20:05 ": "payments-7d9f8b6c5-x2x9z/app",
    "2026-11-20T13:20:05.123+00:00\tp-1\t": "p-1",
    "2026-11-20 13:20:05.123 +0000,app.pay-1,": "app.pay-1",
    "1795180805.123456789;pay-1;": "pay-1",
    "app=pay id=1 type=error message=": "pay/1",
    "== APP == ": "",
    "== APP - payments-1 == ": "payments-1",
    "CreateTime:1795180805123\tPartition:0\tOffset:17\t": "",
}


@pytest.mark.parametrize("prefix", NAMED)
def test_prefix_names_the_origin(prefix: str) -> None:
    found = match_prefix(prefix + TEXT)

    assert found is not None
    assert (found.origin, found.end) == (NAMED[prefix], len(prefix))


@pytest.mark.parametrize(
    "line",
    [
        TEXT,
        "INFO   | jvm 1    | 2026/11/20 13:20:05 | text",
        "2026-11-20 13:21:05.123 | INFO     | module:func:1 - text",
        "2026-11-20T10:11:40.000Z  INFO 1 --- [payments] [ntainer#0-0-C-1] o.a.k.c : text",
        "[main] INFO org.apache.kafka.clients - text",
        "13:20:05.123 [main] INFO o.a.k - text",
        "%7|1793576794.650|HEARTBEAT|m1#consumer-1| [thrd:main]: text",
        "3 | text",
        "time=2026-11-20T13:20:05Z level=INFO msg=text",
        "0a1b2c3d4e5f of a trace: text",
        "2026-11-20 13:20:05.123|INFO|o.a.k.c.Coordinator|[Consumer clientId=m1] text",
        "2026-11-20T13:20:05.123Z\tinfo\tkafka\tclient.go:12\tjoining group",
        '2026-11-20T13:20:05.123Z\tINFO\tkgo\tjoined\t{"group": "g"}',
        '2026-11-20T13:20:05.123Z\tINFO\tjoined\t{"group": "g"}',
        "2026-11-20 13:20:05,123;kafka-thread-1;2026-11-20T13:20:05.123Z text",
        "1795180805.123|HEARTBEAT|m1#consumer-1| [thrd:main]: text",
        "",
    ],
)
def test_layout_of_an_application_is_no_prefix(line: str) -> None:
    assert match_prefix(line) is None


@pytest.mark.parametrize(
    "line", ["%7|1795788796.123|HEARTBEAT|m1#consumer-1| [thrd:main]: text", "INFO: text"]
)
def test_the_id_of_a_container_of_podman_names_the_origin(line: str) -> None:
    found = match_prefix(f"0a1b2c3d4e5f {line}")

    assert found is not None
    assert (found.origin, found.end) == ("0a1b2c3d4e5f", 13)


def test_time_of_a_viewer_is_not_a_name() -> None:
    found = match_prefix("2026 Apr 10 06:22:03  | " + TEXT)

    assert found is not None
    assert (found.origin, found.time) == ("", "2026 Apr 10 06:22:03")
