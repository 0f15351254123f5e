from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import ConfigError
from agent.sources.lines.times.timestamps import TimestampReader, parse_epoch

ARRIVAL_AT = datetime(2026, 11, 21, 7, 0, tzinfo=UTC).timestamp()
SECOND_AT = datetime(2026, 11, 21, 6, 33, 44, tzinfo=UTC).timestamp()
BERLIN = ZoneInfo("Europe/Berlin")

FORMS = [
    ("[2026-11-21 06:33:44,209] INFO x (kafka)", 0.209),
    ("2026-11-21 06:33:44,209 - aiokafka - INFO - x", 0.209),
    ("INFO  [2026-11-21 06:33:44,209] x", 0.209),
    ("2026-11-21T06:33:44.209123456Z x", 0.209123456),
    ("2026-11-21T07:33:44+01:00 x", 0.0),
    ("2026-11-21T01:03:44.2-0530 x", 0.2),
    ("2026-11-21T07:33:44+01 x", 0.0),
    ("2026-11-21 06:33:44 UTC x", 0.0),
    ("2026-11-21 07:33:44.209 GMT+01:00 INFO x", 0.209),
    ("2026-11-21 07:33:44 GMT+1 x", 0.0),
    ("2026-11-21 01:03:44.2 UTC-0530 x", 0.2),
    ("2026-11-21 06:33:44 GMT+x", 0.0),
    ("2026-11-21T12:03:44.209+05:30[Asia/Kolkata] x", 0.209),
    ("2026-11-21T12:03:44.209[Asia/Kolkata] x", 0.209),
    ("2026-11-21 12:03:44,209 Asia/Kolkata x", 0.209),
    ("2026-11-21 07:33:44,209 [Europe/Berlin] INFO x", 0.209),
    ("2026-11-21T03:33:44[America/Argentina/Buenos_Aires] x", 0.0),
    ("2026-11-21 06:33:44 [Europe/Nowhere] x", 0.0),
    ("2026-11-21 06:33:44 [Worker/main] x", 0.0),
    ("2026-11-21 06:33:44:209 x", 0.209),
    ("2026/11/21 06:33:44.000209 x", 0.000209),
    ("21/11 06:33:44.209 INFO x", 0.209),
    ("11/21 06:33:44 INFO x", 0.0),
    ("[21/11 06:33:44] x", 0.0),
    ("21.11. 06:33:44,209 INFO x", 0.209),
    ("21.11 06:33:44 x", 0.0),
    ("21-11 06:33:44.209 x", 0.209),
    ("21 Nov 06:33:44.209 INFO x", 0.209),
    ("21 Nov, 06:33:44 x", 0.0),
    ("INFO[11-21|06:33:44] x", 0.0),
    ("INFO[11-21|06:33:44.209] x", 0.209),
    ("6:33:44 AM INFO x", 0.0),
    ("06:33:44.209AM INFO x", 0.209),
    ("2026-11-21 6:33:44AM INFO x", 0.0),
    ("2026-11-21 06:33:44 AMQP-1 INFO x", 0.0),
    ("2026-11-21 06:33:44.209 PMD INFO x", 0.209),
    ("06:33:44.209 AMQP INFO x", 0.209),
    ("20261121T063344,209 x", 0.209),
    ("20261121 06:33:44.209 x", 0.209),
    ("261121 06:33:44 INFO x", 0.0),
    ("[I 261121 06:33:44 base:423] x", 0.0),
    ("[W 261121 06:33:44.209 ServerApp] x", 0.209),
    ("26/11/21 06:33:44 INFO AbstractCoordinator: x", 0.0),
    ("26/11/21 06:33:44.209 INFO x", 0.209),
    ("21.11.2026 06:33:44,209 INFO x", 0.209),
    ("[21.11.2026, 06:33:44.209] INFO x", 0.209),
    ("21/11/2026 06:33:44,209 INFO x", 0.209),
    ("11/21/2026 6:33:44 AM INFO x", 0.0),
    ("11/21/2026 07:33:44.209 +01:00 INFO x", 0.209),
    ("2026-11-21T06:33:44.209Z  INFO 1234 --- [app] [main] o.a.k.C : x", 0.209),
    ("\x1b[2m2026-11-21T06:33:44.209Z\x1b[0;39m \x1b[32m INFO\x1b[0;39m x", 0.209),
    ("time=2026-11-21T06:33:44.209Z level=INFO msg=x", 0.209),
    ("level=info component=c ts=2026-11-21T06:33:44.209Z msg=x", 0.209),
    ("%7|1795242824.209|INIT|rdkafka#consumer-1| [thrd:app]: x", 0.209),
    ("1795242824 x", 0.0),
    ("1795242824209 x", 0.209),
    ("1795242824209000 x", 0.209),
    ("Nov 21 06:33:44 host app[12]: x", 0.0),
    ("Nov 21 06:33:44 host app[12]: [2026-11-21 06:33:44,209] INFO x", 0.209),
    ("<34>1 2026-11-21T06:33:44.209Z host app - - - x", 0.209),
    ("I1121 06:33:44.209123    1234 consumer.go:12] x", 0.209123),
    ("Nov 21, 2026 6:33:44 AM org.apache.kafka.X log", 0.0),
    ("Nov 21, 2026, 6:33:44\u202fAM org.apache.kafka.X log", 0.0),
    ("21-Nov-2026 06:33:44.209 INFO [main] x", 0.209),
    ("21 Nov 2026 06:33:44,209 x", 0.209),
    ("06:33:44.209 [main] INFO o.a.k.C -- x", 0.209),
    ("[kafka-coordinator-heartbeat-thread | g] INFO 2026-11-21 06:33:44.209 x", 0.209),
    ("consumer-1  | [2026-11-21 06:33:44,209] INFO x", 0.209),
    ("orders-7c9d8-x2k4j app [2026-11-21 06:33:44,209] INFO x", 0.209),
    ("shop orders-0 app 2026-11-21T06:33:44.209000000Z INFO x", 0.209),
    ("[2026-11-21 06:33:44,209: INFO]: x", 0.209),
    ("2026.11.21 06:33:44.209123 [ 812 ] {} <Warning> x", 0.209123),
    ("2026-11-21 06:33:44 AM INFO x", 0.0),
    ("2026年11月21日 06:33:44.209 [main] INFO x", 0.209),
    ("[11/21/26 06:33:44:209 UTC] 0000002f org.apache.ka I x", 0.209),
    ("[21.11.26 07:33:44:209 MEZ] 0000002f org.apache.ka I x", 0.209),
    ("21-Nov.-2026 06:33:44.209 INFORMATION [main] x", 0.209),
    ("nov. 21, 2026 06:33:44 AM org.apache.kafka.X log", 0.0),
    ("nov 21, 2026 6:33:44 a. m. org.apache.kafka.X log", 0.0),
    ("11月 21, 2026 6:33:44 上午 org.apache.kafka.X log", 0.0),
    ("Nov 21, 2026 @ 06:33:44.209 x", 0.209),
    ("November 21st 2026, 06:33:44.209 x", 0.209),
    ("2026 Nov 21 06:33:44  | x", 0.0),
    ("I, [2026-11-21T06:33:44.209123 #1]  INFO -- : x", 0.209123),
    ("=INFO REPORT==== 21-Nov-2026::06:33:44 ===", 0.0),
    ("Sat Nov 21 06:33:44 2026 x", 0.0),
    ("2026年11月21日 06時33分44秒 INFO x", 0.0),
    ("2026년 11월 21일 6시 33분 44초 INFO x", 0.0),
    ("2026/11/21 上午6:33:44 INFO x", 0.0),
    ("2026/11/21 午前 6:33:44 INFO x", 0.0),
    ("2026-11-21 오전 6:33:44 INFO x", 0.0),
    ("2026. 11. 21. 오전 6:33:44 INFO x", 0.0),
    ("2026年11月21日 上午 06:33:44.209 INFO x", 0.209),
    ("21 Nov 26 06:33:44 +0000 INFO x", 0.0),
    ("Sat, 21-Nov-26 06:33:44 GMT INFO x", 0.0),
    ("26-11-21 06:33:44 host INFO [o.a.k.X:12] - x", 0.0),
    ("21-11-26 06:33:44,209 INFO x", 0.209),
    ("November 21, 2026 at 6:33:44 AM UTC INFO x", 0.0),
    ("21 November 2026 at 06:33:44 UTC INFO x", 0.0),
    ("21. November 2026 um 06:33:44 INFO x", 0.0),
    ("21 novembre 2026 à 06:33:44 INFO x", 0.0),
    ("21 de noviembre de 2026, 6:33:44 INFO x", 0.0),
    ("21 de novembro de 2026 às 06:33:44 INFO x", 0.0),
]

