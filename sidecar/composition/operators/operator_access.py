"""Builds the listener for operators: who may call it (role tokens), and the services behind it.

The services administer the sidecar, take steps of rollouts, and show recorded turns.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from sidecar.adapters.checkpoints import (
    CheckpointFile,
    Ed25519Signer,
    KeyFileProblem,
    public_key_file,
    read_or_make_signer,
    read_public_keys,
)
from sidecar.adapters.system import SystemIds
from sidecar.cli.record.verify_log import lines_of
from sidecar.composition.keys.key_files import KeyFiles
from sidecar.composition.operators.issuer_keys import key_source
from sidecar.composition.operators.keys import OperatorKeys, operator_key_files, read_operator_keys
from sidecar.composition.record.checkpoints import checkpoint_files
from sidecar.composition.record.open_record import OpenRecord
from sidecar.composition.rollout.open_rollout import OpenRollout
from sidecar.core.errors import StoreUnavailable
from sidecar.core.operators.role_tokens import RoleTokens
from sidecar.observability.metrics import Metrics
from sidecar.observability.operators import RefusalReports, report_ended_turn, report_erasure
from sidecar.observability.readiness import Readiness
from sidecar.operations.ports import Clock
from sidecar.operations.process.administration import Administer
from sidecar.operations.process.rollout_assembly import RolloutOperations
from sidecar.operations.process.turn_assembly import HistoryOperations, Operations
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.erase_user import EraseUser
from sidecar.operations.record.verify_log import CheckpointSource, RecordToVerify, RecordUnreadable
from sidecar.policy.selection import PolicyMap
from sidecar.rpc.admin_servicer import SERVICE as ADMIN_SERVICE
from sidecar.rpc.admin_servicer import AdminServicer
from sidecar.rpc.authorisation import CallAdmission, CallerKind
from sidecar.rpc.history_servicer import SERVICE as HISTORY_SERVICE
from sidecar.rpc.history_servicer import HistoryServicer
from sidecar.rpc.in_flight import InFlight
from sidecar.rpc.lifecycle_servicer import SERVICE as LIFECYCLE_SERVICE
from sidecar.rpc.lifecycle_servicer import LifecycleServicer
from sidecar.rpc.listeners import ListenerPlan
from sidecar.rpc.operators import OperatorAuthoriser, TokenVerifier
from sidecar.rpc.refused_steps import RecordRefusedCalls
from sidecar.settings import Settings
from sidecar.settings.operators import IssuerSettings

if TYPE_CHECKING:
    from sidecar.operations.process.traffic import Traffic

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
MOST_CONNECTIONS: Final = 32
"""The most connections of operators at a time. `adapters/system/files.py` reserves file descriptors for them, so that
operators can still connect when consumer-agents and hosts have taken all others."""


class OperatorServices(Struct, frozen=True):
    """The operations behind the listener's three services: rollouts, administration, and the view of recorded turns."""

    rollout: RolloutOperations
    administer: Administer
    history: HistoryOperations


def operator_plan(
    settings: Settings,
    services: OperatorServices,
    metrics: Metrics,
    clock: Clock,
    anomaly: Callable[[str, str], None],
    issuer: TokenVerifier | None = None,
) -> tuple[ListenerPlan | None, Sequence[Loop]]:
    """Return the operators' listener, and the loops that watch its key files.

    There is no listener if the settings name neither keys nor an issuer of tokens, because every token would be
    refused.

    Raises:
        SettingsProblem: a key cannot be read.
    """
    configured = settings.operators
    reports = RefusalReports(metrics)
    read = partial(read_operator_keys, configured)
    files = KeyFiles("operators.keys", operator_key_files(configured), read, anomaly)
    # `limits` has an entry for every accepted key, also for one without restrictions.
    if not files.initial.limits and issuer is None:
        return None, ()
    tokens = RoleTokens(files.initial.judge, configured.deployment, files.initial.limits)

    def adopt(keys: OperatorKeys) -> None:
        tokens.accept(keys.judge, keys.limits)
        # A holder of an unrestricted key can sign any name and role, so the limits of the other keys protect nothing.
        if keys.anybody_beside_others:
            reports.keys_without_limits(keys.anybody_beside_others)

    # At once and not by the loop, so that the first call is already judged by all keys.
    adopt(files.initial)
    door = OperatorAuthoriser(tokens, clock, reports, RecordRefusedCalls(services.rollout.refusals), issuer)
    plan = ListenerPlan(
        configured.socket,
        CallAdmission(CallerKind.OPERATOR, door=door),
        (LIFECYCLE_SERVICE, ADMIN_SERVICE, HISTORY_SERVICE),
        (
            *LifecycleServicer(services.rollout, clock, reports).methods(),
            *AdminServicer(services.administer).methods(),
            *HistoryServicer(services.history).methods_for_operators(),
        ),
        # No limit of concurrent calls: an operator who stops a sub-agent must not be refused.
        configured.streams,
        settings.server.reflection,
        connections=MOST_CONNECTIONS,
    )
    # With an issuer only, there are no files to follow.
    return plan, (("operator keys", files.handing_to(adopt)),) if files.initial.limits else ()


class OpenIssuer(Struct, frozen=True):
    """An OpenID Connect issuer of role tokens.

    Attributes:
        tokens: verifies its tokens.
        run: refreshes its public keys for ever.
    """

    tokens: TokenVerifier
    run: Callable[[], Coroutine[Any, Any, None]]


