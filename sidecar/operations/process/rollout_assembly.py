"""Connects the operations on rollouts. The composition root and the tests both call this."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from sidecar.core.identifiers import Vertical
from sidecar.operations.ports import Clock, Definitions, Ids
from sidecar.operations.record.ports import RecordReads
from sidecar.operations.rollout.audit.audit_log import LastVerdict, WatchAudit
from sidecar.operations.rollout.audit.queries import ReadActivity
from sidecar.operations.rollout.audit.refusals import RecordRefusals
from sidecar.operations.rollout.decommission.decommission_list import ReadDecommissions, WatchDecommissions
from sidecar.operations.rollout.decommission.decommission_steps import WINDOW, Decommissioning
from sidecar.operations.rollout.flags.flag_reading import ReadFlags
from sidecar.operations.rollout.flags.flag_release import ReleaseFlags
from sidecar.operations.rollout.flags.flag_switch import ManualFlagSwitch
from sidecar.operations.rollout.requests import StepAnswer, StepRequest
from sidecar.operations.rollout.steps.content_proofs import ContentProofs, Validates
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules
from sidecar.operations.rollout.steps.phases import phases_of
from sidecar.operations.rollout.steps.policy_checks import AsksPolicy, Policies, asked_at_once
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.stops.assembly import Stops, stops
from sidecar.operations.rollout.stops.local_stop import ApplyStopLocally
from sidecar.operations.rollout.store.ports import RolloutRecorder, RolloutStore, Tombstones
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.operations.rollout.views.definition_watch import RecordDefinitions
from sidecar.operations.rollout.views.explain import Explain
from sidecar.operations.rollout.views.pinned_turns import PinnedTurns
from sidecar.operations.rollout.views.preview import PreviewRamp
from sidecar.operations.rollout.views.rollout_gauges import RolloutGauges
from sidecar.operations.rollout.views.rollout_reading import ReadRollouts, ReadsFlagBackends
from sidecar.operations.rollout.views.snapshot import RolloutViews
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.policy.lifecycle import GateClient, LifecyclePolicy
from sidecar.policy.protocols import FlagWriter

if TYPE_CHECKING:
    from sidecar.operations.evaluation.ramp_evidence import RampReading, ReadRampEvidence


class RolloutPorts(Struct, frozen=True, kw_only=True):
    """Everything the rollout needs from outside.

    Attributes:
        record: reads of the record.
        validate: the validator for the present configuration.
        turns: returns the turns that this process knows; called late, because binding needs the views first.
        gate_for: the client of a vertical's gate; None: there is none, and the gate counts as on hold.
        policies_of: the policies of a vertical, by name, in the order of the settings.
        writer_of: who writes the flags of a vertical.
        ask_policy: calls one policy; a process limits the time of the call.
        serve_unflagged_at_once: a definition without a flag, alone in an empty slot, is served to every user as soon
            as it is loaded.
        turn_lifetime: the longest life of a turn, and of its surface token.
        decommission_window: the time within which a decommission must end.
    """

    store: RolloutStore
    tombstones: Tombstones
    clock: Clock
    ids: Ids
    recorder: RolloutRecorder
    definitions: Definitions
    flags: ReadsFlagBackends
    record: RecordReads
    validate: Validates
    turns: Callable[[], Iterable[Turn]]
    gate_for: Callable[[Vertical, str], GateClient | None]
    policies_of: Callable[[Vertical], Sequence[tuple[str, LifecyclePolicy]]]
    writer_of: Callable[[Vertical], FlagWriter]
    gate_rules: GateRules = field(default_factory=GateRules)
    ask_policy: AsksPolicy = asked_at_once
    serve_unflagged_at_once: bool = False
    turn_lifetime: timedelta = timedelta(minutes=15)
    decommission_window: timedelta = WINDOW


class RolloutOperations(Struct, frozen=True):
    """The operations on rollouts, and the objects that the process itself reads.

    Attributes:
        stops: kills and ramp-downs, which take effect before they are recorded; its `rollouts` is what binds read, its
            `edges` observe the flags.
    """

    take_step: ExecuteStep
    stops: Stops
    read: ReadRollouts
    explain: Explain
    preview: PreviewRamp
    watch_audit: WatchAudit
    read_activity: ReadActivity
    read_ramp_evidence: "Callable[[], Awaitable[Sequence[RampReading]]]"
    pinned: PinnedTurns
    views: RolloutViews
    definition_watch: RecordDefinitions
    gauges: RolloutGauges
    tombstones: Tombstones
    decommissions: ReadDecommissions
    watch_decommissions: WatchDecommissions
    release_flags: ReleaseFlags
    read_flags: ReadFlags
    refusals: RecordRefusals

    async def step(self, asked: StepRequest, actor: str) -> StepAnswer:
        """Take any step.

        When it returns, binds of this process use the result, or the answer warns that they do not yet.

        Raises what `ExecuteStep` raises.
        """
        # A stop must take effect in this process before it is recorded, so it takes another path than the other steps.
        holds = phases_of(asked).holds
        if holds is not None:
            return await self.stops.by_kind[holds](asked, actor)
        return await self.views.shown(await self.take_step(asked, actor))

    @property
    def loops(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """The background loops, which run as long as the process."""
        loops = (self.views.run, self.definition_watch.run, self.watch_decommissions.run, self.release_flags.run)
        return (*loops, self.refusals.run, *self.stops.loops)


def assemble_rollout(ports: RolloutPorts) -> RolloutOperations:
    """Build every operation of the rollout."""
    store, clock = ports.store, ports.clock
    views = RolloutViews(store, ports.tombstones, clock, ports.recorder)
    definition_watch = RecordDefinitions(
        ports.definitions,
        store,
        views,
        clock,
        ports.ids,
        ports.recorder,
        serve_at_once=ports.serve_unflagged_at_once,
    )
    # A bind reads cards from memory only, so they are loaded before the view that may select them.
    views.before_showing(definition_watch.fetch)
    pinned = PinnedTurns(ports.turns, ports.record, store, ports.turn_lifetime)
    views.shown_with(pinned.bound_here)
    take_step = _take_step(ports, views, pinned)
    apply_locally = ApplyStopLocally(
        store=store, tombstones=ports.tombstones, views=views, clock=clock, recorder=ports.recorder
    )
    return RolloutOperations(
        take_step=take_step,
        stops=stops(apply_locally, take_step, ports.definitions.card_by_digest),
        read=ReadRollouts(
            store=store,
            views=views,
            definitions=ports.definitions,
            flags=ports.flags,
            pinned=pinned,
            clock=clock,
            last_verdict=LastVerdict(store),
        ),
        explain=Explain(store=store, views=views, definitions=ports.definitions, flags=ports.flags, clock=clock),
        preview=PreviewRamp(store, lambda: (turn.claims.principal for turn in ports.turns())),
        watch_audit=WatchAudit(store),
        read_activity=ReadActivity(store),
        read_ramp_evidence=_evidence_reader(ports),
        pinned=pinned,
        views=views,
        definition_watch=definition_watch,
        gauges=RolloutGauges(views=views, loaded=ports.definitions, flags=ports.flags, turns=ports.turns, clock=clock),
        tombstones=ports.tombstones,
        decommissions=ReadDecommissions(store, take_step.decommissioning, pinned, clock),
        watch_decommissions=WatchDecommissions(store, views, clock, ports.recorder),
        release_flags=ReleaseFlags(store, views.current, ports.flags.current, ports.writer_of, ports.recorder),
        read_flags=ReadFlags(store, ports.flags, ports.writer_of),
        refusals=RecordRefusals(store, views.current, clock, ports.recorder),
    )


def _evidence_reader(ports: RolloutPorts) -> "Callable[[], Awaitable[Sequence[RampReading]]]":
    """Return what reads the evidence of ramps; it is imported when a watchdog first asks."""

    # Cached: the reader keeps its counts between requests, so that each fact is read once.
    @cache
    def reader() -> "ReadRampEvidence":
        from sidecar.operations.evaluation.ramp_evidence import ReadRampEvidence  # noqa: PLC0415  few deployments ask

        return ReadRampEvidence(ports.store, ports.record, ports.clock)

    async def read() -> "Sequence[RampReading]":
        return await reader()()

    return read


def _take_step(ports: RolloutPorts, views: RolloutViews, pinned: PinnedTurns) -> ExecuteStep:
    store, clock, flags = ports.store, ports.clock, ports.flags.current
    return ExecuteStep(
        store=store,
        clock=clock,
        audit_context=partial(_audit_context, ports),
        proofs=ContentProofs(ports.definitions, store, ports.validate),
        policies=Policies(ports.policies_of, store, clock, ports.recorder, ports.ask_policy),
        gates=GateEvaluator(ports.gate_rules, ports.gate_for, clock, ports.recorder),
        # Functions and not their present values: flags and views are replaced as a whole at each change.
        flags=FlagSwitching(writer_of=ports.writer_of, snapshot=flags, shown=lambda: views.current().slots),
        by_hand=ManualFlagSwitch(
            writer_of=ports.writer_of, flags=flags, killed=ports.tombstones.all, recorder=ports.recorder
        ),
        decommissioning=Decommissioning(ports.definitions, store, pinned, ports.decommission_window),
    )


def _audit_context(ports: RolloutPorts) -> AuditContext:
    catalogue = ports.definitions.current()
    if catalogue is None:
        # A step that needs no configuration, such as a kill, works before the first one is loaded.
        return AuditContext("", ())
    # Only flags that the configuration names: a backend may have thousands of others.
    mentioned = frozenset(name for card in catalogue.cards.values() for name in card.flags)
    return AuditContext(catalogue.agent_definition_version, ports.flags.current().active_flags(mentioned))
