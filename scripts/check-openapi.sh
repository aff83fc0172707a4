#!/usr/bin/env bash
# Runs schemathesis (PyPI, into a virtual environment) over every route of the OpenAPI document: no answer may be a
# 5xx, and every answer has to fit its schema. Usage: scripts/check-openapi.sh [examples a route; 50]
set -euo pipefail
examples="${1:-50}"
tools="${CHECK_TOOLS:-$(cd "$(dirname "$0")/.." && pwd)/target/check-tools}"
if [ ! -x "$tools/schemathesis/bin/schemathesis" ]; then
    python3 -m venv "$tools/schemathesis"
    "$tools/schemathesis/bin/pip" install --quiet schemathesis
fi
source "$(dirname "$0")/server-under-check.sh"
for content in "The spare key hangs behind the boiler." "The gate code is 4471."; do
    curl -sSf "$URL/v1/memories" -H 'content-type: application/json' -d "{\"content\":\"$content\"}" > /dev/null
done
cd "$work"
"$tools/schemathesis/bin/schemathesis" run "$URL/openapi.json" --max-examples "$examples" --workers 2 \
    --checks not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance
curl -sSf "$URL/healthz"
