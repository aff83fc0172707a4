#!/usr/bin/env bash
# Calls every MCP tool with the official inspector (npm), over standard input and output and over HTTP.
set -euo pipefail
tools="${CHECK_TOOLS:-$(cd "$(dirname "$0")/.." && pwd)/target/check-tools}"
if [ ! -d "$tools/inspector/node_modules" ]; then
    mkdir -p "$tools/inspector"
    npm install --prefix "$tools/inspector" --silent --no-audit --no-fund @modelcontextprotocol/inspector
fi
source "$(dirname "$0")/server-under-check.sh"
inspector="$tools/inspector/node_modules/.bin/mcp-inspector"

inspect() { # over stdio or HTTP, arguments
    if [ "$1" = stdio ]; then
        "$inspector" --cli "$earmark" mcp --refine-tool --namespace inspected "${@:2}"
    else
        "$inspector" --cli "$URL/mcp/inspected" --transport http "${@:2}"
    fi
}

call() { # over, tool, arguments
    local arguments=()
    for argument in "${@:3}"; do arguments+=(--tool-arg "$argument"); done
    inspect "$1" --method tools/call --tool-name "$2" "${arguments[@]}"
}

expect() { # what, pattern, output
    grep -q "$2" <<< "$3" || { echo "FAILED: $1 answered: $3" >&2; exit 1; }
    echo "ok: $1"
}

for over in stdio http; do
    expect "$over tools/list" '"memory_status"' "$(inspect "$over" --method tools/list)"
    expect "$over remember" 'm_' "$(call "$over" remember "content=The $over gate code is 4471." 'tags=["home"]')"
    recall="$(call "$over" recall "query=$over gate code" top_k=1)"
    expect "$over recall" "$over gate code is 4471" "$recall"
    id="$(grep -o 'rc_[0-9a-f]*' <<< "$recall" | head -1)"
    expect "$over refine" 'recall_id' "$(call "$over" refine "recall_id=$id" 'not_useful=["1"]')"
    recall="$(call "$over" recall "query=$over gate code" top_k=1)"
    id="$(grep -o 'rc_[0-9a-f]*' <<< "$recall" | head -1)"
    expect "$over feedback" '1 useful' "$(call "$over" feedback "recall_id=$id" "answer=It is 4471 [1].")"
    previous="$(call "$over" recall "query=$over gate" top_k=1)"
    id="$(grep -o 'rc_[0-9a-f]*' <<< "$previous" | head -1)"
    previous="{\"recall_id\":\"$id\",\"used\":[\"1\"]}"
    expect "$over recall with previous" 'recall_id' "$(call "$over" recall "query=$over" "previous=$previous")"
    expect "$over memory_status" 'next_recall' "$(call "$over" memory_status)"
    expect "$over forget" '"forgotten": 1' "$(call "$over" forget "filters={\"content\":\"The $over gate code is 4471.\"}")"
    expect "$over failing call" '"isError": true' "$(call "$over" recall 'query= ')"
done
