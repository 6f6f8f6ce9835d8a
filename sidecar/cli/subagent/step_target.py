"""Finds the definition of a step by id, slot and digest, in the rollouts that are read before the step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.parsing import is_named, is_short
from subagents.lifecycle.v1 import reading_pb2 as pb

UNPROMOTED: Final = frozenset({pb.LIFECYCLE_STATE_DEV, pb.LIFECYCLE_STATE_TEST})
"""States before the promotion."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """The options that all steps share.

    Attributes:
        name: the id of the definition; `end-turn` and `drain` use it for a turn, or not at all.
        request_id: identifies the step, so that it is taken once; empty: a new id.
        slot: empty: the first slot that has the definition.
        digest: of the definition, or its beginning; empty: as `find_target` chooses.
        revision: the expected revision; None: the one that is read now.
        wait: wait until every replica shows the change, at most for `patience`.
    """

    name: str
    reason: str
    request_id: str = ""
    slot: str = ""
    digest: str = ""
    revision: int | None = None
    dry_run: bool = False
    yes: bool = False
    wait: bool = False
    patience: timedelta = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class StepTarget:
    """The slot and the definition of a step, as read before it.

    Attributes:
        chosen: whether the command chose another definition than the sidecar would choose for the id.
    """

    slot: pb.SlotStatus
    definition: pb.DefinitionStatus
    chosen: bool = False


def find_target(client: OperatorClient, options: StepOptions) -> StepTarget:
    """Return the definition that the sidecar would choose: of several with this id the active one, else the newest.

    Raises:
        CannotOperate: no definition has this id, or the digest fits none or several.
    """
    for slot in client.ask_all("ListRollouts", pb.ListRolloutsRequest(), "slots").slots:
        # An id may be in several slots; without --slot, the first slot in the order of their names decides.
        if options.slot not in {"", slot.slot}:
            continue
        named = [each for each in slot.definitions if each.definition_id == options.name]
        matching = [each for each in named if is_named(each.digest, options.digest)]
        # The definitions of a slot are listed oldest first.
        if len(matching) == 1 or (matching and not options.digest):
            return StepTarget(slot, ([each for each in matching if each.active] or matching)[-1])
        if named:
            several = "several definitions" if matching else "no definition"
            raise CannotOperate(
                f"the slot {clean(slot.slot)} has {several} {clean(options.name)} with the digest"
                f" {clean(options.digest)}; it has: {digests_of(matching or named)}; at revision {slot.revision}"
                " (REVISION_CONFLICT)",
                OperatorExit.REFUSED,
                "REVISION_CONFLICT",
                advice="nothing changed; give --digest one of these",
            )
    raise CannotOperate(
        f"no rollout has a matching definition {options.name} (UNKNOWN_DEFINITION)",
        OperatorExit.REFUSED,
        "UNKNOWN_DEFINITION",
        advice="`sidecar subagent list` shows the known definitions",
    )


def digests_of(definitions: Sequence[pb.DefinitionStatus]) -> str:
    """Return the digests of definitions in one line."""
    return ", ".join(clean(each.digest) for each in definitions)


def refuse_short(digest: str) -> None:
    """Refuse the beginning of a digest in a command that reads nothing by which it could be completed."""
    # The sidecar compares whole digests, so it would answer that there is no such definition.
    if is_short(digest):
        raise CannotOperate(
            f"{clean(digest)} is only the beginning of a digest, and this command does not look it up",
            OperatorExit.NOT_ASKED,
            advice="give the whole digest, as `sidecar subagent show` prints it",
        )


def to_promote(target: StepTarget) -> StepTarget:
    """Return the definition that `promote` means: of several with this id, the configured one that is not promoted yet.

    After a major change in place, two definitions have the id: the recorded one, which serves, and the new one. The
    choice is safe: the recorded one cannot be promoted again, and the new one serves no user after a promotion (0 %).
    """
    if target.definition.state in UNPROMOTED:
        return target
    for each in target.slot.definitions:
        same_id = each.definition_id == target.definition.definition_id
        if same_id and each.in_configuration and each.state in UNPROMOTED:
            return replace(target, definition=each, chosen=True)
    return target
