{{- define "agent.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "agent.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "agent.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "agent.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "agent.selector" -}}
app.kubernetes.io/name: {{ include "agent.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "agent.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- define "agent.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "agent.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "agent.hubScheme" -}}
{{ ternary "https" "http" (not (empty .Values.hub.webSecret)) }}
{{- end }}

{{- define "agent.hubUrl" -}}
{{ include "agent.hubScheme" . }}://{{ include "agent.fullname" . }}-hub.{{ .Release.Namespace }}:{{ .Values.hub.service.port }}
{{- end }}

{{- define "agent.hubConfig" -}}
{{- $config := dict "role" "hub" -}}
{{- with .Values.hub.clusterName }}{{ $_ := set $config "cluster" (dict "name" .) }}{{ end -}}
{{- with .Values.hub.tokenSecret }}{{ $_ := set $config "hub" (dict "token_file" "/run/secrets/hub-token/token") }}{{ end -}}
{{- with .Values.hub.webSecret }}{{ $_ := set $config "web" (dict "config_file" "/run/secrets/hub-web/web.yaml") }}{{ end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.hub.config)) }}
{{- end }}

{{- define "agent.nodeConfig" -}}
{{- $config := dict "host" "${NODE_NAME}" -}}
{{- $_ := set $config "sources" (list (dict "type" "logs" "paths" .Values.nodeLogs.paths)) -}}
{{- if and .Values.hub.enabled .Values.nodeLogs.pushToHub }}
{{- $hub := dict "push_to" (list (include "agent.hubUrl" .)) -}}
{{- with .Values.hub.tokenSecret }}{{ $_ := set $hub "token_file" "/run/secrets/hub-token/token" }}{{ end -}}
{{- $_ := set $config "hub" $hub -}}
{{- end }}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.nodeLogs.config)) }}
{{- end }}

{{- define "agent.pod" -}}
serviceAccountName: {{ include "agent.serviceAccountName" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A JSON value as CEL's, whose lists and maps hold one type each: everything is `dyn`. */}}
{{- define "agent.cel" -}}
{{- if kindIs "map" . -}}
{ {{- range $i, $key := keys . | sortAlpha }}{{ if $i }}, {{ end }}{{ toJson $key }}: dyn({{ include "agent.cel" (get $ $key) }}){{ end -}} }
{{- else if kindIs "slice" . -}}
[ {{- range $i, $item := . }}{{ if $i }}, {{ end }}dyn({{ include "agent.cel" $item }}){{ end -}} ]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end }}
