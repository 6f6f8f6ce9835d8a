"""Contradictions between the recorded rollout, the configuration and the flags. Source: PF1-D-2, TN-71.

The recorded rollout decides. A contradiction is shown to operators; the sidecar does not repair it.
"""

from collections.abc import Iterator

from sidecar.core.flag_states import FlagValue
from sidecar.core.rollout.bucketing import WHOLE
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, RolloutMode, SlotRollout
from sidecar.core.rollout.serving import FlagReader
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import sharing_flag

BEFORE_PROMOTE = frozenset({LifecycleState.DEV, LifecycleState.TEST})


def drifts_of(
    rollout: SlotRollout, facts: DefinitionFacts, flags: FlagReader, *, configured: bool, deprecated: bool
) -> Iterator[str]:
    """Yield one sentence for each contradiction to the recorded state of a definition.

    Args:
        rollout: the recorded rollout of the slot.
        facts: the recorded facts of the definition.
        flags: the values of flags, as last fetched.
        configured: whether the present configuration has exactly this digest.
        deprecated: whether its entry in the configuration has the status `deprecated`.
    """
    active = rollout.active == facts.digest
    place = "active" if active else "the recorded target" if rollout.target == facts.digest else ""
    if place and not configured:
        yield f"it is {place}, and the configuration does not have it any more; the stored copy is served"
    if place and deprecated:
        yield f"it is {place}, and its entry is marked deprecated: it serves no user"
    if active and rollout.mode is RolloutMode.FULL and facts.ramp < WHOLE:
        yield f"the rollout mode is full, and the ramp is {facts.ramp / 100:g} %"
    if facts.flag_dropped and configured and facts.state is not LifecycleState.ROLLBACK:
        yield (
            f"its entry no longer names {facts.flag}, which still gates it: name the flag again, or retire it at 100 %"
            " (`sidecar subagent retire-flags`)"
        )
    if facts.gated:
        yield from _flag_drifts(facts, flags, shared=bool(sharing_flag({rollout.slot: rollout}, facts)))
    elif facts.flag is not None and configured:
        yield f"its flags are retired, and its entry still names {facts.flag}: switching this flag has no effect"


def _flag_drifts(facts: DefinitionFacts, flags: FlagReader, *, shared: bool) -> Iterator[str]:
    names = (str(facts.flag), str(facts.cohort_flag))
    # Unreachable flags are neither on nor off: nothing is reported about them.
    kill, cohort = values = [flags.value(name, facts.vertical) for name in names]
    on = [name for name, value in zip(names, values, strict=True) if value is FlagValue.ON]
    switched_on = facts.flags is FlagPair.ON and facts.state is LifecycleState.PROMOTE
    if switched_on and kill is FlagValue.OFF:
        yield f"the rollout switched its flags on, but {facts.flag} is off: it serves no user"
    if switched_on and cohort is FlagValue.OFF:
        yield f"the rollout switched its flags on, but {facts.cohort_flag} is off: it serves no user"
    # A shared flag may be on for the other definition, which is no contradiction. Nor must the advice below be followed
    # for it: switching it off would kill the other one.
    if facts.flags is not FlagPair.ON and on and not shared:
        todo = "; it serves no user until it is promoted and ramped" if facts.state in BEFORE_PROMOTE else ""
        yield f"its flag {on[0]} is on, and the rollout has not switched it on; it is in {facts.state}{todo}"
    if facts.state is LifecycleState.ROLLBACK and facts.flags is FlagPair.ON and on and not shared:
        still, them = (f"its flag {on[0]} is", "it") if len(on) == 1 else (f"its flags {' and '.join(on)} are", "them")
        todo = (
            f"it serves no user; if the sidecar can, it switches {them} off within seconds; if this line stays, switch "
            f"{them} off by hand"
        )
        yield f"it is in rollback, and {still} still on: {todo}"
