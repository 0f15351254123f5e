"""Prefixes that collectors put before a line: its origin and its time.

Theory of operation. Tools that merge several streams (compose, swarm, kubectl, stern, syslog,
journalctl, Heroku, Cloud Foundry, CloudWatch, Loki) write the name of each stream before its lines.
That name is identity: two replicas print the same client ids. A prefix is recognised by its shape,
and only at the start of a line; a level or a number is never a name.
"""

import re
from typing import NamedTuple

from metrics.model.names import clip_name

_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^\s\[\]]{0,24}"
_MONTH_DAY = r"[A-Z][a-z]{2} [ \d]\d (?:20\d\d )?\d\d:\d\d:\d\d(?:\.\d{1,9})?"
_LEVEL = (
    r"(?i:trace|trce|trc|debug|debg|dbg|info|inf|notice|warn(?:ing)?|wrn|err(?:or?)?|fatal|ftl"
    r"|severe|crit(?:ical)?)"
)
_TAG = r"(?P<tag>[\w.@/-]{1,128})"
_POD = r"(?!(?:19|20)\d\d-\d\d-\d\d\b)(?=[a-z\d.]+-)[a-z\d][a-z\d.-]{1,251}-(?:[a-z\d]{5}|\d{1,5})"
_NODE = r"(?P<host>(?:\w{1,64}@)?[\w.-]{1,253})"
_ANY_DAY = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d|\d\d[-/.]\d\d[-/.]\d{4}"
    r"|(?:[A-Z][a-z]{2}, )?[A-Z][a-z]{2} \d\d? \d{4})"
)
_FACILITY = r"(?:(?:local\d|user|daemon|kern|auth|cron|mail|syslog)\.[a-z]{2,8} )?"
_PRIORITY = r"(?:(?:\d{1,6} )?<\d{1,3}>)?"
"""Of syslog, behind the count of octets of a connection."""
_OWN_TIME = r"(?:\d\d:\d\d:\d\d[.,]\d{3} |%\d\|\d{10}\.\d{3}\|)"
"""An application's time without a date, or librdkafka's."""
_STAMP = r"(?=\[?(?:19|20)\d\d[-/]\d\d[-/]\d\d[T ]\d\d:|\[\d\d:\d\d:\d\d|\{\"|" + _OWN_TIME + ")"
"""Text that follows a stream's name: the application's own time, or its object."""
_PART = r" {2,4}(?:'?[\w.@-]{1,64}'?: |[}\]])|\{\s*$"
"""A line of an object that Node prints, or of a record of pino-pretty."""
_THREAD = r"(?![\w.-]{0,64}(?:[Tt]hread|main\b|[Ww]orker|[Pp]ool|[Ee]xecutor|exec-\d))"
_POD_OF_SET = r"[a-z\d][a-z\d.-]{1,230}-[a-z\d]{8,10}-[a-z\d]{5}"
_AHEAD = (
    _STAMP[:-1] + r"|\d\d[-/.]\d\d[-/.](?:\d\d){1,2},? \d\d?:\d\d:\d\d"
    r"|[A-Z][a-z]{2} \d\d?, \d{4} \d|\d\d?[ -][A-Z][a-z]{2}[ -]\d{4} \d\d:|[IWEF]\d{4} \d\d:"
    r"|[A-Z], \[\d{4}-|(?:time|ts)=|(?:INFO|WARNING|SEVERE|FINE): "
    rf"|\[pod/|<\d{{1,3}}>|{_MONTH_DAY} (?:[\w.-]{{1,253}} )?[\w./-]{{1,128}}(?:\[\d{{1,10}}\])?: "
    rf"|{_POD_OF_SET} [a-z\d-]{{1,63}} |[a-z][\w.@-]{{0,127}}\d\s{{0,32}} \| )"
)
"""Text behind a program's name: a time in one of the layouts, the second line of java.util.logging,
or another name of kubectl, syslog, stern or compose."""
_PROGRAM = (
    rf"(?!{_LEVEL}\W|(?:main|base|consumer|coordinator|subscription)\W|[\w-]{{0,64}}(?:_|[a-z][A-Z]))"
    r"(?![\w@/:-]{0,64}(?:[Tt]hread|[Hh]eartbeat|[Pp]ool|[Ee]xecutor|exec-\d|[Ww]orker-?\d))"
    r"@?[A-Za-z\d][\w@/:-]{0,63}(?:\.\d{1,5})?"
)
"""Name of a program in brackets, but not of a level, a thread, a logger, a class, a function or a
module of Python's clients: a layout may write one of these before its time."""
_STEP = r"(?: ?[a-zA-Z]?:)?\s{1,8}(?:\[Step \d{1,4}/\d{1,4}\] )?"
"""TeamCity's level and step behind its time; of other build servers, blanks alone."""
_CONTAINER = r"[a-z][a-z\d-]{0,62}"
"""Behind a pod of a set with numbers, as skaffold writes both."""
_DETAILS = r"[\w.%+-]{1,128}=[^\s,=]{0,256}(?:,[\w.%+-]{1,128}=[^\s,=]{0,256}){0,64} "
"""Labels and variables, as Docker's option --details writes them."""
_STRUCTURED = (
    r"(?:\[[^\s\[\]=\"]{1,64}(?: [\w.@-]{1,64}=\"(?:[^\"\\\n]|\\.){0,1024}\"){0,32}\]){1,8}"
)
"""Structured data of RFC 5424, but not a client's name in brackets."""
_CONTAINER_LOG = (
    r"[\w.]{1,64}\.containers\.(?P<pod>[a-z\d][a-z\d.-]{0,252})_[a-z\d-]{1,63}_"
    r"(?P<container>[a-z\d-]{1,255})-[\da-f]{64}\.log"
)
"""A tag of Fluentd and Fluent Bit: the path of a container's log on its node."""
_LOG_FILE = (
    r"(?:[A-Za-z]:(?=\\))?[\w./\\-]{1,255}\.(?:log|out|txt|err|json)"
    r"(?:\.\d{4}-\d\d-\d\d|[.-]\d{8}|\.\d{1,4}){0,2}(?:\.(?:gz|bz2|xz|zst))?"
)
"""With a number, a date of a rotation, or packed."""
_DELTA = r"(?: {1,24}| <\s{0,12}\d{1,10}\.\d{6}[ *]>)?"
"""Time since the entry before, in journald's short-delta."""
_INSTANT = (
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d)?"
    r"|\d{10}(?:\d{3}){0,3}(?:\.\d{1,9})?)"
)
"""A time in a row of a file, where a comma or a bar may follow."""
_PATTERNS = {
    "kubectl logs --prefix": (r"\[pod/(?P<pod>[^/\]\s]{1,253})/(?P<container>[^\]\s]{1,253})\] ",),
    "docker compose logs, docker service logs, supervisord's, with the time or without": (
        rf"(?:\[?(?P<time>{_ISO}|{_MONTH_DAY})\]? )?(?!{_LEVEL}\s|\d+\s)",
        r"(?:[a-z][\w.-]{0,64}:)?(?P<name>[\w.@#-]{1,253})(?: std(?:out|err))?\s{0,64} \| ?",
    ),
    "the same behind the time of a build server or of ts": (
        rf"\[?(?P<time>(?:{_ANY_DAY}[ T])?\d\d?:\d\d:\d\d(?:[.,]\d{{1,9}})?Z?(?: [AP]M)?",
        rf"|\d{{10}}\.\d{{1,9}})\]?{_STEP}(?!{_LEVEL}\W){_THREAD}",
        rf"(?P<name>[A-Za-z][\w.@-]{{0,251}}\d)(?:(?<!-C-\d)  \| (?!{_LEVEL}\s{{1,8}}\|)",
        rf"|\s{{0,64}} \| {_AHEAD})",  # of names with one length; else a thread may be padded
    ),
    "stern and k9s, with a time, with its namespace or without": (
        rf"(?:(?P<time>{_ISO}) )?(?:[a-z\d-]{{1,63}} )?(?P<pod>{_POD})(?: \u203a)? ",
        rf"(?!{_LEVEL} |\d{{4}}-\d\d-\d\d )(?P<container>[a-z\d-]{{1,63}}) (?:[|>\u2502] )?",
        r"(?:\d\d-\d\d \d\d:\d\d:\d\d (?=\[?\d{4}-))?",
    ),
    "k9s, of pods with one container": (rf"(?P<time>{_ISO}) (?P<pod>{_POD_OF_SET}) (?=\S)",),
    "cf logs": (
        rf"\s{{0,8}}(?P<time>{_ISO}) \[(?P<name>[A-Z][\w/-]{{1,128}})\]\s{{1,16}}(?:OUT|ERR) ",
    ),
    "Heroku, journalctl -o short-iso": (
        rf"{_PRIORITY}(?P<time>{_ISO}) (?:(?P<host>[\w.-]{{1,253}}) )?{_FACILITY}",
        rf"{_TAG}\[(?P<pid>[\w.-]{{1,64}})\]: (?:@cee: ?)?",
    ),
    "rsyslog's files, without a process": (
        r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}[+-]\d\d:\d\d) ",
        rf"(?!{_LEVEL} )(?P<host>[\w.-]{{1,253}}) {_TAG}:\s{{1,2}}(?:@cee: ?)?",
    ),
    "aws logs tail: the stream of a task, a function or an instance": (
        rf"(?P<time>{_ISO}) (?!\d{{1,4}}/\d\d?/\d{{2,4}} )",
        r"(?P<name>[\w.-]{1,255}/[\w./\[\]$-]{1,255}|i-[\da-f]{8,17}) (?=\S)",
    ),
    "saw watch, saw get --pretty": (
        rf"\[(?P<time>{_ISO})\] \((?P<name>[^()\s]{{1,512}})\) (?=\S)",
    ),
    "awslogs: the group and the stream": (
        r"/[\w./-]{1,255} (?P<name>[\w.-]{1,255}(?:/[\w./\[\]$-]{1,255})?) ",
        rf"(?:(?P<time>{_ISO}) (?:{_ISO} )?)?(?=\S)",
    ),
    "logcli query, and Grafana's text": (
        rf"(?P<time>{_ISO})[ \t](?P<labels>\{{(?:\w{{1,64}}=\"[^}}]{{0,4096}})?\}})[ \t]+",
    ),
    "Logstash's line codec, of a host": (
        rf"(?P<time>{_ISO}) \{{(?:[\w.]{{1,32}}=[^,{{}}\n]{{0,64}}, ){{0,8}}(?:host)?name=",
        r"(?P<host>[\w.-]{1,253})(?:, [^{}\n]{0,256})?\} (?=\S)",
    ),
    "gcloud logging --format=value, of pods": (rf"(?P<time>{_ISO})\t(?P<pod>{_POD_OF_SET})\t",),
    "gh run view --log": (
        rf"(?!EVENTS\t|\d{{10}})(?P<name>[^\t\n]{{1,128}}\t[^\t\n]{{1,128}})\t(?P<time>{_ISO}) ",
    ),
    "RFC 5424": (
        rf"(?:\d{{1,6}} )?(?:<\d{{1,3}}>)?1 (?P<time>{_ISO}) (?P<host>\S{{1,255}}) {_TAG} ",
        r"(?P<pid>\S{1,128}) ",
        rf"\S{{1,32}} (?:(?:-|(?P<labels>{_STRUCTURED})) (?:\ufeff)?)?",  # Heroku's drains lack it
    ),
    "RFC 3164, journalctl": (
        rf"{_PRIORITY}(?:(?!{_LEVEL} )[\w.-]{{1,253}} )?",  # oc adm node-logs, of several nodes
        rf"(?P<time>{_MONTH_DAY}) (?!{_LEVEL} ){_NODE} {_FACILITY}",
        rf"{_TAG}(?:\[(?P<pid>\d{{1,10}})\])?: (?:@cee: ?)?",
    ),
    "RFC 3164 without a host, as Docker's driver writes it to a local socket": (
        rf"(?:\d{{1,6}} )?<\d{{1,3}}>(?P<time>{_MONTH_DAY}) {_TAG}(?:\[(?P<pid>\d{{1,10}})\])?: ",
    ),
    "journalctl --no-hostname": (rf"(?P<time>{_MONTH_DAY}) {_TAG}\[(?P<pid>\d{{1,10}})\]: ",),
    "Render's console, with an instance or without": (
        rf"(?P<time>{_MONTH_DAY} [AP]M)\s{{1,4}}(?:\[(?P<name>[a-z\d]{{5}})\]\s{{1,4}})?(?=\S)",
    ),
    "RFC 3164 without a tag": (
        rf"(?:<\d{{1,3}}>)?(?P<time>{_MONTH_DAY}) (?P<host>[\w.-]{{1,253}}): (?=\{{)",
    ),
    "pm2 logs --format": (
        rf"(?:timestamp=(?P<time>{_INSTANT}) )?app=(?P<name>[\w.@-]{{1,253}}) ",
        r"id=(?P<container>\d{1,5}) type=(?:out|error) message=",
    ),
    "pm2 logs": (
        rf"(?:{_INSTANT} )?(?P<container>\d{{1,5}})\|(?P<name>[\w.@-]{{1,253}})\s{{0,64}}\| ",
        r"(?:(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{3})?(?: ?[+-]\d\d:\d\d)?): )?",
    ),
    "kail": (
        r"[a-z\d-]{1,63}/(?P<pod>[a-z\d][a-z\d.-]{1,252})\[(?P<container>[a-z\d-]{1,63})\]: ",
    ),
    "foreman, honcho, node-foreman": (
        r"(?P<time>\d\d?:\d\d:\d\d(?: [AP]M)?) (?P<name>[\w-]{1,64}\.\d{1,5})\s{0,64}\| {1,2}",
    ),
    "goreman": (
        rf"(?P<time>\d\d:\d\d:\d\d) (?!{_LEVEL}\W)(?:(?=worker\d? )|{_THREAD})",
        rf"(?P<name>[\w-]{{1,64}})\s{{0,64}}\| {_STAMP}",
    ),
    "flyctl logs": (
        rf"(?P<time>{_ISO}) (?P<name>app\[[\da-f]{{4,32}}\]) [a-z]{{3}} \[\w{{2,8}}\] ?",
    ),
    "tilt, Garden": (
        rf"\s{{0,64}}(?!{_LEVEL}\s|\d+\s)(?P<name>[\w.@/-]{{1,253}})\s{{1,64}}[\u2502\u2192] ",
    ),
    "grep over several files, with numbers of lines or without, and lines of context": (
        rf"(?P<file>{_LOG_FILE})[:-]",
        r"(?:(?!\d{4}-\d\d-|\d\d?-[^\s\d-]{3,6}-\d{4} |\d\d:\d\d:\d\d[.,\s])\d{1,9}[:-])?(?=\S)",
    ),
    "lnav over several files": (rf"(?P<file>{_LOG_FILE})\s{{0,64}}\u2502 ?(?=\S)",),
    "multitail, with the name of the file": (rf"\[(?P<file>{_LOG_FILE})\] (?=\S)",),
    "grep -n": (r"\d{1,9}[:-](?=\d{4}[-/]\d\d[-/]\d\d[ T]|[\[{]|[IWEF]\d{4} \d\d:)",),
    "fluentd's stdout and file": (
        r"(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?: ?[+-]\d\d:?\d\d|Z)?)",
        rf"[ \t,](?:{_CONTAINER_LOG}:?[ \t,]",
        rf"|(?!{_LEVEL}\W|\d+\W)(?P<route>[\w.*/-]{{1,255}})(?:: |[\t,])",
        r"|[\w.*/-]{1,255}:?[ \t,])(?=\{\")",
    ),
    "rows with a time, a name and a line that has a time of its own or is an object": (
        rf"(?P<time>{_INSTANT})(?P<between>[\t,;|]| \| )(?P<level>{_LEVEL}(?P=between))?",
        rf"(?:(?=(?P<numbered>(?:[\w.*/@-]{{1,253}}\d|{_POD_OF_SET})(?P=between))))?",
        rf"(?:{_CONTAINER_LOG}",
        rf"|(?!{_LEVEL}\W|\d+\W){_THREAD}(?P<name>[A-Za-z][\w.*/@-]{{0,253}}))(?P=between)",
        rf"(?P<more>{_LEVEL}(?P=between)|(?P<program>[a-z][\w-]{{0,62}})(?P=between))?",
        # zap writes its level, a logger, a message and the fields as an object
        r"(?(numbered)|(?(level)(?!\{))(?(more)(?!\{)))",
        _AHEAD,
    ),
    "fluentd's file of lines": (
        r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d)\t",
        rf"(?:{_CONTAINER_LOG}|(?!{_LEVEL}\W)(?P<name>[\w.*/-]{{1,255}}))\t(?=\S)",
    ),
    "fluentd's stdout, of a line": (
        r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:(?P<nanos>\.\d{9}))? [+-]\d{4}) ",
        rf"(?!{_LEVEL}\W)(?:{_CONTAINER_LOG}|(?P<route>[\w.*/-]{{1,255}})): ",
        rf"(?(nanos)(?=\S)|{_AHEAD})",
    ),
    "Fluent Bit's stdout and file": (
        r"(?:\[\d{1,7}\] )?",
        rf"(?:{_CONTAINER_LOG}|(?P<route>[\w.*/-]{{1,255}})): \[\[?",
        r"(?P<epoch>\d{10}\.\d{6,9})(?:, \{[^{}]{0,1024}\}\])?, ",
        r"(?=\{\")",
    ),
    "aws logs get-log-events and filter-log-events --output text": (
        r"EVENTS\t(?:\d{50,60}\t)?\d{13}\t(?:(?P<name>[\w.-]{1,255}/[\w./\[\]$-]{1,255})\t)?",
        r"(?=[^\n]*\t(?P<time>\d{13})\s{0,8}$)",
    ),
    "journalctl -o short-monotonic, short-delta": (
        rf"\[\s{{0,12}}\d{{1,10}}\.\d{{6}}{_DELTA}\] {_NODE} {_TAG}(?:\[(?P<pid>\d{{1,10}})\])?: ",
    ),
    "journalctl -o short-full, short-unix": (
        r"(?:[A-Z][a-z]{2} (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?",
        r"(?: [A-Z]{3,5}| [+-]\d{2,4})?)|(?P<epoch>\d{10}\.\d{6})) (?P<host>[\w.-]{1,253}) ",
        rf"{_TAG}(?:\[(?P<pid>\d{{1,10}})\])?: ",
    ),
    "docker logs --details": (rf"(?:(?P<time>{_ISO}) )?{_DETAILS}{_STAMP}",),
    "podman and docker: the short id of a container": (
        r"(?P<name>(?=[a-f]*\d)[\da-f]{12}) ",
        rf"(?=\d{{4}}-\d\d-\d\d|\[|\{{|{_OWN_TIME}|{_LEVEL}\b)",
    ),
    "podman logs --names": (
        _THREAD,
        r"(?P<name>(?:[a-z][a-z\d]{0,32}[_-]){1,8}(?:\d{1,3}|(?<=_)[a-z]{2,32}\d?)) ",
        _STAMP,
    ),
    "kafka-console-consumer --property print.timestamp=true": (
        r"(?:CreateTime|LogAppendTime):(?P<time>\d{13})\t(?:(?:Partition|Offset):\d{1,19}\t){0,2}",
    ),
    "a quotation, journalctl -o json-sse": (r"(?:(?:> ?){1,4}|data: (?=\{))(?=\S)",),
    "a time, or a mark of Markdown, before librdkafka's own time": (
        r"(?:`{1,3}|\[?(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[^\s|\[\]]{0,16})\]?",
        r"\s?\|?\s{0,4})",
        r"(?=(?:%\d\|)?\d{10}\.\d{3}\|[A-Z_]{2,32}\|)",
    ),
    "dapr run": (r"== APP(?: - (?P<name>[\w.-]{1,128}))? == (?=\S)",),
    "podman-compose logs": (r"\[(?P<name>[A-Za-z][\w.-]{0,252})\]\s{0,64}\| ?",),
    "Scalingo's logs": (
        r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} [+-]\d{4}) [A-Z]{3,5} ",
        r"\[(?P<name>[\w-]{1,64})\] ",
    ),
    "a name and a time, of DigitalOcean's apps": (
        rf"(?!{_LEVEL}\W){_THREAD}(?P<name>[a-z][\w-]{{1,64}}) (?P<time>{_ISO}) {_STAMP}",
    ),
    "copilot svc logs: the stream of a task": (
        r"(?P<name>[\w-]{1,64}/[\w-]{1,255}/[\da-f]{12,32}) (?=\S)",
    ),
    "balena logs": (
        r"\[Logs\]\s{1,8}\[(?P<time>[^\]\n]{10,40})\] (?:\[(?P<name>[\w.-]{1,128})\] )?(?=\S)",
    ),
    "ktail, and templates of stern with a bar, an arrow or a colon": (
        rf"(?:[a-z\d-]{{1,63}}/)?(?P<pod>{_POD_OF_SET})(?:[/:](?P<container>[a-z\d-]{{1,63}}))?",
        r"(?::| ?[|>\u2502])? (?=\S)",
    ),
    "kubetail, and templates of stern": (
        rf"[\[(<](?P<pod>{_POD_OF_SET})(?:[ /:](?P<container>[a-z\d-]{{1,63}}))?[\])>]:? ",
    ),
    "Papertrail's archives": (
        rf"\d{{6,20}}\t(?P<time>{_ISO})\t{_ISO}\t\d{{1,19}}\t(?P<host>[^\t]{{1,253}})\t",
        r"[\da-f.:]{0,45}\t[^\t]{0,16}\t[^\t]{0,16}\t(?P<tag>[^\t]{0,128})\t",
    ),
    "a time alone, of docker logs -t and of viewers": (
        rf"\s{{0,8}}(?P<time>{_ISO}|\d{{4}}[ -]\w{{2,3}}[ -]\d\d \d\d:\d\d:\d\d",
        r"|[A-Z][a-z]{2} \d\d?, \d{4} @ \d\d:\d\d:\d\d\.\d{1,9})",
        rf":?(?:\s{{1,8}}\| | (?={_PART})",
        r"|\s{1,8}(?=\{\"|\[?(?:19|20)\d\d[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d",
        rf"|{_OWN_TIME}))",
    ),
    "a time of build servers, of container consoles and of spreadsheets, before another one": (
        rf"\[?(?P<time>(?:{_ANY_DAY}[ T])?\d\d?:\d\d:\d\d(?:[.,]\d{{1,9}})?Z?(?: [AP]M)?)\]?",
        rf"{_STEP}(?=\{{\"|\[?(?:19|20)\d\d[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d",
        rf"|\[(?=[^\]\s]{{1,64}}\d\]){_PROGRAM}\] {_AHEAD})",  # a branch of Jenkins
    ),
    "a time, a name, and another time or an object": (
        rf"(?P<time>{_ISO}) \[?(?!{_LEVEL}\W){_THREAD}(?=[\w./-]{{0,64}}\d|\S{{1,255}} [^{{\s])",
        rf"(?P<name>[A-Za-z][\w./-]{{0,252}})\]?:? {_STAMP}",
    ),
    "the number of a line or a second behind the name of a step: Drone and Woodpecker": (
        rf"\[(?P<name>[\w.@/-]{{1,64}}):\d{{1,9}}\] {_AHEAD}",
    ),
    "tkn pipelinerun logs": (
        rf"\[(?P<name>[\w.-]{{1,128}}) : (?P<container>[\w.-]{{1,64}})\] {_AHEAD}",
    ),
    "the log of a build of GitLab": (rf"(?P<time>{_ISO}) [\da-f]{{2}}[OE][+ ]",),
    "gcloud app logs": (
        rf"(?P<time>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d) (?!{_LEVEL}\W){_THREAD}",
        r"(?P<name>[a-z][\w-]{0,62}\[[\w-]{1,64}\])  (?=\S)",
    ),
    "Java Service Wrapper, before another time or an object": (
        r"[A-Z]{4,6}\s{1,4}\| (?:jvm \d{1,5}|wrapper)\s{0,8}\| (?:[\w-]{1,32}\s{0,8}\| )?",
        rf"(?P<time>\d{{4}}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{{3}})?) \| {_AHEAD}",
    ),
    "Airflow, before another time, a name or an object": (
        r"\[(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4})\] ",
        r"\{[\w.]{1,64}\.py:\d{1,6}\} [A-Z]{4,8} - ",
        rf"(?:\[base\] )?(?={_AHEAD[3:-1]}|[\w.-]{{1,64}}\s{{0,64}} \| )",
    ),
    "daemontools' multilog, runit's svlogd, s6-log": (r"(?P<time>@4[\da-f]{23}) (?=\S)",),
    "concurrently, before an object": (r"\[(?P<name>[\w.@/-]{1,64})\] (?=\{\")",),
    "concurrently, npm-run-all, go-task, process-compose, skaffold": (
        rf"\[(?P<name>{_PROGRAM})(?:(?<=\d) (?P<container>{_CONTAINER}))?\s{{0,32}}\]\s{{1,32}}",
        _AHEAD,
    ),
    "concurrently --prefix '{time}-{pid}'": (
        r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})-(?P<name>\d{1,10}) (?=\S)",
    ),
    "pdsh, clush, turbo, nx, lerna, pnpm and templates of stern: a name before the time": (
        rf"(?!{_LEVEL}\W|\d+\W){_THREAD}",
        r"(?P<name>@?[A-Za-z\d][\w./-]{0,252}(?: [a-z][\w:-]{0,32}|:\w{1,32})?)(?::\s{1,4}|\t)",
        _STAMP,
    ),
    "parallel-ssh: an address before the time": (
        rf"(?P<name>\d{{1,3}}(?:\.\d{{1,3}}){{3}}): {_STAMP}",
    ),
    "Capistrano and Fabric": (
        r"(?: ?\*\* \[out :: (?P<host>[\w.@-]{1,253})\]|\[(?P<name>[\w.@-]{1,253})\] out:) (?=\S)",
    ),
    "the Datadog agent's stream-logs": (
        r"Integration Name: [^|\n]{0,256}\| (?:Type|Status): [^|\n]{0,64}\| ",
        r"(?:Status: [^|\n]{0,64}\| )?Timestamp: (?P<time>[^|\n]{19,48}?)(?: UTC)? \| ",
        r"Hostname: (?P<host>[\w.-]{0,253}) \| (?:(?!Tags: )[^|\n]{1,256}\| ){0,4}",
        r"Tags: (?:[^|\n]{0,4096}?\bpod_name:(?P<pod>[\w.-]{1,253}))?[^|\n]{0,4096}\| Message: ",
    ),
}
_PREFIXES = tuple(re.compile("".join(parts), re.ASCII) for parts in _PATTERNS.values())
_DATED = re.compile(
    r"\d{4}[-/.]\d\d[-/.]\d\d(?: \d\d:\d\d:\d\d[.,]\d+ (?![|\s{+-]|(?:%\d\|)?\d{10}\.)"
    rf"|T\d\d:\d\d:\d\d[^\s\[\]]{{0,24}} {{1,4}}"
    rf"(?:{_LEVEL} |\[[a-z](?![\w./-]{{0,252}}\]:? {_STAMP})))"
)
"""The most frequent begins of a line, and no collector's."""
_BRACKETS = re.compile(
    r"\[(?:pod/|\d\d:\d\d:\d\d"
    rf"|\s{{0,12}}\d{{1,10}}\.\d{{6}}{_DELTA}\] |{_POD_OF_SET}[\] /]|[\w.-]{{1,64}}\]\s{{0,64}}\|"
    r"|\d{1,7}\] [\w.*/-]{1,255}: \[|[\w.@/-]{1,64}\] \{\""
    r"|[\w.@-]{1,253}\] out: |[\w.@/-]{1,64}:\d{1,9}\] |[\w.-]{1,128} : [\w.-]{1,64}\] "
    rf"|{_PROGRAM}(?:(?<=\d) {_CONTAINER})?\s{{0,32}}\]\s{{1,32}}{_AHEAD}"
    rf"|{_LOG_FILE}\] |Logs\]\s{{1,8}}\[)"
)
_BEHIND_STAMP = ("] (", "Z] ")
"""Behind the time that saw and build servers write in brackets."""
_BEHIND_ZONE = "] {"
"""Behind that of Airflow."""
_BEHIND_SECOND, _BAR, _NAMED = "] ", " | ", 120
"""Behind that of ts; a name of compose follows within so many characters."""
FORWARDED = ('["', "[[")
"""Begin of an entry of fluentd's protocol, in JSON."""
_LABEL = re.compile(r'(\w{1,64})="([^"]{0,1024})"', re.ASCII)
_PODS_OF_DATA = ("pod", "pod_name", "podName")
"""Labels, and parameters of syslog's structured data, that name a pod."""
_POD_LABELS, _OTHER_LABELS = ("pod", "pod_name", "instance"), ("container", "host", "job", "unit")


