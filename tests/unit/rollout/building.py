"""Rollouts for tests, in a few words."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, flag_snapshot_of
from sidecar.core.identifiers import Commit, DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, SlotRollout
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.step import Actor

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SHOP = Slot("shop")


def by(request_id: str = "r-1", actor: str = "ada@example") -> Actor:
    """Return who takes a step."""
    return Actor(
        actor=actor, actor_role="operator", reason="because", request_id=request_id, at=NOW, definition_version="5"
    )


def facts(name: str, state: LifecycleState = LifecycleState.PROMOTE, **fields: Any) -> DefinitionFacts:
    """Return the facts of a definition called `name`; its digest is `sha256:<name>`."""
    fields.setdefault("digest", Digest(f"sha256:{name}"))
    fields.setdefault("flag", f"ai_assistant_subagent_{name}")
    fields.setdefault("flags", FlagPair.ON)
    fields.setdefault("activated_at", NOW if state is LifecycleState.PROMOTE else None)
    return DefinitionFacts(
        definition_id=DefinitionId(name),
        commit=Commit(f"commit-{name}"),
        vertical=Vertical("shop"),
        state=state,
        **fields,
    )


def rollout(*definitions: DefinitionFacts, active: str | None = None, **fields: Any) -> SlotRollout:
    """Return a rollout of the slot `shop`."""
    return SlotRollout(
        slot=SHOP,
        revision=1,
        definitions={each.digest: each for each in definitions},
        active=None if active is None else Digest(f"sha256:{active}"),
        salt="shop",
        **fields,
    )


def with_target(of: DefinitionFacts, target: str | None) -> DefinitionFacts:
    """Return facts with a recorded rollback target."""
    digest = None if target is None else Digest(f"sha256:{target}")
    return msgspec.structs.replace(of, target=digest, target_recorded=True)


def flags(*on: str, stale: bool = False, shares: Mapping[str, int] | None = None) -> FlagSnapshot:
    """Return a snapshot in which the flag pairs of these definitions are on.

    Args:
        on: names of definitions.
        stale: nobody can say.
        shares: by name of a flag that is on, for how many basis points of users it is.
    """
    names = {name for each in on for name in (f"ai_assistant_subagent_{each}", f"ai_assistant_subagent_{each}_cohort")}
    contact = BackendStatus(
        FlagReport(
            frozenset(names), "1", shares={name: share for name, share in (shares or {}).items() if name in names}
        ),
        0.0,
    )
    return flag_snapshot_of(FlagRoutes("memory"), {"memory": contact}, now=100.0 if stale else 0.0, max_staleness=10.0)
