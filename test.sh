#!/usr/bin/env bash
# Sets up and passes the tests: fetches the encoders' weights (pinned, checksummed), then lints and tests everything.
set -euo pipefail
cd "$(dirname "$0")"
export EARMARK_MODELS="${EARMARK_MODELS:-$PWD/models}"
scripts/fetch-models.sh minilm mpnet wordllama || echo "some weights could not be fetched; tests that need them say so and are skipped"
if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; fi
if cargo clippy --version >/dev/null 2>&1; then
    cargo clippy --release --workspace --all-targets --features earmark-lab/models --locked -- -D warnings
fi
cargo test --release --workspace --locked
# Each benchmark runs once at a small size, so that it cannot rot (the tests have built them).
target/release/examples/search_bench --memories 3000 --queries 20
target/release/examples/step_bench --dimensions 64 --seconds 0.05 --repeats 1
target/release/examples/cost_bench --recalls 40