_DATE_MARKS = frozenset("-/.")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d", re.ASCII)
"""A time of day is no part of a name: else each line would be a stream of its own."""


class CollectorPrefix(NamedTuple):
    """The prefix of one line."""

    origin: str
    """Name of the stream within the file, or an empty text."""
    host: str
    """The part of it that names a host, a pod or a container."""
    pid: str
    time: str
    end: int
    stop: int | None = None
    """Begin of the part behind the line, if the collector writes one."""
    is_tag: bool = False
    """Whether the name is a tag of a route, which several streams may share."""


def is_bare(text: str) -> bool:
    """Return whether a line certainly has no prefix; cheap, as most lines have none."""
    first = text[:1]
    if first == "[":
        if text[1:5].isdigit() and text[5:6] in _DATE_MARKS:
            behind = text[20:30]
            is_stamp = _BEHIND_STAMP[0] in behind or _BEHIND_STAMP[1] in behind
            is_named = is_stamp or text[29:32] == _BEHIND_ZONE
            return not is_named and (text[20:22] != _BEHIND_SECOND or _BAR not in text[:_NAMED])
        return _BRACKETS.match(text) is None and not text.startswith(FORWARDED)
    return first.isdigit() and _DATED.match(text) is not None


def match_prefix(text: str) -> CollectorPrefix | None:
    """Return the collector's prefix at the start of a line, if any."""
    for pattern in _PREFIXES:
        match = pattern.match(text)
        found = None if match is None else _describe(match)
        if found is not None and _CLOCK.search(found.origin) is None:
            return found
    return None


