#!/usr/bin/env python3
"""Sentences per second of the Rust encoder against onnxruntime: same weights, texts, threads and padding.

    pip install onnxruntime==1.32.0 tokenizers numpy
    scripts/export_onnx.py models/all-MiniLM-L6-v2
    cargo build --release -p earmark --example encode_bench
    scripts/encode_bench.py models/all-MiniLM-L6-v2 [--batch 32 1] [--threads 1] [--rounds 15]

onnxruntime multiplies f32. The Rust encoder does so in one process, and what it does by itself in another: bfloat16
where the processor has an instruction for it. Tokenising, mean pooling and normalisation are part of all sides. All
texts have the same length, so none pads. The sides take turns; each round gives one ratio to onnxruntime by wall
time and one by the CPU time of the process, and the medians are printed.
"""

import argparse
import json
import os
import random
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

TOKENS = 40
ROOT = Path(__file__).resolve().parent.parent


def make_texts(tokenizer, count):
    """Texts of TOKENS tokens each: random whole words of the vocabulary."""
    words = sorted(word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 2)
    rng = random.Random(7)
    texts = []
    while len(texts) < count:
        text = " ".join(rng.choices(words, k=TOKENS - 2))
        if len(tokenizer.encode(text).ids) == TOKENS:
            texts.append(text)
    return texts


class Onnx:
    def __init__(self, folder, tokenizer, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            str(folder / "onnx/model.onnx"), options, providers=["CPUExecutionProvider"])
        self.names = [node.name for node in self.session.get_inputs()]
        self.tokenizer = tokenizer

    def encode(self, texts):
        encodings = self.tokenizer.encode_batch(texts)
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self.session.run(None, {name: values[name] for name in self.names})[0]
        weights = mask[:, :, None].astype(np.float32)
        pooled = (states * weights).sum(1) / weights.sum(1)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def run(self, texts, size):
        wall, cpu = time.perf_counter(), time.process_time()
        for start in range(0, len(texts), size):
            self.encode(texts[start : start + size])
        return time.perf_counter() - wall, time.process_time() - cpu


class Rust:
    def __init__(self, folder, texts, threads, program, precision):
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(texts, file)
        self.process = subprocess.Popen(
            [program, str(folder), file.name, str(threads), *precision],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def cpu(self):
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def run(self, size):
        cpu = self.cpu()
        self.process.stdin.write(f"{size}\n")
        self.process.stdin.flush()
        wall = float(self.process.stdout.readline())
        return wall, self.cpu() - cpu


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 1])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--program", default=str(ROOT / "target/release/examples/encode_bench"))
    arguments = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    texts = make_texts(tokenizer, arguments.texts)
    onnx = Onnx(arguments.folder, tokenizer, arguments.threads)
    rust = {
        name: Rust(arguments.folder, texts, arguments.threads, arguments.program, precision)
        for name, precision in [("earmark f32", ["f32"]), ("earmark", [])]
    }
    for size in arguments.batch:
        sides = {"onnxruntime": lambda: onnx.run(texts, size), **{
            name: lambda side=side: side.run(size) for name, side in rust.items()}}
        for run in sides.values():
            run()
        # Rounds x sides x (wall, CPU).
        report(arguments, size, list(sides), np.array(
            [[run() for run in sides.values()] for _ in range(arguments.rounds)]))
    for side in rust.values():
        side.process.stdin.close()


def report(arguments, size, names, times):
    speeds, best = arguments.texts / np.median(times, axis=0), arguments.texts / times.min(axis=0)
    ratios = np.median(times[:, :1] / times, axis=0)
    print(json.dumps({
        "model": arguments.folder.name, "batch": size, "threads": arguments.threads, "rounds": len(times),
        **{name: {
            "per_wall_s": round(speed[0], 1), "per_cpu_s": round(speed[1], 1), "best": round(top[0], 1),
            "ratio_wall": round(ratio[0], 3), "ratio_cpu": round(ratio[1], 3),
        } for name, speed, top, ratio in zip(names, speeds, best, ratios)},
    }), flush=True)


if __name__ == "__main__":
    main()
