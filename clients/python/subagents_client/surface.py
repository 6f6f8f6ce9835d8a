"""What one turn may call, as plain values. Field for field the messages of `subagents.dispatch.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.events import StartState


@unique
class TurnSource(StrEnum):
    """Where a turn comes from; decides whose word the principal is."""

    CHAT = "chat"
    """A user's message; the principal is the authenticated user."""
    SCHEDULED = "scheduled"
    """A scheduled job; the principal is the job's target user."""
    NOTIFICATION = "notification"
    """A notification; the principal is its target user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """Asks what one turn may call.

    Attributes:
        principal: on whose behalf everything in the turn happens; 1 to 256 characters; never changes afterwards.
        episode_id: the conversation; 1 to 128 printable ASCII characters without spaces.
        turn_id: the same form, unique; empty: the SDK makes one.
        source: where the turn comes from.
        orchestrator_id: which orchestrator; empty: the only one there is.
        locale: BCP 47 tag such as `en-US`; None: explicitly unknown.
        location: where the user is, in words; None: explicitly unknown.
        experiment_arm: arm of an experiment that the caller assigned; empty: none.
        date: the user's date as `YYYY-MM-DD`; empty: today in UTC.
        required_features: features of the sidecar's contract that the turn relies on, at most 32.
        user_token: JWT of the user, where the sidecar's settings have `principals`; `principal` may then be empty.
    """

    principal: str
    episode_id: str
    turn_id: str = ""
    source: TurnSource = TurnSource.CHAT
    orchestrator_id: str = ""
    locale: str | None = None
    location: str | None = None
    experiment_arm: str = ""
    date: str = ""
    required_features: Sequence[str] = ()
    user_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class SubAgentTool:
    """One sub-agent as a tool for the orchestrator's model.

    Attributes:
        name: `ask_<slot>`, at most 64 characters.
        description: the definition's description, character for character.
        arguments_schema_json: JSON schema of the arguments, as JSON text.
        sub_agent_id: the slot; the id in outcomes, history and metrics.
        definition_id: the definition that fills the slot in this turn.
        commit: where the definition's digest first appeared.
        digest: content digest of the definition.
    """

    name: str
    description: str
    arguments_schema_json: str
    sub_agent_id: str
    definition_id: str
    commit: str
    digest: str


@dataclass(frozen=True, slots=True)
class OrchestratorTool:
    """A tool that the orchestrator runs itself; the sidecar never does."""

    name: str
    description: str
    arguments_schema_json: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The orchestrator's system prompt.

    Attributes:
        prefix: the same bytes for every user of the cohort, so that providers can cache it.
        suffix: date, location, user id and locale.
        prefix_digest: `sha256:` and 64 hex digits of `prefix`.
    """

    prefix: str
    suffix: str
    prefix_digest: str

    @property
    def text(self) -> str:
        """The whole prompt."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True)
class Cohort:
    """The six-field group of users that see exactly this surface. Source: PC2-FR-15."""

    agent_definition_version: str
    prompt_block_registry_version: str
    xml_prompt_component_registry_version: str
    active_feature_flags: Sequence[str]
    experiment_arm_assignment: str
    active_sub_agents: Sequence[str]


@dataclass(frozen=True, slots=True)
class PreviousSubAgents:
    """Slots that the episode's last dispatching turn called; `known` is False if nothing was found out in time."""

    known: bool
    sub_agent_ids: Sequence[str]


@unique
class CandidateVerdict(StrEnum):
    """Why a listed sub-agent is, or is not, on the surface."""

    UNSPECIFIED = "unspecified"
    CHOSEN = "chosen"
    FLAG_OFF = "flag_off"
    FLAG_STALE = "flag_stale"
    COHORT = "cohort"
    RAMP = "ramp"
    STATE = "state"
    DEPRECATED = "deprecated"
    NOT_LISTED = "not_listed"
    KILLED = "killed"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One listed sub-agent and whether it is callable in this turn."""

    sub_agent_id: str
    definition_id: str
    verdict: CandidateVerdict


@unique
class CompactionDue(StrEnum):
    """Whether the episode's history is to be compacted: `SidecarClient.read_episode`, then `write_summary`."""

    DUE = "due"
    NOT_DUE = "not_due"
    UNKNOWN = "unknown"
    """It could not be found out in time; go on as if it were not due."""


@dataclass(frozen=True, slots=True)
class Surface:
    """What one turn may call and how to prompt the orchestrator. Frozen when the turn is bound.

    Attributes:
        sub_agent_tools: in the order of the orchestrator's `sub_agents`; may be empty.
        orchestrator_tools: the orchestrator's own tools, in declared order.
        prompt: the orchestrator's system prompt.
        cohort: the group of users that see exactly this surface.
        fan_out_cap: most sub-agent calls that run at the same time in the turn; at least 1.
        max_dispatches_per_turn: most dispatches the turn may start; at least 1.
        binding_digest: digest of all of it; the SDK echoes it in every dispatch.
        previous_sub_agents: what is known of the episode's last dispatching turn.
        model: registry key of the orchestrator's model.
        provider_model: name of that model where it is served.
        candidates: every listed sub-agent and why it is or is not callable.
        compaction_due: whether the episode's history is to be compacted.
    """

    sub_agent_tools: Sequence[SubAgentTool]
    orchestrator_tools: Sequence[OrchestratorTool]
    prompt: Prompt
    cohort: Cohort
    fan_out_cap: int
    max_dispatches_per_turn: int
    binding_digest: str
    previous_sub_agents: PreviousSubAgents
    model: str
    provider_model: str
    candidates: Sequence[Candidate]
    compaction_due: CompactionDue = CompactionDue.UNKNOWN

    def tool(self, name: str) -> SubAgentTool | None:
        """Return the sub-agent tool of that name, or None if it is not on the surface."""
        return next((one for one in self.sub_agent_tools if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Binding:
    """What binding a turn gave.

    Attributes:
        turn_id: the turn.
        surface: what may be called; frozen for the turn.
        surface_token: the same, signed; opaque.
        expires_at: when the turn ends if it is not ended before.
        state: whether this request bound the turn or repeated an earlier one.
    """

    turn_id: str
    surface: Surface
    surface_token: str
    expires_at: datetime
    state: StartState
