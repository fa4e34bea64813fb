"""ONNX's operators that are not compiled, and why: what is neither here nor declared is unknown."""

from __future__ import annotations

_STRINGS = "it takes or makes strings"
_MAPS = "it takes or makes maps"
_CLASSIC = "it is of classical machine learning"

#: Reasons by domain, and operators of the domain by reason.
_DECLINED: dict[str, dict[str, tuple[str, ...]]] = {
    "": {
        _STRINGS: ("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit"),
        "it takes or makes optional tensors": ("Optional",),
        "it decodes image files": ("ImageDecoder",),
    },
    "ai.onnx.ml": {
        _MAPS: ("CastMap", "DictVectorizer", "ZipMap"),
        _STRINGS: ("CategoryMapper",),
        _CLASSIC: ("SVMClassifier", "SVMRegressor", "TreeEnsembleClassifier"),
    },
    "ai.onnx.preview.training": {"it trains": ("Adagrad", "Adam", "Gradient", "Momentum")},
}

#: Why an operator is declined, by domain and name.
DECLINED: dict[tuple[str, str], str] = {
    (domain, op): reason
    for domain, reasons in _DECLINED.items()
    for reason, operators in reasons.items()
    for op in operators
}
