"""Forms that services, viewers and templates make of a log, of two replicas and of one member.

The shapes are those that the programs print: Render's console and its API, `copilot svc logs`, the
templates in stern's manual, Promtail's dry run, Logstash's `line` codec, VictoriaLogs, Docker's
GELF driver, Graylog's API, balena's console, log files named by multitail and lnav.
"""

import base64
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

PODS = {1: "pay-7d9f8b6c5-x7k2p", 2: "pay-7d9f8b6c5-q9w4z"}
TASKS = {1: "37236ed9da84", 2: "0c1f8b6c5abc"}
Form = Callable[[datetime, str, int], str]
OF_TWO: dict[str, Form] = {
    "Render's console": lambda at, text, n: (
        f"{at:%b %d %I:%M:%S %p}  [{TASKS[n][:5]}]  {log4j(at, text)}"
    ),
    "Render's API": lambda at, text, n: json.dumps(
        {
            "id": "a",
            "labels": [
                {"name": "resource", "value": "srv-a"},
                {"name": "instance", "value": f"srv-a-{TASKS[n][:5]}"},
                {"name": "level", "value": "info"},
            ],
            "message": text,
            "timestamp": iso(at),
        }
    ),
    "copilot svc logs": lambda at, text, n: f"copilot/pay/{TASKS[n]} {log4j(at, text)}",
    "a template of stern, with a bar": lambda at, text, n: (
        f"shop/{PODS[n]}/app | {log4j(at, text)}"
    ),
    "a template of stern, with an arrow": lambda at, text, n: f"{PODS[n]} > {log4j(at, text)}",
    "a template of stern, of pod and container": lambda at, text, n: (
        f"{PODS[n]}/app {log4j(at, text)}"
    ),
    "a template of stern, without times": lambda at, text, n: f"{PODS[n]}: {iso(at)} {text}",
    "Promtail's dry run": lambda at, text, n: (
        f'{at:%Y-%m-%dT%H:%M:%S}.123456789+0000\t{{filename="/var/log/pay-{n}.log", job="v"}}\t'
        f"{log4j(at, text)}"
    ),
    "Logstash's line codec": lambda at, text, n: f"{iso(at)} {{name=host{n}}} {text}",
    "Logstash's line codec, of a file": lambda at, text, n: (
        f"{iso(at)} {{hostname=host{n}}} {log4j(at, text)}"
    ),
    "VictoriaLogs": lambda at, text, n: json.dumps(
        {"_time": iso(at), "_stream": f'{{pod="{PODS[n]}"}}', "_stream_id": "0", "_msg": text}
    ),
    "Docker's GELF driver": lambda at, text, n: json.dumps(
        {
            "version": "1.1",
            "host": "node",
            "short_message": text,
            "timestamp": ms(at) / 1000,
            "_container_id": TASKS[n] * 5,
            "_container_name": f"pay-{n}",
        }
    ),
    "Graylog's API": lambda at, text, n: json.dumps(
        {
            "index": "graylog_0",
            "message": {"gl2_source_node": "n", "source": f"h{n}", "message": text}
            | {"timestamp": iso(at)},
        }
    ),
    "balena logs": lambda at, text, n: (
        f"[Logs]    [{at:%m/%d/%Y, %I:%M:%S %p}] [pay-{n}] {log4j(at, text)}"
    ),
    "multitail, of files": lambda at, text, n: f"[pay-{n}.log] {log4j(at, text)}",
    "lnav, of files": lambda at, text, n: f"pay-{n}.log \u2502{log4j(at, text)}",
    "a time, a name and a time": lambda at, text, n: f"{iso(at)} pay-{n} {log4j(at, text)}",
    "a time, a name in brackets and a time": lambda at, text, n: (
        f"{iso(at)} [pay-{n}] {log4j(at, text)}"
    ),
    "a time, a name in brackets and an object": lambda at, text, n: (
        f"{iso(at)} [pay-{n}]: {json.dumps({'msg': text})}"
    ),
    "Alloy's loki.echo": lambda at, text, n: (
        f"ts={iso(at)} level=info component_id=loki.echo.e receiver=loki.echo.e "
        f"entry={json.dumps(log4j(at, text))} entry_timestamp={iso(at)} "
        f'labels="{{app=\\"pay\\", pod=\\"{PODS[n]}\\"}}" structured_metadata={{}}'
    ),
    "Alloy's loki.echo, of objects": lambda at, text, n: (
        f"ts={iso(at)} level=info component_id=loki.echo.e "
        f"entry={json.dumps(json.dumps({'time': iso(at), 'msg': text}))} "
        f'labels="{{pod=\\"{PODS[n]}\\"}}"'
    ),
    "ktail": lambda at, text, n: f"{PODS[n]}:app {log4j(at, text)}",
    "rows of Log Analytics with tabs": lambda at, text, n: (
        f"{log4j(at, text)}\t{PODS[n]}\tPrimaryResult\t{iso(at)}"
    ),
    "rows of objects with tabs": lambda at, text, n: (
        json.dumps({"time": iso(at), "msg": text}) + f"\t{PODS[n]}\tPrimaryResult\t{iso(at)}"
    ),
    "rows of Kafka's own layout with tabs": lambda at, text, n: (
        f"[{log4j(at, text)[:23]}] INFO {text}\t{PODS[n]}\tPrimaryResult\t{iso(at)}"
    ),
    "rows of ClickHouse with tabs": lambda at, text, n: (
        f"{at:%Y-%m-%d %H:%M:%S}.123\t{PODS[n]}\t{text}"
    ),
    "Promtail's dry run, of objects": lambda at, text, n: (
        f'{iso(at)}\t{{app="pay", pod="{PODS[n]}"}}\t'
        + json.dumps({"time": iso(at), "msg": text}, separators=(",", ":"))
    ),
    "skaffold, with a list below the message": lambda at, text, n: (
        f"[pay-{n}] {log4j(at, text)}\n[pay-{n}]   more of it"
    ),
    "a build server's clock, of compose": lambda at, text, n: (
        f"{at:%H:%M:%S}  pay-{n}  | {log4j(at, text)}"
    ),
    "a date and a time, of compose": lambda at, text, n: (
        f"[{at:%Y-%m-%d %H:%M:%S}] pay-{n}  | {text}"
    ),
    "TeamCity, of compose": lambda at, text, n: (
        f"[{at:%H:%M:%S}]W:\t [Step 2/3] pay-{n}  | {log4j(at, text)}"
    ),
    "an epoch, of compose": lambda at, text, n: f"{at.timestamp():.6f} pay-{n}  | {text}",
    "Jenkins' time and branch": lambda at, text, n: f"[{iso(at)}] [pay-{n}] {log4j(at, text)}",
    "Jenkins' clock and branch": lambda at, text, n: f"{at:%H:%M:%S}  [pay-{n}] {log4j(at, text)}",
    "dsh": lambda at, text, n: f"host{n}:  {log4j(at, text)}",
    "addresses of parallel-ssh": lambda at, text, n: f"10.0.0.1{n}: {log4j(at, text)}",
    "Capistrano": lambda at, text, n: f" ** [out :: host-{n}] {log4j(at, text)}",
    "Fabric": lambda at, text, n: f"[host-{n}] out: {log4j(at, text)}",
    "hivemind, of workers": lambda at, text, n: f"{at:%H:%M:%S} worker{n} | {log4j(at, text)}",
    "overmind": lambda at, text, n: f"worker#{n} | {log4j(at, text)}",
    "Garden": lambda at, text, n: f"pay-{n}        \u2192 {log4j(at, text)}",
    "findstr": lambda at, text, n: f"C:\\logs\\pay-{n}.log:{log4j(at, text)}",
    "Select-String": lambda at, text, n: f"logs\\pay-{n}.log:12:{log4j(at, text)}",
    "zgrep": lambda at, text, n: f"pay-{n}.log.gz:{log4j(at, text)}",
    "grep of dated files": lambda at, text, n: f"pay-{n}.log.2026-11-20:{log4j(at, text)}",
    "grep of logrotate's dates": lambda at, text, n: f"pay-{n}.log-20261120:{log4j(at, text)}",
    "grep of times without dates": lambda at, text, n: (
        f"pay-{n}.log:{at:%H:%M:%S}.123 [main] INFO {text}"
    ),
    "grep -n of times without dates": lambda at, text, n: (
        f"pay-{n}.log:12:{at:%H:%M:%S},123 INFO {text}"
    ),
    "a template of stern, in parentheses": lambda at, text, n: f"({PODS[n]}) {log4j(at, text)}",
    "a template of stern, in angles": lambda at, text, n: f"<{PODS[n]}> {log4j(at, text)}",
    "a name in brackets and a colon": lambda at, text, n: f"[{PODS[n]}]: {log4j(at, text)}",
    "Datadog's agent stream-logs": lambda at, text, n: (
        f"Integration Name: containerd | Type: file | Status: info | Timestamp: "
        f"{at:%Y-%m-%d %H:%M:%S.%f} +0000 UTC | Hostname: n1 | Service: pay | Source: pay | "
        f"Tags: image_name:pay,pod_name:{PODS[n]},kube_container_name:app | Message: {text}"
    ),
    "fluentd's hash, of Ruby 3.4": lambda at, text, n: (
        f"{at:%Y-%m-%d %H:%M:%S.%f}000 +0000 kube.pay: "
        f'{{"log" => "{text}", "kubernetes" => {{"pod_name" => "{PODS[n]}"}}}}'
    ),
    "Parseable": lambda at, text, n: json.dumps(
        {"p_timestamp": iso(at), "message": text, "pod": PODS[n]}
    ),
    "CloudEvents of Oracle's cloud": lambda at, text, n: json.dumps(
        {
            "datetime": ms(at),
            "logContent": {
                "data": {"message": text},
                "source": f"vm-{n}",
                "specversion": "1.0",
                "time": iso(at),
            },
        }
    ),
    "fluentd's forwarded entries": lambda at, text, n: json.dumps(
        ["kube.pay", int(at.timestamp()), {"log": text, "kubernetes": {"pod_name": PODS[n]}}]
    ),
    "Fluent Bit's forwarded entries": lambda at, text, n: json.dumps(
        [[at.timestamp(), {}], {"log": text, "kubernetes": {"pod_name": PODS[n]}}]
    ),
    "Fluent Bit's forwarded batches": lambda at, text, n: json.dumps(
        ["kube.pay", [[at.timestamp(), {"log": text, "pod_name": PODS[n]}]], {"size": 1}]
    ),
    "cf tail --json": lambda at, text, n: json.dumps(
        {
            "timestamp": f"{ms(at)}000000",
            "source_id": "8a1",
            "instance_id": str(n),
            "tags": {"source_type": "APP/PROC/WEB"},
            "log": {"payload": base64.b64encode(text.encode()).decode(), "type": "OUT"},
        }
    ),
}


