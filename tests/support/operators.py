"""A sidecar with an operator listener on a Unix socket, rollouts in memory, scripted gates, and tokens for any role.

async with an_operated_sidecar() as bench:
    answer = await bench.step("SetRamp", "shop", ramp_basis_points=500)
    assert answer.ramp_basis_points == 500
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from typing import Any, Final, cast

import grpc
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf.timestamp_pb2 import Timestamp
from msgspec.structs import replace

from sidecar.adapters.checkpoints import Ed25519Judge, Ed25519Signer
from sidecar.adapters.record_memory import MemoryStore
from sidecar.adapters.rollout_memory import MemoryRollouts, RolloutsInMemory
from sidecar.adapters.system import SystemIds
from sidecar.composition.operators.traffic import read_traffic
from sidecar.core.definitions.cards.card import Card
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.operators.key_limits import KeyLimits
from sidecar.core.operators.role_tokens import RoleClaims, RoleTokens, seal
from sidecar.core.roles import Role
from sidecar.core.rollout.bucketing import in_ramp
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.view import RolloutView
from sidecar.observability.metrics import Metrics
from sidecar.operations.process.administration import Administer, OpenRecord
from sidecar.operations.process.rollout_assembly import RolloutOperations, RolloutPorts, assemble_rollout
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.erase_user import EraseUser
from sidecar.operations.record.projector import Projector
from sidecar.operations.record.verify_log import RecordToVerify
from sidecar.operations.rollout.store.ports import RolloutWrite
from sidecar.policy.lifecycle import LifecyclePolicy
from sidecar.rpc import admin_servicer, history_servicer, lifecycle_servicer
from sidecar.rpc.admin_servicer import AdminServicer
from sidecar.rpc.authorisation import CallAdmission, CallerKind
from sidecar.rpc.history_servicer import HistoryServicer
from sidecar.rpc.lifecycle_servicer import LifecycleServicer
from sidecar.rpc.listeners import ListenerPlan, listening
from sidecar.rpc.operators import ROLE_TOKEN_KEY, OperatorAuthoriser
from sidecar.rpc.refused_steps import RecordRefusedCalls
from sidecar.rpc.translate.fields import timestamp
from sidecar.settings import LimitsSettings
from subagents.admin.v1 import admin_pb2_grpc
from subagents.lifecycle.v1 import lifecycle_pb2, lifecycle_pb2_grpc, reading_pb2
from tests.support.builders import a_card, a_catalogue
from tests.support.harness import KeepingRecorder, SidecarForTests, running_sidecar_for_tests
from tests.support.operators_outside import (
    BEGAN,
    FlagsForTests,
    ReadinessForTests,
    ScriptedGates,
    SteppedClock,
    StopsInMemory,
)
from tests.support.requests import Failure, failure_of
from tests.support.second_place import PlaceInMemory, a_signer

DEPLOYMENT: Final = "tests"
ADA: Final = "ada@example"


def gated(name: str, **fields: Any) -> Card:
    """Return a card that two flags gate."""
    return a_card(name, **({"enabled_via_flag": f"ai_assistant_subagent_{name}"} | fields))


@dataclass(slots=True)
class OperatedSidecar:
    """The sidecar, what is behind it, and short ways to operate it.

    Attributes:
        signer, other: keys that are accepted for everything.
        watchdog: one that is for the breaker `watchdog@ci` only.
        metrics: what `GetTraffic` reads; empty unless a test counts.
        erasures: who had content erased, and why.
    """

    sidecar: SidecarForTests
    rollout: RolloutOperations
    store: MemoryRollouts
    contents: RolloutsInMemory
    clock: SteppedClock
    gates: ScriptedGates
    flags: FlagsForTests
    readiness: ReadinessForTests
    reports: KeepingRecorder
    policies: list[tuple[str, LifecyclePolicy]]
    signer: Ed25519Signer
    other: Ed25519Signer
    watchdog: Ed25519Signer
    channel: grpc.aio.Channel
    metrics: Metrics = field(default_factory=Metrics)
    erasures: list[tuple[str, str]] = field(default_factory=list)
    _numbers: Any = field(default_factory=lambda: count(1))

    @property
    def lifecycle(self) -> lifecycle_pb2_grpc.LifecycleServiceStub:
        """The stub; give it `metadata=bench.role(...)`."""
        return lifecycle_pb2_grpc.LifecycleServiceStub(self.channel)

    @property
    def admin(self) -> admin_pb2_grpc.AdminServiceStub:
        """The stub; give it `metadata=bench.role(...)`."""
        return admin_pb2_grpc.AdminServiceStub(self.channel)

    def token(self, role: str = "operator", **other: Any) -> str:
        """Return a role token; fields of the claims may be others. `signer` signs instead of the accepted key."""
        signer = other.pop("signer", self.signer)
        begins = int(self.clock.now().timestamp())
        claims = {"aud": DEPLOYMENT, "sub": ADA, "nbf": begins, "exp": begins + 900, "jti": "t-1", "kid": signer.key_id}
        return seal(msgspec.convert({"role": role} | claims | other, RoleClaims), signer.sign)

    def role(self, role: str = "operator", **other: Any) -> tuple[tuple[str, str], ...]:
        """Return metadata with a token."""
        return ((ROLE_TOKEN_KEY, self.token(role, **other)),)

    async def revision(self, slot: str = "shop") -> int:
        """Return the present revision of a slot."""
        rollout = await self.store.rollout(Slot(slot))
        return rollout.revision if rollout else 0

    async def header(self, definition_id: str = "shop", **fields: Any) -> lifecycle_pb2.StepHeader:
        """Return what a step carries; with the present revision and a new request id unless told otherwise."""
        fields.setdefault("request_id", f"request-{next(self._numbers)}")
        if "expected_revision" not in fields:
            fields["expected_revision"] = await self.revision(fields.get("slot", "shop"))
        fields.setdefault("reason", "because a test says so")
        return lifecycle_pb2.StepHeader(definition_id=definition_id, **fields)

    async def step(
        self, method: str, definition_id: str = "shop", *, role: str = "operator", sub: str = ADA, **fields: Any
    ) -> lifecycle_pb2.StepResult:
        """Take a step; `header` may hold fields of the header."""
        head = await self.header(definition_id, **fields.pop("header", {}))
        request = getattr(lifecycle_pb2, f"{method}Request")(header=head, **fields)
        answer = await getattr(self.lifecycle, method)(request, timeout=10, metadata=self.role(role, sub=sub))
        result: lifecycle_pb2.StepResult = answer.result
        return result

    async def refused(self, method: str, definition_id: str = "shop", **fields: Any) -> Failure:
        """Take a step that has to fail."""
        return await failure_of(self.step(method, definition_id, **fields))

    def in_an_hour(self) -> Timestamp:
        """Return when that is."""
        return timestamp(self.clock.now() + timedelta(hours=1))

    async def status(self, slot: str = "shop") -> reading_pb2.SlotStatus:
        """Return a slot as operators see it."""
        answer = await self.lifecycle.GetRollout(
            reading_pb2.GetRolloutRequest(slot=slot), timeout=10, metadata=self.role()
        )
        return answer.status

    async def inside_and_outside(self, ramp: int, slot: str = "shop") -> tuple[str, str]:
        """Return a user inside a ramp of a slot, and one outside, by the salt that it has now."""
        asked = reading_pb2.ExplainServingRequest(slot=slot, principal="anyone")
        salt = (await self.lifecycle.ExplainServing(asked, metadata=self.role())).salt
        users = [f"user-{number}" for number in range(1000)]
        inside = next(user for user in users if in_ramp(salt, user, ramp))
        return inside, next(user for user in users if not in_ramp(salt, user, ramp))

    async def audit(self) -> list[reading_pb2.AuditRow]:
        """Return every audit row."""
        request = reading_pb2.WatchAuditRequest(no_follow=True)
        stream = self.lifecycle.WatchAudit(request, timeout=10, metadata=self.role())
        return [row async for message in stream for row in message.rows]

    async def offers(self, principal: str, **fields: Any) -> list[str]:
        """Bind a turn for a user; returns the names of the sub-agents' tools."""
        bound = await self.sidecar.bind(principal=principal, **fields)
        return [tool.name for tool in bound.surface.sub_agent_tools]

    async def promoted(self, ramp: int = 0, definition_id: str = "shop") -> None:
        """Bring a definition into `promote`, and to a ramp."""
        await self.step("Transition", definition_id, target_state=reading_pb2.LIFECYCLE_STATE_TEST)
        await self.step("Transition", definition_id, target_state=reading_pb2.LIFECYCLE_STATE_PROMOTE)
        if ramp:
            await self.step("SetRamp", definition_id, ramp_basis_points=ramp)

    async def configured(self, *cards: Card) -> None:
        """Replace the configuration, and have it seen."""
        self.sidecar.definitions.load(a_catalogue(*cards))
        await self.rollout.definition_watch.look()

    async def put(self, *definitions: DefinitionFacts, active: Digest | None = None) -> None:
        """Write the rollout of `shop` as it is to be."""
        stored = await self.store.rollout(Slot("shop")) or SlotRollout(slot=Slot("shop"), salt="shop")
        after = msgspec.structs.replace(
            stored,
            definitions={each.digest: each for each in definitions},
            active=active,
            revision=stored.revision + 1,
        )
        await self.store.write(RolloutWrite(slot=Slot("shop"), expected_revision=stored.revision, rollout=after))
        await self.rollout.views.look()

    def facts(self, state: LifecycleState, **fields: Any) -> DefinitionFacts:
        """Return facts of the card `shop` in a state."""
        card = self.sidecar.definitions.current_card("shop")
        in_promote = state is LifecycleState.PROMOTE
        given: dict[str, Any] = {
            "flag": card.definition.enabled_via_flag,
            "flags": FlagPair.ON if in_promote else FlagPair.NAMED,
            "activated_at": BEGAN if in_promote else None,
        }
        return DefinitionFacts(
            digest=card.digest,
            definition_id=card.definition.id,
            commit=card.commit,
            vertical=card.definition.vertical,
            shape=card.shape,
            state=state,
            **(given | fields),
        )