MONTHS = {
    "janv.": 1, "févr.": 2, "mars": 3, "März": 3, "Mär": 3, "avr.": 4, "abr": 4, "mai": 5, "Mai": 5,
    "juin": 6, "Juni": 6, "juil.": 7, "Juli": 7, "août": 8, "ago": 8, "sept.": 9, "set": 9,
    "Okt.": 10, "out": 10, "nov": 11, "déc.": 12, "Dez.": 12, "dic": 12, "12月": 12,
}  # fmt: skip


@pytest.mark.parametrize("name", MONTHS)
def test_months_of_other_languages_are_read(name: str) -> None:
    at = TimestampReader("UTC").find(f"20-{name}-2025 13:20:05.123 INFO x", ARRIVAL_AT)

    assert at == datetime(2025, MONTHS[name], 20, 13, 20, 5, 123000, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("line", "fraction"), FORMS)
def test_every_form_is_read(line: str, fraction: float) -> None:
    assert TimestampReader("UTC").find(line, ARRIVAL_AT) == pytest.approx(
        SECOND_AT + fraction, abs=1e-6
    )


def test_the_form_of_one_line_does_not_mislead_any_next_one() -> None:
    misled = []
    for first, _ in FORMS:
        for second, fraction in FORMS:
            stamper = TimestampReader("UTC")
            stamper.find(first, ARRIVAL_AT)
            if stamper.find(second, ARRIVAL_AT) != pytest.approx(SECOND_AT + fraction, abs=1e-6):
                misled.append((first, second))
    assert not misled


