"""What the flag backend `embedded` registers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sidecar.adapters.flags_embedded.backend import EmbeddedFlags
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import FlagBackendSpec


def _without_store(settings: Mapping[str, Any]) -> EmbeddedFlags:
    raise ValueError("only a running sidecar has the store that these flags are kept in")


EMBEDDED_FLAGS: Final = FlagBackendSpec(
    name="embedded",
    contract="flag-backend/1",
    summary="Flags in the sidecar's own store; switched by the sidecar and with `sidecar subagent flag`",
    capabilities=frozenset({"push"}),
    factory=_without_store,
)


def kept_in(store: RolloutStore, spec: FlagBackendSpec) -> FlagBackendSpec:
    """Return `spec` so that its factory uses `store`, if it is `embedded`; factories else get settings only."""
    return replace(spec, factory=lambda settings: EmbeddedFlags(store)) if spec is EMBEDDED_FLAGS else spec


@hookimpl
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer `embedded`."""
    return [EMBEDDED_FLAGS]
