"""Connects the operations on turns to each other.

The composition root and the simulation both call this, so the simulation runs the same objects as production.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Surface
from sidecar.core.binding.surface_token import SigningKeys
from sidecar.core.definitions.cards.card import Card
from sidecar.core.executing.retries import Breakers
from sidecar.core.identifiers import Digest
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.evaluation.record_score import RecordScore
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper
from sidecar.operations.history.capture import HistoryCapture
from sidecar.operations.history.catch_up import HistoryCatchUp
from sidecar.operations.history.episode_facts import CompactionFacts, EpisodeFacts, SizeBounds
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.operations.history.read_history import HistoryAccess, ReadEpisode, ReadOwnTurns
from sidecar.operations.history.write_summary import WriteSummary
from sidecar.operations.plugin_calls import PluginCalls, hung_reports
from sidecar.operations.ports import (
    Clock,
    Connectors,
    Definitions,
    Ids,
    Randomness,
    Recorder,
    RunInThread,
    Runners,
    Spawner,
    run_inline,
)
from sidecar.operations.record.hints import NotifyingStore, RecordHints
from sidecar.operations.record.ports import Store
from sidecar.operations.record.read_record import ExportReplay, ReadRecord
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.bind_turn import BindingState, BindTurn
from sidecar.operations.turn.child.call_tool import CallTool
from sidecar.operations.turn.child.child_reports import ChildReports, ReportFiles
from sidecar.operations.turn.child.connector_boundary import ConnectorBoundary
from sidecar.operations.turn.child.dependencies import QuestionDesk, TurnDependencies
from sidecar.operations.turn.child.run_child import RunChild
from sidecar.operations.turn.child.send_effect import SendEffect
from sidecar.operations.turn.control_dispatch import CancelCall, ResumeDispatch
from sidecar.operations.turn.daily_calls import CallCounts, DailyCalls, RecordedCallCounts
from sidecar.operations.turn.delegate import Delegate
from sidecar.operations.turn.dispatch_calls import DispatchCalls, DispatchRecovery
from sidecar.operations.turn.end_turn import EndTurn
from sidecar.operations.turn.end_turn_for_operator import EndTurnForOperator
from sidecar.operations.turn.execute_dispatch import ExecuteDispatch
from sidecar.operations.turn.find_turn import FetchCard, FindTurn
from sidecar.operations.turn.orphans import SettleOrphans
from sidecar.operations.turn.reaper import Reaper
from sidecar.operations.turn.restore_turn import RestoreTurn
from sidecar.operations.turn.settle_child import CloseChild
from sidecar.operations.turn.spending import Spending
from sidecar.operations.turn.state.concurrency_limit import DispatchPlaces
from sidecar.operations.turn.state.grants import GrantTable
from sidecar.operations.turn.state.open_turns import Turns
from sidecar.operations.turn.state.tracing import NO_TRACING, Tracing
from sidecar.operations.turn.takeover import TakeOver
from sidecar.policy.memory import EpisodeMemory

if TYPE_CHECKING:
    from sidecar.operations.turn.continuing import ContinueWork


async def without_memory(digest: Digest) -> Card | None:
    """Return None: only the cards of the present configuration exist."""
    return None


class Ports(Struct, frozen=True):
    """Everything that the operations need from other systems.

    Attributes:
        fetch_card: returns a card that may have to be read; None: it is not stored. Raises `StoreUnavailable`.
        cohorts: receives the cohort of each bound turn.
        call_counts: counts the calls that principals have left today; None: the store is used.
        memory_is_own: the memory is one of the sidecar's own; one of a plugin may ignore cancellation.
    """

    clock: Clock
    ids: Ids
    chance: Randomness
    spawner: Spawner
    store: Store
    recorder: Recorder
    definitions: Definitions
    flags: FlagSnapshotKeeper
    runners: Runners
    connectors: Connectors
    memory: EpisodeMemory
    rollouts: Callable[[], RolloutView]
    fetch_card: FetchCard = without_memory
    tracing: Tracing = NO_TRACING
    off_loop: RunInThread = run_inline
    reports: ReportFiles | None = None
    # A record that no other process shares needs no lease: these two never change.
    lease_held: Callable[[], bool] = lambda: True
    lease_term: Callable[[], int] = lambda: 0
    cohorts: Callable[[Cohort], None] = lambda _: None
    call_counts: CallCounts | None = None
    memory_is_own: bool = True


class HistoryOperations(Struct, frozen=True):
    """The operations on history and on the record, and the queue of turns that are not stored yet."""

    read_episode: ReadEpisode
    write_summary: WriteSummary
    read_own_turns: ReadOwnTurns
    captures: HistoryCapture
    catch_up: HistoryCatchUp
    memory: BoundedMemory
    record: ReadRecord
    export_replay: ExportReplay
    record_score: RecordScore


class Operations(Struct, frozen=True):
    """The operations that callers can request, and the objects that the process itself reads."""

    bind_turn: BindTurn
    dispatch_calls: DispatchCalls
    resume_dispatch: ResumeDispatch
    cancel_call: CancelCall
    close_child: CloseChild
    end_turn: EndTurn
    end_turn_for_operator: EndTurnForOperator
    call_tool: CallTool
    delegate: Delegate
    history: HistoryOperations
    turns: Turns
    grants: GrantTable
    binding: BindingState
    reaper: Reaper
    orphans: SettleOrphans
    breakers: Breakers

    @property
    def loops(self) -> tuple[Callable[[], Coroutine[Any, Any, None]], ...]:
        """The background loops, which run as long as the process."""
        return (self.reaper.run, self.orphans.run, self.history.catch_up.run)


def assemble(rules: DispatchRules, keys: SigningKeys, ports: Ports, grants: GrantTable | None = None) -> Operations:
    """Build every operation.

    Args:
        rules: the operator's settings.
        keys: sign surface tokens and receipts of questions.
        ports: everything from other systems.
        grants: given if an in-process runner must share it; otherwise a new table.
    """
    grants = grants or GrantTable(ports.ids, ports.lease_held, ports.lease_term)
    hints = RecordHints()
    # For the appends of turns: their watchers would otherwise wait for the next poll. Scores are appended without it.
    store = NotifyingStore(ports.store, hints)
    dependencies = _dependencies(ports, store, grants, QuestionDesk(keys, rules.question_lifetime))
    turns = Turns(ports.clock, ports.definitions, keys, rules)
    # Readers get the plain store: only appends notify.
    facts = EpisodeFacts(ports.store, ports.recorder, rules.episode_lookup_timeout, rules.episodes_cached)
    compaction, history = _history(rules, ports, grants, hints, turns)
    binding = BindingState(keys, facts, compaction, ports.rollouts, partial(_report_surface, ports))
    restore = RestoreTurn(rules, dependencies)
    find = FindTurn(turns, restore, ports.fetch_card)
    run_child, spending = RunChild(rules, dependencies), Spending(rules, dependencies)
    execute = ExecuteDispatch(dependencies, run_child, spending)
    continue_work = partial(_continue_work, store, ports.clock, keys, rules.record_timeout.total_seconds())
    take_over = TakeOver(rules, dependencies, restore, execute, turns, continue_work)
    recovery = DispatchRecovery(find, restore, take_over, continue_work)
    end_turn = EndTurn(rules, dependencies, turns, history.captures, find=find, restore=restore)
    # Set afterwards, because the two need each other.
    turns.gives_up_by(end_turn.give_up)
    counts = ports.call_counts or RecordedCallCounts(ports.store, ports.clock, rules.record_timeout)
    return Operations(
        bind_turn=BindTurn(rules, ports.clock, ports.definitions, ports.flags, turns, binding),
        dispatch_calls=DispatchCalls(
            rules, dependencies, recovery, facts, execute, turns, DailyCalls(counts), _places(rules, ports)
        ),
        resume_dispatch=ResumeDispatch(recovery),
        cancel_call=CancelCall(rules, dependencies, recovery),
        close_child=CloseChild(rules, dependencies, recovery),
        end_turn=end_turn,
        end_turn_for_operator=EndTurnForOperator(rules, dependencies, turns, keys, find=find, end_turn=end_turn),
        call_tool=_call_tool(rules, ports, grants, SendEffect(rules, dependencies, turns), turns),
        delegate=Delegate(dependencies, turns, run_child, spending),
        history=history,
        turns=turns,
        grants=grants,
        binding=binding,
        reaper=Reaper(rules, dependencies, turns, end_turn),
        orphans=SettleOrphans(rules, dependencies, turns, keys, recovery),
        breakers=run_child.breakers,
    )


def _continue_work(store: Store, clock: Clock, keys: SigningKeys, seconds: float) -> "ContinueWork":
    from sidecar.operations.turn.continuing import ContinueWork  # noqa: PLC0415  few dispatches answer anything

    return ContinueWork(store, clock, keys, seconds)


def _places(rules: DispatchRules, ports: Ports) -> DispatchPlaces:
    # A dispatch keeps its place for all of its calls, then for the append of their outcomes.
    longest = (rules.join_timeout + rules.record_timeout).total_seconds()

    def several() -> bool:
        catalogue = ports.definitions.current()
        if catalogue is None:
            return False
        ids = (definition_id for filling in catalogue.slots.values() for definition_id in filling)
        return len({catalogue.cards[each].definition.vertical for each in ids}) > 1

    return DispatchPlaces(rules.admission, longest, ports.clock, several)


def _call_tool(rules: DispatchRules, ports: Ports, grants: GrantTable, effects: SendEffect, turns: Turns) -> CallTool:
    hung_after = rules.cancel_grace.total_seconds()
    return CallTool(
        rules,
        grants,
        ConnectorBoundary(ports.connectors, spawner=ports.spawner, recorder=ports.recorder, report_after=hung_after),
        effects,
        clock=ports.clock,
        ids=ports.ids,
        recorder=ports.recorder,
        tracing=ports.tracing,
        off_loop=ports.off_loop,
        user_token=turns.user_token,
    )


def _report_surface(ports: Ports, surface: Surface) -> None:
    ports.cohorts(surface.cohort)
    ports.recorder.surface_bound(surface.beginning, surface.beginning_tokens)


def _dependencies(ports: Ports, store: Store, grants: GrantTable, questions: QuestionDesk) -> TurnDependencies:
    return TurnDependencies(
        clock=ports.clock,
        ids=ports.ids,
        chance=ports.chance,
        spawner=ports.spawner,
        store=store,
        recorder=ports.recorder,
        runners=ports.runners,
        grants=grants,
        tracing=ports.tracing,
        reports=ChildReports(ports.reports, store, spawner=ports.spawner, recorder=ports.recorder),
        questions=questions,
    )


def _history(
    rules: DispatchRules, ports: Ports, grants: GrantTable, hints: RecordHints, turns: Turns
) -> tuple[CompactionFacts, HistoryOperations]:
    calls = None
    # The sidecar's own memory obeys a cancellation, so its calls need no task of their own.
    if not ports.memory_is_own:
        # The same grace as for attempts: after it, a call that ignores its cancellation is reported.
        calls = PluginCalls(ports.spawner, hung_reports(ports.recorder), rules.cancel_grace.total_seconds())
    memory = BoundedMemory(ports.memory, ports.recorder, rules.history.timeout, calls)
    bounds = SizeBounds(rules.episode_lookup_timeout, rules.episodes_cached, rules.history.size_cache_ttl)
    compaction = CompactionFacts(memory, rules.history.compaction, bounds, ports.clock, ports.recorder)
    captures = HistoryCapture(
        memory,
        compaction,
        spawner=ports.spawner,
        recorder=ports.recorder,
        most=rules.history.queue,
        durable=ports.store.waits,
    )
    catch_up = HistoryCatchUp(ports.store, memory, captures, ports.clock, rules.history)
    access = HistoryAccess(rules.history, memory, captures, ports.recorder, catch_up)
    return compaction, HistoryOperations(
        read_episode=ReadEpisode(access),
        write_summary=WriteSummary(access, compaction, ports.clock),
        read_own_turns=ReadOwnTurns(access, grants, turns),
        captures=captures,
        catch_up=catch_up,
        memory=memory,
        record=ReadRecord(ports.store, hints, rules.record),
        export_replay=ExportReplay(ports.store),
        record_score=RecordScore(ports.store, ports.clock, ports.recorder, rules.record_timeout.total_seconds()),
    )
