"""The surface of a turn, as plain values. The fields equal those of the messages in `subagents.dispatch.v1`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum, unique

from subagents_client.events import StartState


@unique
class TurnSource(StrEnum):
    """Where a turn comes from, and therefore which user its principal is."""

    CHAT = "chat"
    """A user's message; the principal is the authenticated user."""
    SCHEDULED = "scheduled"
    """A scheduled job; the principal is the job's target user."""
    NOTIFICATION = "notification"
    """A notification; the principal is the notification's target user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """The arguments of `SidecarClient.bind_turn`, which asks for the surface of a turn.

    Attributes:
        principal: id of the user on whose behalf the turn runs; 1 to 256 characters; fixed for the turn.
        episode_id: id of the conversation; 1 to 128 printable ASCII characters without spaces.
        turn_id: id of the turn, unique in the deployment, in the form of `episode_id`; empty: the SDK makes one.
        source: where the turn comes from.
        orchestrator_id: id of the orchestrator's definition; empty: the only one (an error if there are several).
        locale: the user's locale as a BCP 47 tag such as `en-US`; None: unknown.
        location: where the user is, in words; 1 to 256 characters; None: unknown.
        experiment_arm: arm of an experiment to which the caller has assigned the user; empty: none.
        date: the user's date as `YYYY-MM-DD`; empty: today in UTC.
        required_features: features of the sidecar's contract that the turn relies on; at most 32. The bind fails if the
            sidecar lacks one.
        user_token: JWT of the user; required if the sidecar has the setting `principals`, which then allows an empty
            `principal`.
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
        description: the description in the definition, unchanged.
        arguments_schema_json: JSON schema of the arguments, as JSON text.
        sub_agent_id: the slot, which identifies the sub-agent in outcomes, history and metrics.
        definition_id: the definition that fills the slot in this turn.
        commit: commit in which the digest first appeared; the digest if the configuration is not in git.
        digest: hash of the definition and of everything that it refers to.
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
    """A tool that the orchestrator runs itself; the sidecar never runs it.

    Attributes:
        name: the tool's name for the model, which is its id in the tool registry.
        description: the tool's description for the model.
        arguments_schema_json: JSON schema of the arguments, as JSON text.
    """

    name: str
    description: str
    arguments_schema_json: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """The orchestrator's system prompt, in two parts.

    Attributes:
        prefix: first part; the same bytes for every user of the cohort, so that providers can cache it.
        suffix: second part: date, location, user id and locale of this user.
        prefix_digest: hash of `prefix`: `sha256:` and 64 hex digits.
    """

    prefix: str
    suffix: str
    prefix_digest: str

    @property
    def text(self) -> str:
        """The whole prompt: `prefix`, then `suffix`."""
        return self.prefix + self.suffix


@dataclass(frozen=True, slots=True)
class Cohort:
    """The cohort of a turn: the users who get the same surface. Source: PC2-FR-15.

    Attributes:
        agent_definition_version: version of all definitions together.
        prompt_block_registry_version: version of all prompt blocks together.
        xml_prompt_component_registry_version: version of the prompt blocks with the sub-agents' capabilities.
        active_feature_flags: names of the flags that are on, of those that the configuration mentions; sorted.
        experiment_arm_assignment: `TurnRequest.experiment_arm`; empty: none.
        active_sub_agents: the slots on the surface, in order.
    """

    agent_definition_version: str
    prompt_block_registry_version: str
    xml_prompt_component_registry_version: str
    active_feature_flags: Sequence[str]
    experiment_arm_assignment: str
    active_sub_agents: Sequence[str]


@dataclass(frozen=True, slots=True)
class PreviousSubAgents:
    """The slots that the episode's last dispatching turn called.

    Attributes:
        known: False if the slots could not be read in time, so that an empty list means unknown.
        sub_agent_ids: the called slots, in emission order.
    """

    known: bool
    sub_agent_ids: Sequence[str]


@unique
class CandidateVerdict(StrEnum):
    """Why a listed sub-agent is, or is not, on the surface."""

    UNSPECIFIED = "unspecified"
    """A reason that this version of the SDK does not know."""
    CHOSEN = "chosen"
    """The definition is on the surface."""
    FLAG_OFF = "flag_off"
    """The kill flag of the definition is off or does not exist."""
    FLAG_STALE = "flag_stale"
    """The flags of the definition could not be read recently enough."""
    COHORT = "cohort"
    """A flag or an experiment excludes the user, before the ramp decides."""
    RAMP = "ramp"
    """The user is outside the ramp of the definition."""
    STATE = "state"
    """The lifecycle state of the definition is not `promote`, or no definition of the slot is active."""
    DEPRECATED = "deprecated"
    """The configuration marks the definition as deprecated."""
    NOT_LISTED = "not_listed"
    """The slot has no definition, or exceeds the operator's maximum number of sub-agents."""
    KILLED = "killed"
    """The definition was killed."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sub-agent that the orchestrator lists, and whether it is on the surface of this turn.

    Attributes:
        sub_agent_id: the slot.
        definition_id: the evaluated definition; empty if the slot has none.
        verdict: whether the definition is on the surface, and if not, why.
    """

    sub_agent_id: str
    definition_id: str
    verdict: CandidateVerdict


@unique
class CompactionDue(StrEnum):
    """Whether the episode's history exceeds the operator's threshold.

    To compact it, call `SidecarClient.read_episode`, then `write_summary`.
    """

    DUE = "due"
    """Write a summary of all but the most recent turns."""
    NOT_DUE = "not_due"
    """The sidecar would refuse a summary."""
    UNKNOWN = "unknown"
    """The size could not be read in time; continue as if no summary were due."""


@dataclass(frozen=True, slots=True)
class Surface:
    """The tools and the prompt of one turn. They are computed when the turn is bound, and do not change afterwards.

    Attributes:
        sub_agent_tools: the sub-agents as tools, in the order of the orchestrator's `sub_agents`; may be empty.
        orchestrator_tools: the orchestrator's own tools, in declared order.
        prompt: the orchestrator's system prompt.
        cohort: the users who get the same surface.
        fan_out_cap: maximum number of calls of the turn that run or wait at the same time; at least 1.
        max_dispatches_per_turn: maximum number of dispatches of the turn; at least 1.
        binding_digest: hash of the surface's tools: `sha256:` and 64 hex digits; the SDK sends it in every dispatch.
        previous_sub_agents: the slots that the episode's last dispatching turn called.
        model: key of the orchestrator's model in the model registry.
        provider_model: name of this model at its provider.
        candidates: every listed sub-agent, with the reason why it is, or is not, on the surface.
        compaction_due: whether the episode's history exceeds the operator's threshold.
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
        """Return the sub-agent tool with this name, or None if the surface has no such tool."""
        return next((one for one in self.sub_agent_tools if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Binding:
    """The result of a bind.

    Attributes:
        turn_id: id of the turn.
        surface: the tools and the prompt of the turn.
        surface_token: signed description of the surface; opaque. The SDK sends it in every request of the turn.
        expires_at: when the token expires; the sidecar then closes the turn if it has not ended.
        state: whether this request bound the turn or repeated an earlier request.
    """

    turn_id: str
    surface: Surface
    surface_token: str
    expires_at: datetime
    state: StartState
