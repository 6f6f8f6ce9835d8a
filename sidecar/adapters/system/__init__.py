"""Time, randomness, ids, tasks and secrets of the real system; the simulation has its own."""

from sidecar.adapters.system.entropy import SystemClock, SystemIds, SystemRandomness
from sidecar.adapters.system.secret_files import SecretFileProblem, read_or_make_secret, read_secret, read_secrets
from sidecar.adapters.system.supervisor import LoopEnded, LoopObserver, Supervisor, reduce_gc_frequency
from sidecar.adapters.system.tasks import OffLoop, OwnedTasks, closed

__all__ = [
    "LoopEnded",
    "LoopObserver",
    "OffLoop",
    "OwnedTasks",
    "SecretFileProblem",
    "Supervisor",
    "SystemClock",
    "SystemIds",
    "SystemRandomness",
    "closed",
    "read_or_make_secret",
    "read_secret",
    "read_secrets",
    "reduce_gc_frequency",
]