def _describe(match: re.Match[str]) -> CollectorPrefix:
    found = match.groupdict("")
    labels = dict(_LABEL.findall(found.get("labels", "")))
    host = (
        found.get("pod")
        or next((labels[key] for key in _PODS_OF_DATA if key in labels), "")
        or found.get("name")
        or found.get("route")
        or found.get("host")
        or next((labels[key] for key in (*_POD_LABELS, *_OTHER_LABELS) if key in labels), "")
    )
    within = (
        found.get("container")
        or found.get("program")
        or found.get("file")
        or labels.get("container")
        or found.get("tag", "")
        or ("" if any(key in labels for key in _POD_LABELS) else labels.get("filename", ""))
    )
    pid = found.get("pid", "")
    if pid and not pid.isdigit() and pid != "-":  # a dyno of Heroku: app[web.1]
        within, host, pid = pid, host or pid, ""
    origin = "/".join(dict.fromkeys(part for part in (host, within) if part))
    time = found.get("time") or found.get("epoch", "")
    is_behind = bool(found.get("time")) and match.start("time") >= match.end()
    return CollectorPrefix(
        clip_name(origin),
        clip_name(host),
        clip_name(pid.strip("-")),
        time,
        match.end(),
        match.start("time") - 1 if is_behind else None,
        "route" in found and bool(found["route"]),
    )
