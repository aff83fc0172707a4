#!/usr/bin/env python3
"""Writes the golden vectors that the encoder tests compare with, made by sentence-transformers.

    pip install sentence-transformers==6.2.0
    scripts/golden_vectors.py [MODELS]          (default: $EARMARK_MODELS, else ./models)

Reads crates/earmark/tests/golden/texts.json; writes NAME.f32 beside it for both models: one row of
little-endian float32 a text. A text longer than the model's window follows the rule of the Rust side: its tokens
are cut into windows, each window is encoded as a text of its own, and the vectors are averaged with the
windows' token counts as weights and normalised again.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

GOLDEN = Path(__file__).resolve().parent.parent / "crates/earmark/tests/golden"
MODELS = ["all-MiniLM-L6-v2", "all-mpnet-base-v2"]


def windows(model, text):
    """Token ids of each window of a text, special tokens included."""
    tokenizer = model.tokenizer
    ids = tokenizer(text, add_special_tokens=False, truncation=False, padding=False, verbose=False)["input_ids"]
    size = model.max_seq_length - 2
    parts = [ids[start : start + size] for start in range(0, len(ids), size)] or [[]]
    return [[tokenizer.cls_token_id, *part, tokenizer.sep_token_id] for part in parts]


def encode_window(model, ids):
    tensor = torch.tensor([ids])
    with torch.no_grad():
        out = model({"input_ids": tensor, "attention_mask": torch.ones_like(tensor)})
    return out["sentence_embedding"][0].numpy().astype(np.float64)


def encode(model, text):
    parts = windows(model, text)
    if len(parts) == 1:
        return model.encode(text, show_progress_bar=False), len(parts[0])
    total = sum(encode_window(model, part) * (len(part) - 2) for part in parts)
    return total / np.linalg.norm(total), sum(len(part) - 2 for part in parts)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("EARMARK_MODELS", "models"))
    texts = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))
    for name in MODELS:
        model = SentenceTransformer(str(folder / name), device="cpu")
        rows, lengths = zip(*(encode(model, text) for text in texts))
        np.stack(rows).astype("<f4").tofile(GOLDEN / f"{name}.f32")
        print(f"{name}: {len(rows)} vectors, tokens {list(lengths)}")


if __name__ == "__main__":
    main()
