"""The operators' listener: who gets in there, and what it serves."""

from sidecar.adapters.checkpoints import KeyFileProblem, read_public_keys
from sidecar.core.operators.role_tokens import RoleTokens
from sidecar.observability.metrics import Metrics
from sidecar.observability.operators import RefusalReports
from sidecar.operations.administering import Administer
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.assembly import RolloutOperations
from sidecar.rpc.admin_servicer import SERVICE as ADMIN_SERVICE
from sidecar.rpc.admin_servicer import AdminServicer
from sidecar.rpc.authorisation import CallerKind, Entrance
from sidecar.rpc.lifecycle_servicer import SERVICE as LIFECYCLE_SERVICE
from sidecar.rpc.lifecycle_servicer import LifecycleServicer
from sidecar.rpc.listeners import ListenerPlan
from sidecar.rpc.operators import OpensTokens, OperatorDoor
from sidecar.settings import Settings, SettingsProblem


def operator_plan(
    settings: Settings,
    rollout: RolloutOperations,
    administer: Administer,
    metrics: Metrics,
    clock: Clock,
    issuer: OpensTokens | None = None,
) -> ListenerPlan | None:
    """Return the listener of operators; None without keys and issuer: nobody could come in.

    Raises:
        SettingsProblem: a key cannot be read.
    """
    said = settings.operators
    if not said.keys and issuer is None:
        return None
    try:
        judge = read_public_keys(said.keys)
    except KeyFileProblem as problem:
        raise SettingsProblem([f"operators.keys: {problem}"]) from None
    door = OperatorDoor(RoleTokens(judge, said.deployment), clock, RefusalReports(metrics), issuer)
    return ListenerPlan(
        said.socket,
        Entrance(CallerKind.OPERATOR, door=door),
        (LIFECYCLE_SERVICE, ADMIN_SERVICE),
        (*LifecycleServicer(rollout, clock).methods(), *AdminServicer(administer).methods()),
        said.streams,
        settings.server.reflection,
    )
