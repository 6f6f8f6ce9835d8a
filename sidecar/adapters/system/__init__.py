"""Time, chance, ids, tasks and secrets of the real world; the simulation has its own."""

from sidecar.adapters.system.entropy import SystemChance, SystemClock, SystemIds
from sidecar.adapters.system.secret_files import SecretFileProblem, read_or_make_secret, read_secret
from sidecar.adapters.system.supervisor import LoopEnded, LoopObserver, Supervisor, look_for_garbage_less_often
from sidecar.adapters.system.tasks import OffLoop, OwnedTasks

__all__ = [
    "LoopEnded",
    "LoopObserver",
    "OffLoop",
    "OwnedTasks",
    "SecretFileProblem",
    "Supervisor",
    "SystemChance",
    "SystemClock",
    "SystemIds",
    "look_for_garbage_less_often",
    "read_or_make_secret",
    "read_secret",
]