@given(st.lists(st.sampled_from(FORMS), max_size=12))
def test_what_was_learned_from_one_line_does_not_mislead_the_next(
    lines: list[tuple[str, float]],
) -> None:
    stamper = TimestampReader("UTC")
    found = [stamper.find(line, ARRIVAL_AT) for line, _ in lines]
    assert found == pytest.approx([SECOND_AT + fraction for _, fraction in lines], abs=1e-6)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\tat org.apache.kafka.clients.consumer.KafkaConsumer.poll(KafkaConsumer.java:1220)",
        "[Consumer clientId=m1, groupId=g] poll deadline 2026-11-21 06:33:44,209 has passed",
        "metadata expires 2026-11-21 06:33:44,209",
        "orders-0 of app expires 2026-11-21 06:33:44,209",
        "2026-13-21 06:33:44,209 no such month",
        "2026-11-21 25:33:44,209 no such hour",
        "2026-11-21 06:33:44+99:00 no such zone",
        "11795242824 is no epoch",
        " " * 200 + "2026-11-21 06:33:44,209",
    ],
)
def test_no_stamp_in_the_head_is_none(line: str) -> None:
    assert TimestampReader("UTC").find(line, ARRIVAL_AT) is None


@pytest.mark.parametrize(
    ("lines", "days"),
    [
        (["11/21/2026", "11/22/2026"], ["2026-11-21", "2026-11-22"]),
        (["21/11/2026", "22/11/2026"], ["2026-11-21", "2026-11-22"]),
        # both can be: the later one of those that have been
        (["10/11/2026"], ["2026-11-10"]),
        (["11/10/2026"], ["2026-11-10"]),
        (["11/12/2026"], ["2026-11-12"]),
        (["12/11/2026"], ["2026-11-12"]),
        (["01/02/2027"], ["2027-01-02"]),
        # what one line tells holds for the next
        (["10/31/2026", "10/11/2026", "11/10/2026"], ["2026-10-31", "2026-10-11", "2026-11-10"]),
        (["31/10/2026", "10/11/2026", "11/10/2026"], ["2026-10-31", "2026-11-10", "2026-10-11"]),
    ],
)
def test_whether_day_or_month_comes_first_is_found(lines: list[str], days: list[str]) -> None:
    stamper = TimestampReader("UTC")
    found = [stamper.find(f"[{line} 06:33:44] x", ARRIVAL_AT + 86_400) for line in lines]
    assert found == [datetime.fromisoformat(f"{day}T06:33:44Z").timestamp() for day in days]


