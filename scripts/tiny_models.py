#!/usr/bin/env python3
"""Writes the tiny random models of the encoder tests, each in a format that real checkpoints come in.

    pip install torch transformers safetensors
    scripts/tiny_models.py

Each folder of crates/earmark/tests/golden/tiny holds a config, a tokenizer of a few words, the weights, and in
expected.f32 what transformers makes of two texts: little-endian float32, one row a text.
"""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, RobertaConfig, RobertaModel

TARGET = Path(__file__).resolve().parent.parent / "crates/earmark/tests/golden/tiny"
WORDS = ["<pad0>", "<pad>", "[CLS]", "[SEP]", "[UNK]", "the", "key", "hangs", "here"]
TEXTS = [[2, 5, 6, 7, 8, 3], [2, 6, 3]]
SIZES = dict(vocab_size=12, hidden_size=20, num_hidden_layers=2, num_attention_heads=2, intermediate_size=28,
             max_position_embeddings=18, initializer_range=0.5)


def tokenizer():
    special = [{"id": i, "content": WORDS[i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i in range(5)]
    post = {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]}
                               for name in ("[CLS]", "[SEP]")}}
    return {"version": "1.0", "added_tokens": special, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": post,
            "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"}}


def make(name, model, dtype, save, cls=False):
    folder = TARGET / name
    folder.mkdir(parents=True, exist_ok=True)
    model = model.eval().to(dtype).to(torch.float32)
    (folder / "config.json").write_text(json.dumps({**model.config.to_dict(), "dtype": None}, indent=1))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()))
    if cls:
        modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
        text = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in modules]
        (folder / "modules.json").write_text(json.dumps(text))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items() if value.is_floating_point()}
    save(tensors, folder)
    with torch.no_grad():
        states = [model(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in TEXTS]
    rows = [state[0] if cls else state.mean(0) for state in states]
    torch.stack(rows).numpy().astype("<f4").tofile(folder / "expected.f32")


def pytorch(**options):
    return lambda tensors, folder: torch.save(
        {**tensors, "embeddings.position_ids": torch.arange(18)}, folder / "pytorch_model.bin", **options)


def safetensors(tensors, folder):
    save_file(tensors, folder / "model.safetensors")


def prefixed(tensors, folder):
    save_file({f"roberta.{key}": value for key, value in tensors.items()}, folder / "model.safetensors")


torch.manual_seed(5)
make("bert-zip", BertModel(BertConfig(**SIZES)), torch.float32, pytorch())
make("bert-old-file", BertModel(BertConfig(**SIZES)), torch.float32, pytorch(_use_new_zipfile_serialization=False))
make("bert-f16", BertModel(BertConfig(**SIZES)), torch.float16, safetensors)
make("roberta-bf16-cls", RobertaModel(RobertaConfig(**SIZES, pad_token_id=1)), torch.bfloat16, prefixed, cls=True)
print(*sorted(str(path.relative_to(TARGET)) for path in TARGET.rglob("*") if path.is_file()), sep="\n")
