"""Forms of logs that stores, collectors, layouts and locales make of one member's lines.

Each form is as its program prints it: Logback's JsonEncoder.java, fluentd's formatters, Sumo
Logic's exports, `journalctl -o`, ClickHouse's table of OpenTelemetry, and Java's own locales
(`String.format` of JDK 17, as `java.util.logging` calls it).
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from tests.agent.sources.lines.test_posted_forms import (
    EVENTS,
    NEWEST_FIRST,
    WANTED,
    iso,
    jul,
    lines,
    log4j,
    ms,
    replay,
)

LOGGER = "org.apache.kafka.clients.consumer.internals.ConsumerCoordinator"
POD = {"k8s.pod.name": "p-1"}


def otlp(at: int, text: str) -> str:
    """Return a record with the object that the collector's json_parser has made of a line."""
    body = {"kvlistValue": {"values": [{"key": "message", "value": {"stringValue": text}}]}}
    pod = {"key": "k8s.pod.name", "value": {"stringValue": "p-1"}}
    record = {"timeUnixNano": str(at * 1_000_000), "body": body}
    resource = {"resource": {"attributes": [pod]}, "scopeLogs": [{"logRecords": [record]}]}
    return json.dumps({"resourceLogs": [resource]})


def with_arguments(at: int, text: str) -> str:
    """Return an entry of Logback's JsonEncoder: it writes a message's arguments into a field."""
    place = next(
        text.index(word) for word in ("Generation{", "need", "group is", "t-0") if word in text
    )
    message, argument = f"{text[:place]}{{}}", text[place:]
    entry = {"timestamp": at, "message": message, "arguments": [argument]}
    return json.dumps(entry, separators=(",", ":"))


