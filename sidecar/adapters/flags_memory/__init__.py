"""The flag backend `memory`: a fixed set of flags from the settings, or set by a program; for demos and tests."""

from sidecar.adapters.flags_memory.backend import FlagFault, MemoryFlags
from sidecar.adapters.flags_memory.plugin import MEMORY_FLAGS, sidecar_flag_backends
from sidecar.adapters.flags_memory.writer import FlagsInTheSettings, MemoryFlagWriter

__all__ = [
    "MEMORY_FLAGS",
    "FlagFault",
    "FlagsInTheSettings",
    "MemoryFlagWriter",
    "MemoryFlags",
    "sidecar_flag_backends",
]
