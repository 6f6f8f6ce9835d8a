"""The dependencies of `sidecar token`."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from sidecar.adapters.checkpoints import Ed25519Signer, KeyFileProblem, read_or_make_signer
from sidecar.adapters.system import SystemClock, SystemIds
from sidecar.cli.token_command import KeyUnusable, TokenTools
from sidecar.composition.operators.keys import read_operator_keys
from sidecar.core.operators.key_limits import KeyLimits
from sidecar.settings import SettingsProblem, read_settings

NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})


def token_tools(variables: Mapping[str, str] = NO_VARIABLES) -> TokenTools:
    """Return the dependencies; `variables` override settings from the file."""
    return TokenTools(_signer, SystemClock().now, lambda: SystemIds().new("token"), partial(_limits, variables))


def _signer(file: Path, make: bool) -> Ed25519Signer:
    # A mistyped path must not create a key, whose tokens no sidecar would accept.
    if not make and not file.exists():
        raise KeyUnusable(f"{file} is not there; `sidecar token key --key {file}` makes one")
    try:
        return read_or_make_signer(file)
    except KeyFileProblem as problem:
        raise KeyUnusable(str(problem)) from None


def _limits(variables: Mapping[str, str], config: Path, key_id: str) -> KeyLimits | None:
    try:
        return read_operator_keys(read_settings(config, variables).operators).limits.get(key_id)
    except SettingsProblem as problem:
        raise KeyUnusable(str(problem)) from None
