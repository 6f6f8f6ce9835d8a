"""Whom `sidecar subagent rollback --to …` means, of the definitions of a slot."""

from typing import Any

from sidecar.cli.output.drawing import clean
from sidecar.cli.subagent.client import CannotOperate, OperatorExit
from sidecar.cli.subagent.steps import Found
from sidecar.core.rollout.remedies import NOBODY
from subagents.lifecycle.v1 import reading_pb2 as pb


def successor(found: Found, to: str) -> tuple[str, dict[str, Any]]:
    """Return who serves after a rollback, in words and as fields of the request.

    Whether that one can serve says the sidecar; of several digests of one id the one is meant that was active before.

    Args:
        found: what is rolled back, and its slot.
        to: an id, a digest, or `none`.

    Raises:
        CannotOperate: the slot has none such, or several.
    """
    if to == NOBODY:
        return "nobody takes its place, until one is activated", {"leave_empty": True}
    named = [each for each in found.slot.definitions if to in {each.definition_id, each.digest}]
    live = [each for each in named if each.state == pb.LIFECYCLE_STATE_PROMOTE and each.HasField("activated_at")]
    meant = live or named
    if len(meant) == 1:
        return f"{clean(meant[0].definition_id)} takes its place", {"target_digest": meant[0].digest}
    said = f"has several definitions {clean(to)}" if meant else f"has no definition {clean(to)}"
    has = ", ".join(f"{clean(each.definition_id)} {clean(each.digest)}" for each in meant or found.slot.definitions)
    raise CannotOperate(
        f"{clean(found.slot.slot)} {said}: {has}",
        OperatorExit.NOT_ASKED,
        advice=f"give --to one of these digests, or --to {NOBODY}",
    )
