#!/usr/bin/env python3
"""Exports a model folder to ONNX (last_hidden_state only), the yardstick of encode_bench.py.

    pip install torch transformers onnx onnxscript
    scripts/export_onnx.py FOLDER...            writes FOLDER/onnx/model.onnx
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModel


class LastHiddenState(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids=None):
        extra = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **extra).last_hidden_state


def export(folder):
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    names = ["input_ids", "attention_mask"] + (["token_type_ids"] if model.config.model_type == "bert" else [])
    ids = torch.randint(10, 1000, (2, 12))
    values = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    target = Path(folder) / "onnx" / "model.onnx"
    target.parent.mkdir(exist_ok=True)
    with torch.no_grad():
        torch.onnx.export(
            LastHiddenState(model), tuple(values[name] for name in names), str(target), opset_version=17, dynamo=False,
            input_names=names, output_names=["last_hidden_state"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in [*names, "last_hidden_state"]})
    print(target)


for folder in sys.argv[1:]:
    export(folder)
