"""Registers flag backend `openfeature`."""

from collections.abc import Mapping, Sequence
from typing import Any

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec
from sidecar_flags_openfeature.backend import OpenFeatureFlags
from sidecar_flags_openfeature.settings import SCHEMA, settings_from


def openfeature_flags(settings: Mapping[str, Any]) -> OpenFeatureFlags:
    """Return a backend. Raises `ValueError`."""
    return OpenFeatureFlags(settings_from(settings))


@hookimpl
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `openfeature`."""
    return [
        FlagBackendSpec(
            name="openfeature",
            contract="flag-backend/1",
            summary="Flags of any OpenFeature provider, such as flagd or OFREP; percentages are read, never bucketed",
            config_schema=SCHEMA,
            capabilities=frozenset({"push"}),
            factory=openfeature_flags,
        )
    ]
