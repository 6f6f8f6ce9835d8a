"""The kill flag of a definition that is killed: switched off, unless that kills somebody else. Source: PF1-FR-9."""

import asyncio
from typing import Final

from sidecar.core.rollout.facts import DefinitionFacts, FlagPair
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import sharing_flag
from sidecar.operations.rollout.stops.stop_first import StopParts

LONGEST_SWITCH: Final = 2.0
"""Seconds for the flag's backend."""

Beside = tuple[tuple[str, ...], bool]
"""What a person has to do instead, and whether the flag is off now."""
NOTHING: Final[Beside] = ((), False)


def is_shared(parts: StopParts, facts: DefinitionFacts) -> bool:
    """Say whether the fall of a definition's kill flag would kill another one, which nobody asked for."""
    return facts.flag is not None and bool(sharing_flag(parts.views.current().slots, facts))


async def flag_off(parts: StopParts, facts: DefinitionFacts, actor: str) -> Beside:
    """Switch the kill flag off. Never raises."""
    created = facts.flags in {FlagPair.CREATED, FlagPair.ON}
    if facts.flag is None or not created or facts.state is LifecycleState.ROLLBACK:
        return NOTHING
    try:
        writer = parts.writer_of(facts.vertical)
        edit = writer.edit_for(facts.flag, False)
        if edit:
            return (edit,), False
        async with asyncio.timeout(LONGEST_SWITCH):
            await writer.switch(facts.flag, False, actor)
    except Exception as error:  # noqa: BLE001  the border to a backend: whatever it does, the kill goes on
        parts.recorder.anomaly("kill_flag_not_off", f"{facts.flag}: {type(error).__name__}")
        return NOTHING
    return (), True