def open_issuer(configured: IssuerSettings, clock: Clock, report: Callable[[str, str], None]) -> OpenIssuer:
    """Return the issuer that the settings describe. Its keys are not fetched yet.

    Raises:
        SettingsProblem: the library that it needs is not installed.
    """
    keys = key_source("operators.issuer", configured, clock, report)
    from sidecar.adapters.oidc_issuer.tokens import IssuerRules, IssuerTokens  # noqa: PLC0415  need the extra `oidc`

    rules = IssuerRules(
        configured.url, configured.audience, configured.subject_claim, configured.role_claim, configured.roles
    )
    return OpenIssuer(IssuerTokens(keys, rules), keys.run)


class OperatorAccess(Struct, frozen=True, kw_only=True):
    """The operators' listener and its services."""

    settings: Settings
    operations: Operations
    rollout: OpenRollout
    record: OpenRecord
    policy: PolicyMap
    readiness: Readiness
    in_flight: InFlight
    metrics: Metrics
    clock: Clock
    anomaly: Callable[[str, str], None]

    def plans(self) -> tuple[Sequence[ListenerPlan], Sequence[Loop]]:
        """Return the operators' listener, if any, and its background loops.

        Raises:
            SettingsProblem: a key cannot be read.
        """
        configured = self.settings.operators.issuer
        issuer = None if configured is None else open_issuer(configured, self.clock, self.anomaly)
        services = OperatorServices(self.rollout.operations, self._administer(), self.operations.history)
        issuer_tokens = issuer.tokens if issuer is not None else None
        plan, loops = operator_plan(self.settings, services, self.metrics, self.clock, self.anomaly, issuer_tokens)
        # The issuer's keys change while the sidecar runs; without the loop, tokens under a new key would be refused.
        fetching = () if issuer is None else (("operator_issuer", issuer.run),)
        return () if plan is None else (plan,), (*loops, *fetching)

    def _administer(self) -> Administer:
        @asynccontextmanager
        async def opened() -> AsyncIterator[tuple[RecordToVerify, AuditChain, CheckpointSource | None]]:
            """Use the open record of this process, and read its checkpoints from their file."""
            # Nothing signs a record in memory, so there are no checkpoints to compare with.
            if self.settings.record.database == "memory":
                yield self.record.journal, self.record.rollouts, None
                return
            file, key_file = checkpoint_files(self.settings.record)
            try:
                # Read for each verification: the key may have been rotated since the start.
                judge = read_public_keys([public_key_file(key_file)])
            except KeyFileProblem as problem:
                raise RecordUnreadable(str(problem)) from None
            yield self.record.journal, self.record.rollouts, CheckpointSource([partial(lines_of, file)], judge)

        created: list[tuple[EraseUser, Ed25519Signer]] = []  # at most one

        def eraser() -> EraseUser:
            """Return the operation, created at the first call, because few sidecars erase. Each call reads the key."""
            signer = self._signer()
            if not created:
                created.append((self._eraser(signer), signer))
            operation, its_signer = created[0]
            # The operation keeps its first signer, so a rotated key is given to that signer.
            its_signer.adopt(signer)
            return operation

        operations, rollout = self.operations, self.rollout.operations
        return Administer(
            version=version("dispatch-sidecar"),
            instance=self.record.store.instance,
            clock=self.clock,
            readiness=self.readiness,
            binding=operations.binding,
            turns=operations.turns,
            end_turn_for_operator=operations.end_turn_for_operator,
            report_ended_turn=report_ended_turn,
            # A function and no number: the answer must be that of the moment of the call.
            calls=lambda: self.in_flight.count,
            views=rollout.views,
            tombstones=rollout.tombstones,
            inventory=lambda: self.policy.host.inventory(self.policy.chosen),
            traffic=self._traffic,
            open_record=opened,
            eraser=eraser,
            report_erasure=report_erasure,
        )

    def _traffic(self) -> "Traffic":
        from sidecar.composition.operators.traffic import read_traffic  # noqa: PLC0415  most sidecars are never asked

        return read_traffic(self.metrics, self.operations)

    def _signer(self) -> Ed25519Signer:
        """Return the signer of the markers of erasures. Raises `StoreUnavailable` if there is none."""
        if self.settings.record.database == "memory":
            raise StoreUnavailable("the record is in memory; it is forgotten when the sidecar stops")
        try:
            return read_or_make_signer(checkpoint_files(self.settings.record)[1])
        except KeyFileProblem as problem:
            self.anomaly("erasure_key", str(problem))
            # The text of the problem has a path of this machine, which operators elsewhere need not see.
            raise StoreUnavailable("the key that signs markers cannot be used; see the log") from None

    def _eraser(self, signer: Ed25519Signer) -> EraseUser:
        if self.record.lists is None:
            raise StoreUnavailable("the record is in memory; it is forgotten when the sidecar stops")
        file, _ = checkpoint_files(self.settings.record)
        _, projector = self.record.lists
        return EraseUser(
            self.record.journal,
            self.record.journal.instance,
            projector,
            self.operations.history.memory,
            signer,
            CheckpointFile(file, signer, self.anomaly),
            self.clock,
            SystemIds(),
        )
