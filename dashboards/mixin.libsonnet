// Written by `make dashboards`. A setting is set so:
// (import 'mixin.libsonnet') { _config+:: { runbookUrl: 'https://wiki.example.org' } }
{
  _config+:: {
    // The folder of the alerts' runbooks: a page for each alert.
    runbookUrl: 'https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks',
    // Colours for Grafana's theme: 'dark' or 'light'.
    theme: 'dark',
  },
  grafanaDashboards+:: {
    local light = self_config.theme == 'light',
    'kafka-rebalance-agent.json': if light then import 'grafana-light/kafka-rebalance-agent.json' else import 'grafana/kafka-rebalance-agent.json',
    'kafka-rebalance-group.json': if light then import 'grafana-light/kafka-rebalance-group.json' else import 'grafana/kafka-rebalance-group.json',
    'kafka-rebalance-overview.json': if light then import 'grafana-light/kafka-rebalance-overview.json' else import 'grafana/kafka-rebalance-overview.json',
    'kafka-rebalance-streams.json': if light then import 'grafana-light/kafka-rebalance-streams.json' else import 'grafana/kafka-rebalance-streams.json',
  },
  prometheusRules+:: {
    "groups": [
      {
        "name": "kafka-rebalance-recording",
        "rules": [
          {
            "record": "app:kafka_app_rebalance_status:max",
            "expr": "max by (kafka_cluster, app) (kafka_app_rebalance_status)"
          },
          {
            "record": "group:kafka_group_rebalance_status:max",
            "expr": "max by (kafka_cluster, group) (kafka_group_rebalance_status)"
          },
          {
            "record": "application:kafka_streams_rebalance_status:max",
            "expr": "max by (kafka_cluster, application_id) (kafka_streams_rebalance_status)"
          },
          {
            "record": "group:kafka_rebalance_stopped_status:max",
            "expr": "max by (kafka_cluster, group) (kafka_consumer_rebalance_status != 5)\nor\n(group:kafka_group_rebalance_status:max != 11)\n"
          },
          {
            "record": "group:kafka_rebalance:ratio_rate5m",
            "expr": "(\n  sum by (kafka_cluster, group) (\n    rate(kafka_consumer_rebalance_status_seconds_total{status!=\"None\"}[5m])\n  )\n  or\n  0 * sum by (kafka_cluster, group) (\n    rate(kafka_consumer_rebalance_status_seconds_total[5m])\n  )\n)\n/\nsum by (kafka_cluster, group) (rate(kafka_consumer_rebalance_status_seconds_total[5m]))\n"
          },
          {
            "record": "client:kafka_consumer_host:only",
            "expr": "group by (kafka_cluster, group, client_id, host) (\n  kafka_consumer_rebalance_status{host!~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n)\nand on (kafka_cluster, group, client_id)\n(\n  count by (kafka_cluster, group, client_id) (\n    group by (kafka_cluster, group, client_id, host) (\n      kafka_consumer_rebalance_status{host!~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n    )\n  ) == 1\n)\n"
          },
          {
            "record": "member:kafka_consumer_rebalance_status:max",
            "expr": "max by (kafka_cluster, app, group, client_id, host) (\n  label_replace(\n    kafka_consumer_rebalance_status{host=~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n    * on (kafka_cluster, group, client_id) group_left (host) client:kafka_consumer_host:only,\n    \"by\", \"address\", \"\", \"\"\n  )\n  or\n  (\n    kafka_consumer_rebalance_status\n    unless\n    (\n      kafka_consumer_rebalance_status{host=~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n      and on (kafka_cluster, group, client_id) client:kafka_consumer_host:only\n    )\n  )\n)\n"
          },
          {
            "record": "host_status:kafka_consumer_rebalance_transitions:increase10m",
            "expr": "max by (kafka_cluster, app, group, client_id, host, status) (\n  (\n    clamp_min(\n      kafka_consumer_rebalance_transitions_total\n      - (\n        last_over_time(kafka_consumer_rebalance_transitions_total[1h] offset 10m)\n        or\n        clamp_min(min_over_time(kafka_consumer_rebalance_transitions_total[10m]) - 1, 0)\n      ),\n      0\n    )\n    unless\n    kafka_consumer_rebalance_transitions_total offset 10m\n    and on (job, instance) (up offset 10m == 1)\n  )\n  or\n  increase(kafka_consumer_rebalance_transitions_total[10m])\n)\n"
          },
          {
            "record": "member_status:kafka_consumer_rebalance_transitions:increase10m",
            "expr": "max by (kafka_cluster, app, group, client_id, host, status) (\n  label_replace(\n    host_status:kafka_consumer_rebalance_transitions:increase10m{host=~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n    * on (kafka_cluster, group, client_id) group_left (host) client:kafka_consumer_host:only,\n    \"by\", \"address\", \"\", \"\"\n  )\n  or\n  (\n    host_status:kafka_consumer_rebalance_transitions:increase10m\n    unless\n    (\n      host_status:kafka_consumer_rebalance_transitions:increase10m{host=~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n      and on (kafka_cluster, group, client_id) client:kafka_consumer_host:only\n    )\n  )\n)\n"
          },
          {
            "record": "host_status:kafka_consumer_rebalances:increase10m",
            "expr": "max by (kafka_cluster, app, group, client_id, host, status) (\n  (\n    clamp_min(\n      kafka_consumer_rebalances_total\n      - (\n        last_over_time(kafka_consumer_rebalances_total[1h] offset 10m)\n        or\n        clamp_min(min_over_time(kafka_consumer_rebalances_total[10m]) - 1, 0)\n      ),\n      0\n    )\n    unless\n    kafka_consumer_rebalances_total offset 10m\n    and on (job, instance) (up offset 10m == 1)\n  )\n  or\n  increase(kafka_consumer_rebalances_total[10m])\n)\n"
          },
          {
            "record": "member_status:kafka_consumer_rebalances:increase10m",
            "expr": "max by (kafka_cluster, app, group, client_id, host, status) (\n  label_replace(\n    host_status:kafka_consumer_rebalances:increase10m{host=~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n    * on (kafka_cluster, group, client_id) group_left (host) client:kafka_consumer_host:only,\n    \"by\", \"address\", \"\", \"\"\n  )\n  or\n  (\n    host_status:kafka_consumer_rebalances:increase10m\n    unless\n    (\n      host_status:kafka_consumer_rebalances:increase10m{host=~\"[0-9.]*|[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\"}\n      and on (kafka_cluster, group, client_id) client:kafka_consumer_host:only\n    )\n  )\n)\n"
          },
          {
            "record": "group_status:kafka_group_rebalances:increase10m",
            "expr": "max by (kafka_cluster, group, status) (\n  (\n    (\n      kafka_group_rebalances_total\n      unless\n      last_over_time(kafka_group_rebalances_total[1h] offset 10m)\n    )\n    and on (job, instance) (up offset 10m == 1)\n  )\n  or\n  increase(kafka_group_rebalances_total[10m])\n)\n"
          },
          {
            "record": "group:kafka_rebalances:increase10m",
            "expr": "max by (kafka_cluster, group) (\n  sum by (kafka_cluster, group) (group_status:kafka_group_rebalances:increase10m)\n  or\n  sum by (kafka_cluster, group, client_id, host) (\n    member_status:kafka_consumer_rebalances:increase10m\n  )\n)\n"
          },
          {
            "record": "group:kafka_rebalance_rollout_members:count10m",
            "expr": "count by (kafka_cluster, group) (\n  max by (kafka_cluster, group, client_id, host) (\n    member_status:kafka_consumer_rebalance_transitions:increase10m{status=~\"NewMember|UserRequested\"}\n  ) > 0.5\n)\nunless\nmax by (kafka_cluster, group) (\n  member_status:kafka_consumer_rebalance_transitions:increase10m{status=~\"NewMember|UserRequested\"}\n) > 1.5\n"
          },
          {
            "record": "group_kind:kafka_group_recent_incidents:max",
            "expr": "max by (kafka_cluster, group, kind) (kafka_group_recent_incidents) > 0"
          },
          {
            "record": "group_kind:kafka_group_incident_ongoing:max",
            "expr": "max by (kafka_cluster, group, kind) (kafka_group_incident_ongoing) > 0"
          },
          {
            "record": "group:kafka_recent_unplanned_incidents:max",
            "expr": "max by (kafka_cluster, group) (kafka_group_recent_unplanned_incidents)"
          },
          {
            "record": "group:kafka_recent_planned_incidents:sum",
            "expr": "sum by (kafka_cluster, group) (group_kind:kafka_group_recent_incidents:max)\n- group:kafka_recent_unplanned_incidents:max\n"
          },
          {
            "record": "group:kafka_rebalance_planned:count",
            "expr": "(max_over_time(group:kafka_recent_planned_incidents:sum[2m]) > 0)\nunless\n(group:kafka_recent_unplanned_incidents:max > 0)\n"
          },
          {
            "record": "group_change:kafka_group_avoidable_rebalances:max",
            "expr": "max by (kafka_cluster, group, setting, change) (kafka_group_avoidable_rebalances)"
          },
          {
            "record": "group_change:kafka_group_avoidable_unread_partition_seconds:max",
            "expr": "max by (kafka_cluster, group, setting, change) (\n  kafka_group_avoidable_unread_partition_seconds\n)\n"
          },
          {
            "record": "group:kafka_group_remembered_rebalances:max",
            "expr": "max by (kafka_cluster, group) (kafka_group_remembered_rebalances)"
          },
          {
            "record": "group:kafka_group_remembered_seconds:max",
            "expr": "max by (kafka_cluster, group) (kafka_group_remembered_seconds)"
          },
          {
            "record": "group:rebalance_agent_external_url:info",
            "expr": "max by (kafka_cluster, group, external_url) (\n  kafka_group_recent_incidents * 0\n  + on (job, instance) group_left (external_url) rebalance_agent_external_url_info\n)\nor on (kafka_cluster, group)\nmax by (kafka_cluster, group, external_url) (\n  kafka_group_rebalance_status * 0\n  + on (job, instance) group_left (external_url) rebalance_agent_external_url_info\n)\n"
          },
          {
            "record": "group:kafka_unread_partition_seconds:increase10m",
            "expr": "max by (kafka_cluster, group) (\n  (\n    (\n      kafka_group_unread_partition_seconds_total\n      unless\n      last_over_time(kafka_group_unread_partition_seconds_total[1h] offset 10m)\n    )\n    and on (job, instance) (up offset 10m == 1)\n  )\n  or\n  increase(kafka_group_unread_partition_seconds_total[10m])\n)\n"
          },
          {
            "record": "group:kafka_rebalance_storm:bool10m",
            "expr": "(group:kafka_rebalances:increase10m > bool 6)\nunless on (kafka_cluster, group)\n(group:kafka_rebalance_rollout_members:count10m >= 2)\nunless on (kafka_cluster, group)\ngroup:kafka_rebalance_planned:count\n"
          }
        ]
      }
    ]
  },
  prometheusAlerts+:: {
    local url = self_config.runbookUrl,
    groups: [
      group {
        rules: [
          rule { annotations+: { runbook_url: '%s/%s/' % [url, rule.alert] } }
          for rule in group.rules
        ],
      }
      for group in [
    {
      "name": "kafka-rebalance-alerts",
      "rules": [
        {
          "alert": "KafkaGroupIncident",
          "expr": "group_kind:kafka_group_incident_ongoing:max{kind=~\"poll_timeout|session_expired|crash_loop|stale_member|fenced|join_failed|coordinator_moved|removed_by_admin\"}\n",
          "for": "1m",
          "keep_firing_for": "2m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "Group {{ $labels.group }} has an incident: {{ $labels.kind }}",
            "description": "It has been going on for a minute. {{ with printf \"group:kafka_unread_partition_seconds:increase10m{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}Partitions were unread for about {{ (first .).Value | printf \"%.0f\" }} s in ten minutes, summed over partitions.{{ else }}For how long partitions were unread is not known.{{ end }}",
            "incident_url": "{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }}{{ .Labels.external_url }}/incident?group={{ urlquery $labels.group }}{{ with $labels.kafka_cluster }}&cluster={{ urlquery . }}{{ end }}{{ with $labels.kind }}&kind={{ . }}{{ end }}{{ end }}{{ end }}",
            "explain": "rebalance-agent explain '{{ reReplaceAll \"'\" \"'\\\\''\" $labels.group }}'{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }} --from {{ .Labels.external_url }}{{ end }}{{ end }}",
            "incidents": "{{ with printf \"sort_desc(group_kind:kafka_group_recent_incidents:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ .Value }} {{ .Labels.kind }}{{ end }}{{ else }}not counted: no hub and no standalone agent is scraped{{ end }}",
            "change": "{{ define \"span\" }}{{ if ge . 7200.0 }}{{ with printf \"floor(vector(%f / 360 + 0.000001)) / 10\" . | query }}{{ (first .).Value | printf \"%g h\" }}{{ end }}{{ else if ge . 120.0 }}{{ with printf \"floor(vector(%f / 60 + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f min\" }}{{ end }}{{ else if lt . 10.0 }}{{ printf \"%.2g s\" . }}{{ else }}{{ with printf \"floor(vector(%f + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f s\" }}{{ end }}{{ end }}{{ end }}{{ range printf \"topk(1, group_change:kafka_group_avoidable_rebalances:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ .Labels.change }} would have avoided {{ if .Value }}{{ .Value | printf \"%.0f\" }} of {{ with printf \"group:kafka_group_remembered_rebalances:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances{{ end }}{{ $both := .Value }}{{ with printf \"group_change:kafka_group_avoidable_unread_partition_seconds:max{setting=%q,change=%q,group=%q,kafka_cluster=%q} > 0\" .Labels.setting .Labels.change $labels.group $labels.kafka_cluster | query }}{{ if $both }}, {{ end }}{{ template \"span\" (first .).Value }} unread{{ end }}{{ with printf \"group:kafka_group_remembered_seconds:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ $s := (first .).Value }} in {{ if ge $s 172800.0 }}{{ with printf \"vector(%f / 86400)\" $s | query }}{{ (first .).Value | printf \"%.0f days\" }}{{ end }}{{ else }}{{ template \"span\" $s }}{{ end }}{{ end }}{{ else }}none known{{ end }}",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaGroupIncident/"
          }
        },
        {
          "alert": "KafkaGroupRebalanceTooLong",
          "expr": "(group:kafka_rebalance_stopped_status:max > 0)\nunless on (kafka_cluster, group)\n(group:kafka_rebalance_rollout_members:count10m >= 2)\nunless on (kafka_cluster, group)\n(\n  max_over_time(group_kind:kafka_group_recent_incidents:max{kind=\"rollout\"}[2m])\n  and on (kafka_cluster, group)\n  (group:kafka_rebalances:increase10m > 0.5)\n)\n",
          "for": "5m",
          "keep_firing_for": "2m",
          "labels": {
            "severity": "critical"
          },
          "annotations": {
            "summary": "Group {{ $labels.group }} has been rebalancing for five minutes",
            "description": "The highest status of its members is {{ $value }}, and at no look within five minutes was it 0. As long as it lasts, members wait instead of consuming.",
            "incident_url": "{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }}{{ .Labels.external_url }}/incident?group={{ urlquery $labels.group }}{{ with $labels.kafka_cluster }}&cluster={{ urlquery . }}{{ end }}{{ with $labels.kind }}&kind={{ . }}{{ end }}{{ end }}{{ end }}",
            "explain": "rebalance-agent explain '{{ reReplaceAll \"'\" \"'\\\\''\" $labels.group }}'{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }} --from {{ .Labels.external_url }}{{ end }}{{ end }}",
            "incidents": "{{ with printf \"sort_desc(group_kind:kafka_group_recent_incidents:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ .Value }} {{ .Labels.kind }}{{ end }}{{ else }}not counted: no hub and no standalone agent is scraped{{ end }}",
            "change": "{{ define \"span\" }}{{ if ge . 7200.0 }}{{ with printf \"floor(vector(%f / 360 + 0.000001)) / 10\" . | query }}{{ (first .).Value | printf \"%g h\" }}{{ end }}{{ else if ge . 120.0 }}{{ with printf \"floor(vector(%f / 60 + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f min\" }}{{ end }}{{ else if lt . 10.0 }}{{ printf \"%.2g s\" . }}{{ else }}{{ with printf \"floor(vector(%f + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f s\" }}{{ end }}{{ end }}{{ end }}{{ range printf \"topk(1, group_change:kafka_group_avoidable_rebalances:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ .Labels.change }} would have avoided {{ if .Value }}{{ .Value | printf \"%.0f\" }} of {{ with printf \"group:kafka_group_remembered_rebalances:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances{{ end }}{{ $both := .Value }}{{ with printf \"group_change:kafka_group_avoidable_unread_partition_seconds:max{setting=%q,change=%q,group=%q,kafka_cluster=%q} > 0\" .Labels.setting .Labels.change $labels.group $labels.kafka_cluster | query }}{{ if $both }}, {{ end }}{{ template \"span\" (first .).Value }} unread{{ end }}{{ with printf \"group:kafka_group_remembered_seconds:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ $s := (first .).Value }} in {{ if ge $s 172800.0 }}{{ with printf \"vector(%f / 86400)\" $s | query }}{{ (first .).Value | printf \"%.0f days\" }}{{ end }}{{ else }}{{ template \"span\" $s }}{{ end }}{{ end }}{{ else }}none known{{ end }}",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaGroupRebalanceTooLong/"
          }
        },
        {
          "alert": "KafkaGroupRebalanceStorm",
          "expr": "group:kafka_rebalance_storm:bool10m == 1",
          "for": "1m",
          "keep_firing_for": "10m",
          "labels": {
            "severity": "critical"
          },
          "annotations": {
            "summary": "Group {{ $labels.group }} rebalances again and again",
            "description": "{{ with printf \"group:kafka_rebalances:increase10m{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances in ten minutes, and it is neither a rollout nor scaling, in which every member leaves or joins once.",
            "incident_url": "{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }}{{ .Labels.external_url }}/incident?group={{ urlquery $labels.group }}{{ with $labels.kafka_cluster }}&cluster={{ urlquery . }}{{ end }}{{ with $labels.kind }}&kind={{ . }}{{ end }}{{ end }}{{ end }}",
            "explain": "rebalance-agent explain '{{ reReplaceAll \"'\" \"'\\\\''\" $labels.group }}'{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }} --from {{ .Labels.external_url }}{{ end }}{{ end }}",
            "incidents": "{{ with printf \"sort_desc(group_kind:kafka_group_recent_incidents:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ .Value }} {{ .Labels.kind }}{{ end }}{{ else }}not counted: no hub and no standalone agent is scraped{{ end }}",
            "change": "{{ define \"span\" }}{{ if ge . 7200.0 }}{{ with printf \"floor(vector(%f / 360 + 0.000001)) / 10\" . | query }}{{ (first .).Value | printf \"%g h\" }}{{ end }}{{ else if ge . 120.0 }}{{ with printf \"floor(vector(%f / 60 + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f min\" }}{{ end }}{{ else if lt . 10.0 }}{{ printf \"%.2g s\" . }}{{ else }}{{ with printf \"floor(vector(%f + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f s\" }}{{ end }}{{ end }}{{ end }}{{ range printf \"topk(1, group_change:kafka_group_avoidable_rebalances:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ .Labels.change }} would have avoided {{ if .Value }}{{ .Value | printf \"%.0f\" }} of {{ with printf \"group:kafka_group_remembered_rebalances:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances{{ end }}{{ $both := .Value }}{{ with printf \"group_change:kafka_group_avoidable_unread_partition_seconds:max{setting=%q,change=%q,group=%q,kafka_cluster=%q} > 0\" .Labels.setting .Labels.change $labels.group $labels.kafka_cluster | query }}{{ if $both }}, {{ end }}{{ template \"span\" (first .).Value }} unread{{ end }}{{ with printf \"group:kafka_group_remembered_seconds:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ $s := (first .).Value }} in {{ if ge $s 172800.0 }}{{ with printf \"vector(%f / 86400)\" $s | query }}{{ (first .).Value | printf \"%.0f days\" }}{{ end }}{{ else }}{{ template \"span\" $s }}{{ end }}{{ end }}{{ else }}none known{{ end }}",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaGroupRebalanceStorm/"
          }
        },
        {
          "alert": "KafkaMemberFlapping",
          "expr": "sum by (kafka_cluster, app, group, client_id, host) (\n  member_status:kafka_consumer_rebalance_transitions:increase10m{status!~\"None|CoordinatorRequested|RetryOnError|RevocationNeeded\"}\n) > 4.5\n",
          "keep_firing_for": "10m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "{{ $labels.client_id }} on {{ $labels.host }} makes group {{ $labels.group }} rebalance",
            "description": "It began about {{ $value | printf \"%.0f\" }} rebalances of its own within ten minutes: causes other than being told to by the coordinator.",
            "incident_url": "{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }}{{ .Labels.external_url }}/incident?group={{ urlquery $labels.group }}{{ with $labels.kafka_cluster }}&cluster={{ urlquery . }}{{ end }}{{ with $labels.kind }}&kind={{ . }}{{ end }}{{ end }}{{ end }}",
            "explain": "rebalance-agent explain '{{ reReplaceAll \"'\" \"'\\\\''\" $labels.group }}'{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }} --from {{ .Labels.external_url }}{{ end }}{{ end }}",
            "incidents": "{{ with printf \"sort_desc(group_kind:kafka_group_recent_incidents:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ .Value }} {{ .Labels.kind }}{{ end }}{{ else }}not counted: no hub and no standalone agent is scraped{{ end }}",
            "change": "{{ define \"span\" }}{{ if ge . 7200.0 }}{{ with printf \"floor(vector(%f / 360 + 0.000001)) / 10\" . | query }}{{ (first .).Value | printf \"%g h\" }}{{ end }}{{ else if ge . 120.0 }}{{ with printf \"floor(vector(%f / 60 + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f min\" }}{{ end }}{{ else if lt . 10.0 }}{{ printf \"%.2g s\" . }}{{ else }}{{ with printf \"floor(vector(%f + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f s\" }}{{ end }}{{ end }}{{ end }}{{ range printf \"topk(1, group_change:kafka_group_avoidable_rebalances:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ .Labels.change }} would have avoided {{ if .Value }}{{ .Value | printf \"%.0f\" }} of {{ with printf \"group:kafka_group_remembered_rebalances:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances{{ end }}{{ $both := .Value }}{{ with printf \"group_change:kafka_group_avoidable_unread_partition_seconds:max{setting=%q,change=%q,group=%q,kafka_cluster=%q} > 0\" .Labels.setting .Labels.change $labels.group $labels.kafka_cluster | query }}{{ if $both }}, {{ end }}{{ template \"span\" (first .).Value }} unread{{ end }}{{ with printf \"group:kafka_group_remembered_seconds:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ $s := (first .).Value }} in {{ if ge $s 172800.0 }}{{ with printf \"vector(%f / 86400)\" $s | query }}{{ (first .).Value | printf \"%.0f days\" }}{{ end }}{{ else }}{{ template \"span\" $s }}{{ end }}{{ end }}{{ else }}none known{{ end }}",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaMemberFlapping/"
          }
        },
        {
          "alert": "KafkaMemberDroppedByPollInterval",
          "expr": "sum by (kafka_cluster, app, group, client_id, host) (\n  member_status:kafka_consumer_rebalance_transitions:increase10m{status=\"DroppedGroup\"}\n) > 0.5\nor\n(\n  max by (kafka_cluster, group) (group_kind:kafka_group_recent_incidents:max{kind=\"poll_timeout\"})\n  unless on (kafka_cluster, group)\n  (group_kind:kafka_group_recent_incidents:max{kind=\"poll_timeout\"} offset 10m)\n  unless on (group)\n  last_over_time(kafka_consumer_rebalance_transitions_total[20m])\n)\n",
          "keep_firing_for": "5m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "{{ if $labels.client_id }}{{ $labels.client_id }} on {{ $labels.host }}{{ else }}A member{{ end }} was dropped from group {{ $labels.group }}",
            "description": "It did not poll within max.poll.interval.ms and left; its partitions went to others, who process what it had not committed a second time.",
            "incident_url": "{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }}{{ .Labels.external_url }}/incident?group={{ urlquery $labels.group }}{{ with $labels.kafka_cluster }}&cluster={{ urlquery . }}{{ end }}{{ with $labels.kind }}&kind={{ . }}{{ end }}{{ end }}{{ end }}",
            "explain": "rebalance-agent explain '{{ reReplaceAll \"'\" \"'\\\\''\" $labels.group }}'{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }} --from {{ .Labels.external_url }}{{ end }}{{ end }}",
            "incidents": "{{ with printf \"sort_desc(group_kind:kafka_group_recent_incidents:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ .Value }} {{ .Labels.kind }}{{ end }}{{ else }}not counted: no hub and no standalone agent is scraped{{ end }}",
            "change": "{{ define \"span\" }}{{ if ge . 7200.0 }}{{ with printf \"floor(vector(%f / 360 + 0.000001)) / 10\" . | query }}{{ (first .).Value | printf \"%g h\" }}{{ end }}{{ else if ge . 120.0 }}{{ with printf \"floor(vector(%f / 60 + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f min\" }}{{ end }}{{ else if lt . 10.0 }}{{ printf \"%.2g s\" . }}{{ else }}{{ with printf \"floor(vector(%f + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f s\" }}{{ end }}{{ end }}{{ end }}{{ range printf \"topk(1, group_change:kafka_group_avoidable_rebalances:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ .Labels.change }} would have avoided {{ if .Value }}{{ .Value | printf \"%.0f\" }} of {{ with printf \"group:kafka_group_remembered_rebalances:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances{{ end }}{{ $both := .Value }}{{ with printf \"group_change:kafka_group_avoidable_unread_partition_seconds:max{setting=%q,change=%q,group=%q,kafka_cluster=%q} > 0\" .Labels.setting .Labels.change $labels.group $labels.kafka_cluster | query }}{{ if $both }}, {{ end }}{{ template \"span\" (first .).Value }} unread{{ end }}{{ with printf \"group:kafka_group_remembered_seconds:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ $s := (first .).Value }} in {{ if ge $s 172800.0 }}{{ with printf \"vector(%f / 86400)\" $s | query }}{{ (first .).Value | printf \"%.0f days\" }}{{ end }}{{ else }}{{ template \"span\" $s }}{{ end }}{{ end }}{{ else }}none known{{ end }}",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaMemberDroppedByPollInterval/"
          }
        },
        {
          "alert": "KafkaStreamsVersionProbingStuck",
          "expr": "application:kafka_streams_rebalance_status:max == 12",
          "for": "10m",
          "keep_firing_for": "5m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "Version probing of {{ $labels.application_id }} does not end",
            "description": "For ten minutes an instance has not been given an assignment in a version of the subscription that all instances know.",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaStreamsVersionProbingStuck/"
          }
        },
        {
          "alert": "KafkaStreamsProbingNeverSettles",
          "expr": "max_over_time(\n  (max by (kafka_cluster, application_id) (kafka_streams_rebalance_status == bool 11))[10m:1m]\n) == 1\n",
          "for": "2h",
          "keep_firing_for": "10m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "{{ $labels.application_id }} has been probing for two hours",
            "description": "Its warm-up replicas do not catch up with acceptable.recovery.lag, so every probing.rebalance.interval.ms there is another rebalance.",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaStreamsProbingNeverSettles/"
          }
        },
        {
          "alert": "KafkaMemberStraggling",
          "expr": "(\n  member:kafka_consumer_rebalance_status:max > 0\n  != 5 != 6\n)\nand on (kafka_cluster, group)\n(\n  quantile by (kafka_cluster, group) (\n    0.5,\n    member:kafka_consumer_rebalance_status:max != 5 != 6\n  ) == 0\n)\n",
          "for": "5m",
          "keep_firing_for": "2m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "{{ $labels.client_id }} on {{ $labels.host }} does not finish its rebalance",
            "description": "Most members of group {{ $labels.group }} have settled, it has held status {{ $value }} for five minutes and consumes nothing.",
            "incident_url": "{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }}{{ .Labels.external_url }}/incident?group={{ urlquery $labels.group }}{{ with $labels.kafka_cluster }}&cluster={{ urlquery . }}{{ end }}{{ with $labels.kind }}&kind={{ . }}{{ end }}{{ end }}{{ end }}",
            "explain": "rebalance-agent explain '{{ reReplaceAll \"'\" \"'\\\\''\" $labels.group }}'{{ with printf \"group:rebalance_agent_external_url:info{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ with first . }} --from {{ .Labels.external_url }}{{ end }}{{ end }}",
            "incidents": "{{ with printf \"sort_desc(group_kind:kafka_group_recent_incidents:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ range $i, $one := . }}{{ if $i }}, {{ end }}{{ .Value }} {{ .Labels.kind }}{{ end }}{{ else }}not counted: no hub and no standalone agent is scraped{{ end }}",
            "change": "{{ define \"span\" }}{{ if ge . 7200.0 }}{{ with printf \"floor(vector(%f / 360 + 0.000001)) / 10\" . | query }}{{ (first .).Value | printf \"%g h\" }}{{ end }}{{ else if ge . 120.0 }}{{ with printf \"floor(vector(%f / 60 + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f min\" }}{{ end }}{{ else if lt . 10.0 }}{{ printf \"%.2g s\" . }}{{ else }}{{ with printf \"floor(vector(%f + 0.000001))\" . | query }}{{ (first .).Value | printf \"%.0f s\" }}{{ end }}{{ end }}{{ end }}{{ range printf \"topk(1, group_change:kafka_group_avoidable_rebalances:max{group=%q,kafka_cluster=%q})\" $labels.group $labels.kafka_cluster | query }}{{ .Labels.change }} would have avoided {{ if .Value }}{{ .Value | printf \"%.0f\" }} of {{ with printf \"group:kafka_group_remembered_rebalances:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ (first .).Value | printf \"%.0f\" }}{{ end }} rebalances{{ end }}{{ $both := .Value }}{{ with printf \"group_change:kafka_group_avoidable_unread_partition_seconds:max{setting=%q,change=%q,group=%q,kafka_cluster=%q} > 0\" .Labels.setting .Labels.change $labels.group $labels.kafka_cluster | query }}{{ if $both }}, {{ end }}{{ template \"span\" (first .).Value }} unread{{ end }}{{ with printf \"group:kafka_group_remembered_seconds:max{group=%q,kafka_cluster=%q}\" $labels.group $labels.kafka_cluster | query }}{{ $s := (first .).Value }} in {{ if ge $s 172800.0 }}{{ with printf \"vector(%f / 86400)\" $s | query }}{{ (first .).Value | printf \"%.0f days\" }}{{ end }}{{ else }}{{ template \"span\" $s }}{{ end }}{{ end }}{{ else }}none known{{ end }}",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/KafkaMemberStraggling/"
          }
        },
        {
          "alert": "RebalanceAgentSourceDown",
          "expr": "rebalance_agent_source_up == 0",
          "for": "5m",
          "keep_firing_for": "2m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "The rebalance agent {{ $labels.instance }} cannot read {{ $labels.source }}",
            "description": "Members that only this source tells of get no new status; alerts on their groups are blind.",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/RebalanceAgentSourceDown/"
          }
        },
        {
          "alert": "RebalanceAgentSourceWithoutFiles",
          "expr": "rebalance_agent_source_files == 0",
          "for": "15m",
          "keep_firing_for": "2m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "The rebalance agent {{ $labels.instance }} finds no file for {{ $labels.source }}",
            "description": "No file matches the globs of the source, so it reads nothing and sees nobody.",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/RebalanceAgentSourceWithoutFiles/"
          }
        },
        {
          "alert": "RebalanceAgentSourceBlind",
          "expr": "rebalance_agent_source_blind_files > 0\nor\n(\n  rebalance_agent_source_members == 0\n  and on (job, instance, source) rebalance_agent_source_files > 0\n  and on (job, instance, source) increase(rebalance_agent_source_read_bytes_total[1h]) > 0\n  unless on (job, instance, source) rebalance_agent_source_files_without_group > 0\n)\n",
          "for": "30m",
          "keep_firing_for": "2m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "The rebalance agent {{ $labels.instance }} reads {{ $labels.source }} and sees no member",
            "description": "Files of the source are read, and no member came of them: the client's level, its layout or its version keeps its lines from being read.",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/RebalanceAgentSourceBlind/"
          }
        },
        {
          "alert": "RebalanceAgentSamplesDropped",
          "expr": "increase(rebalance_agent_samples_dropped_total[10m]) > 0",
          "keep_firing_for": "10m",
          "labels": {
            "severity": "warning"
          },
          "annotations": {
            "summary": "The rebalance agent {{ $labels.instance }} gave up samples for {{ $labels.sink }}",
            "description": "{{ $value | printf \"%.0f\" }} samples in ten minutes: a bound was reached. Reports and root causes have a gap; the gauges do not.",
            "runbook_url": "https://kafka-rebalance-agent.github.io/kafka-rebalance-agent/runbooks/RebalanceAgentSamplesDropped/"
          }
        }
      ]
    }
  ]
    ],
  },
  local self_config = self._config,
}
