"""The flag backend `openfeature`: reads flags from any OpenFeature provider; bucketing stays with the sidecar."""

from sidecar_flags_openfeature.backend import OpenFeatureFlags
from sidecar_flags_openfeature.settings import OpenFeatureSettings

__all__ = ["OpenFeatureFlags", "OpenFeatureSettings"]
