"""The pages of the console about rollouts: the board with all slots, and one slot with its definitions and audit.

The page of a slot also explains what a user is served, and previews a ramp.
"""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from sidecar.cli.console.rollouts import cleanups, known_rollouts
from sidecar.cli.console.step_plans import PERMANENT, STEPS, possible
from sidecar.cli.console.visit import Visit
from sidecar.cli.parameters.moments import moment_of
from sidecar.cli.subagent.client import CannotOperate, OperatorExit
from sidecar.cli.subagent.output.parsing import basis_points
from sidecar.cli.subagent.views import stamp
from subagents.lifecycle.v1 import reading_pb2

HISTORY: Final = 50
"""The most audit rows on the page of a slot."""


async def board(visit: Visit) -> Response:
    """Return the page of all slots."""
    rollouts = await known_rollouts(visit)
    return visit.render("board.html", rollouts=rollouts)


async def slot(visit: Visit) -> Response:
    """Return the page of one slot. Raises `CannotOperate`: there is no such slot."""
    name = visit.request.path_params["slot"]
    rollouts, history = await asyncio.gather(known_rollouts(visit), _history(visit, name))
    status = rollouts.slot(name)
    # If the rollouts cannot be read, no slot is known; the page then shows this problem, and not "there is no slot".
    if status is None and rollouts.problem is None:
        raise CannotOperate(f"there is no slot {name[:60]}", OperatorExit.REFUSED)
    explained, preview, wrong = await _explanation_and_preview(visit, name)
    return visit.render(
        "slot.html",
        name=name,
        slot=status,
        rollouts=rollouts,
        history=history,
        explained=explained,
        preview=preview,
        wrong=wrong,
        query=visit.query,
        steps=STEPS,
        possible=possible,
        permanent=PERMANENT,
        cleanups=await cleanups(visit, status.definitions if status else ()),
    )


async def _history(visit: Visit, name: str) -> list[Any] | None:
    """Return the newest rows of the audit, newest first; None: it cannot be read."""
    try:
        # All rows of the slot are read, because the RPC cannot begin with the newest.
        return (await visit.sidecars.audit(visit.token, slot=name))[: -HISTORY - 1 : -1]
    except CannotOperate:  # the rest of the page is useful without the audit
        return None


async def _explanation_and_preview(visit: Visit, name: str) -> tuple[Any, Any, str]:
    """Return what the two forms of the page asked for (None: not asked), and the problem of one of them, if any."""
    explained = preview = None
    try:
        if visit.query("explain"):
            explain_request = reading_pb2.ExplainServingRequest(
                slot=name, principal=visit.query("user"), experiment_arm=visit.query("arm")
            )
            # Without a time, the present is explained.
            if visit.query("when"):
                explain_request.at.CopyFrom(stamp(moment_of(visit.query("when"), visit.now)))
            explained = await visit.sidecars.ask(visit.token, "ExplainServing", explain_request, name)
        if visit.query("preview"):
            points = basis_points(visit.query("ramp"))
            preview_request = reading_pb2.PreviewRampRequest(
                slot=name, digest=visit.query("digest"), ramp_basis_points=points
            )
            preview = await visit.sidecars.ask(visit.token, "PreviewRamp", preview_request, name)
    # With an explanation that was read before: a mistake in the second form must not empty the first.
    except (ValueError, CannotOperate) as problem:
        return explained, preview, str(problem)
    return explained, preview, ""
