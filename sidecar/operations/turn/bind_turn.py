"""Binds a turn: decides from memory which sub-agents the turn may call, freezes the decision and signs it.

A bind waits for no flag backend, file or network. Only the facts of the episode may need a read of the record. If the
read takes longer than some milliseconds, the bind continues without these facts. Source: TN-4 (factory invocation).
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from sidecar.core.binding.bind import orchestrator_of
from sidecar.core.binding.surface import Surface
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, sign_token
from sidecar.core.errors import DefinitionsUnavailable, Draining, TurnIdReused
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.history.records import EpisodeKey
from sidecar.core.identifiers import Slot
from sidecar.core.rollout.serving import BindSubject
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper
from sidecar.operations.history.episode_facts import CompactionFacts, EpisodeFacts
from sidecar.operations.ports import Clock, Definitions
from sidecar.operations.requests import BindTurnRequest
from sidecar.operations.rules import DispatchRules
from sidecar.operations.turn.cohort_surfaces import CohortSurfaces
from sidecar.operations.turn.state.open_turns import Turn, Turns


class Bound(Struct, frozen=True):
    """The result of a bind: the surface of the turn.

    Attributes:
        previous: slots that the episode's last dispatching turn called; None if they could not be read in time.
        compaction_due: whether the episode's history should be compacted.
        attached: whether an earlier, equal request had bound the turn; this request then changed nothing.
    """

    surface: Surface
    prompt_suffix: str
    surface_token: str
    expires_at: datetime
    previous: tuple[Slot, ...] | None
    compaction_due: CompactionDue
    attached: bool


class BindTurn:
    """Binds turns. A repeated request with equal contents returns the turn that the first one bound."""

    def __init__(
        self,
        rules: DispatchRules,
        clock: Clock,
        definitions: Definitions,
        flags: FlagSnapshotKeeper,
        turns: Turns,
        binding: "BindingState",
    ) -> None:
        self._rules = rules
        self._clock = clock
        self._definitions = definitions
        self._flags = flags
        self._turns = turns
        self._binding = binding
        self._rollouts = binding.rollouts
        self._surfaces = CohortSurfaces(rules.binding, definitions.card_by_digest)

    async def __call__(self, request: BindTurnRequest) -> Bound:
        """Bind the turn.

        Raises:
            Draining, AdmissionRefused, DefinitionsUnavailable, UnknownOrchestrator, TurnIdReused, InvalidRequest.
        """
        known = self._known(request)
        if known is not None:
            return known
        # After the look-up: a repeated bind of a turn that this process holds is answered during a drain, too.
        if self._binding.draining:
            raise Draining("the sidecar is draining and takes no new turns", retry_after=timedelta(seconds=1))
        previous = await self._binding.facts.last_dispatched(request.episode_id)
        due = await self._binding.compaction.compaction_due(EpisodeKey(request.episode_id, request.principal))
        # A concurrent request may have bound the same turn during the two reads, so the turn is looked up again. There
        # is no await between this lookup and the registration in `_bind`: of two equal requests, one creates the turn.
        return self._known(request) or self._bind(request, previous, due)

    def _known(self, request: BindTurnRequest) -> Bound | None:
        turn = self._turns.known(request.turn_id)
        if turn is None:
            return None
        # The first surface is returned even if a rollout has changed since: the model has seen its tools and prompt. A
        # turn that another sidecar bound has no request here, so the contents of its token are compared.
        if turn.bind_request != request and not (turn.bind_request is None and _is_bound_as(turn.claims, request)):
            raise TurnIdReused(
                "turn_id names a turn that was bound with other contents; make a new id for each turn",
                metadata={"turn_id": request.turn_id},
            )
        return _bound(turn, attached=True)

    def _bind(self, request: BindTurnRequest, previous: tuple[Slot, ...] | None, due: CompactionDue) -> Bound:
        catalogue = self._definitions.current()
        if catalogue is None:
            raise DefinitionsUnavailable(
                "no valid definitions have been loaded; see the log, or run `sidecar validate`"
            )
        orchestrator = orchestrator_of(catalogue, request.orchestrator_id)
        subject = BindSubject(request.principal, request.experiment_arm)
        # One read of each snapshot, in one expression without an await: the surface must not mix the definitions of one
        # moment with the flags or ramps of another.
        surface = self._surfaces.surface(catalogue, orchestrator, self._flags.current(), subject, self._rollouts())
        now = self._clock.now()
        claims = _claims(request, surface, previous, now, now + self._rules.turn_lifetime)
        # The token expires by the wall clock, because other replicas check the token too. The reaper, which removes
        # the turn from memory, uses the monotonic clock: if the wall clock is set back, turns must still be removed.
        reap_at = self._clock.monotonic() + self._rules.turn_lifetime.total_seconds()
        token = sign_token(claims, self._binding.keys)
        # Before the registration, which may refuse the turn: an observer may see a surface that no turn got, but never
        # misses one that a turn uses.
        self._binding.seen(surface)
        turn = Turn(claims, token, surface, reap_at, bind_request=request, compaction_due=due)
        self._turns.add(turn)
        return _bound(turn, attached=False)


class BindingState(Struct):
    """The process state that binding uses.

    Attributes:
        seen: receives the surface of each bound turn. It runs inside the bind, between the signature and the
            registration of the turn: it must not wait, access files or raise.
    """

    keys: SigningKeys
    facts: EpisodeFacts
    compaction: CompactionFacts
    rollouts: Callable[[], RolloutView]
    seen: Callable[[Surface], None] = lambda _: None
    draining: bool = False


def _bound(turn: Turn, *, attached: bool) -> Bound:
    claims = turn.claims
    return Bound(
        surface=turn.surface,
        prompt_suffix=turn.prompt_suffix,
        surface_token=turn.token,
        expires_at=claims.expires_at,
        previous=claims.previous,
        compaction_due=turn.compaction_due,
        attached=attached,
    )


def _is_bound_as(claims: SurfaceClaims, request: BindTurnRequest) -> bool:
    """Return whether `request` has the contents of a token. Used for a turn that another sidecar bound."""
    requested = (request.episode_id, request.principal, request.source, request.locale, request.location)
    bound = (claims.episode_id, claims.principal, claims.source, claims.locale, claims.location)
    same_arm = request.experiment_arm == claims.arm and request.verified == claims.verified
    same_orchestrator = request.orchestrator_id in {"", claims.orchestrator_id}
    return requested == bound and same_arm and same_orchestrator


def _claims(
    request: BindTurnRequest, surface: Surface, previous: tuple[Slot, ...] | None, now: datetime, expires_at: datetime
) -> SurfaceClaims:
    cohort = surface.cohort
    return SurfaceClaims(
        turn_id=request.turn_id,
        episode_id=request.episode_id,
        principal=request.principal,
        source=request.source,
        locale=request.locale,
        location=request.location,
        date=(request.date or now.astimezone(UTC).date()).isoformat(),
        orchestrator_digest=surface.orchestrator.digest,
        orchestrator_id=surface.orchestrator.definition.id,
        tools=surface.claimed_tools,
        candidates=surface.claimed_candidates,
        versions=(
            cohort.agent_definition_version,
            cohort.prompt_block_registry_version,
            cohort.xml_prompt_component_registry_version,
        ),
        flags=cohort.active_feature_flags,
        arm=cohort.experiment_arm_assignment,
        previous=previous,
        fan_out_cap=surface.fan_out_cap,
        max_dispatches=surface.max_dispatches,
        bound_at=now,
        expires_at=expires_at,
        verified=request.verified,
    )
