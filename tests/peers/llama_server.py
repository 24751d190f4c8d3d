"""Serves a tiny random model with llama.cpp: run by `test_llama.py`, in a process of its own.

    python llama_server.py FOLDER     prints the URL, serves until standard input ends

What the model says is noise. That it says it by way of a real tokenizer, a real chat template and a
real prefix cache, in the Messages API as llama.cpp understands it, is the point.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

CONTEXT = 16_384
WIDTH = 32
HEADS = 2
HIDDEN = 64
TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}\n{% endfor %}"
    "<assistant>"
)


def make_model(path: Path) -> None:
    """Write a model of one layer whose tokens are bytes."""
    gguf: Any = importlib.import_module("gguf")
    numpy: Any = importlib.import_module("numpy")
    kinds = gguf.TokenType
    pieces = [b"<unk>", b"<s>", b"</s>", *(f"<0x{byte:02X}>".encode() for byte in range(256))]
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256]
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(pieces))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * len(pieces))
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)
    chance = numpy.random.default_rng(0)
    for name, shape in _shapes(len(pieces)).items():
        if name.endswith("norm.weight"):
            values = numpy.ones(shape)
        else:
            values = chance.standard_normal(shape) * 0.3
        writer.add_tensor(name, values.astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _shapes(tokens: int) -> dict[str, tuple[int, ...]]:
    square = (WIDTH, WIDTH)
    layer = {
        "attn_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
        "attn_q": square,
        "attn_k": square,
        "attn_v": square,
        "attn_output": square,
        "ffn_gate": (HIDDEN, WIDTH),
        "ffn_up": (HIDDEN, WIDTH),
        "ffn_down": (WIDTH, HIDDEN),
    }
    return {
        "token_embd.weight": (tokens, WIDTH),
        "output_norm.weight": (WIDTH,),
        "output.weight": (tokens, WIDTH),
        **{f"blk.0.{name}.weight": shape for name, shape in layer.items()},
    }


def main(folder: Path) -> None:
    """Make the model, serve it, say where."""
    path = folder / "tiny.gguf"
    make_model(path)
    llama: Any = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(path)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = 2
    params.use_jinja = True
    params.warmup = False
    server = llama.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
