#!/usr/bin/env python3
"""Writes tiny random models in the formats of the paper's large encoders and rerankers, and what the original
Python libraries make of some texts with them.

    pip install torch transformers sentence-transformers
    scripts/golden_models.py

Each folder of crates/earmark-models/tests/golden is laid out as the model that it stands for on the hub; its
expected.json holds the texts and the reference outputs of transformers and sentence-transformers.

The published code of both Qwen2 encoders attends in both directions (is_causal=False: a mask over padding, without
the causal part). transformers' own Qwen2 is causal, but takes a mask of four dimensions as it is, so the references
are made with such a mask: padding only, or padding and the causal part.
"""

import copy
import json
import shutil
from pathlib import Path

import torch
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (BertConfig, BertForSequenceClassification, Qwen2Config, Qwen2Model, T5Config,
                          T5ForConditionalGeneration)

TARGET = Path(__file__).resolve().parent.parent / "crates/earmark-models/tests/golden"
QUERIES = ["where is the spare key?", "who feeds the cat"]
MEMORIES = ["The spare key hangs behind the boiler.", "Ana feeds the cat on Monday, Ben on Friday.", "no", "",
            "Über die Brücke, then left: " + "the key, the boiler, the cat and the bridge. " * 12]
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query{}\nQuery: "
CORPUS = QUERIES + MEMORIES + [INSTRUCTION, "Query: a Document: b Relevant: true false"]


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n")


def fresh(name):
    shutil.rmtree(TARGET / name, ignore_errors=True)
    (TARGET / name).mkdir(parents=True)
    return TARGET / name


def rounded(values):
    return [float(f"{value:.7g}") for value in values]


# Qwen2 encoders


def byte_tokenizer():
    """Byte-level BPE as Qwen2 has it; the file knows no end token, tokenizer_config.json asks for it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=["<|endoftext|>"], show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def qwen2(tokenizer):
    config = Qwen2Config(vocab_size=128, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                         rope_theta=1000000.0, initializer_range=0.3, attn_implementation="eager",
                         eos_token_id=0, bos_token_id=0)
    model = Qwen2Model(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                value.add_(torch.randn_like(value) * 0.3)
    return model


def qwen2_config(model, **more):
    """config.json as the published models have it (older names than today's transformers writes)."""
    config = model.config
    names = ["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
             "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "hidden_act"]
    return {"architectures": ["Qwen2Model"], "model_type": "qwen2", **{name: getattr(config, name) for name in names},
            "rope_theta": 1000000.0, "sliding_window": 131072, "use_sliding_window": False, **more}


def hidden_states(model, tokenizer, texts, causal, left):
    """Token vectors and mask of a padded batch."""
    rows = [tokenizer.encode(text).ids + [0] for text in texts]
    longest = max(map(len, rows))
    pad = (lambda row, fill: [fill] * (longest - len(row)) + row) if left else \
        (lambda row, fill: row + [fill] * (longest - len(row)))
    ids = torch.tensor([pad(row, 0) for row in rows])
    mask = torch.tensor([pad([1] * len(row), 0) for row in rows])
    allowed = mask[:, None, None, :].bool().expand(-1, 1, longest, -1)
    if causal:
        allowed = allowed & torch.ones(longest, longest).tril().bool()
    # A row of padding may look at itself, so that no softmax is empty.
    allowed = allowed | torch.eye(longest).bool()
    bias = torch.zeros(allowed.shape).masked_fill(~allowed, torch.finfo(torch.float32).min)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=bias, position_ids=positions)
    return out.last_hidden_state, mask


def pool(states, mask, *modules):
    features = {"token_embeddings": states, "attention_mask": mask}
    with torch.no_grad():
        for module in modules:
            features = module(features)
    return features["sentence_embedding"]


def vectors(texts, values):
    return [{"text": text, "vector": rounded(row.tolist())} for text, row in zip(texts, values)]


def write_qwen2(folder, tokenizer, modules, prompts):
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"add_eos_token": True, "eos_token": "<|endoftext|>",
                                                  "model_max_length": 512})
    write_json(folder / "modules.json", [{"idx": i, "name": str(i), "path": path,
                                          "type": f"sentence_transformers.models.{kind}"}
                                         for i, (path, kind) in enumerate(modules)])
    write_json(folder / "config_sentence_transformers.json", {"prompts": prompts, "default_prompt_name": None})


def pooling_file(folder, mode):
    write_json(folder / "1_Pooling/config.json", {
        "word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_max_tokens": False,
        "pooling_mode_mean_tokens": mode == "mean", "pooling_mode_lasttoken": mode == "lasttoken"})