def test_half_a_day_is_told_by_its_letters() -> None:
    stamper = TimestampReader("UTC")
    found = [stamper.find(f"11/20/2026 6:33:44 {half} x", ARRIVAL_AT) for half in ("AM", "PM")]
    assert found == [SECOND_AT - 86_400, SECOND_AT - 43_200]


def test_a_date_that_is_none_in_either_order_is_none() -> None:
    assert TimestampReader("UTC").find("31/31/2026 06:33:44 x", ARRIVAL_AT) is None
    assert TimestampReader("UTC").find("02/30/2026 06:33:44 x", ARRIVAL_AT) is None


def test_a_bad_stamp_leaves_the_next_line_alone() -> None:
    stamper = TimestampReader("UTC")
    stamper.find("2026-11-21 06:33:44,1 x", ARRIVAL_AT)
    stamper.find("2026-13-21 06:33:44,1 x", ARRIVAL_AT)
    assert stamper.find("2026-11-21 06:33:45,5 x", ARRIVAL_AT) == SECOND_AT + 1.5


def test_a_stamp_without_zone_is_in_the_configured_one() -> None:
    found = TimestampReader("Europe/Berlin").find("[2026-11-21 07:33:44,209] x", ARRIVAL_AT)
    assert found == pytest.approx(SECOND_AT + 0.209)


def test_a_stamp_with_zone_ignores_the_configured_one() -> None:
    assert TimestampReader("Asia/Tokyo").find("2026-11-21T06:33:44Z x", ARRIVAL_AT) == SECOND_AT


def test_without_a_configured_zone_the_machines_is_used() -> None:
    local = datetime.fromtimestamp(SECOND_AT, None)  # noqa: DTZ006 - the machine's, on purpose
    assert TimestampReader(None).find(f"[{local:%Y-%m-%d %H:%M:%S}] x", ARRIVAL_AT) == SECOND_AT


def test_an_unknown_zone_is_the_operators_error() -> None:
    with pytest.raises(ConfigError, match=r"unknown time zone 'Mars/Base'"):
        TimestampReader("Mars/Base")


def _berlin(hour: int, minute: int, *, fold: int) -> float:
    return datetime(2026, 10, 25, hour, minute, fold=fold, tzinfo=BERLIN).timestamp()


def test_a_repeated_hour_is_the_second_where_time_would_run_back() -> None:
    stamper = TimestampReader("Europe/Berlin")
    lines = ["01:59:30", "02:10:00", "02:59:50", "02:00:10", "02:59:59", "03:00:01"]
    found = [stamper.find(f"2026-10-25 {line} x", ARRIVAL_AT) for line in lines]
    assert found == [
        _berlin(1, 59, fold=0) + 30,
        _berlin(2, 10, fold=0),
        _berlin(2, 59, fold=0) + 50,
        _berlin(2, 0, fold=1) + 10,
        _berlin(2, 59, fold=1) + 59,
        _berlin(3, 0, fold=0) + 1,
    ]


def test_a_repeated_hour_is_the_second_where_that_is_now() -> None:
    second_at = _berlin(2, 10, fold=1)
    assert (
        TimestampReader("Europe/Berlin").find("2026-10-25 02:10:00 x", second_at + 1) == second_at
    )


def test_a_skipped_hour_is_read_with_the_offset_before() -> None:
    found = TimestampReader("Europe/Berlin").find("2026-03-29 02:30:00 x", ARRIVAL_AT)
    assert found == datetime(2026, 3, 29, 1, 30, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("line", "arrival", "expected"),
    [
        ("23:59:59.500 x", "2026-11-22 00:00:01", "2026-11-21 23:59:59"),
        ("00:00:00.500 x", "2026-11-21 23:59:59", "2026-11-22 00:00:00"),
        ("Dec 31 23:59:59 h a: x", "2027-01-01 00:00:00", "2026-12-31 23:59:59"),
        ("E0229 00:00:00.5 1 a.go:1] x", "2026-11-21 00:00:00", "2024-02-29 00:00:00"),
    ],
)
def test_what_a_stamp_leaves_out_is_the_latest_before_arrival(
    line: str, arrival: str, expected: str
) -> None:
    found = TimestampReader("UTC").find(line, datetime.fromisoformat(arrival + "Z").timestamp())
    assert found is not None
    assert int(found) == datetime.fromisoformat(expected + "Z").timestamp()


