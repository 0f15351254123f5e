import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from metrics.model.sample import (
    Outcome,
    Sample,
    SampleKind,
    Scope,
    clip_reason,
    decode,
    digest,
    encode,
    format_time,
    is_number,
    parse_time,
)
from metrics.model.signals import Member, SourceKind
from metrics.tracking.status_track import StatusConfig
from metrics.tracking.tracker import Tracker
from tests.metrics.given import C1, STATIC, T1, raised, run, synced

SAMPLE = Sample(
    id="0" * 32,
    kind=SampleKind.TRANSITION,
    ts="2026-11-21T06:31:51.400000Z",
    agent="a-1",
    seq=17,
    cluster="k",
    app="a",
    group="g",
    group_type="classic",
    protocol_type="consumer",
    scope=Scope.CONSUMER,
    client_id="c1",
    member_id="c1-m",
    group_instance_id=None,
    host="h",
    from_=0,
    to=2,
    status="NewMember",
    reason="need to re-join with the given member-id",
    generation=1,
    episode="e",
    source="logs",
)


@pytest.mark.parametrize("key", ["seq", "generation", "gained", "lag"])
def test_a_number_beyond_64_bits_is_no_record(key: str) -> None:
    with pytest.raises(ValueError, match=key):
        decode(msgspec.json.encode(msgspec.json.decode(encode(SAMPLE)) | {key: 2**63}))


def ids(member: Member, source: SourceKind = SourceKind.LOGS) -> list[str]:
    """Return the ids of one fixed history of the member, without its attributes' changes."""
    signals = [
        *[raised(1, 10.0, member, source=source)] * 4,
        synced(11.0, member, source=source),
    ]
    tracker = Tracker(StatusConfig())
    samples = run(tracker, *signals) + tracker.sample(15.0, 15.0)
    return [each.id for each in samples if each.kind is not SampleKind.CHANGE]


class TestCodec:
    def test_line_is_the_schemas(self) -> None:
        assert encode(SAMPLE) == (
            b'{"schema":1,"id":"00000000000000000000000000000000","kind":"transition",'
            b'"ts":"2026-11-21T06:31:51.400000Z","agent":"a-1","seq":17,"cluster":"k","app":"a",'
            b'"group":"g","group_type":"classic","protocol_type":"consumer","scope":"consumer",'
            b'"client_id":"c1","member_id":"c1-m","group_instance_id":null,"host":"h",'
            b'"log_file":null,"from":0,"to":2,"peak":null,"status":"NewMember",'
            b'"reason":"need to re-join with the given member-id","generation":1,"episode":"e",'
            b'"outcome":null,"joined_ts":null,"gained":null,"lag":null,"subject":null,'
            b'"field":null,"before":null,"after":null,"source":"logs"}\n'
        )

    @given(st.text(), st.sampled_from(SampleKind), st.sampled_from([None, *Outcome]))
    def test_what_is_written_is_read(
        self, text: str, kind: SampleKind, outcome: Outcome | None
    ) -> None:
        sample = msgspec.structs.replace(SAMPLE, reason=text, kind=kind, outcome=outcome)

        line = encode(sample)

        assert decode(line) == sample
        assert line.count(b"\n") == 1

    @pytest.mark.parametrize(
        ("changed", "why"),
        [
            ({"to": 14}, "to 14 is no status code (0 to 13)"),
            ({"from_": -1}, "from -1 is no status code (0 to 13)"),
            ({"peak": 99}, "peak 99 is no status code (0 to 13)"),
            ({"schema": 0}, "schema 0 is older than 1"),
            ({"id": ""}, "id is empty"),
            ({"ts": "1969-12-31T23:59:59Z"}, "'1969-12-31T23:59:59Z' is before 1970"),
            ({"ts": "yesterday"}, "'yesterday' is no time, as 2026-11-20T06:30:00Z is"),
            ({"joined_ts": "2026-11-21T06:31:51"}, "no zone in '2026-11-21T06:31:51'"),
        ],
    )
    def test_what_cannot_be_is_no_record(self, changed: dict[str, Any], why: str) -> None:
        with pytest.raises(ValueError) as refused:  # noqa: PT011 - looked at below
            decode(encode(msgspec.structs.replace(SAMPLE, **changed)))
        assert str(refused.value) == why

    @pytest.mark.parametrize(
        "written",
        [
            "2026-11-21T06:31:51.4Z",
            "2026-11-21t06:31:51.400000z",
            "2026-11-21T20:31:51.400000+14:00",
            "2026-11-20T07:31:51.40-23:00",
        ],
    )
    def test_times_of_other_writers_are_read_as_this_one_writes_them(self, written: str) -> None:
        """Records are compared by the texts of their times."""
        other = msgspec.structs.replace(SAMPLE, ts=written, joined_ts=written)

        assert decode(encode(other)) == msgspec.structs.replace(SAMPLE, joined_ts=SAMPLE.ts)

    @pytest.mark.parametrize(
        "written",
        [
            "20261121T063151Z",
            "2026-W47-6T06:31:51Z",
            "2026-11-21 06:31:51Z",
            "2026-11-21T06:31Z",
            "2026-11-21T06:31:51,4Z",
            "2026-11-21T06:31:51+00:00:30",
        ],
    )
    @pytest.mark.parametrize("key", ["ts", "joined_ts"])
    def test_other_forms_of_iso_8601_are_no_time_of_a_record(self, key: str, written: str) -> None:
        with pytest.raises(ValueError, match="is no RFC 3339 time"):
            decode(encode(msgspec.structs.replace(SAMPLE, **{key: written})))

    @pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"id":"\xff"}', b"[" * 100_000])
    def test_what_is_no_json_of_ours_is_no_record(self, line: bytes) -> None:
        with pytest.raises(ValueError):  # noqa: PT011 - msgspec's own words
            decode(line)

    def test_unknown_field_that_is_no_utf_8_makes_no_record(self) -> None:
        line = encode(SAMPLE).replace(b"{", b'{"x":"\xff",')

        with pytest.raises(UnicodeDecodeError):
            decode(line)

    def test_nesting_without_end_is_no_record(self) -> None:
        with pytest.raises(ValueError, match="nested too deeply"):
            decode(b'{"x":' + b"[" * 100_000)

    def test_field_of_a_later_version_does_not_disturb_a_reader(self) -> None:
        line = encode(SAMPLE).replace(b'{"schema":1,', b'{"schema":2,"color":{"a":[1]},')

        read = decode(line)

        assert read == msgspec.structs.replace(SAMPLE, schema=2)

    def test_field_that_was_left_out_is_read_as_its_default(self) -> None:
        line = encode(SAMPLE).replace(b'"agent":"a-1","seq":17,', b"")

        read = decode(line)

        assert (read.agent, read.seq) == ("", 0)


