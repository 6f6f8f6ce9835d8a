"""The operators' listener: who gets in, and what they may ask for."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version

from sidecar.adapters.checkpoints import KeyFileProblem, public_key_file, read_public_keys
from sidecar.composition.checkpoints import checkpoint_files
from sidecar.composition.operator_listener import operator_plan
from sidecar.composition.record import OpenRecord
from sidecar.composition.rollout import OpenRollout
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.operations.administering import Administer, AdminParts
from sidecar.operations.assembly import Operations
from sidecar.operations.ports import Clock
from sidecar.operations.verifying_log import RecordToVerify, RecordUnreadable, SecondPlace
from sidecar.policy.selection import PolicyMap
from sidecar.rpc.in_flight import InFlight
from sidecar.rpc.listeners import ListenerPlan
from sidecar.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatedParts:
    """What operators look after."""

    settings: Settings
    operations: Operations
    rollout: OpenRollout
    record: OpenRecord
    policy: PolicyMap
    readiness: Readiness
    in_flight: InFlight
    metrics: Metrics
    clock: Clock


def operator_plans(parts: OperatedParts) -> Sequence[ListenerPlan]:
    """Return the operators' listener; none if no key is accepted.

    Raises:
        SettingsProblem: a key cannot be read.
    """
    plan = operator_plan(parts.settings, parts.rollout.operations, _administer(parts), parts.metrics, parts.clock)
    return () if plan is None else (plan,)


def _administer(parts: OperatedParts) -> Administer:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[RecordToVerify, SecondPlace | None]]:
        """Read the record as it is open here, and its checkpoints as they are in their file."""
        if parts.settings.record.database == "memory":
            yield parts.record.database, None
            return
        file, key_file = checkpoint_files(parts.settings.record)
        try:
            judge = read_public_keys([public_key_file(key_file)])
        except KeyFileProblem as problem:
            raise RecordUnreadable(str(problem)) from None
        with file.open("rb") as lines:
            yield parts.record.database, SecondPlace([lines], judge)

    operations, rollout = parts.operations, parts.rollout.operations
    return Administer(
        AdminParts(
            version=version("dispatch-sidecar"),
            instance=parts.record.store.instance,
            clock=parts.clock,
            readiness=parts.readiness,
            binding=operations.binding,
            turns=operations.turns,
            calls=lambda: parts.in_flight.count,
            views=rollout.views,
            tombstones=rollout.tombstones,
            plugins=lambda: parts.policy.host.inventory(parts.policy.chosen),
            open_record=opened,
        )
    )
