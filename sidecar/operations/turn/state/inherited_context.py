"""The context of the turn that every sub-agent of a dispatch receives. Source: PC2-FR-5a, PC2-FR-5b."""

import msgspec

from sidecar.core.binding.surface_token import SurfaceClaims
from sidecar.core.dispatching.plan import PlannedCall
from sidecar.operations.requests import DispatchRequest
from sidecar.policy.protocols import InheritedContext


def inherited_context(claims: SurfaceClaims, request: DispatchRequest) -> InheritedContext:
    """Return the user, the episode, the turn, and the orchestrator's summary of earlier turns."""
    return InheritedContext(
        principal=claims.principal,
        episode_id=claims.episode_id,
        turn_id=claims.turn_id,
        locale=claims.locale,
        location=claims.location,
        prior_context=request.prior_context,
        task_prompt=request.task_prompt,
    )


def with_context(context: InheritedContext, planned: PlannedCall) -> InheritedContext:
    """Return the context of one call's sub-agent: the call's own `prior_context` takes precedence."""
    if not planned.prior_context.strip():
        return context
    return msgspec.structs.replace(context, prior_context=planned.prior_context)
