"""Replays a recorded turn through the installed code, and compares the outcomes.

The operations are the real ones. The recording replaces runners, store, clock, ids and randomness, and time is virtual.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, cast

from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.adapters.memory_in_process import InProcessMemory
from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.system import OwnedTasks
from sidecar.adapters.virtual_time import Deadlock, InOrder, Runaway, Trace, VirtualLoop, simulate
from sidecar.cli.record.replay import Replaying
from sidecar.cli.record.replay_source import exported
from sidecar.composition.plugins.from_settings import dispatch_rules
from sidecar.core.binding.bind import BindingRules
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.definitions.resolve import no_commit
from sidecar.core.dispatching.outcomes import CallOutcome
from sidecar.core.identifiers import Digest, DispatchId, Principal, Slot
from sidecar.core.journal.entries import Draft
from sidecar.core.replaying.comparison import compared
from sidecar.core.replaying.document import CannotReplay, ReplayDocument, commits_of, recorded_of
from sidecar.core.rollout.view import RolloutView
from sidecar.core.status_events.policy import Vocabulary
from sidecar.observability.redaction import Redactor
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper
from sidecar.operations.ports import Recorder
from sidecar.operations.process.turn_assembly import Ports, assemble
from sidecar.operations.replay.play_frames import RecordedChance, RecordedGrants, RecordedRunner, Recording
from sidecar.operations.replay.replay_turn import Replayed, ReplayReport, replay_turn, rules_of_replay
from sidecar.operations.rules import DispatchRules
from sidecar.policy.protocols import Connector
from sidecar.settings import Settings
from subagents_errors import CallFailure

CardOf = Callable[[Digest], Card | None]
MOST_STEPS: Final = 5_000_000
"""Callbacks of the virtual loop after which a replay is given up. A turn of a thousand calls takes far fewer."""
KEYS: Final = SigningKeys({"replay": bytes(32)}, "replay")
"""Not a secret: no token that is signed with it leaves the replay."""


def replayed(document: ReplayDocument, card_of: CardOf, rules: DispatchRules | None = None) -> ReplayReport:
    """Replay a turn and compare its outcomes. Call it where no event loop runs. Waits take no real time.

    Args:
        document: the exported turn.
        card_of: the definitions, by digest.
        rules: of dispatching, from the settings; None: the defaults.

    Raises:
        CannotReplay: a definition is missing; the text names it.

    Source: PC1-FR-10d, SX-48, SX-50.
    """
    recording = Recording(recorded_of(document))
    claims = document.claims()
    # Before anything runs: with another definition, differences would say nothing about the code.
    _refuse_missing(document, claims, card_of)
    # Without settings, only the limits that the turn itself carries in its claims are known.
    present_rules = rules or DispatchRules(BindingRules(claims.fan_out_cap, claims.max_dispatches), Vocabulary({}))
    replay = _in_virtual_time(document, recording, card_of, rules_of_replay(present_rules, claims.fan_out_cap))
    differences, notes = compared(document.recorded_outcomes, replay.outcomes)
    refused = tuple(f"{dispatch_id}: is refused now: {why}" for dispatch_id, why in replay.refused.items())
    new_calls = tuple(f"{which} is made now; it was not made when the turn was recorded" for which in replay.unrecorded)
    return ReplayReport(replay, (*refused, *differences), (*new_calls, *notes))


def _in_virtual_time(document: ReplayDocument, recording: Recording, card_of: CardOf, rules: DispatchRules) -> Replayed:
    """Run the turn in a loop whose time is virtual. Raises `CannotReplay` if the turn does not end."""
    loop = VirtualLoop(InOrder(), Trace(), MOST_STEPS)

    async def play() -> Replayed:
        strays: list[str] = []
        tasks = OwnedTasks(lambda name, error: strays.append(f"{name} raised {type(error).__name__}"))
        # Counted instead of random: two replays of one turn must make the same ids, or their traces could not be
        # compared.
        ids = _CountedIds()
        grants = RecordedGrants(ids)
        runner = RecordedRunner(recording, grants)
        ports = Ports(
            clock=_Clock(loop, document.dispatches[0].opened_at),
            ids=ids,
            chance=RecordedChance(recording, grants),
            spawner=tasks,
            store=_StoreWithRecordedDelay(recording, loop),
            recorder=cast("Recorder", _SilentRecorder()),
            definitions=_Definitions(card_of),
            flags=cast("FlagSnapshotKeeper", None),  # needed for binding only; a replay binds no turn
            runners=runner,
            connectors=_NoConnectors(),
            memory=InProcessMemory(),
            rollouts=RolloutView,  # a replay binds no turn
            call_counts=_RecordedCallCounts(document.recorded_outcomes),
        )
        # The runner needs the operations, because a recorded attempt calls tools; the operations need the runner as a
        # port.
        runner.operations = operations = assemble(rules, KEYS, ports, grants)
        try:
            return await replay_turn(document, recording, operations, KEYS, rules)
        finally:
            # Tasks that a recorded dispatch left, e.g. abandoned attempts, would keep the virtual loop busy.
            await tasks.close()

    try:
        # A replay must end by itself: virtual time has no user who would stop it.
        return simulate(loop, play())
    except (Deadlock, Runaway) as stuck:
        raise CannotReplay(f"the replay does not come to an end: {stuck}") from None


def _refuse_missing(document: ReplayDocument, claims: SurfaceClaims, card_of: CardOf) -> None:
    """Raise `CannotReplay` if a definition of the turn is missing, or has another content than in the turn."""
    commits = commits_of(document)
    definition_ids = {slot: definition_id for slot, definition_id, _ in claims.candidates}
    needed: list[tuple[str, Digest]] = [(definition_ids.get(slot) or slot, digest) for slot, digest in claims.tools]
    needed.append(("the orchestrator", claims.orchestrator_digest))
    missing = [_missing_text(name, digest, commits) for name, digest in needed if card_of(digest) is None]
    if missing:
        raise CannotReplay(
            f"definitions are not there as they were in the turn: {'; '.join(missing)}. Check out that commit of the "
            "definitions and name its folder with --definitions"
        )


def _missing_text(name: str, digest: Digest, commits: Mapping[Digest, tuple[str, str]]) -> str:
    _, commit = commits.get(digest, ("", ""))
    return f"{name} with digest {digest} ({f'commit {commit}' if commit else 'its commit is not on record'})"


def cards_of(catalogue: Catalogue) -> CardOf:
    """Return the cards of a configuration by digest."""
    by_digest = {card.digest: card for card in catalogue.cards.values()}
    return by_digest.get


class _Clock:
    """The wall clock of the replay: it begins at the time of the recorded turn, and advances with virtual time."""

    def __init__(self, loop: VirtualLoop, began: datetime) -> None:
        self._loop = loop
        self._began = began

    def now(self) -> datetime:
        return self._began + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return self._loop.time()


class _CountedIds:
    """Numbers the ids of each replay from 1."""

    def __init__(self) -> None:
        self._made = 0

    def new(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made}"


class _StoreWithRecordedDelay(MemoryStore):
    """Confirms children at the recorded time, so that their attempts begin at the recorded time."""

    waits = True  # `append` waits for virtual time

    def __init__(self, recording: Recording, loop: VirtualLoop) -> None:
        super().__init__()
        self._recording = recording
        self._loop = loop

    async def append(self, drafts: Sequence[Draft]) -> None:
        wait = self._recording.durable_at(drafts) - self._loop.time()
        # A store that confirms earlier than the recorded one would start attempts before their recorded answers exist.
        if wait > 0:
            await asyncio.sleep(wait)
        await super().append(drafts)


class _RecordedCallCounts:
    """Returns how many calls the user's daily limit still allowed: as many as were not refused in the recording."""

    def __init__(self, recorded: Mapping[DispatchId, Sequence[CallOutcome]]) -> None:
        self._recorded = recorded

    async def left(self, principal: Principal, dispatch_id: DispatchId, slot: Slot, limit: int) -> int | None:
        of_slot = [each.reason for each in self._recorded.get(dispatch_id, ()) if each.sub_agent_id == slot]
        # None means that the count could not be read, as in the recording.
        if CallFailure.DAILY_LIMIT_UNKNOWN in of_slot:
            return None
        return len(of_slot) - of_slot.count(CallFailure.DAILY_LIMIT_REACHED)