def cef(text: str) -> str:
    return text.replace("\\", "\\\\").replace("=", "\\=")


OF_ONE = {
    "Render's console, before a time": lines(
        lambda at, text: f"{at:%b %d %I:%M:%S %p}  {log4j(at, text)}"
    ),
    "CEF": lines(lambda at, text: f"CEF:0|Acme|Pay|1.0|100|Kafka|3|rt={ms(at)} msg={cef(text)}"),
    "CEF behind syslog": lines(
        lambda at, text: (
            f"{at:%b %d %H:%M:%S} h1 CEF:0|Acme|Pay|1.0|100|Kafka|3|"
            f"rt={at:%b %d %Y %H:%M:%S}.123 msg={cef(text)} cs1=a"
        )
    ),
    "a date and a time in two fields": lines(
        lambda at, text: json.dumps(
            {"date": f"{at:%Y-%m-%d}", "time": f"{at:%H:%M:%S}.123", "message": text}
        )
    ),
    "Tomcat behind grep": lines(
        lambda at, text: f"catalina.log:{at:%d-%b-%Y %H:%M:%S}.123 INFO [main] a.B.log {text}"
    ),
    "Tomcat in Spanish behind grep -n": lines(
        lambda at, text: f"catalina.log:7:{at:%d}-nov.-{at:%Y %H:%M:%S}.123 INFO [main] a.B {text}"
    ),
    "pm2's time before another one": lines(
        lambda at, text: (
            f"0|pay  | {at + timedelta(seconds=3):%Y-%m-%d %H:%M:%S} +00:00: {log4j(at, text)}"
        )
    ),
    "java.util.logging with blank lines": jul("Nov").replace("\n", "\n\n"),
    "TeamCity's level behind the time": lines(
        lambda at, text: f"[18:11:11]i:\t [Step 1/2] {log4j(at, text)}"
    ),
}


