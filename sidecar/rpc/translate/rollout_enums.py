"""Maps proto enums about rollouts to the sidecar's values and back; a test checks that each table is complete.

Separate from the other enums, so that a sidecar without operators does not load these messages.
"""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.core.flag_states import FlagValue
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus, Subject
from sidecar.core.rollout.events import GateVerdict
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, RolloutMode
from sidecar.core.rollout.manual_flags import FlagKind
from sidecar.core.rollout.states import LifecycleState, Trigger
from sidecar.rpc.translate.enums import names_of, numbers_by_word, numbers_of, values_of
from subagents.lifecycle.v1 import flags_pb2, reading_pb2

LIFECYCLE_STATE: Final = numbers_of(reading_pb2.LifecycleState, "LIFECYCLE_STATE", LifecycleState)
LIFECYCLE_STATES: Final = values_of(LIFECYCLE_STATE)
LIFECYCLE_NAMES: Final = names_of(reading_pb2.LifecycleState)
ROLLOUT_MODE: Final = numbers_of(reading_pb2.RolloutMode, "ROLLOUT_MODE", RolloutMode)
ROLLOUT_MODES: Final = values_of(ROLLOUT_MODE)
ROLLOUT_MODE_NAMES: Final = names_of(reading_pb2.RolloutMode)
FLAG_PAIR: Final[Mapping[FlagPair, Any]] = {
    FlagPair.ON: reading_pb2.FLAG_PAIR_SWITCHED_ON,
    **numbers_of(reading_pb2.FlagPair, "FLAG_PAIR", [each for each in FlagPair if each is not FlagPair.ON]),
}
"""The stage of the flags, not their values: `on` would be shown next to flags that are off."""
FLAG_KIND: Final = numbers_of(flags_pb2.FlagKind, "FLAG_KIND", FlagKind)
FLAG_KINDS: Final = values_of(FLAG_KIND)
FLAG_VALUE: Final = numbers_of(reading_pb2.FlagValue, "FLAG_VALUE", FlagValue)
CLEANUP_STEP: Final = numbers_of(reading_pb2.CleanupStep, "CLEANUP_STEP", CleanupStep)
CLEANUP_STEPS: Final = values_of(CLEANUP_STEP)
CLEANUP_SUBJECTS: Final = values_of(numbers_of(reading_pb2.CleanupSubject, "CLEANUP_SUBJECT", Subject))
CLEANUP_CHOICE: Final = numbers_of(reading_pb2.CleanupChoice, "CLEANUP_CHOICE", Choice)
CLEANUP_CHOICES: Final = values_of(CLEANUP_CHOICE)
CODE_STATUS: Final = numbers_of(reading_pb2.CodeStatus, "CODE_STATUS", CodeStatus)
CODE_STATUSES: Final[Mapping[int, CodeStatus | None]] = {
    reading_pb2.CODE_STATUS_UNSPECIFIED: None,
    **values_of(CODE_STATUS),
}
"""Unspecified for steps without code."""
TRIGGER: Final = numbers_of(reading_pb2.Trigger, "TRIGGER", Trigger)
GATE_VERDICT: Final = numbers_of(reading_pb2.GateVerdict, "GATE_VERDICT", GateVerdict)
ROLLOUT_EVENT_KIND: Final = numbers_by_word(reading_pb2.RolloutEventKind, "ROLLOUT_EVENT_KIND")
DECOMMISSION_EVENT_KIND: Final = numbers_by_word(reading_pb2.DecommissionEventKind, "DECOMMISSION_EVENT_KIND")
ACTOR_ROLE: Final = numbers_by_word(reading_pb2.ActorRole, "ACTOR_ROLE")


def flag_pair(facts: DefinitionFacts) -> Any:
    """Return the stage of a definition's flags."""
    return reading_pb2.FLAG_PAIR_WITHDRAWN if facts.withdrawn else FLAG_PAIR[facts.flags]
