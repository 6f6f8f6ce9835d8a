"""The operators' listener: who gets in there, and what it serves."""

from sidecar.composition.operators.keys import read_operator_keys
from sidecar.core.operators.role_tokens import RoleTokens
from sidecar.observability.metrics import Metrics
from sidecar.observability.operators import RefusalReports
from sidecar.operations.ports import Clock
from sidecar.operations.process.administration import Administer
from sidecar.operations.process.rollout_assembly import RolloutOperations
from sidecar.rpc.admin_servicer import SERVICE as ADMIN_SERVICE
from sidecar.rpc.admin_servicer import AdminServicer
from sidecar.rpc.authorisation import CallerKind, Entrance
from sidecar.rpc.lifecycle_servicer import SERVICE as LIFECYCLE_SERVICE
from sidecar.rpc.lifecycle_servicer import LifecycleServicer
from sidecar.rpc.listeners import ListenerPlan
from sidecar.rpc.operators import OpensTokens, OperatorDoor
from sidecar.rpc.refused_steps import NoteRefusedCalls
from sidecar.settings import Settings


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
    keys, reports = read_operator_keys(said), RefusalReports(metrics)
    if not keys.limits and issuer is None:
        return None
    if keys.anybody_beside_others:
        reports.keys_without_limits(keys.anybody_beside_others)
    tokens = RoleTokens(keys.judge, said.deployment, keys.limits)
    door = OperatorDoor(tokens, clock, reports, NoteRefusedCalls(rollout.refusals), issuer)
    return ListenerPlan(
        said.socket,
        Entrance(CallerKind.OPERATOR, door=door),
        (LIFECYCLE_SERVICE, ADMIN_SERVICE),
        (*LifecycleServicer(rollout, clock, reports).methods(), *AdminServicer(administer).methods()),
        said.streams,
        settings.server.reflection,
    )