@pytest.mark.parametrize("form", OF_TWO)
def test_replicas_are_told_apart(form: str, tmp_path: Path) -> None:
    rows = [
        OF_TWO[form](EVENTS[index][0] + timedelta(seconds=0.2 * n), text, n)
        for index, _, text, n in replicas()
    ]

    moves, _ = replay("\n".join(rows), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)


def test_replicas_in_a_table_that_names_its_delimiter_are_told_apart(tmp_path: Path) -> None:
    rows = [
        f'{EVENTS[index][0]:%d/%m/%Y %H:%M:%S},host-{n},"{log4j(EVENTS[index][0], text)}"'
        for index, _, text, n in replicas()
    ]

    moves, hosts = replay("\n".join(("\ufeffsep=,", "Time,Host,Message", *rows)), tmp_path)

    assert sorted(moves) == sorted(WANTED * 2)
    assert hosts == {"host-1", "host-2"}


@pytest.mark.parametrize("form", OF_ONE)
def test_form_is_read_with_its_times(form: str, tmp_path: Path) -> None:
    assert replay(OF_ONE[form], tmp_path)[0] == WANTED


@pytest.mark.parametrize("width", [0, 8, 20])
@pytest.mark.parametrize("behind", ["INFO | ", "", "INFO  x - "])
def test_thread_between_a_time_and_a_bar_is_no_stream(
    width: int, behind: str, tmp_path: Path
) -> None:
    """The threads of one client print its lines in turns."""
    text = lines(
        lambda at, text: (
            f"{at:%Y-%m-%d %H:%M:%S} {f'pay-0-C-{at.second % 2}':{width}} | {behind}{text}"
        )
    )

    moves, hosts = replay(text, tmp_path)

    assert moves == WANTED
    assert not any(host.startswith("pay") for host in hosts)


