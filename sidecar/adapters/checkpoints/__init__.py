"""Ed25519 keys, and the file of signed checkpoints."""

from sidecar.adapters.checkpoints.checkpoint_file import CheckpointFile
from sidecar.adapters.checkpoints.keys import (
    Ed25519Judge,
    Ed25519Signer,
    KeyFileProblem,
    key_id_of,
    public_key_file,
    read_or_make_signer,
    read_public_keys,
    read_public_keys_in,
    read_signer,
)

__all__ = [
    "CheckpointFile",
    "Ed25519Judge",
    "Ed25519Signer",
    "KeyFileProblem",
    "key_id_of",
    "public_key_file",
    "read_or_make_signer",
    "read_public_keys",
    "read_public_keys_in",
    "read_signer",
]
