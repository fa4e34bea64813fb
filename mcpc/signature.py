"""Signatures of artifacts: Ed25519 over header, section table and metadata (docs/format.md, SIGNATURE).

The metadata hold every other section's SHA-256: whoever checks these too knows the whole file to be the signer's.
"""

from __future__ import annotations

import struct
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from mcpc.errors import FormatError, UsageError

_PAYLOAD = struct.Struct("<2I32s64s")
_ED25519 = 1

#: Size of the SIGNATURE section.
SIGNATURE_BYTES = _PAYLOAD.size


def load_private_key(path: Path) -> Ed25519PrivateKey:
    """An unencrypted PEM key (``openssl genpkey -algorithm ed25519``); UsageError E002 for anything else."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise _bad_key(path, "private", str(error)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise _bad_key(path, "private", "the key is of another algorithm")
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """A PEM public key (``openssl pkey -pubout``); UsageError E002 for anything else."""
    try:
        key = load_pem_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise _bad_key(path, "public", str(error)) from None
    if not isinstance(key, Ed25519PublicKey):
        raise _bad_key(path, "public", "the key is of another algorithm")
    return key


def sign(key: Ed25519PrivateKey, prologue: bytes, metadata: bytes) -> bytes:
    """The SIGNATURE section of an artifact with this header and section table (``prologue``) and META section."""
    return _PAYLOAD.pack(_ED25519, 0, key.public_key().public_bytes_raw(), key.sign(prologue + metadata))


def check(key: Ed25519PublicKey, payload: bytes, prologue: bytes, metadata: bytes) -> None:
    """Raise FormatError E504 unless ``payload`` is the signature by ``key``."""
    if len(payload) != SIGNATURE_BYTES:
        raise FormatError("E504", f"the signature section has {len(payload)} bytes instead of {SIGNATURE_BYTES}")
    algorithm, _, signer, signature = _PAYLOAD.unpack(payload)
    if algorithm != _ED25519:
        raise FormatError("E504", f"the signature has algorithm {algorithm}, this release knows {_ED25519} (Ed25519)")
    if signer != key.public_bytes_raw():
        raise FormatError("E504", "the artifact is signed with another key")
    try:
        key.verify(signature, prologue + metadata)
    except InvalidSignature:
        raise FormatError("E504", "the signature does not fit the artifact: it was changed after signing") from None


def _bad_key(path: Path, what: str, why: str) -> UsageError:
    how = {"private": "openssl genpkey -algorithm ed25519", "public": "openssl pkey -in PRIVATE.pem -pubout"}
    return UsageError("E002", f"{path} is not an Ed25519 {what} key in PEM form: {why}", hint=how[what])
