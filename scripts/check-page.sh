#!/usr/bin/env bash
# Walks a real browser through the page of a fresh server and takes screenshots.
#
#   cargo build --release -p earmark-cli && scripts/check-page.sh [FOLDER FOR THE SCREENSHOTS]
#
# Needs Chromium (CHROMIUM, default /usr/bin/chromium) and Node, and fetches playwright-core from npm. With an encoder
# in EARMARK_MODELS (see fetch-models.sh) the memory of `earmark demo` is shown, else a small one with a stub encoder.
set -euo pipefail
out="${1:-/tmp/earmark-page}"
models="${EARMARK_MODELS:-models}"
if [ -d "$models/all-MiniLM-L6-v2" ]; then
    export EARMARK_MODELS="$(cd "$models" && pwd)"
    demo=1
fi
. "$(dirname "$0")/server-under-check.sh"
question="where is the spare key?"
if [ -n "${demo:-}" ]; then
    unset EARMARK_ENCODER__URL EARMARK_ENCODER__MODEL
    "$earmark" demo --keep "$work/demo" > /dev/null
    EARMARK_DATA_DIR="$work/demo" "$earmark" serve --listen 127.0.0.1:0 2> "$work/demo-server" &
    started+=($!)
    wait_for "$work/demo-server" listening
    URL="$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/demo-server")"
    question="how do I get into Noor's flat?"
    hint="4802"
else
    for text in "The spare key hangs behind the boiler." "The key of the shed is blue." "A spare wheel lies in the cellar." \
        "The gate code is 4471." "Where the boiler stands it is warm." "The spare room is upstairs."; do
        "$earmark" remember "$text" --author Ana > /dev/null
    done
fi
[ -z "${demo:-}" ] || export EARMARK_DATA_DIR="$work/demo"
key="$("$earmark" keys create --namespaces '*' --access admin --name "the page" --json | sed 's/.*"key": *"\([^"]*\)".*/\1/')"
"$earmark" serve --listen 127.0.0.1:0 --require-key 2> "$work/locked-server" &
started+=($!)
wait_for "$work/locked-server" listening
locked="$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/locked-server")"
if [ -z "${PLAYWRIGHT:-}" ]; then
    npm install --silent --no-audit --no-fund --prefix "$work/node" playwright-core > /dev/null
    export PLAYWRIGHT="$work/node/package.json"
fi
node "$repository/scripts/check-page.mjs" "$URL" "$question" "${hint:-}" "$out" "$locked" "$key"