class _Definitions:
    """The definitions of the recorded turn. There is no current configuration, because a replay binds no turn."""

    def __init__(self, card_of: CardOf) -> None:
        self._card_of = card_of

    def current(self) -> Catalogue | None:
        return None

    def card_by_digest(self, digest: Digest) -> Card | None:
        return self._card_of(digest)


class _NoConnectors:
    """Refuses every connector: a replay must reach no data service."""

    def connector_for(self, card: Card, tool_id: str) -> Connector:
        raise LookupError("a replay asks no data service")


class _SilentRecorder:
    """Ignores every metric and event: a replay must not be counted as real work."""

    def __getattr__(self, name: str) -> Any:
        # Any method of the interface, also one that is added later.
        return lambda *_: None


def replaying(settings: Settings | None, folder: Path | None) -> Replaying:
    """Return the dependencies of `sidecar replay`.

    Args:
        settings: of the sidecar; None: only exported turns can be replayed, with the default rules.
        folder: of the definitions; None: the folder from the settings.
    """
    configured = None if settings is None else settings.definitions.path

    def fetch(turn_id: str) -> bytes:
        if settings is None:
            raise CannotReplay("without --config there is no sidecar to ask; name an exported turn with --from")
        server = settings.server
        return exported(f"unix:{server.dispatch_socket}", server.boot_secret_file, turn_id)

    def replay(document: ReplayDocument) -> ReplayReport:
        rules = None if settings is None else dispatch_rules(settings, Redactor())
        return replayed(document, _cards_below(folder or configured), rules)

    return Replaying(fetch, replay)


def _cards_below(folder: Path | None) -> CardOf:
    """Return the cards of the definitions in a folder. Raises `CannotReplay`."""
    if folder is None:
        raise CannotReplay("name the folder of the definitions with --definitions")
    catalogue = load_directory(folder, commits_of=no_commit).catalogue
    if catalogue is None:
        raise CannotReplay(f"the definitions in {folder} cannot be used; `sidecar validate {folder}` says why")
    return cards_of(catalogue)
