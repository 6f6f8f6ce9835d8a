"""What `sidecar token` does its work with."""

from pathlib import Path

from sidecar.adapters.checkpoints import Ed25519Signer, KeyFileProblem, read_or_make_signer
from sidecar.adapters.system import SystemClock, SystemIds
from sidecar.cli.token_command import KeyUnusable, TokenTools


def token_tools() -> TokenTools:
    """Return them."""
    return TokenTools(_signer, SystemClock().now, lambda: SystemIds().new("token"))


def _signer(file: Path, make: bool) -> Ed25519Signer:
    if not make and not file.exists():
        raise KeyUnusable(f"{file} is not there; `sidecar token key --key {file}` makes one")
    try:
        return read_or_make_signer(file)
    except KeyFileProblem as problem:
        raise KeyUnusable(str(problem)) from None
