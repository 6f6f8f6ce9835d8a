"""Client of the dispatch sidecar: bind a turn, dispatch the model's calls, end the turn.

The other half, hosting sub-agents, is in `subagents_client.runner`; what adapters for agent frameworks need is in
`subagents_client.coalescing`. Every failure of a call is a class of
`subagents_errors`; the failure of one sub-agent is a value, `CallOutcome`.
"""

from subagents_client.client import SidecarClient
from subagents_client.dispatch_stream import DispatchStream, RunningDispatch
from subagents_client.ending import ChildSummary, Integration, RoutedCall, RoutingDecision, TurnEnd, Verdict
from subagents_client.events import (
    CallSnapshot,
    CallState,
    CallStateChanged,
    DispatchEvent,
    Gap,
    Snapshot,
    StartState,
    StatusUpdate,
)
from subagents_client.history_values import (
    ChildEvent,
    ComponentReference,
    ContextMessage,
    Episode,
    EpisodeRow,
    EpisodeSize,
    EpisodeSummary,
    EpisodeTurn,
    EpisodeView,
    EventBatch,
    RecordedChild,
    RecordedDispatch,
    RecordedTurn,
    SubAgentAnswer,
    ToolMessage,
    TurnPage,
    TurnRow,
    TurnState,
)
from subagents_client.legacy import StrippedText, strip_components
from subagents_client.outcomes import (
    CallOutcome,
    CallStatus,
    CapBehaviour,
    Component,
    DispatchResult,
    IntentReport,
    Outcome,
    TokenUsage,
    ToolCall,
)
from subagents_client.recorded_history import RecordedHistory
from subagents_client.runtime import ClientRuntime, ClientTimeouts
from subagents_client.status_words import StatusRenderer
from subagents_client.surface import (
    Binding,
    Candidate,
    CandidateVerdict,
    Cohort,
    CompactionDue,
    OrchestratorTool,
    PreviousSubAgents,
    Prompt,
    SubAgentTool,
    Surface,
    TurnRequest,
    TurnSource,
)
from subagents_client.synthetic_outcomes import failed_call
from subagents_client.turn import BoundTurn, DispatchContext, OnDisconnect
from subagents_errors import Axis, CallFailure, SubagentsError

__all__ = [
    "Axis",
    "Binding",
    "BoundTurn",
    "CallFailure",
    "CallOutcome",
    "CallSnapshot",
    "CallState",
    "CallStateChanged",
    "CallStatus",
    "Candidate",
    "CandidateVerdict",
    "CapBehaviour",
    "ChildEvent",
    "ChildSummary",
    "Cohort",
    "CompactionDue",
    "Component",
    "ComponentReference",
    "ContextMessage",
    "DispatchContext",
    "DispatchEvent",
    "DispatchResult",
    "DispatchStream",
    "Episode",
    "EpisodeRow",
    "EpisodeSize",
    "EpisodeSummary",
    "EpisodeTurn",
    "EpisodeView",
    "EventBatch",
    "Gap",
    "Integration",
    "IntentReport",
    "ClientTimeouts",
    "OnDisconnect",
    "OrchestratorTool",
    "Outcome",
    "PreviousSubAgents",
    "Prompt",
    "RecordedChild",
    "RecordedDispatch",
    "RecordedHistory",
    "RecordedTurn",
    "RoutedCall",
    "RoutingDecision",
    "RunningDispatch",
    "SidecarClient",
    "Snapshot",
    "StartState",
    "StatusRenderer",
    "StatusUpdate",
    "StrippedText",
    "SubAgentAnswer",
    "SubAgentTool",
    "SubagentsError",
    "Surface",
    "ClientRuntime",
    "TokenUsage",
    "ToolCall",
    "ToolMessage",
    "TurnEnd",
    "TurnPage",
    "TurnRequest",
    "TurnRow",
    "TurnSource",
    "TurnState",
    "Verdict",
    "failed_call",
    "strip_components",
]