def test_the_same_time_of_day_is_another_day_tomorrow() -> None:
    stamper = TimestampReader("UTC")
    today = stamper.find("06:33:44.0 x", ARRIVAL_AT)
    assert today == SECOND_AT
    assert stamper.find("06:33:44.0 x", ARRIVAL_AT + 86400) == SECOND_AT + 86400


@pytest.mark.parametrize(
    ("line", "hour"),
    [("6:33AM INF x", 6), ("12:33AM INF x", 0), ("1:33PM INF x", 13), ("12:33 PM INF x", 12)],
)
def test_clock_of_go_has_minutes_alone(line: str, hour: int) -> None:
    arrival_at = datetime(2026, 11, 21, 23, 0, tzinfo=UTC).timestamp()
    wanted = datetime(2026, 11, 21, hour, 33, tzinfo=UTC).timestamp()

    assert TimestampReader("UTC").find(line, arrival_at) == wanted


@pytest.mark.parametrize("zone", ["UTC", "+0000", "GMT"])
def test_rfc_822_without_seconds_has_its_minute(zone: str) -> None:
    reader = TimestampReader("Europe/Berlin")

    found = reader.find(f"21 Nov 26 06:33 {zone} INFO  x", ARRIVAL_AT)

    assert found == SECOND_AT - 44


@pytest.mark.parametrize(
    ("text", "arrival", "wanted"),
    [
        ("04/01", (2027, 1, 5), (2027, 1, 4)),
        ("12/11", (2027, 1, 5), (2026, 12, 11)),
        ("11/12", (2026, 12, 20), (2026, 12, 11)),
        ("11/12", (2026, 11, 20), (2026, 11, 12)),
        ("31/12", (2027, 1, 1), (2026, 12, 31)),
    ],
)
def test_day_and_month_without_a_year_are_the_last_such_day(
    text: str, arrival: tuple[int, int, int], wanted: tuple[int, int, int]
) -> None:
    at = datetime(*arrival, 12, tzinfo=UTC).timestamp()

    found = TimestampReader("UTC").find(f"{text} 06:33:44 x", at)

    assert found == datetime(*wanted, 6, 33, 44, tzinfo=UTC).timestamp()


def test_a_day_that_is_known_decides_the_order_of_the_others() -> None:
    reader = TimestampReader("UTC")
    reader.find("21/11 06:33:44 x", ARRIVAL_AT)

    found = reader.find("10/11 06:33:44 x", ARRIVAL_AT)

    assert found == datetime(2026, 11, 10, 6, 33, 44, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("value", [1795242824.5, 1795242824500, 1795242824500e3, 1795242824500e6])
def test_the_size_of_an_epoch_tells_its_unit(value: float) -> None:
    assert parse_epoch(value) == pytest.approx(1795242824.5)


@pytest.mark.parametrize("value", [0, -1, 12.5, 1e300, 10**400, float("inf"), float("nan")])
def test_what_is_no_time_of_a_log_is_none(value: float) -> None:
    assert parse_epoch(value) is None


@given(st.text(), st.sampled_from(FORMS))
def test_any_text_is_a_time_or_none(text: str, form: tuple[str, float]) -> None:
    stamper = TimestampReader("Europe/Berlin")
    for line in (text, form[0][:20] + text, text + form[0]):
        found = stamper.find(line, ARRIVAL_AT)
        assert found is None or isinstance(found, float)


def test_hour_that_exists_twice_in_a_named_zone_is_told_by_the_line_before() -> None:
    reader = TimestampReader("UTC")
    arrival_at = datetime(2026, 10, 25, 12, 0, tzinfo=UTC).timestamp()

    found = [
        reader.find(f"2026-10-25T02:{minute}:00[Europe/Berlin] x", arrival_at)
        for minute in ("10", "50", "10", "50")
    ]

    assert [None if at is None else datetime.fromtimestamp(at, UTC).hour for at in found] == [
        0,
        0,
        1,
        1,
    ]
