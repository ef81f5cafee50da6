{{- define "leasehold.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 45 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 45 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "leasehold.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "leasehold.labels" -}}
{{ include "leasehold.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "leasehold.secret" -}}
{{- if and .Values.database.existingSecret .Values.database.url }}{{ fail "set database.existingSecret or database.url, not both" }}{{ end }}
{{- if not (or .Values.database.existingSecret .Values.database.url) }}{{ fail "where is the database? Set database.existingSecret or database.url" }}{{ end }}
{{- .Values.database.existingSecret | default (include "leasehold.name" .) }}
{{- end }}

{{- define "leasehold.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.secretName "") }}
{{- end }}