@pytest.mark.parametrize("name", ["{:4}  ", "INFO ", "{:4}"])
def test_number_or_level_before_a_bar_is_no_stream(name: str, tmp_path: Path) -> None:
    """bat prints the numbers of lines so."""
    text = lines(lambda at, text: f"{name.format(at.second)} \u2502 {log4j(at, text)}")

    assert replay(text, tmp_path)[0] == WANTED


@pytest.mark.parametrize("name", ["Consumer", "ConsumerGroup", "[kafkajs:Runner]", "INFO", "main"])
def test_logger_or_level_between_two_times_is_no_stream(name: str, tmp_path: Path) -> None:
    """Two loggers of one client are one stream."""
    text = lines(
        lambda at, text: f'{iso(at)} {name if at.second % 2 else "Logger"} {{"msg": "{text}"}}'
    )

    assert replay(text, tmp_path)[0] == WANTED


def test_text_in_brackets_behind_a_time_is_no_stream(tmp_path: Path) -> None:
    text = lines(lambda at, text: f"{iso(at)} [worker-{at.second % 2}] INFO {text}")

    assert replay(text, tmp_path)[0] == WANTED


def test_payload_that_is_no_base64_stays(tmp_path: Path) -> None:
    text = lines(log4j) + '\n{"log": {"payload": "abcde"}}'

    assert replay(text, tmp_path)[0] == WANTED


def test_cef_without_a_message_stays(tmp_path: Path) -> None:
    text = lines(log4j) + "\nCEF:0|Acme|Pay|1.0|100|Kafka|3|rt=1"

    assert replay(text, tmp_path)[0] == WANTED
