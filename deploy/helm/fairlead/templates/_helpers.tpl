{{- define "fairlead.labels" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "fairlead.selector" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "fairlead.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Settings of a container: the common ones, its own, and the secret ones by reference. */ -}}
{{- define "fairlead.env" -}}
- name: FAIRLEAD_DATA
  value: /data/fairlead
{{- range $name, $value := mergeOverwrite (deepCopy .root.Values.settings) .own }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- range $name, $from := .root.Values.secrets }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef:
      name: {{ $from.name }}
      key: {{ $from.key }}
{{- end }}
{{- end }}

{{- define "fairlead.envFrom" -}}
{{- with .Values.secretsFrom }}
envFrom:
{{- range . }}
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fairlead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "fairlead.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "fairlead.mounts" -}}
- name: data
  mountPath: /data
- name: tmp
  mountPath: /tmp
{{- if .Values.releasePacks.existingClaim }}
- name: release-packs
  mountPath: /release-packs
{{- end }}
{{- end }}

{{- define "fairlead.volumes" -}}
- name: data
  emptyDir:
    sizeLimit: {{ .Values.data.size }}
- name: tmp
  emptyDir: {}
{{- if .Values.releasePacks.existingClaim }}
- name: release-packs
  persistentVolumeClaim:
    claimName: {{ .Values.releasePacks.existingClaim }}
{{- end }}
{{- end }}

{{- /* The data directory has to be the server's own, which no volume is; what is shared is a link in it. */ -}}
{{- define "fairlead.init" -}}
{{- if .Values.releasePacks.existingClaim }}
initContainers:
  - name: prepare
    image: {{ include "fairlead.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    command: [sh, -ec, "mkdir -p -m 0700 /data/fairlead; ln -sfn /release-packs /data/fairlead/release_packs"]
    securityContext: {{- include "fairlead.containerSecurity" . | nindent 6 }}
    volumeMounts: {{- include "fairlead.mounts" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "fairlead.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