OF_POD = {
    "Quarkus, WildFly": lambda at, t: {"timestamp": iso(at), "message": t, "hostName": "p-1"},
    "Datadog's agent": lambda at, t: {"Date": iso(at), "Host": "p-1", "Message": t},
    "Azure container apps": lambda at, t: {
        "TimeGenerated": iso(at),
        "PodName_s": "p-1",
        "Log_s": t,
    },
    "Alibaba SLS": lambda at, t: {"__time__": ms(at) // 1000, "_pod_name_": "p-1", "content": t},
    "ClickHouse": lambda at, t: {"Timestamp": iso(at), "Body": t, "ResourceAttributes": POD},
    "Honeycomb": lambda at, t: {"time": iso(at), "data": {"message": t, **POD}},
    "Application Insights": lambda at, t: {
        "timestamp": iso(at),
        "message": t,
        "cloud_RoleInstance": "p-1",
    },
    "Quickwit": lambda at, t: {
        "timestamp_nanos": ms(at) * 1_000_000,
        "body": {"message": t},
        "resource_attributes": POD,
    },
    "Oracle Cloud": lambda at, t: {
        "datetime": ms(at),
        "logContent": {"data": {"message": t}, "source": "x"},
        "pod_name": "p-1",
    },
    "Filebeat with a decoded object": lambda at, t: {
        "@timestamp": iso(at),
        "json": {"log": t, "stream": "stdout"},
        "kubernetes": {"pod": {"name": "p-1"}},
    },
    "GELF with a short message": lambda at, t: {
        "version": "1.1",
        "host": "p-1",
        "short_message": t[:60],
        "full_message": f"{t}\nat a trace",
        "timestamp": at.timestamp(),
    },
    "Docker with a tag": lambda at, t: {
        "log": f"{t}\n",
        "stream": "stdout",
        "attrs": {"tag": "p-1"},
        "time": iso(at),
    },
}
FORMS_OF_POD = {
    **{
        name: lines(lambda at, text, form=form: json.dumps(form(at, text)))  # type: ignore[misc]
        for name, form in OF_POD.items()
    },
    "OTLP with a parsed body": lines(lambda at, text: otlp(ms(at), text)),
    "fluentd's stdout": lines(
        lambda at, text: (
            f"{at:%Y-%m-%d %H:%M:%S}.123000000 +0000 kube.app: "
            + json.dumps({"log": text, "stream": "stdout", "kubernetes": {"pod_name": "p-1"}})
        )
    ),
    "fluentd's file": lines(
        lambda at, text: (
            f"{at:%Y-%m-%dT%H:%M:%S}+00:00\tkube.app\t"
            + json.dumps({"message": text, "container_name": "/p-1"})
        )
    ),
    "journalctl -o short-full": lines(
        lambda at, text: f"Fri {at:%Y-%m-%d %H:%M:%S} UTC p-1 java[123]: {text}"
    ),
    "journalctl -o short-unix": lines(
        lambda at, text: f"{at.timestamp():.6f} p-1 java[123]: {text}"
    ),
    "Sumo Logic's JSON": json.dumps(
        {
            "messages": [
                {"map": {"_messagetime": str(ms(at)), "_raw": text, "_sourcehost": "p-1"}}
                for at, text in NEWEST_FIRST
            ]
        }
    ),
    "Sumo Logic's CSV": '"_messagetime","_raw","_sourcehost"\n'
    + "\n".join(f'"{ms(at)}","{text}","p-1"' for at, text in NEWEST_FIRST),
    "Datadog's CSV": "Date,Host,Service,Message\n"
    + "\n".join(f'"{iso(at)}","p-1","pay","{text}"' for at, text in NEWEST_FIRST),
    "Graylog's CSV": '"timestamp","source","message"\n'
    + "\n".join(f'"{iso(at)}","p-1","{text}"' for at, text in NEWEST_FIRST),
    "Grafana's CSV": "Time,Line,tsNs,id,labels\n"
    + "\n".join(
        f'{at:%Y-%m-%d %H:%M:%S}.123,"{text}",{ms(at)}000000,1,"{{""pod"":""p-1""}}"'
        for at, text in NEWEST_FIRST
    ),
    "Loggly's export": json.dumps(
        {
            "events": [
                {"timestamp": ms(at), "logmsg": text, "event": {"syslog": {"host": "p-1"}}}
                for at, text in NEWEST_FIRST
            ]
        }
    ),
    "Fluent Bit's stdout": lines(
        lambda at, text: (
            f"[0] kube.var.log.containers.p-1_shop_app-{'0f' * 32}.log: "
            f"[[{ms(at) // 1000}.123000000, {{}}], {json.dumps({'log': text})}]"
        )
    ),
    "Fluent Bit's stdout, before 2.1": lines(
        lambda at, text: f"[0] p-1: [{ms(at) // 1000}.123000000, {json.dumps({'log': text})}]"
    ),
    "Elasticsearch's fields": json.dumps(
        {
            "hits": {
                "hits": [
                    {
                        "fields": {
                            "@timestamp": [iso(at)],
                            "message": [text],
                            "kubernetes.pod.name": ["p-1"],
                        }
                    }
                    for at, text in NEWEST_FIRST
                ]
            }
        }
    ),
    "Graylog's search": json.dumps(
        {
            "schema": [
                {"column_type": "field", "field": name, "name": f"field: {name}"}
                for name in ("timestamp", "source", "message")
            ],
            "datarows": [[iso(at), "p-1", text] for at, text in NEWEST_FIRST],
        }
    ),
    "Loki's push": json.dumps(
        {
            "streams": [
                {
                    "stream": {"pod": "p-1"},
                    "values": [[str(ms(at) * 1_000_000), text] for at, text in EVENTS],
                }
            ]
        }
    ),
}
"""Forms that name the pod."""


def of_locale(month: str, half: str) -> str:
    return jul(month).replace(" PM ", f" {half} ")


FORMS = {
    "stern --timestamps=short": lines(
        lambda at, text: f"pay-7d9f8b6c5-abcde app {at:%m-%d %H:%M:%S} {text}"
    ),
    "Better Stack": lines(lambda at, text: json.dumps({"dt": iso(at), "message": text})),
    "Logback's JsonEncoder": lines(lambda at, text: with_arguments(ms(at), text)),
    "Logback's JsonEncoder, formatted": lines(
        lambda at, text: json.dumps(
            {"timestamp": ms(at), "message": "{}", "formattedMessage": text}
        )
    ),
    "Logstash's own log": lines(
        lambda at, text: json.dumps(
            {"level": "INFO", "timeMillis": ms(at), "logEvent": {"message": text}}
        )
    ),
    "Humio": lines(lambda at, text: json.dumps({"@timestamp": ms(at), "@rawstring": text})),
    "a code fence of a chat": lines(lambda at, text: f"```{log4j(at, text)}```"),
    "bold text": lines(lambda at, text: f"**{log4j(at, text)}**"),
    "a table of Markdown": lines(lambda at, text: f"| {iso(at)} | INFO | {text} |"),
    "an indented object": lines(
        lambda at, text: "    " + json.dumps({"time": iso(at), "msg": text})
    ),
    "Azure's console": lines(lambda at, text: json.dumps({"TimeStamp": iso(at), "Log": text})),
    "aws logs get-log-events": "\n".join(
        f"EVENTS\t{ms(at)}\t{text}\t{ms(at)}" for at, text in EVENTS
    ),
    "podman logs --names": lines(lambda at, text: f"pay_app_1 {log4j(at, text)}"),
    "podman logs of several": lines(lambda at, text: f"5a1b2c3d4e5f {log4j(at, text)}"),
    "GlassFish's uniform layout": lines(
        lambda at, text: f"[#|{iso(at)}|INFO|x|{LOGGER}|_ThreadID=20;|{text}|#]\n"
    ),
    "log4j's COMPACT": lines(lambda at, text: f"{at:%Y%m%d%H%M%S}123 INFO {LOGGER} - {text}"),
    "Render": lines(lambda at, text: f"{at:%b %d %I:%M:%S} PM  {text}"),
    "a French weekday": lines(lambda at, text: f"ven. {at:%d} nov. {at:%Y %H:%M:%S} {text}"),
    "jq": lines(lambda at, text: json.dumps(log4j(at, text))),
    "aws logs get-log-events, before an ISO time": lines(
        lambda at, text: f"EVENTS\t{ms(at) + 900}\t{iso(at)}  INFO {text}\t{ms(at)}"
    ),
    "aws logs tail --format short, before a time without a date": lines(
        lambda at, text: f"{at:%Y-%m-%dT%H:%M:%S} {at:%H:%M:%S}.123 [main] INFO x -- {text}"
    ),
    "pm2 logs --timestamp, before a time without a date": lines(
        lambda at, text: f"0|pay | {at:%Y-%m-%dT%H:%M:%S}: {at:%H:%M:%S}.123 INFO {text}"
    ),
    "grep -C": "\n--\n".join(f"app.log-{log4j(at, text)}" for at, text in EVENTS),
    "grep -n -C": "\n".join(f"app.log-12-{log4j(at, text)}" for at, text in EVENTS),
    "grep -n of one file": lines(lambda at, text: f"12:{log4j(at, text)}"),
    "a web page": lines(log4j).replace("'", "&#39;"),
    "a quotation of a chat": "\n".join(f"&gt; {log4j(at, text)}" for at, text in EVENTS),
    "Chinese, JDK 8": of_locale("十一月", "下午"),
    "German, JDK 9": of_locale("Nov.", "NACHM."),
    "Swedish": of_locale("nov.", "EM"),
    "Czech": of_locale("lis", "ODP."),
    "Hungarian": of_locale("nov.", "DU."),
    "Finnish": of_locale("marrask.", "IP."),
    "Ukrainian": of_locale("лист.", "ПП"),
    "Greek": of_locale("Νοε", "Μ.Μ."),  # noqa: RUF001 - Greek
    "Vietnamese": of_locale("thg 11", "CH"),
    "Bulgarian": of_locale("ное", "СЛ.ОБ."),
}
"""Forms without a name of the stream."""


@pytest.mark.parametrize("form", FORMS_OF_POD)
def test_form_with_a_pod_is_read(form: str, tmp_path: Path) -> None:
    assert replay(FORMS_OF_POD[form], tmp_path) == (WANTED, {"p-1"})


@pytest.mark.parametrize("form", FORMS)
def test_form_is_read(form: str, tmp_path: Path) -> None:
    assert replay(FORMS[form], tmp_path)[0] == WANTED


def test_column_in_utc_is_not_in_the_zone_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "query_data.csv"
    rows = (f'"{at:%m/%d/%Y, %I:%M:%S.123 %p}","{text}"' for at, text in NEWEST_FIRST)
    path.write_text("\n".join(("timestamp [UTC],message", *rows)) + "\n", encoding="utf-8")

    done = CliRunner().invoke(
        main, ["replay", "--source", "logs", "--timezone", "Europe/Berlin", str(path)]
    )

    rows_read = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["ts"][11:19] for row in rows_read if row["kind"] == "transition"] == [
        at for _, at in WANTED
    ]


@pytest.mark.parametrize("around", ['"{}\\n","stream"', "Body: Str({})", "<td>{}</td>", "'{}'"])
def test_what_stands_around_a_text_makes_no_user_of_its_client(around: str, tmp_path: Path) -> None:
    text = lines(lambda at, text: f"{at:%Y-%m-%d %H:%M:%S},123 INFO " + around.format(text))

    assert replay(text, tmp_path)[0] == WANTED


def test_log_behind_an_object_over_several_lines_is_not_lost(tmp_path: Path) -> None:
    text = json.dumps({"servers": ["a:9092"], "group": "pay"}, indent=2) + "\n" + lines(log4j)

    assert replay(text, tmp_path)[0] == WANTED
