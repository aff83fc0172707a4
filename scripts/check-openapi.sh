#!/usr/bin/env bash
# Runs schemathesis (PyPI, into a virtual environment) over every route of the OpenAPI document: no answer may be a
# 5xx, and every answer has to fit its schema. The first run makes up every argument; the second one asks the usual
# namespace about a memory and a recall that are there. Usage: scripts/check-openapi.sh [examples a route; 50]
set -euo pipefail
examples="${1:-50}"
tools="${CHECK_TOOLS:-$(cd "$(dirname "$0")/.." && pwd)/target/check-tools}"
if [ ! -x "$tools/schemathesis/bin/schemathesis" ]; then
    python3 -m venv "$tools/schemathesis"
    "$tools/schemathesis/bin/pip" install --quiet schemathesis
fi
source "$(dirname "$0")/server-under-check.sh"

post() { # path, body
    curl -sSf "$URL$1" -H 'content-type: application/json' -d "$2"
}

first() { # kind of id, of what standard input names
    grep -o "$1_[0-9a-f]*" | head -1
}

check() { # further arguments
    "$tools/schemathesis/bin/schemathesis" run "$URL/openapi.json" --max-examples "$examples" --workers 2 \
        --checks not_a_server_error,response_schema_conformance,content_type_conformance,status_code_conformance "$@"
}

post /v1/memories '{"content": ["The spare key hangs behind the boiler.", "The gate code is 4471."]}' > /dev/null
cd "$work"
check
memory="$(post /v1/memories '{"content": "The lantern stands on the third shelf."}' | first m)"
recall="$(post /v1/recall '{"query": "Where is the lantern?"}' | first rc)"
cat > schemathesis.toml <<TOML
[parameters]
"query.namespace" = "default"
[[operations]]
include-path-regex = "/memories/"
parameters = { "path.id" = "$memory" }
[[operations]]
include-path-regex = "/recalls/"
parameters = { "path.id" = "$recall" }
TOML
check --exclude-method DELETE
curl -sSf "$URL/healthz"
