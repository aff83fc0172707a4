#!/usr/bin/env bash
# Sets up and runs the demo: fetches the encoder (pinned, checksummed), builds the binary, and starts `earmark demo`.
set -euo pipefail
cd "$(dirname "$0")"
export EARMARK_MODELS="${EARMARK_MODELS:-$PWD/models}"
scripts/fetch-models.sh minilm
cargo build --release --locked --package earmark-cli
exec target/release/earmark demo "$@"