@asynccontextmanager
async def an_operated_sidecar(
    *cards: Card, open_record: OpenRecord | None = None, unflagged_at_once: bool = False, **harness: Any
) -> AsyncIterator[OperatedSidecar]:
    """Serve dispatch and operators; every definition has been seen. Without cards there is one, `shop`, in `dev`."""
    clock = SteppedClock()
    flags, gates = FlagsForTests(clock), ScriptedGates(clock)
    contents, policies = RolloutsInMemory(), list[tuple[str, LifecyclePolicy]]()
    store = MemoryRollouts(clock, contents)
    joined: list[RolloutOperations] = []

    def rollouts() -> RolloutView:
        return joined[0].stops.rollouts()

    async with AsyncExitStack() as stack:
        sidecar = await stack.enter_async_context(
            running_sidecar_for_tests(
                cards=cards or [gated("shop")],
                flags=flags,
                rollouts=rollouts,
                **harness,
            )
        )
        ports = _ports(sidecar, store, (clock, flags, gates), policies)
        joined.append(assemble_rollout(replace(ports, serve_unflagged_at_once=unflagged_at_once)))
        await joined[0].definition_watch.look()
        signer = Ed25519Signer(Ed25519PrivateKey.generate())
        bench = OperatedSidecar(
            sidecar=sidecar,
            rollout=joined[0],
            store=store,
            contents=contents,
            clock=clock,
            gates=gates,
            flags=flags,
            readiness=ReadinessForTests(),
            reports=KeepingRecorder(),
            policies=policies,
            signer=signer,
            other=Ed25519Signer(Ed25519PrivateKey.generate()),
            watchdog=Ed25519Signer(Ed25519PrivateKey.generate()),
            channel=grpc.aio.insecure_channel(f"unix:{sidecar.folder / 'operators.sock'}"),
        )
        stack.push_async_callback(bench.channel.close)
        administer = _administer(bench, open_record)
        plan = _plan(bench, administer, reflection=harness.get("reflection", False))
        health = await stack.enter_async_context(listening(plan, sidecar.around, LimitsSettings()))
        await health.set_serving(True)
        yield bench