def stella():
    """One weights file with the names of the causal model, mean pooling, a dense head, no normalisation."""
    from safetensors.torch import save_file
    folder, tokenizer = fresh("stella"), byte_tokenizer()
    model = qwen2(tokenizer)
    dense = Dense(32, 24, bias=True, activation_function=torch.nn.Identity())
    prompts = {"s2p_query": INSTRUCTION.format("."), "s2s_query": "Instruct: Retrieve semantically similar text.\nQuery: "}
    write_qwen2(folder, tokenizer, [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense_1024", "Dense")], prompts)
    pooling_file(folder, "mean")
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    write_json(folder / "config.json", qwen2_config(model))
    save_file({f"model.{name}": value.contiguous() for name, value in model.state_dict().items()},
              folder / "model.safetensors")
    write_json(folder / "2_Dense_1024/config.json", {
        "in_features": 32, "out_features": 24, "bias": True,
        "activation_function": "torch.nn.modules.linear.Identity"})
    save_file(dense.state_dict(), folder / "2_Dense_1024/model.safetensors")
    pooling = Pooling(32, pooling_mode="mean")

    def made(texts, prefix, causal):
        states, mask = hidden_states(model, tokenizer, [prefix + text for text in texts], causal, left=False)
        return vectors(texts, pool(states, mask, pooling, dense))

    write_json(folder / "expected.json", {
        "queries": made(QUERIES, prompts["s2p_query"], False), "memories": made(MEMORIES, "", False),
        "causal_memories": made(MEMORIES, "", True)})


def gte():
    """Several bf16 files with an index and the names of the bare model, last token, normalised."""
    folder, tokenizer = fresh("gte-qwen2"), byte_tokenizer()
    model = qwen2(tokenizer)
    for value in model.parameters():
        value.data = value.data.to(torch.bfloat16).float()
    prompts = {"query": INSTRUCTION.format("")}
    write_qwen2(folder, tokenizer, [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")], prompts)
    pooling_file(folder, "lasttoken")
    # A copy, for the conversion would also round the model's rotations.
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder, max_shard_size="20KB")
    write_json(folder / "config.json", qwen2_config(model, is_causal=False))
    pooling = Pooling(32, pooling_mode="lasttoken")

    def made(texts, prefix, causal):
        states, mask = hidden_states(model, tokenizer, [prefix + text for text in texts], causal, left=True)
        return vectors(texts, torch.nn.functional.normalize(pool(states, mask, pooling)))

    write_json(folder / "expected.json", {
        "queries": made(QUERIES, prompts["query"], False), "memories": made(MEMORIES, "", False),
        "causal_memories": made(MEMORIES, "", True)})


# Rerankers


def characters():
    return sorted({character for text in CORPUS for character in text if not character.isspace()})


def piece_tokenizer():
    """Unigram pieces as T5 has them."""
    words = ["true", "false", "Query", "Document", "Relevant", "the", "key", "cat", "boiler", "The", "feeds"]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0)]
    pieces += [(f"▁{word}", -3.0) for word in words] + [(character, -6.0) for character in characters()]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


PAIRS = [(query, memory) for query in QUERIES for memory in MEMORIES]


def scores(values):
    return [{"query": query, "text": text, "score": float(f"{value:.7g}")}
            for (query, text), value in zip(PAIRS, values)]


def monot5(name, tied):
    """A torch file; the score is the log-probability of `true` against `false` in the first step of decoding."""
    folder, tokenizer = fresh(name), piece_tokenizer()
    size = tokenizer.get_vocab_size()
    config = T5Config(vocab_size=size, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2,
                      feed_forward_proj="relu" if tied else "gated-gelu", tie_word_embeddings=tied,
                      decoder_start_token_id=0, initializer_factor=1.0, dropout_rate=0.0)
    model = T5ForConditionalGeneration(config).eval()
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ["vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_heads", "relative_attention_num_buckets",
             "dropout_rate", "layer_norm_epsilon", "initializer_factor", "feed_forward_proj", "is_encoder_decoder",
             "pad_token_id", "eos_token_id", "decoder_start_token_id"]
    more = {} if tied else {"tie_word_embeddings": False}
    write_json(folder / "config.json", {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5",
                                        **{name: getattr(config, name) for name in names}, **more})
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    yes, no = tokenizer.token_to_id("▁true"), tokenizer.token_to_id("▁false")
    tail = tokenizer.encode("Relevant:").ids
    values = []
    for query, text in PAIRS:
        ids = tokenizer.encode(f"Query: {query} Document: {text} Relevant:").ids
        ids = ids if len(ids) <= 512 else ids[:512 - len(tail)] + tail
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
        values.append(torch.log_softmax(logits[[no, yes]], 0)[1].item())
    write_json(folder / "expected.json", scores(values))


def cross_encoder():
    """A BERT classifier of one logit over the pair."""
    folder = fresh("cross-encoder")
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "key", "cat", "boiler", "feeds"]
    letters = sorted({character for character in "".join(characters()).lower()})
    vocab += letters + [f"##{letter}" for letter in letters]
    tokenizer = Tokenizer(models.WordPiece({token: i for i, token in enumerate(vocab)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(vocab[:4])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = BertConfig(vocab_size=len(vocab), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                        intermediate_size=48, max_position_embeddings=64, num_labels=1, initializer_range=0.3)
    model = BertForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    tokenizer.enable_truncation(64, strategy="longest_first")
    values = []
    for query, text in PAIRS:
        pair = tokenizer.encode(query, text)
        with torch.no_grad():
            values.append(model(input_ids=torch.tensor([pair.ids]),
                                token_type_ids=torch.tensor([pair.type_ids])).logits.item())
    write_json(folder / "expected.json", scores(values))


torch.manual_seed(7)
stella()
gte()
monot5("mono-t5", tied=True)
monot5("mono-t5-untied", tied=False)
cross_encoder()
for path in sorted(path for path in TARGET.rglob("*") if path.is_file()):
    print(f"{path.stat().st_size:8} {path.relative_to(TARGET)}")
