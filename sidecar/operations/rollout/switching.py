"""Switches the flags that a step needs, or says what a person has to change first. Source: PF1-D-7, PF1-D-20, PF1-D-35.

Flags are switched before the change is written: with the ramp still where it was nobody is served by that, and a step
that fails half-way can be repeated.
"""

from collections.abc import Callable, Mapping
from typing import Final

from sidecar.core.binding.flags import FlagSnapshot, FlagValue
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair
from sidecar.core.rollout.stepping import Change
from sidecar.operations.rollout.ports import FlagWriter

WANTED: Final[Mapping[FlagPair, bool]] = {FlagPair.CREATED: False, FlagPair.ON: True}


class FlagSwitching:
    """Knows which backend's flags can be written.

    Args:
        writer_of: for a vertical's backend.
        snapshot: of all flags, as last fetched.
    """

    def __init__(self, writer_of: Callable[[Vertical], FlagWriter], snapshot: Callable[[], FlagSnapshot]) -> None:
        """Join the parts."""
        self._writer_of = writer_of
        self._snapshot = snapshot

    async def prepare(self, change: Change, before: DefinitionFacts, actor: str) -> tuple[str, ...]:
        """Set the flags as the change needs them; returns what a person has to change first, one edit a line.

        Raises:
            StoreUnavailable: a flag could not be switched; nothing else was done.
        """
        after = change.rollout.definitions[before.digest]
        if after.flags is before.flags or after.flags not in WANTED:
            return ()
        on, writer = WANTED[after.flags], self._writer_of(after.vertical)
        edits = []
        for name in (after.flag, after.cohort_flag):
            if name is None or (on and self._snapshot().value(name, after.vertical) is FlagValue.ON):
                continue
            edit = writer.edit_for(name, on)
            if not edit:
                await writer.switch(name, on, actor)
            elif on:  # one that is to be created off is off already where nobody has created it
                edits.append(edit)
        return tuple(edits)
