"""Counts of n-grams of integers."""

from __future__ import annotations

import numpy as np

from ..case import ORT, Family

FAMILY = Family("ngrams")
op = FAMILY.op

RNG = np.random.default_rng(11)
#: Two of one item, three of two, two of three; a slot for each, in another order.
POOL = {
    "ngram_counts": [0, 2, 8],
    "ngram_indexes": [3, 0, 6, 1, 4, 2, 5],
    "pool_int64s": [1, 3, 1, 2, 2, 1, 3, 3, 1, 2, 3, 0, 1, 0],
}
WEIGHTS = [0.5, 2.0, 1.5, 3.0, 0.25, 1.0, 4.0]
BY_ORT = {"judges": (ORT,), "because": "onnx.reference takes weights by place, and none for a fault"}


def words(*shape: int) -> np.ndarray:
    return RNG.integers(0, 4, shape)


for mode in ("TF", "IDF", "TFIDF"):
    for skips in (0, 1, 4):
        text = f"{mode}, {skips} skipped"
        op(text, "TfIdfVectorizer", words(3, 20), mode=mode, max_skip_count=skips, min_gram_length=1, max_gram_length=3,
           weights=WEIGHTS, case=None if mode == "TF" else BY_ORT, **POOL)  # fmt: skip
for shortest, longest in ((1, 1), (2, 2), (2, 3), (3, 3)):
    op(f"TF, {shortest} to {longest} items", "TfIdfVectorizer", words(30), mode="TF", max_skip_count=2,
       min_gram_length=shortest, max_gram_length=longest, **POOL)  # fmt: skip
op("TFIDF without weights, int32", "TfIdfVectorizer", words(2, 9).astype(np.int32), mode="TFIDF", max_skip_count=0,
   min_gram_length=1, max_gram_length=2, case=BY_ORT, **POOL)  # fmt: skip
op("TF, rows shorter than n-grams", "TfIdfVectorizer", words(4, 2), mode="TF", max_skip_count=3, min_gram_length=1,
   max_gram_length=3, **POOL)  # fmt: skip
