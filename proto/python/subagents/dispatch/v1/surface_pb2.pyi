from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CandidateVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANDIDATE_VERDICT_UNSPECIFIED: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_CHOSEN: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_FLAG_OFF: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_FLAG_STALE: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_COHORT: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_RAMP: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_STATE: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_DEPRECATED: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_NOT_LISTED: _ClassVar[CandidateVerdict]
    CANDIDATE_VERDICT_KILLED: _ClassVar[CandidateVerdict]
CANDIDATE_VERDICT_UNSPECIFIED: CandidateVerdict
CANDIDATE_VERDICT_CHOSEN: CandidateVerdict
CANDIDATE_VERDICT_FLAG_OFF: CandidateVerdict
CANDIDATE_VERDICT_FLAG_STALE: CandidateVerdict
CANDIDATE_VERDICT_COHORT: CandidateVerdict
CANDIDATE_VERDICT_RAMP: CandidateVerdict
CANDIDATE_VERDICT_STATE: CandidateVerdict
CANDIDATE_VERDICT_DEPRECATED: CandidateVerdict
CANDIDATE_VERDICT_NOT_LISTED: CandidateVerdict
CANDIDATE_VERDICT_KILLED: CandidateVerdict

class Surface(_message.Message):
    __slots__ = ("sub_agent_tools", "orchestrator_tools", "prompt", "cohort", "fan_out_cap", "max_dispatches_per_turn", "binding_digest", "previous_sub_agents", "model", "provider_model", "candidates")
    SUB_AGENT_TOOLS_FIELD_NUMBER: _ClassVar[int]
    ORCHESTRATOR_TOOLS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    FAN_OUT_CAP_FIELD_NUMBER: _ClassVar[int]
    MAX_DISPATCHES_PER_TURN_FIELD_NUMBER: _ClassVar[int]
    BINDING_DIGEST_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_SUB_AGENTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_MODEL_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    sub_agent_tools: _containers.RepeatedCompositeFieldContainer[SubAgentTool]
    orchestrator_tools: _containers.RepeatedCompositeFieldContainer[OrchestratorTool]
    prompt: Prompt
    cohort: Cohort
    fan_out_cap: int
    max_dispatches_per_turn: int
    binding_digest: str
    previous_sub_agents: PreviousSubAgents
    model: str
    provider_model: str
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    def __init__(self, sub_agent_tools: _Optional[_Iterable[_Union[SubAgentTool, _Mapping]]] = ..., orchestrator_tools: _Optional[_Iterable[_Union[OrchestratorTool, _Mapping]]] = ..., prompt: _Optional[_Union[Prompt, _Mapping]] = ..., cohort: _Optional[_Union[Cohort, _Mapping]] = ..., fan_out_cap: _Optional[int] = ..., max_dispatches_per_turn: _Optional[int] = ..., binding_digest: _Optional[str] = ..., previous_sub_agents: _Optional[_Union[PreviousSubAgents, _Mapping]] = ..., model: _Optional[str] = ..., provider_model: _Optional[str] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ...) -> None: ...

class SubAgentTool(_message.Message):
    __slots__ = ("name", "description", "arguments_schema_json", "sub_agent_id", "definition_id", "commit", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    arguments_schema_json: str
    sub_agent_id: str
    definition_id: str
    commit: str
    digest: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., arguments_schema_json: _Optional[str] = ..., sub_agent_id: _Optional[str] = ..., definition_id: _Optional[str] = ..., commit: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class OrchestratorTool(_message.Message):
    __slots__ = ("name", "description", "arguments_schema_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    arguments_schema_json: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., arguments_schema_json: _Optional[str] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ("prefix", "suffix", "prefix_digest")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SUFFIX_FIELD_NUMBER: _ClassVar[int]
    PREFIX_DIGEST_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    suffix: str
    prefix_digest: str
    def __init__(self, prefix: _Optional[str] = ..., suffix: _Optional[str] = ..., prefix_digest: _Optional[str] = ...) -> None: ...

class Cohort(_message.Message):
    __slots__ = ("agent_definition_version", "prompt_block_registry_version", "xml_prompt_component_registry_version", "active_feature_flags", "experiment_arm_assignment", "active_sub_agents")
    AGENT_DEFINITION_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_BLOCK_REGISTRY_VERSION_FIELD_NUMBER: _ClassVar[int]
    XML_PROMPT_COMPONENT_REGISTRY_VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_FEATURE_FLAGS_FIELD_NUMBER: _ClassVar[int]
    EXPERIMENT_ARM_ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_SUB_AGENTS_FIELD_NUMBER: _ClassVar[int]
    agent_definition_version: str
    prompt_block_registry_version: str
    xml_prompt_component_registry_version: str
    active_feature_flags: _containers.RepeatedScalarFieldContainer[str]
    experiment_arm_assignment: str
    active_sub_agents: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, agent_definition_version: _Optional[str] = ..., prompt_block_registry_version: _Optional[str] = ..., xml_prompt_component_registry_version: _Optional[str] = ..., active_feature_flags: _Optional[_Iterable[str]] = ..., experiment_arm_assignment: _Optional[str] = ..., active_sub_agents: _Optional[_Iterable[str]] = ...) -> None: ...

class PreviousSubAgents(_message.Message):
    __slots__ = ("known", "sub_agent_ids")
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    known: bool
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, known: _Optional[bool] = ..., sub_agent_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("sub_agent_id", "definition_id", "verdict")
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    sub_agent_id: str
    definition_id: str
    verdict: CandidateVerdict
    def __init__(self, sub_agent_id: _Optional[str] = ..., definition_id: _Optional[str] = ..., verdict: _Optional[_Union[CandidateVerdict, str]] = ...) -> None: ...
