"""The flag backend `embedded`: flags in the sidecar's own store, beside the rollouts that they gate."""

from sidecar.adapters.flags_embedded.backend import EmbeddedFlags
from sidecar.adapters.flags_embedded.plugin import EMBEDDED_FLAGS, kept_in, sidecar_flag_backends
from sidecar.adapters.flags_embedded.writer import EmbeddedFlagWriter

__all__ = ["EMBEDDED_FLAGS", "EmbeddedFlagWriter", "EmbeddedFlags", "kept_in", "sidecar_flag_backends"]
