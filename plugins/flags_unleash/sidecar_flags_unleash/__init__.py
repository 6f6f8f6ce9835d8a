"""The flag backend `unleash`: reads flags through Unleash's client API and switches them through its admin API."""

from sidecar_flags_unleash.backend import UnleashFlags
from sidecar_flags_unleash.settings import UnleashSettings

__all__ = ["UnleashFlags", "UnleashSettings"]
