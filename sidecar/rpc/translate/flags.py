"""Translates the state of feature flags, and the effect of switching one, to messages."""

from collections.abc import Iterable

from sidecar.core.rollout.manual_flags import FlaggedDefinition, FlagSwitched, SwitchEffect
from sidecar.operations.rollout.flags.flag_reading import DefinitionFlagsReading, FlagReading
from sidecar.rpc.translate import rollout_enums
from sidecar.rpc.translate.fields import fill_duration, fill_timestamp
from subagents.lifecycle.v1 import flags_pb2 as pb


def switch_message(switched: FlagSwitched) -> pb.FlagSwitch:
    """Return the effect of a switch."""
    return pb.FlagSwitch(
        kind=rollout_enums.FLAG_KIND[switched.kind],
        name=switched.name,
        backend=switched.backend,
        before=rollout_enums.FLAG_VALUE[switched.before],
        after=rollout_enums.FLAG_VALUE[switched.after],
        version=switched.version,
        affected=[_affected(each) for each in switched.affected],
    )


def flags_message(readings: Iterable[DefinitionFlagsReading]) -> pb.GetFlagsResponse:
    """Return the flags of a slot."""
    return pb.GetFlagsResponse(definitions=[_definition(each) for each in readings])


def _definition(reading: DefinitionFlagsReading) -> pb.DefinitionFlags:
    rollout, facts = reading.rollout, reading.facts
    message = pb.DefinitionFlags(
        slot=rollout.slot,
        revision=rollout.revision,
        definition_id=facts.definition_id,
        digest=facts.digest,
        state=rollout_enums.LIFECYCLE_STATE[facts.state],
        active=rollout.active == facts.digest,
        flag_pair=rollout_enums.flag_pair(facts),
        flags=[_flag(each) for each in reading.flags],
        writable=reading.writable,
    )
    message.backend.name, message.backend.fresh = reading.backend.name, reading.backend.fresh
    if reading.backend.age is not None:
        fill_duration(message.backend.age, reading.backend.age)
    return message


def _flag(reading: FlagReading) -> pb.NamedFlag:
    message = pb.NamedFlag(
        kind=rollout_enums.FLAG_KIND[reading.kind],
        name=reading.name,
        value=rollout_enums.FLAG_VALUE[reading.value],
        version=reading.version,
        changed_by=reading.changed_by,
        shared_with=[_shared(each) for each in reading.shared_with],
    )
    if reading.changed_at is not None:
        fill_timestamp(message.changed_at, reading.changed_at)
    return message


def _shared(each: FlaggedDefinition) -> pb.AffectedDefinition:
    """Return another definition that has the same flag."""
    facts = each.facts
    # The same message as for the effect of a switch, because a switch would affect this definition.
    return _affected(
        SwitchEffect(each.slot, facts.definition_id, facts.digest, facts.state, f"as its {each.kind} flag")
    )


def _affected(each: SwitchEffect) -> pb.AffectedDefinition:
    return pb.AffectedDefinition(
        slot=each.slot,
        definition_id=each.definition_id,
        digest=each.digest,
        state=rollout_enums.LIFECYCLE_STATE[each.state],
        explanation=each.words,
    )
