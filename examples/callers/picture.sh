#!/usr/bin/env bash
# Makes a picture with curl and jq: picture.sh "what to draw" file.png
# URL and KEY are the server's address and an API key of yours.
set -euo pipefail
prompt=${1:?say what to draw} file=${2:?say where to keep it}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# With an idempotency key, the same call sent again finds the run of the first: nothing is paid twice.
once=$(date +%s)-$$
status=000
for attempt in 1 2 3 4; do
  status=$(jq -n --arg prompt "$prompt" '{prompt: $prompt, width: 256, height: 192}' |
    curl -sS -o "$work/answer" -D "$work/headers" -w '%{http_code}' --max-time 600 \
      "$URL/v2/models/local/procedural-image-1" -H "X-API-Key: $KEY" -H "Idempotency-Key: $once" \
      -H "Content-Type: application/json" -d @-) || status=000
  case $status in 000 | 409 | 429 | 503 | 504) ;; *) break ;; esac
  wait=$(sed -n 's/^retry-after: \([0-9]*\).*/\1/ip' "$work/headers" 2>/dev/null || true)
  sleep "${wait:-$attempt}"
done

if [ "$status" != 200 ]; then
  echo "status $status, $(sed -n 's/^x-service-error-type: *//ip' "$work/headers" | tr -d '\r')" >&2
  cat "$work/answer" >&2
  exit 1
fi
jq -r '.data[0].b64_json' "$work/answer" | base64 -d > "$file"
echo "$file: $(sed -n 's/^x-service-credits-used: *//ip' "$work/headers" | tr -d '\r') credits"
