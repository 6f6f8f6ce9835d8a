"""Requests of callers as plain values; `rpc/translate` creates them from messages.

The operations below `operations/turn` get these and no protobuf messages, so that the simulation and replays call
them in the same way as the RPC does.
"""

import datetime as dt
from datetime import timedelta
from enum import StrEnum, unique

import msgspec

from sidecar.core.dispatching.calls import ToolCall
from sidecar.core.identifiers import CallId, ChildId, DispatchId, EpisodeId, Principal, TurnId


@unique
class TurnSource(StrEnum):
    """Where a turn comes from; the principal is always the user it is for (PC2-D-30, TN-34)."""

    CHAT = "chat"
    SCHEDULED = "scheduled"
    NOTIFICATION = "notification"


class BindTurnRequest(msgspec.Struct, frozen=True):
    """Bind a turn: decide and freeze which sub-agents it may call.

    Attributes:
        date: None: today in UTC.
        verified: a user token proved the principal; otherwise the consumer-agent claims it.
    """

    turn_id: TurnId
    episode_id: EpisodeId
    principal: Principal
    source: TurnSource
    orchestrator_id: str = ""
    locale: str | None = None
    location: str | None = None
    experiment_arm: str = ""
    date: dt.date | None = None
    verified: bool = False


@unique
class OnDisconnect(StrEnum):
    """What happens to running calls when the last listener has left."""

    CANCEL = "cancel"
    CONTINUE = "continue"
    CONTINUE_UNTIL = "continue_until"


class JoinPolicy(msgspec.Struct, frozen=True):
    """How the calls of one dispatch are joined.

    Attributes:
        min_success: how many results the parent must accept for `gate_passed` in the answer to `EndTurn`, which is no
            gate of a rollout; None: as many as calls were planned to run. Never stops a call.
        max_parallel: the most calls that run concurrently; None: the cap.
        timeout: the longest time for the dispatch; None: the operator's limit.
    """

    min_success: int | None = None
    max_parallel: int | None = None
    timeout: timedelta | None = None


class DispatchRequest(msgspec.Struct, frozen=True):
    """Run the sub-agent calls of one model response.

    Attributes:
        binding_digest: identifies the tools that the model saw; it must be that of the bound surface.
        dispatch_id: created by the client; a repeated request with this id attaches to the running dispatch.
        prior_context: summary of the conversation, for sub-agents that the last turn with calls did not call.
        task_prompt: the user's message of this turn, for the sub-agents; empty if the client does not give it.
        on_disconnect, continue_for: what happens to the calls once no listener is left.
    """

    surface_token: str
    binding_digest: str
    dispatch_id: DispatchId
    calls: tuple[ToolCall, ...]
    declared_intent_count: int = 0
    prior_context: str = ""
    task_prompt: str = ""
    on_disconnect: OnDisconnect = OnDisconnect.CANCEL
    continue_for: timedelta | None = None
    join: JoinPolicy = JoinPolicy()


class ResumeRequest(msgspec.Struct, frozen=True):
    """Listen again to a dispatch, from the event after `after_sequence`."""

    surface_token: str
    dispatch_id: DispatchId
    after_sequence: int = 0


class CancelRequest(msgspec.Struct, frozen=True):
    """Cancel one call."""

    surface_token: str
    dispatch_id: DispatchId
    call_id: CallId


@unique
class Verdict(StrEnum):
    """The parent's decision about a child's result. AUTOMATIC: accepted if there is an answer, otherwise rejected."""

    AUTOMATIC = "automatic"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class Integration(msgspec.Struct, frozen=True):
    """The verdict on one child."""

    child_id: ChildId
    verdict: Verdict
    reason: str = ""


class CloseChildRequest(msgspec.Struct, frozen=True):
    """Give a verdict on one child and close it."""

    surface_token: str
    integration: Integration


class EndTurnRequest(msgspec.Struct, frozen=True):
    """End a turn.

    Attributes:
        integrations: verdicts on children; a settled child without one gets `AUTOMATIC`.
        narration: the text of the answer to the user; for the history.
        declared_intent_count: number of things that the user asked for, as the model counted them.
        user_message: the user's message; for the history.
    """

    surface_token: str
    integrations: tuple[Integration, ...] = ()
    narration: str = ""
    declared_intent_count: int = 0
    user_message: str = ""
