"""Records refused steps of rollouts in the audit, also those that were refused before their request was parsed."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.message import DecodeError

from sidecar.core.errors import SubagentsError
from sidecar.core.identifiers import DEFINITION_SIDE, RUN_SIDE, DefinitionId, Slot
from sidecar.core.operators.role_tokens import Caller
from sidecar.operations.rollout.audit.refusals import RecordRefusals, RefusedStep
from sidecar.operations.rollout.requests import StepRequest
from sidecar.rpc.methods import Call
from sidecar.rpc.operators import ROLES_OF
from sidecar.rpc.translate.steps import LONGEST_REASON
from subagents.lifecycle.v1 import lifecycle_pb2 as pb


def _request_of(method: str) -> Any:
    """Return the request type of a step; None for other methods."""
    request = getattr(pb, f"{_verb(method)}Request", None)
    return request if request is not None and "header" in request.DESCRIPTOR.fields_by_name else None


def _verb(method: str) -> str:
    """Return the name of a method without its service, e.g. `SetRamp`."""
    return method.rpartition("/")[2]


STEPS: Final[Mapping[str, Any]] = MappingProxyType(
    {method: _request_of(method) for method in ROLES_OF if _request_of(method) is not None}
)
"""The requests that change a definition, by full method name."""


class RecordRefusedCalls:
    """Records a refused call if it would have been a step of a rollout.

    Args:
        refusals: records them in the audit.
    """

    def __init__(self, refusals: RecordRefusals) -> None:
        self._refusals = refusals

    def __call__(self, method: str, raw: bytes, caller: Caller, why: str) -> None:
        """Record a refused call.

        Args:
            method: its full name.
            raw: its request, which was neither parsed nor checked.
            caller: the subject and the key of the token.
            why: the reason of the refusal and its message.
        """
        request = STEPS.get(method)
        if request is None:
            return
        try:
            header: pb.StepHeader = request.FromString(raw).header
        # Bytes that are no request name no definition, so no audit can have them.
        except DecodeError:
            return
        # The request was not checked, so each text is checked here before it enters the audit. A dry run changes
        # nothing, and a call without a definition belongs to no audit.
        slot_is_valid = not header.slot or DEFINITION_SIDE.match(header.slot)
        if header.dry_run or not slot_is_valid or not DEFINITION_SIDE.match(header.definition_id):
            return
        self._refusals.note(
            RefusedStep(
                verb=_verb(method),
                asked=StepRequest(
                    definition_id=DefinitionId(header.definition_id),
                    slot=Slot(header.slot),
                    # An invalid id is left out, and the refusal is still recorded.
                    request_id=header.request_id if RUN_SIDE.match(header.request_id) else "",
                    # On one line and cut: a checked reason has the same form.
                    reason=" ".join(header.reason[:LONGEST_REASON].split()),
                    actor_key=caller.key,
                    actor_role=caller.role or "",
                ),
                actor=caller.sub,
                why=why,
            )
        )


def note_refused_step(
    refusals: RecordRefusals, verb: str, asked: StepRequest, call: Call, refused: SubagentsError
) -> None:
    """Record a step that was refused before the rules of rollouts saw it, although its caller was admitted.

    A dry run records nothing.
    """
    if asked.dry_run:
        return
    why = f"{refused.reason}: {refused.message}"
    refusals.note(RefusedStep(verb=verb, asked=asked, actor=call.subject, why=why))
