"""Forms that tools, stores, services and copies make of a log, of two replicas and of one member.

The shapes are those that the tools' sources print: `docker service logs -t` and k9s write the time
first, rsyslog's files have no process, `awslogs` names the group, Serilog keeps values apart.
"""

import base64
import gzip
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.agent.sources.lines.test_origins_of_stores import replicas
from tests.agent.sources.lines.test_posted_forms import (
    EVENTS,
    WANTED,
    iso,
    jul,
    lines,
    log4j,
    ms,
    replay,
)

PODS = {1: "pay-7d9f8b6c5-abcde", 2: "pay-7d9f8b6c5-fghij"}
Form = Callable[[datetime, str, int], str]


def of_base64(found: object, pack: Callable[[bytes], bytes] = bytes) -> str:
    return base64.b64encode(pack(json.dumps(found).encode())).decode()


OF_TWO: dict[str, Form] = {
    "docker service logs -t": lambda at, text, n: f"{iso(at)} pay.{n}.x7k2p9d8@node    | {text}",
    "docker service logs --details": lambda at, text, n: (
        f"pay.{n}.x7k2p9d8@node    | com.docker.swarm.task.id=x7k2p9d8,env=a%2Cb {log4j(at, text)}"
    ),
    "saw watch": lambda at, text, n: f"[{at:%Y-%m-%dT%H:%M:%SZ}] (pay/app/{n}) {log4j(at, text)}",
    "saw get --pretty, of objects": lambda at, text, n: (
        f"[{at:%Y-%m-%dT%H:%M:%S+00:00}] (pay/app/{n}) {json.dumps({'ts': iso(at), 'msg': text})}"
    ),
    "k9s": lambda at, text, n: f"{iso(at)} {PODS[n]} app {log4j(at, text)}",
    "k9s, one container": lambda at, text, n: f"{iso(at)} {PODS[n]} {log4j(at, text)}",
    "stern's template": lambda at, text, n: f"shop/{PODS[n]}/app: {log4j(at, text)}",
    "a template of stern, in brackets": lambda at, text, n: f"[{PODS[n]}/app] {log4j(at, text)}",
    "Papertrail's archives": lambda at, text, n: "\t".join(
        (
            f"5011{at.second:08}",
            f"{at:%Y-%m-%dT%H:%M:%SZ}",
            f"{at:%Y-%m-%dT%H:%M:%SZ}",
            f"12{n}",
            f"host{n}",
            "10.0.0.1",
            "User",
            "Info",
            "pay",
            log4j(at, text),
        )
    ),
    "cf logs, before 7": lambda at, text, n: f"{iso(at)} [App/{n}]      OUT {text}",
    "journalctl -o short-precise": lambda at, text, n: (
        f"{at:%b %d %H:%M:%S.%f} host-{n} java[123]: {text}"
    ),
    "journalctl -o short-monotonic": lambda at, text, n: (
        f"[ 5123.{at.microsecond:06}] host-{n} java[123]: {log4j(at, text)}"
    ),
    "journalctl -o short-delta": lambda at, text, n: (
        f"[ 5123.{at.microsecond:06} <    0.000012 >] host-{n} java[123]: {log4j(at, text)}"
    ),
    "journalctl -o short-delta, the first entries": lambda at, text, n: (
        f"[ 5123.{at.microsecond:06}                ] host-{n} java[123]: {log4j(at, text)}"
    ),
    "journalctl -o json-sse": lambda at, text, n: (
        "data: "
        + json.dumps(
            {"__REALTIME_TIMESTAMP": f"{ms(at)}000", "MESSAGE": text, "_HOSTNAME": f"h{n}"}
        )
        + "\n"
    ),
    "rsyslog's files": lambda at, text, n: f"{at:%Y-%m-%dT%H:%M:%S.%f}+00:00 host{n} pay:  {text}",
    "podman-compose": lambda at, text, n: f"[pay_{n}]  | {log4j(at, text)}",
    "Scalingo": lambda at, text, n: (
        f"{at:%Y-%m-%d %H:%M:%S.%f}000 +0000 UTC [worker-{n}] {json.dumps({'msg': text})}"
    ),
    "names of DigitalOcean's apps": lambda at, text, n: f"pay-{n} {iso(at)} {log4j(at, text)}",
    "syslog's CEE": lambda at, text, n: (
        f"{at:%b %d %H:%M:%S} host{n} pay[1]: @cee: {json.dumps({'msg': text})}"
    ),
    "Rust's slog behind syslog": lambda at, text, n: (
        f"{iso(at)} host{n} pay[1]: {at:%b %d %H:%M:%S.123} DEBG librdkafka: {text}"
    ),
    "Container Apps, with the replica": lambda at, text, n: json.dumps(
        {"TimeStamp": iso(at), "Log": text, "ContainerAppName": "pay", "ReplicaName": f"pay-{n}"}
    ),
    "Fluent Bit's stdout, of an object": lambda at, text, n: (
        f"[0] kube.var.log.containers.{PODS[n]}_shop_app-{'ab' * 32}.log: "
        f"[[{ms(at) / 1000:.9f}, {{}}], "
        + json.dumps({"log": json.dumps({"msg": text})}, separators=(", ", "=>"))
        + "]"
    ),
    "compose -t, before a date with slashes": lambda at, text, n: (
        f"pay-{n}  | {iso(at)} {at:%m/%d/%Y %I:%M:%S.123} PM INFO x - {text}"
    ),
    "rsyslog's CEE": lambda at, text, n: (
        f"{at:%Y-%m-%dT%H:%M:%S.%f}+00:00 host{n} pay[1]: @cee: {json.dumps({'msg': text})}"
    ),
    "syslog with a year and a facility": lambda at, text, n: (
        f"{at:%b %d %Y %H:%M:%S} s_src@host{n} local0.info pay[12]: {text}"
    ),
    "RFC 5424 over TCP": lambda at, text, n: f"123 <14>1 {iso(at)} host{n} pay 12 - - {text}",
    "awslogs": lambda at, text, n: f"/ecs/pay ecs/app/{n}abc {iso(at)} {text}",
    "aws logs filter-log-events": lambda at, text, n: (
        f"EVENTS\t3{'7' * 55}\t{ms(at) + 900}\tecs/app/{n}abc\t{text}\t{ms(at)}"
    ),
    "aws logs tail of a function": lambda at, text, n: (
        f"{iso(at)} 2026/11/20/[$LATEST]abcdef{n} {text}"
    ),
    "Firehose, without line ends": lambda at, text, n: json.dumps(
        {
            "messageType": "DATA_MESSAGE",
            "logStream": f"ecs/app/{n}",
            "logEvents": [{"timestamp": ms(at), "message": text}],
        }
    ),
    "Grafana's text": lambda at, text, n: f'{iso(at)}\t{{pod="p-{n}"}}\t{text}',
    "gcloud --format=value": lambda at, text, n: f"{iso(at)}\t{PODS[n]}\t{text}",
    "gh run view": lambda at, text, n: f"build\tRun tests {n}\t{iso(at)} {text}",
    "supervisor-stdout": lambda at, text, n: f"pay_{n} stdout | {log4j(at, text)}",
    "turbo": lambda at, text, n: f"pay{n}:dev: {log4j(at, text)}",
    "Heroku's drains": lambda at, text, n: (
        f"{len(text)} <190>1 {iso(at)} host app web.{n} - {text}"
    ),
    "Railway": lambda at, text, n: json.dumps(
        {"message": text, "timestamp": iso(at), "attributes": {"replicaId": f"r{n}"}}
    ),
    "Fly's JSON": lambda at, text, n: json.dumps(
        {
            "fly": {"app": {"instance": f"148e{n}", "name": "pay"}},
            "host": "h",
            "log": {"level": "info"},
            "message": text,
            "timestamp": iso(at),
        }
    ),
    "syslog-ng's JSON": lambda at, text, n: json.dumps(
        {"PROGRAM": "pay", "PID": f"1{n}", "ISODATE": iso(at), "HOST": f"h{n}", "MESSAGE": text}
    ),
    "rsyslog's JSON": lambda at, text, n: json.dumps(
        {"timereported": iso(at), "hostname": f"h{n}", "syslogtag": "pay[1]:", "msg": f" {text}"}
    ),
    "process-compose's JSON": lambda at, text, n: json.dumps(
        {"level": "info", "process": f"pay{n}", "replica": 0, "message": log4j(at, text)}
    ),
    "Vector's logfmt": lambda at, text, n: (
        f'container_name=pay-{n} host=h message="{text}" stream=stdout timestamp={iso(at)}'
    ),
    "Kubetail's JSON": lambda at, text, n: json.dumps(
        {"timestamp": iso(at), "message": text, "source": {"podName": PODS[n]}}
    ),
    "tasks of Amazon's ECS": lambda at, text, n: json.dumps(
        {"Timestamp": iso(at), "Message": text, "Task": f"ab{n}cd"}
    ),
    "pdsh": lambda at, text, n: f"host{n}.example.org: {log4j(at, text)}",
    "turbo, of scoped packages": lambda at, text, n: f"@acme/pay{n}:dev: {log4j(at, text)}",
    "nx, lerna": lambda at, text, n: f"@acme/pay{n}: {iso(at)}  INFO 1 --- [p] [main] x : {text}",
    "pnpm -r": lambda at, text, n: f"packages/pay{n} dev: {log4j(at, text)}",
    "node-foreman": lambda at, text, n: f"1:20:09 PM pay.{n} |  {log4j(at, text)}",
    "goreman": lambda at, text, n: f"13:20:09 pay{n} | {log4j(at, text)}",
    "concurrently": lambda at, text, n: f"[{n}] {log4j(at, text)}",
    "concurrently, of names, npm-run-all, skaffold": lambda at, text, n: (
        f"[{('worker', 'api')[n - 1]}] {log4j(at, text)}"
    ),
    "concurrently, of Kafka's layout": lambda at, text, n: (
        f"[pay-{n}] [{at:%Y-%m-%d %H:%M:%S},123] INFO {text} (o.a.X)"
    ),
    "concurrently, of Logback's layout": lambda at, text, n: (
        f"[pay-{n}] {at:%H:%M:%S}.123 [main] INFO o.a.X -- {text}"
    ),
    "concurrently, of Spark's layout": lambda at, text, n: (
        f"[pay-{n}] {at:%y/%m/%d %H:%M:%S} INFO X: {text}"
    ),
    "concurrently, of java.util.logging": lambda at, text, n: (
        f"[pay-{n}] {at:%b %d, %Y %I:%M:%S} PM org.apache.kafka.X x\n[pay-{n}] INFO: {text}"
    ),
    "concurrently --prefix pid": lambda at, text, n: f"[2440{n}] {log4j(at, text)}",
    "concurrently --prefix '{time}-{pid}'": lambda at, text, n: (
        f"2026-11-28 17:26:18.191-2440{n} {log4j(at, text)}"
    ),
    "go-task's, with colours": lambda at, text, n: f"[\x1b[33mpay{n}\x1b[0m] {log4j(at, text)}",
    "process-compose": lambda at, text, n: f"[pay{n}\t] {log4j(at, text)}",
    "parallel --tag": lambda at, text, n: f"host{n}\t{log4j(at, text)}",
    "Splunk's Docker driver": lambda at, text, n: json.dumps(
        {"time": f"{at.timestamp():.6f}", "event": {"line": text, "tag": f"5a1b2c3d4e{n}"}}
    ),
    "Papertrail's API": lambda at, text, n: json.dumps(
        {"received_at": iso(at), "hostname": f"h{n}", "message": text}
    ),
    "NXLog": lambda at, text, n: json.dumps(
        {"EventTime": f"{at:%Y-%m-%d %H:%M:%S}", "Hostname": f"h{n}", "Message": text}
    ),
    "LogDNA": lambda at, text, n: json.dumps({"_ts": ms(at), "_line": text, "_host": f"h{n}"}),
    "Liberty's JSON": lambda at, text, n: json.dumps(
        {"ibm_datetime": iso(at), "host": f"h{n}", "loglevel": "INFO", "message": text}
    ),
    "Azure's diagnostic storage": lambda at, text, n: json.dumps(
        {"time": iso(at), "properties": {"log": text, "stream": "stdout", "pod": PODS[n]}}
    ),
    "fluentd's file, of pods": lambda at, text, n: (
        f"{at:%Y-%m-%dT%H:%M:%S+00:00}\tkubernetes.var.log.containers.{PODS[n]}_shop_app-"
        f"{'ab' * 32}.log\t" + json.dumps({"log": log4j(at, text), "stream": "stdout"})
    ),
    "a build server's console, of compose": lambda at, text, n: (
        f"[{at:%Y-%m-%dT%H:%M:%S}.123Z] pay-{n}  | {log4j(at, text)}"
    ),
    "Better Stack, of Docker": lambda at, text, n: json.dumps(
        {"dt": iso(at), "message": text, "docker": {"container_name": f"pay-{n}"}}
    ),
    "podman logs --names": lambda at, text, n: f"pay-{n} {log4j(at, text)}",
    "podman logs --names, of objects": lambda at, text, n: (
        f"brave_bell{n} {json.dumps({'ts': iso(at), 'msg': text})}"
    ),
    "the collector's debug exporter": lambda at, text, n: (
        f"{iso(at)}\tinfo\tResourceLog #0\nResource SchemaURL: \nResource attributes:\n"
        f"     -> k8s.pod.name: Str({PODS[n]})\nScopeLogs #0\nLogRecord #0\n"
        f"Timestamp: {at:%Y-%m-%d %H:%M:%S.%f} +0000 UTC\nBody: Str({text})\nTrace ID: \n"
        'Span ID: \nFlags: 0\n\t{"kind": "exporter"}'
    ),
    "SigNoz": lambda at, text, n: json.dumps(
        {
            "timestamp": iso(at),
            "data": {"body": text, "resources_string": {"k8s.pod.name": PODS[n]}},
        }
    ),
    "Dynatrace": lambda at, text, n: json.dumps(
        {"timestamp": ms(at), "content": text, "additionalColumns": {"k8s.pod.name": [PODS[n]]}}
    ),
    "RFC 5424 with a pod in its data": lambda at, text, n: (
        f'<134>1 {iso(at)} node pay 1 - [k8s@1 pod="{PODS[n]}" ns="a"] {log4j(at, text)}'
    ),
    "RFC 3164 over TCP": lambda at, text, n: (
        f"123 <14>{at:%b %e %H:%M:%S} host{n} pay[12]: {log4j(at, text)}"
    ),
    "Docker's syslog driver, to a local socket": lambda at, text, n: (
        f"<30>{at:%b %e %H:%M:%S} 5feceb66ffc{n}[123]: {log4j(at, text)}"
    ),
    "Drone": lambda at, text, n: f"[pay-{n}:{at.second}] {log4j(at, text)}",
    "Drone, of objects": lambda at, text, n: (
        f"[pay-{n}:{at.second}] {json.dumps({'time': iso(at), 'msg': text})}"
    ),
    "tkn": lambda at, text, n: f"[task{n} : run] {log4j(at, text)}",
    "GitLab, of compose": lambda at, text, n: f"{iso(at)} 00O pay-{n}  | {log4j(at, text)}",
    "Airflow, of compose": lambda at, text, n: (
        f"[{at:%Y-%m-%dT%H:%M:%S}.123+0000] {{subprocess.py:93}} INFO - pay-{n}  | {text}"
    ),
    "Airflow, of objects": lambda at, text, n: (
        f"[{at:%Y-%m-%dT%H:%M:%S}.123+0000] {{pod_manager.py:93}} INFO - [base] "
        + json.dumps({"message": text, "kubernetes": {"pod_name": PODS[n]}})
    ),
    "ts, of compose": lambda at, text, n: f"{at:%b %d %H:%M:%S} pay-{n}  | {text}",
    "multilog, of compose": lambda at, text, n: (
        f"@{(1 << 62) + int(at.timestamp()) + 10:016x}00000000 pay-{n}  | {text}"
    ),
    "gcloud app logs": lambda at, text, n: f"{at:%Y-%m-%d %H:%M:%S} default[v{n}]  {text}",
    "LTSV": lambda at, text, n: f"time:{iso(at)}\thost:h{n}\tmessage:{text}",
    "TSKV": lambda at, text, n: f"tskv\tTimestamp={iso(at)}\tpod={PODS[n]}\tBody={text}",
    "Pub/Sub": lambda at, text, n: json.dumps(
        {"message": {"data": of_base64({"time": iso(at), "pod": PODS[n], "message": text})}}
    ),
    "Kinesis, of a subscription": lambda at, text, n: json.dumps(
        {
            "Data": of_base64(
                {
                    "messageType": "DATA_MESSAGE",
                    "logStream": f"app/{PODS[n]}",
                    "logEvents": [{"timestamp": ms(at), "message": text}],
                },
                gzip.compress,
            )
        }
    ),
}
OF_ONE = {
    "Java Service Wrapper": lines(
        lambda at, text: (
            f"INFO   | jvm 1    | {at:%Y/%m/%d %H:%M:%S} | {json.dumps({'message': text})}"
        )
    ),
    "Java Service Wrapper, with a thread": lines(
        lambda at, text: f"INFO   | jvm 1    | main    | {at:%Y/%m/%d %H:%M:%S}.123 | {text}"
    ),
    "American dates with dashes": lines(lambda at, text: f"{at:%b-%d-%Y %H:%M:%S}.123 INFO {text}"),
    "WSO2": lines(
        lambda at, text: f"TID: [-1234] [] [{at:%Y-%m-%d %H:%M:%S},123]  INFO {{o.a.X}} - {text}"
    ),
    "a name of an application": lines(lambda at, text: f"pay {at:%Y-%m-%d %H:%M:%S}.123 {text}"),
    "a process in brackets": lines(lambda at, text: f"pay[1]: {at:%Y-%m-%d %H:%M:%S}.123 {text}"),
    "an address and a number": lines(
        lambda at, text: f"10.0.0.1 123 {at:%Y-%m-%d %H:%M:%S}.123 {text}"
    ),
    "pipes": lines(lambda at, text: f"INFO|{at:%Y-%m-%d}|{at:%H:%M:%S}.123|main|{text}"),
    "an object before the line": lines(lambda at, text: f'{{"trace":"a"}} {log4j(at, text)}'),
    "Maven's Docker plugin": lines(lambda at, text: f"[INFO] DOCKER> {log4j(at, text)}"),
    "OpenTelemetry's Java exporter": lines(
        lambda at, text: (
            f"[otel.javaagent {at:%Y-%m-%d %H:%M:%S}:123 +0000] [worker-1] INFO "
            f"io.opentelemetry.exporter.logging.SystemOutLogRecordExporter - {iso(at)} INFO "
            f"'{text}' : 0000 0000 [scopeInfo: x:] {{}}"
        )
    ),
    "German dates": lines(lambda at, text: f"{at:%d-%m-%Y %H:%M:%S}.123 INFO {text}"),
    "American dates": lines(lambda at, text: f"{at:%m/%d/%y %H:%M:%S} INFO {text}"),
    "a dash between date and time": lines(lambda at, text: f"{at:%d/%m/%Y - %H:%M:%S} INFO {text}"),
    "a year of two digits before the month": lines(
        lambda at, text: f"{at:%y-%b-%d %H:%M:%S}.123 INFO {text}"
    ),
    "a date without separators": lines(lambda at, text: f"{at:%d%b%Y %H:%M:%S}.123 INFO {text}"),
    "SAS": lines(lambda at, text: f"{at:%d%b%y:%H:%M:%S}.123 INFO {text}".upper()[:25] + text),
    "mulog, in JSON": lines(
        lambda at, text: json.dumps({"mulog/event-name": "x", "mulog/timestamp": ms(at), "m": text})
    ),
    "mulog": lines(
        lambda at, text: (
            f"{{:mulog/event-name :x, :mulog/timestamp {ms(at)}, :mulog/trace-id #mulog/flake "
            f'"4h", :message "{text}"}}'
        )
    ),
    "a compact time without a fraction": lines(lambda at, text: f"{at:%Y%m%d%H%M%S} INFO {text}"),
    "dashes within the time": lines(lambda at, text: f"{at:%Y-%m-%d %H-%M-%S} INFO {text}"),
    "a dash before the time": lines(lambda at, text: f"{at:%Y.%m.%d-%H:%M:%S}.123 INFO {text}"),
    "Python's process id": lines(
        lambda at, text: json.dumps({"asctime": iso(at), "process": at.second, "message": text})
    ),
    "svlogd": lines(lambda at, text: f"{at:%Y-%m-%d_%H:%M:%S}.12345 {text}"),
    "winston": lines(lambda at, text: f'info: {text} {{"a":1,"timestamp":"{iso(at)}"}}'),
    "a table of HTML": lines(
        lambda at, text: f"<tr><td>{at:%Y-%m-%d %H:%M:%S},123</td><td>{text}</td></tr>"
    ),
    "a diff": lines(lambda at, text: f"+{log4j(at, text)}"),
    "Python's bytes": lines(lambda at, text: f'b"{log4j(at, text)}\\n"'),
    "Serilog's compact JSON": lines(
        lambda at, text: json.dumps({"@t": iso(at), "@mt": "{Text:l}", "Text": text})
    ),
    "Serilog's JSON": lines(
        lambda at, text: json.dumps(
            {"Timestamp": iso(at), "MessageTemplate": "{Text}", "Properties": {"Text": text}}
        )
    ),
    "monolog 1": lines(
        lambda at, text: json.dumps(
            {"message": text, "datetime": {"date": f"{at:%Y-%m-%d %H:%M:%S.%f}"}}
        )
    ),
    "Jackson's numbers of a time": lines(
        lambda at, text: json.dumps(
            {
                "timestamp": [*at.timetuple()[:6], 123_000_000][: 7 if at.second else 5],
                "message": text,
            }
        )
    ),
    "loguru": lines(
        lambda at, text: json.dumps(
            {"text": "x", "record": {"message": text, "time": {"timestamp": at.timestamp()}}}
        )
    ),
    "Azure's tables": json.dumps(
        {
            "tables": [
                {
                    "columns": [{"name": "TimeGenerated"}, {"name": "LogMessage"}],
                    "rows": [[iso(at), text] for at, text in EVENTS],
                }
            ]
        }
    ),
    "Grafana's text, without labels": "Common labels: {}\n\n\n"
    + "\n".join(f"{ms(at)}\t{iso(at)}\t{text}" for at, text in EVENTS[::-1]),
    "Kibana's columns": lines(
        lambda at, text: (
            f"\t{at:%b %d, %Y @ %H:%M:%S}.123\t{json.dumps({'msg': text, 'ts': at.timestamp()})}"
        )
    ),
    "a clock without a date before a day of a year": lines(
        lambda at, text: f"{at:%H:%M:%S} worker.1 | I{at:%m%d %H:%M:%S.%f}       1 a.go:10] {text}"
    ),
    "FireLens, of java.util.logging": "\n".join(
        json.dumps({"container_id": "ab12", "container_name": "app", "log": line})
        for line in jul("Nov").splitlines()
    ),
    "stern's JSON, of java.util.logging": "\n".join(
        json.dumps({"message": line, "podName": "pay-0", "containerName": "app"})
        for line in jul("Nov").splitlines()
    ),
    "the newest first, a short log at whole seconds": "\n".join(
        f"{at:%Y-%m-%d %H:%M:%S} INFO {text}" for at, text in EVENTS[::-1]
    ),
    "logcli, the newest first, at whole seconds": "\n".join(
        f'{at:%Y-%m-%dT%H:%M:%S}Z {{pod="pay-0"}} {log4j(at, text)}' for at, text in EVENTS[::-1]
    ),
    "a table with tabs": "timestamp\tpod\tmessage\n"
    + lines(lambda at, text: f"{iso(at)}\tpay-0\t{text}"),
    "a table with semicolons": "Timestamp;Pod;Message\n"
    + lines(lambda at, text: f'{at:%d.%m.%Y %H:%M:%S};pay-0;"{text}"'),
    "Datadog's table, of objects": "Date,Host,Service,Content\n"
    + "\n".join(
        f'"{iso(at)}","i-1","pay","{json.dumps({"msg": text}).replace(chr(34), chr(34) * 2)}"'
        for at, text in EVENTS[::-1]
    ),
    "a list of objects as strings": json.dumps(
        [json.dumps({"time": iso(at), "msg": text}) for at, text in EVENTS]
    ),
    "an object behind a time of day": lines(
        lambda at, text: f"{at:%b %d %Y %H:%M:%S}  {json.dumps({'level': 'info', 'msg': text})}"
    ),
    "colours of 256": lines(lambda at, text: f"\x1b[38;5;10m\x1b[K{log4j(at, text)}\x1b[m\x1b[K"),
    "grep's colours": lines(
        lambda at, text: log4j(at, text).replace(
            "Consumer", "\x1b[01;31m\x1b[KConsumer\x1b[m\x1b[K"
        )
    ),
    "printed escapes": lines(lambda at, text: f"^[[32m{log4j(at, text)}^[[0m"),
    "lost escapes": lines(
        lambda at, text: f"[2m{iso(at)}[0;39m [32mINFO[0;39m [36mo.a.k.X[0;39m [2m:[0;39m {text}"
    ),
    "a code span in a quotation": lines(lambda at, text: f"> `{log4j(at, text)}`"),
    "spaces of a document": lines(log4j).replace(" ", "\u00a0"),
    "quotes of a document": lines(log4j).replace("'", "\u2019"),
    "returns alone": lines(log4j).replace("\n", "\r"),
    "100 columns": "\n".join(
        line[start : start + 100]
        for line in lines(log4j).splitlines()
        for start in range(0, len(line), 100)
    ),
}


