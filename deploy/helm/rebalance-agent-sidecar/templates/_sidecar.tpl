{{/*
The sidecar, as `rebalance-agent inject` adds it. Each template takes one mapping, all of it optional:

  config      the agent's configuration; default: logs in /var/log/app/*.log
  mounts      the folders that it reads, as volumeMounts; make them readOnly
  image, env, resources, securityContext
  appImage    the image that it observes; a new one is a change in reports
  secrets     names of Secrets that become files in /run/secrets/NAME
  captures    true for a source `capture`: root, with NET_RAW alone
  plain       true for an ordinary container, before Kubernetes 1.29

  metadata:
    labels: {{- include "rebalance-agent-sidecar.labels" $sidecar | nindent 4 }}
    annotations: {{- include "rebalance-agent-sidecar.annotations" $sidecar | nindent 4 }}
  spec:
    initContainers: {{- include "rebalance-agent-sidecar.container" $sidecar | nindent 4 }}
    volumes: {{- include "rebalance-agent-sidecar.volumes" $sidecar | nindent 4 }}
*/}}

{{- define "rebalance-agent-sidecar.labels" -}}
kafka-rebalance-agent/sidecar: "true"
{{- end }}

{{- define "rebalance-agent-sidecar.config" -}}
{{- $least := dict "sources" (list (dict "type" "logs" "paths" (list "/var/log/app/*.log"))) -}}
{{- toYaml (.config | default $least) }}
{{- end }}

{{- define "rebalance-agent-sidecar.annotations" -}}
kafka-rebalance-agent/config: |
  {{- include "rebalance-agent-sidecar.config" . | nindent 2 }}
{{- end }}

{{- define "rebalance-agent-sidecar.securityContext" -}}
runAsNonRoot: {{ not .captures }}
runAsUser: {{ ternary 0 12472 (.captures | default false) }}
runAsGroup: {{ ternary 0 12472 (.captures | default false) }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- if .captures }}
  add: [NET_RAW]
  {{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* Requests: what benchmarks/footprint.py measured, 0.14 % of a core and 39.5 MiB, plus 30 %. */}}
{{- define "rebalance-agent-sidecar.resources" -}}
requests: {cpu: 2m, memory: 52Mi}
limits: {memory: 256Mi}
{{- end }}

{{- define "rebalance-agent-sidecar.container" -}}
{{- $config := .config | default dict }}
{{- $web := $config.web | default dict }}
{{- $listen := first ($web.listen | default (list ":12472")) -}}
- name: kafka-rebalance-agent
  image: {{ .image | default "kafka-rebalance-agent:0.1.0" }}
  {{- if not .plain }}
  restartPolicy: Always
  {{- end }}
  env:
    - name: REBALANCE_AGENT_WORKLOAD_VERSION
      valueFrom:
        fieldRef: {fieldPath: "metadata.labels['app.kubernetes.io/version']"}
    {{- with .appImage }}
    - {name: REBALANCE_AGENT_WORKLOAD_IMAGE, value: {{ toJson . }}}
    {{- end }}
    {{- with .env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {name: rebalances, containerPort: {{ splitList ":" $listen | last }}}
  {{- if not $web.config_file }}
  livenessProbe:
    httpGet: {path: /-/healthy, port: rebalances}
    periodSeconds: 30
    timeoutSeconds: 5
  {{- end }}
  resources:
  {{- if .resources }}
    {{- toYaml .resources | nindent 4 }}
  {{- else }}
    {{- include "rebalance-agent-sidecar.resources" . | nindent 4 }}
  {{- end }}
  securityContext:
  {{- if .securityContext }}
    {{- toYaml .securityContext | nindent 4 }}
  {{- else }}
    {{- include "rebalance-agent-sidecar.securityContext" . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - {name: kafka-rebalance-agent-config, mountPath: /etc/kafka-rebalance-agent, readOnly: true}
    - {name: kafka-rebalance-agent-state, mountPath: {{ $config.state_dir | default "/var/lib/kafka-rebalance-agent" }}}
    {{- range .secrets }}
    - {name: kafka-rebalance-agent-secret-{{ . }}, mountPath: /run/secrets/{{ . }}, readOnly: true}
    {{- end }}
    {{- with .mounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "rebalance-agent-sidecar.volumes" -}}
- name: kafka-rebalance-agent-config
  downwardAPI:
    items:
      - path: agent.yaml
        fieldRef: {fieldPath: "metadata.annotations['kafka-rebalance-agent/config']"}
- name: kafka-rebalance-agent-state
  emptyDir: {sizeLimit: 1Gi}
{{- range .secrets }}
- name: kafka-rebalance-agent-secret-{{ . }}
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}