def _ports(
    sidecar: SidecarForTests,
    store: MemoryRollouts,
    outside: tuple[SteppedClock, FlagsForTests, ScriptedGates],
    policies: list[tuple[str, LifecyclePolicy]],
) -> RolloutPorts:
    clock, flags, gates = outside
    return RolloutPorts(
        store=store,
        tombstones=StopsInMemory(),
        clock=clock,
        ids=SystemIds(),
        recorder=sidecar.recorder,
        definitions=sidecar.definitions,
        flags=flags,
        record=sidecar.store,
        validate=sidecar.definitions.validated,
        turns=lambda: sidecar.operations.turns,
        gate_for=lambda vertical, gate: gates,
        policies_of=lambda vertical: policies,
        writer_of=lambda vertical: flags,
    )


def _administer(bench: OperatedSidecar, open_record: OpenRecord | None) -> Administer:
    @asynccontextmanager
    async def in_memory() -> AsyncIterator[tuple[RecordToVerify, AuditChain, None]]:
        yield cast("MemoryStore", bench.sidecar.store).journal, bench.store, None

    journal = cast("MemoryStore", bench.sidecar.store).journal
    projector = Projector(journal, journal.contents.rows, bench.sidecar.recorder)
    memory, outside = bench.sidecar.operations.history.memory, (a_signer(), PlaceInMemory(), bench.clock)
    eraser = EraseUser(journal, journal.instance, projector, memory, *outside, SystemIds())
    return Administer(
        version="1.0",
        instance="instance-of-the-tests",
        clock=bench.clock,
        readiness=bench.readiness,
        binding=bench.sidecar.operations.binding,
        turns=bench.sidecar.operations.turns,
        end_turn_for_operator=bench.sidecar.operations.end_turn_for_operator,
        report_ended_turn=bench.reports.report_ended_turn,
        calls=lambda: bench.sidecar.around.in_flight.count,
        views=bench.rollout.views,
        tombstones=bench.rollout.tombstones,
        inventory=lambda: (),
        traffic=lambda: read_traffic(bench.metrics, bench.sidecar.operations),
        open_record=open_record or in_memory,
        eraser=lambda: eraser,
        report_erasure=lambda by, reason: bench.erasures.append((by, reason)),
    )


def _plan(bench: OperatedSidecar, administer: Administer, *, reflection: bool) -> ListenerPlan:
    judge = Ed25519Judge([each.public_key() for each in (bench.signer, bench.other, bench.watchdog)])
    limits = {bench.watchdog.key_id: KeyLimits("watchdog", frozenset({Role.BREAKER}), ("watchdog@ci",))}
    note = RecordRefusedCalls(bench.rollout.refusals)
    door = OperatorAuthoriser(RoleTokens(judge, DEPLOYMENT, limits), bench.clock, bench.reports, note)
    return ListenerPlan(
        socket=bench.sidecar.folder / "operators.sock",
        entrance=CallAdmission(CallerKind.OPERATOR, door=door),
        services=(lifecycle_servicer.SERVICE, admin_servicer.SERVICE, history_servicer.SERVICE),
        methods=(
            *LifecycleServicer(bench.rollout, bench.clock, bench.reports).methods(),
            *AdminServicer(administer).methods(),
            *HistoryServicer(bench.sidecar.operations.history).methods_for_operators(),
        ),
        streams=64,
        reflection=reflection,
    )