class TestId:
    def test_is_stable_across_versions(self) -> None:
        """Readers remove duplicates by the id: a changed id would double earlier records."""
        assert ids(C1) == [
            "e181f9c33ad0305da58f8ed6f26661ff",
            "f0d6c48f55fb2a6c1e5d1924ed406b3a",
            "86df9aa6bda6a25163d058dd27c5ff51",
            "5a952ef40dd9268bcf1379cb7ce756a2",
            "336c269fe54df900f5df638ce4789a1f",
            "3afc3a6d8704b4eb5c2fb482a3fbb13d",
        ]
        assert ids(T1)[-1] == "5dd819afdf9028b9b6a56bdbbd29c166"

    def test_names_of_episodes_are_stable_too(self) -> None:
        samples = run(Tracker(StatusConfig()), raised(1, 10.0, T1))

        assert [each.episode for each in samples] == ["0e6f21fda3fcdb0a", "fd42cf065bdd2047"]

    def test_has_32_hex_digits(self) -> None:
        assert {len(bytes.fromhex(name)) for name in ids(C1)} == {16}

    def test_equal_events_of_one_instant_have_ordinals(self) -> None:
        signals = [raised(5, 10.0), *[raised(1, 10.0)] * 3]

        samples = run(Tracker(StatusConfig()), *signals)

        assert len({each.id for each in samples}) == 4

    @pytest.mark.parametrize("source", SourceKind)
    def test_does_not_hang_on_the_source(self, source: SourceKind) -> None:
        assert ids(C1, source) == ids(C1)

    @pytest.mark.parametrize(
        "changed", [{"host": "another"}, {"member_id": "m"}, {"software": "s"}, {"assignor": "a"}]
    )
    def test_does_not_hang_on_attributes(self, changed: dict[str, str]) -> None:
        assert ids(replace(C1, **changed)) == ids(C1)

    @pytest.mark.parametrize(
        "changed", [{"cluster": "z"}, {"group": "z"}, {"client_id": "z"}, {"origin": "z"}]
    )
    def test_hangs_on_who_it_is(self, changed: dict[str, str]) -> None:
        assert set(ids(replace(C1, **changed))) & set(ids(C1)) == set()

    def test_static_members_id_does_not_hang_on_the_stream(self) -> None:
        assert ids(replace(STATIC, origin="another")) == ids(STATIC)

    def test_consumer_and_instance_are_apart(self) -> None:
        assert len(set(ids(T1))) == len(ids(T1))

    def test_instances_of_two_streams_are_apart(self) -> None:
        assert set(ids(T1)) & set(ids(replace(T1, origin="another"))) == set()

    def test_hangs_on_the_time(self) -> None:
        early, late = (run(Tracker(StatusConfig()), raised(1, at)) for at in (10.0, 10.000001))

        assert early[0].id != late[0].id

    @given(st.lists(st.one_of(st.none(), st.integers(), st.text())))
    def test_digest_keeps_the_bounds_of_its_parts(self, parts: list[object]) -> None:
        assert digest(*parts) == digest(*parts)
        assert digest(*parts) != digest(*parts, "")
        assert digest("a", *parts, "b") != digest("a" + "b", *parts)
        assert digest(None, *parts) != digest("None", *parts)


