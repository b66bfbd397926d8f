{{- define "kross.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of all objects: that of the release. */}}
{{- define "kross.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "kross.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kross.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kross.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "kross.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kross
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "kross.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kross.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required with serviceAccount.create=false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "kross.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The Secret with the certificate of the admission webhook. */}}
{{- define "kross.webhookSecret" -}}
{{- printf "%s-webhook" (include "kross.fullname" .) }}
{{- end }}

{{/* The Secret with the key of the sessions of the dashboard. */}}
{{- define "kross.dashboardSecret" -}}
{{- printf "%s-dashboard" (include "kross.fullname" .) }}
{{- end }}

{{/* The subject of a binding. */}}
{{- define "kross.subject" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "kross.serviceAccountName" . }}
    namespace: {{ .Release.Namespace }}
{{- end }}

{{/* A ClusterRoleBinding of the ClusterRole `.role` to the controller. */}}
{{- define "kross.clusterRoleBinding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .role }}
  labels:
    {{- include "kross.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
{{ include "kross.subject" .root }}
{{- end }}

{{/* A RoleBinding of the ClusterRole `.role` to the controller in `.namespace`. */}}
{{- define "kross.roleBinding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .role }}
  namespace: {{ .namespace }}
  labels:
    {{- include "kross.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
{{ include "kross.subject" .root }}
{{- end }}
