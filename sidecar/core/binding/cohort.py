"""The six-field tuple that distinguishes the users who see the same surface."""

from msgspec import Struct

from sidecar.core.identifiers import Slot


class Cohort(Struct, frozen=True):
    """Six fields, in the order of PF1 §5.5. Source: TN-49, REQUIREMENTS 6.11.

    Attributes:
        active_feature_flags: sorted; only flags that the orchestrator's configuration mentions.
        experiment_arm_assignment: as the caller sent it; empty if none.
    """

    agent_definition_version: str
    prompt_block_registry_version: str
    xml_prompt_component_registry_version: str
    active_feature_flags: tuple[str, ...]
    experiment_arm_assignment: str
    active_sub_agents: tuple[Slot, ...]