class TestTime:
    def test_is_written_in_utc_with_microseconds(self) -> None:
        assert format_time(1795242711.4) == "2026-11-21T06:31:51.400000Z"

    def test_does_not_hang_on_the_machines_zone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "Asia/Kolkata")
            time.tzset()
            text = format_time(1795242711.4)
        time.tzset()

        assert text == "2026-11-21T06:31:51.400000Z"

    @pytest.mark.parametrize(
        ("at", "written"),
        [
            (-62_135_683_140.0, "1970-01-01T00:00:00.000000Z"),
            (1e300, "9999-12-31T00:00:00.000000Z"),
        ],
    )
    def test_what_a_wrong_clock_says_is_the_nearest_time(self, at: float, written: str) -> None:
        assert format_time(at) == written

    def test_is_read_in_any_zone(self) -> None:
        assert parse_time("2026-11-21T07:31:51.400000+01:00") == 1795242711.4

    def test_may_be_in_lower_case(self) -> None:
        assert parse_time("2026-11-21t06:31:51.400000z") == 1795242711.4

    @pytest.mark.parametrize("text", ["", "yesterday", "2026-11-21", "2026-11-21T06:31:51"])
    def test_without_a_zone_is_no_time(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"is no time|no zone"):
            parse_time(text)

    @given(st.integers(0, 4_000_000_000_000_000))
    def test_what_is_written_is_read(self, microseconds: int) -> None:
        at = microseconds / 1e6

        assert parse_time(format_time(at)) == pytest.approx(at, abs=1e-6)

    @given(st.floats(0, 4e9), st.floats(0, 4e9))
    def test_order_of_texts_is_that_of_times(self, one: float, two: float) -> None:
        early, late = sorted([one, two])

        assert format_time(early) <= format_time(late)


class TestClip:
    @pytest.mark.parametrize("reason", [None, "", "r", "r" * 255])
    def test_short_reason_stays(self, reason: str | None) -> None:
        assert clip_reason(reason) == reason

    def test_long_reason_is_cut_to_255(self) -> None:
        assert clip_reason("r" * 256) == "r" * 254 + "…"

    def test_list_of_one_text_becomes_its_count_before_a_reason_is_cut(self) -> None:
        racks = ", ".join(["NO_RACKS"] * 40)

        assert clip_reason(f"from {{t=[{racks}]}} to {{t=[{racks}, NO_RACKS]}}") == (
            "from {t=40} to {t=41}"
        )

    def test_reasons_of_samples_are_cut(self) -> None:
        tracker = Tracker(StatusConfig())

        moved, masked = run(tracker, *[raised(1, 10.0, reason="r" * 300)] * 2)

        assert moved.reason == masked.reason == "r" * 254 + "…"
        assert tracker.snapshot(10.0).consumers[0].reason == moved.reason


def test_sample_is_a_row_of_the_schema() -> None:
    wanted = (
        "schema id kind ts agent seq cluster app group group_type protocol_type scope client_id"
        " member_id group_instance_id host log_file from to peak status reason generation episode"
        " outcome joined_ts gained lag subject field before after source"
    )

    assert [each.encode_name for each in msgspec.structs.fields(Sample)] == wanted.split()


def test_member_key_needs_no_member_id() -> None:
    assert "member_id" in Member.__struct_fields__
    assert replace(C1, member_id="a").key == replace(C1, member_id="b").key


def test_a_long_text_is_no_time() -> None:
    with pytest.raises(ValueError, match="1000 characters are no time"):
        parse_time("2" * 1000)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("45000", True),
        ("9" * 18, True),
        ("", False),
        ("-1", False),
        ("\N{SUPERSCRIPT TWO}", False),
        ("9" * 5000, False),
    ],
)
def test_a_number_is_what_int_reads_at_once(text: str, expected: bool) -> None:
    assert is_number(text) is expected
