"""Registers flag backend `unleash`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec
from sidecar_flags_unleash.backend import UnleashFlags
from sidecar_flags_unleash.settings import SCHEMA, settings_from


def unleash_flags(settings: Mapping[str, Any]) -> UnleashFlags:
    """Return a backend. Raises `ValueError`, `OSError`."""
    return UnleashFlags(settings_from(settings))


@hookimpl
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `unleash`."""
    return [
        FlagBackendSpec(
            name="unleash",
            contract="flag-backend/1",
            summary="Flags of an Unleash server; switched by the sidecar where it has an admin token",
            config_schema=SCHEMA,
            capabilities=frozenset({"push", "switch"}),
            factory=unleash_flags,
        )
    ]
