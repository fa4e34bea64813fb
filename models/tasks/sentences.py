"""The meaning of sentences with minilm (all-MiniLM-L6-v2: Wang et al., 2020, arXiv:2002.10957).

Needs the package `tokenizers`, which is in the extra `dev`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def tokens(sentences: Sequence[str], tokenizer: Path) -> dict[str, Array]:
    """The model's inputs, int64 [sentences, length of the longest], from the tokenizer.json beside the model."""
    from tokenizers import Tokenizer

    words = Tokenizer.from_file(str(tokenizer))
    words.enable_padding()
    encoded = words.encode_batch(list(sentences))
    fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(each, at) for each in encoded], np.int64) for name, at in fields.items()}


def embeddings(last_hidden_state: Array, attention_mask: Array) -> Array:
    """A vector of length 1 a sentence, float32 [sentences, 384]: the mean over its tokens without the padding."""
    weights = attention_mask[:, :, None].astype(np.float32)
    means = (last_hidden_state * weights).sum(1) / weights.sum(1)
    result: Array = means / np.linalg.norm(means, axis=1, keepdims=True)
    return result
