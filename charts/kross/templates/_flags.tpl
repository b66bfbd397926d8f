{{/* The flags of the controller, as YAML with one list. A test checks that each exists. */}}
{{- define "kross.flags" -}}
flags:
  - --health-probe-bind-address=:8079
  - --metrics-bind-address=:8078
  {{- if .Values.metrics.secure }}
  - --metrics-secure
  {{- end }}
  {{- if .Values.leaderElection.enabled }}
  - --leader-elect
  - --leader-election-namespace={{ .Release.Namespace }}
  - --leader-election-lease-duration={{ .Values.leaderElection.leaseDuration }}
  - --leader-election-renew-deadline={{ .Values.leaderElection.renewDeadline }}
  - --leader-election-retry-period={{ .Values.leaderElection.retryPeriod }}
  {{- end }}
  {{- if .Values.webhook.enabled }}
  - --webhook-bind-address=:9443
  {{- if .Values.webhook.certManager.enabled }}
  - --webhook-cert-path=/webhook-certificate
  {{- else }}
  - --webhook-service={{ .Release.Namespace }}/{{ include "kross.fullname" . }}-webhook
  - --webhook-secret={{ include "kross.webhookSecret" . }}
  - --webhook-configuration={{ include "kross.fullname" . }}
  {{- end }}
  {{- end }}
  {{- if .Values.dashboard.enabled }}
  - --dashboard-bind-address=:8443
  - --dashboard-session-duration={{ .Values.dashboard.sessionDuration }}
  - --dashboard-session-secret={{ .Release.Namespace }}/{{ include "kross.dashboardSecret" . }}
  {{- if .Values.dashboard.certificateSecret }}
  - --dashboard-cert-path=/dashboard-certificate
  {{- end }}
  {{- end }}
  {{- range uniq .Values.rbac.kubeconfigs.namespaces }}
  - {{ printf "--kubeconfig-namespace=%s" . | quote }}
  {{- end }}
  {{- with .Values.config }}
  - --zap-log-level={{ .logLevel }}
  - --zap-encoder={{ .logEncoder }}
  - --graceful-shutdown-timeout={{ .gracefulShutdownSeconds }}s
  {{- if not .auditLog }}
  - --audit-log=false
  {{- end }}
  {{- if .allowCRDDeletion }}
  - --allow-crd-deletion
  {{- end }}
  {{- if or .noCrossNamespace (eq $.Values.rbac.mode "namespaced") }}
  - --no-cross-namespace
  {{- end }}
  {{- with .defaultServiceAccount }}
  - {{ printf "--default-service-account=%s" . | quote }}
  {{- end }}
  {{- if .requireAllowedNamespaces }}
  - --require-allowed-namespaces
  {{- end }}
  {{- if .kubeconfigSystemRoots }}
  - --kubeconfig-system-roots
  {{- end }}
  {{- range .kubeconfigDenyCIDRs }}
  - {{ printf "--kubeconfig-deny-cidr=%s" . | quote }}
  {{- end }}
  {{- range .kubeconfigExecAllow }}
  - {{ printf "--kubeconfig-exec-allow=%s" . | quote }}
  {{- end }}
  {{- range .kubeconfigExecEnv }}
  - {{ printf "--kubeconfig-exec-env=%s" . | quote }}
  {{- end }}
  {{- $gates := list }}
  {{- range $gate, $on := .featureGates }}
  {{- $gates = append $gates (printf "%s=%t" $gate $on) }}
  {{- end }}
  {{- with $gates }}
  - --feature-gates={{ join "," . }}
  {{- end }}
  {{- if .concurrentReconciles }}
  - --dynamic-controller-concurrent-reconciles={{ .concurrentReconciles }}
  {{- end }}
  {{- end }}
  {{- with .Values.tracing }}
  {{- if .endpoint }}
  - {{ printf "--otlp-endpoint=%s" .endpoint | quote }}
  - --otlp-sampling-ratio={{ .samplingRatio }}
  {{- end }}
  {{- end }}
{{- end }}
