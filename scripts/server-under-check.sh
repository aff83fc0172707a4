# Sourced by the checks of the server: starts an encoder stub and `earmark serve` on loopback with a fresh data
# folder, sets URL, and ends both when the script ends.
repository="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
earmark="${EARMARK:-$repository/target/release/earmark}"
[ -x "$earmark" ] || { echo "build it first: cargo build --release -p earmark-cli" >&2; exit 1; }
work="$(mktemp -d)"
started=()
finish() {
    for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done
    rm -rf "$work"
}
trap finish EXIT
wait_for() { # file, pattern
    for _ in $(seq 100); do grep -q "$2" "$1" && return; sleep 0.1; done
    cat "$1" >&2
    exit 1
}
python3 "$repository/scripts/stub_encoder.py" > "$work/encoder" &
started+=($!)
wait_for "$work/encoder" http
EARMARK_ENCODER__URL="$(cat "$work/encoder")"
export EARMARK_ENCODER__URL EARMARK_ENCODER__MODEL=stub EARMARK_DATA_DIR="$work/data" HOME="$work"
"$earmark" serve --listen 127.0.0.1:0 --refine-tool 2> "$work/server" &
started+=($!)
wait_for "$work/server" listening
URL="$(sed -n 's/^listening on \(http:[^ ]*\).*/\1/p' "$work/server")"