@pytest.mark.parametrize("form", OF_TWO)
def test_replicas_are_told_apart(form: str, tmp_path: Path) -> None:
    rows = [
        OF_TWO[form](EVENTS[index][0] + timedelta(seconds=0.2 * n), text, n)
        for index, _, text, n in replicas()
    ]

    moves, _ = replay(("" if form.startswith("Firehose") else "\n").join(rows), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)


@pytest.mark.parametrize("form", OF_ONE)
def test_form_is_read_with_its_times(form: str, tmp_path: Path) -> None:
    assert replay(OF_ONE[form], tmp_path)[0] == WANTED


def test_date_with_slashes_is_no_stream(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"pay-1 | {iso(at)} {at:%y/%m/%d %H:%M:%S} INFO x: {text}")

    assert replay(text, tmp_path) == (WANTED, {"pay-1"})


def test_threads_before_the_time_are_no_streams(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"pool-1-thread-{at.second % 2}: {log4j(at, text)}")

    assert replay(text, tmp_path) == (WANTED, {replay(lines(log4j), tmp_path)[1].pop()})


@pytest.mark.parametrize(
    "name",
    [
        "INFO",
        "on_join_{}",
        "onJoin{}",
        "kafka-thread-{}",
        "pool-1-worker-{}",
        "o.a.k.Logger{}",
        "KafkaClass{}",
    ],
)
def test_brackets_of_a_layout_are_no_streams(name: str, tmp_path: Path) -> None:
    text = lines(lambda at, text: f"[{name.format(at.second % 2)}] {log4j(at, text)}")

    assert replay(text, tmp_path) == (WANTED, {replay(lines(log4j), tmp_path)[1].pop()})


def test_modules_before_the_time_are_no_programs(tmp_path: Path) -> None:
    names = {0: "base", 1: "consumer"}
    text = lines(lambda at, text: f"[{names[at.second % 2]}] {log4j(at, text)}")

    assert replay(text, tmp_path) == (WANTED, {replay(lines(log4j), tmp_path)[1].pop()})


def test_names_of_threads_before_the_time_are_no_containers(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"http-nio-8080-exec-{at.second % 2} {log4j(at, text)}")

    assert replay(text, tmp_path) == (WANTED, {replay(lines(log4j), tmp_path)[1].pop()})
