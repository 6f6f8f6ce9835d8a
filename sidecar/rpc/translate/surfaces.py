"""Translates the surface of a turn (its tools and prompt) to the response of BindTurn."""

from typing import Final

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate, Surface, SurfaceTool
from sidecar.core.definitions.cards.card import ToolEntry
from sidecar.operations.turn.bind_turn import Bound
from sidecar.rpc.translate.enums import CANDIDATE, COMPACTION_DUE
from sidecar.rpc.translate.fields import timestamp
from subagents.dispatch.v1 import dispatch_pb2, surface_pb2

MOST_SURFACES: Final = 256
"""The most cached surfaces. If there are more, the cache is emptied: after a change of the definitions, old ones are
useless."""


class BoundTurns:
    """Builds responses to BindTurn.

    A cohort consists of the users with the same surface. The part of the response that they share is built once and
    cached as bytes.

    Args:
        contract: the version and the features of the API that clients are offered.
    """

    def __init__(self, contract: dispatch_pb2.Contract) -> None:
        self._contract = contract
        self._parts: dict[int, tuple[Surface, bytes]] = {}

    def __call__(self, bound: Bound) -> dispatch_pb2.BindTurnResponse:
        """Return the answer to BindTurn."""
        answer = dispatch_pb2.BindTurnResponse(
            surface_token=bound.surface_token,
            expires_at=timestamp(bound.expires_at),
            state=start_state(attached=bound.attached),
            compaction_due=COMPACTION_DUE[bound.compaction_due],
            contract=self._contract,
        )
        surface = answer.surface
        surface.MergeFromString(self._of_cohort(bound.surface))
        # After the merge, which has filled in the prefix that the cohort shares.
        surface.prompt.suffix = bound.prompt_suffix
        previous = surface.previous_sub_agents
        previous.SetInParent()  # always present: `known` says whether the last turn's sub-agents are known
        if bound.previous is not None:
            previous.known = True
            previous.sub_agent_ids.extend(bound.previous)
        return answer

    def _of_cohort(self, surface: Surface) -> bytes:
        """Return the surface's message, cached by identity: binds share surfaces, and comparing surfaces costs more.

        The cache keeps the surfaces, so that their identity is not given to another object.
        """
        cached = self._parts.get(id(surface))
        if cached is None:
            if len(self._parts) >= MOST_SURFACES:
                self._parts = {}
            cached = self._parts[id(surface)] = (surface, _surface(surface).SerializeToString())
        return cached[1]


def start_state(*, attached: bool) -> dispatch_pb2.StartState:
    """Return whether a request began the work, or found that it had begun."""
    return dispatch_pb2.START_STATE_ATTACHED if attached else dispatch_pb2.START_STATE_STARTED


def cohort_message(cohort: Cohort) -> surface_pb2.Cohort:
    """Return the six fields that identify a cohort."""
    return surface_pb2.Cohort(
        agent_definition_version=cohort.agent_definition_version,
        prompt_block_registry_version=cohort.prompt_block_registry_version,
        xml_prompt_component_registry_version=cohort.xml_prompt_component_registry_version,
        active_feature_flags=cohort.active_feature_flags,
        experiment_arm_assignment=cohort.experiment_arm_assignment,
        active_sub_agents=cohort.active_sub_agents,
    )


def candidate_message(candidate: Candidate) -> surface_pb2.Candidate:
    """Return one sub-agent that the bind considered, and why it is offered or not."""
    return surface_pb2.Candidate(
        sub_agent_id=candidate.slot,
        definition_id=candidate.definition_id or "",
        verdict=CANDIDATE[candidate.verdict],
    )


def _surface(surface: Surface) -> surface_pb2.Surface:
    """Return the part that all turns of a cohort share."""
    # The definition of the orchestrator, with the contents of its prompt and tools.
    card = surface.orchestrator
    return surface_pb2.Surface(
        sub_agent_tools=[_sub_agent_tool(tool) for tool in surface.tools],
        orchestrator_tools=[_orchestrator_tool(tool) for tool in card.tools],
        prompt=surface_pb2.Prompt(prefix=surface.prompt_prefix, prefix_digest=surface.prefix_digest),
        cohort=cohort_message(surface.cohort),
        fan_out_cap=surface.fan_out_cap,
        max_dispatches_per_turn=surface.max_dispatches,
        binding_digest=surface.binding_digest,
        model=card.model.id,
        provider_model=card.model.provider_model,
        candidates=[candidate_message(candidate) for candidate in surface.candidates],
    )


def _sub_agent_tool(tool: SurfaceTool) -> surface_pb2.SubAgentTool:
    return surface_pb2.SubAgentTool(
        name=tool.name,
        description=tool.description,
        arguments_schema_json=tool.arguments_schema_json,
        sub_agent_id=tool.slot,
        definition_id=tool.card.definition.id,
        commit=tool.card.commit,
        digest=tool.card.digest,
    )


def _orchestrator_tool(tool: ToolEntry) -> surface_pb2.OrchestratorTool:
    return surface_pb2.OrchestratorTool(
        name=tool.id, description=tool.description, arguments_schema_json=tool.arguments_schema_json
    )
