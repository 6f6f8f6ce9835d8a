import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from subagents.dispatch.v1 import question_pb2 as _question_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunRequest(_message.Message):
    __slots__ = ("child_id", "attempt_id", "attempt", "sub_agent_id", "definition_id", "digest", "commit", "arguments_json", "context", "prompt_suffix", "contract_json", "gateway_target", "grant", "card", "timeout", "card_digest", "delegates", "continuation")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUB_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_SUFFIX_FIELD_NUMBER: _ClassVar[int]
    CONTRACT_JSON_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_TARGET_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    CARD_DIGEST_FIELD_NUMBER: _ClassVar[int]
    DELEGATES_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    attempt_id: str
    attempt: int
    sub_agent_id: str
    definition_id: str
    digest: str
    commit: str
    arguments_json: str
    context: InheritedContext
    prompt_suffix: str
    contract_json: str
    gateway_target: str
    grant: str
    card: CardContent
    timeout: _duration_pb2.Duration
    card_digest: str
    delegates: _containers.RepeatedCompositeFieldContainer[DelegateTool]
    continuation: Continuation
    def __init__(self, child_id: _Optional[str] = ..., attempt_id: _Optional[str] = ..., attempt: _Optional[int] = ..., sub_agent_id: _Optional[str] = ..., definition_id: _Optional[str] = ..., digest: _Optional[str] = ..., commit: _Optional[str] = ..., arguments_json: _Optional[str] = ..., context: _Optional[_Union[InheritedContext, _Mapping]] = ..., prompt_suffix: _Optional[str] = ..., contract_json: _Optional[str] = ..., gateway_target: _Optional[str] = ..., grant: _Optional[str] = ..., card: _Optional[_Union[CardContent, _Mapping]] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., card_digest: _Optional[str] = ..., delegates: _Optional[_Iterable[_Union[DelegateTool, _Mapping]]] = ..., continuation: _Optional[_Union[Continuation, _Mapping]] = ...) -> None: ...

class DelegateTool(_message.Message):
    __slots__ = ("name", "description", "arguments_schema_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    arguments_schema_json: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., arguments_schema_json: _Optional[str] = ...) -> None: ...

class InheritedContext(_message.Message):
    __slots__ = ("principal", "user_id", "episode_id", "turn_id", "locale", "location", "prior_context", "task_prompt")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    USER_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    LOCALE_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    PRIOR_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    TASK_PROMPT_FIELD_NUMBER: _ClassVar[int]
    principal: str
    user_id: str
    episode_id: str
    turn_id: str
    locale: str
    location: str
    prior_context: str
    task_prompt: str
    def __init__(self, principal: _Optional[str] = ..., user_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., locale: _Optional[str] = ..., location: _Optional[str] = ..., prior_context: _Optional[str] = ..., task_prompt: _Optional[str] = ...) -> None: ...

class CardContent(_message.Message):
    __slots__ = ("prompt_prefix", "model", "provider_model", "base_url", "max_output_tokens", "reasoning_effort", "text_verbosity", "tools", "component_schemas_json")
    class ComponentSchemasJsonEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROMPT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_MODEL_FIELD_NUMBER: _ClassVar[int]
    BASE_URL_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    TEXT_VERBOSITY_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_SCHEMAS_JSON_FIELD_NUMBER: _ClassVar[int]
    prompt_prefix: str
    model: str
    provider_model: str
    base_url: str
    max_output_tokens: int
    reasoning_effort: str
    text_verbosity: str
    tools: _containers.RepeatedCompositeFieldContainer[ToolDeclaration]
    component_schemas_json: _containers.ScalarMap[str, str]
    def __init__(self, prompt_prefix: _Optional[str] = ..., model: _Optional[str] = ..., provider_model: _Optional[str] = ..., base_url: _Optional[str] = ..., max_output_tokens: _Optional[int] = ..., reasoning_effort: _Optional[str] = ..., text_verbosity: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[ToolDeclaration, _Mapping]]] = ..., component_schemas_json: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ToolDeclaration(_message.Message):
    __slots__ = ("tool_id", "description", "arguments_schema_json", "data_backed")
    TOOL_ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    DATA_BACKED_FIELD_NUMBER: _ClassVar[int]
    tool_id: str
    description: str
    arguments_schema_json: str
    data_backed: bool
    def __init__(self, tool_id: _Optional[str] = ..., description: _Optional[str] = ..., arguments_schema_json: _Optional[str] = ..., data_backed: _Optional[bool] = ...) -> None: ...

class RunResponse(_message.Message):
    __slots__ = ("status", "component", "narration", "usage", "finished")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_FIELD_NUMBER: _ClassVar[int]
    NARRATION_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    status: StatusEvent
    component: RenderedComponent
    narration: str
    usage: UsageReport
    finished: RunFinished
    def __init__(self, status: _Optional[_Union[StatusEvent, _Mapping]] = ..., component: _Optional[_Union[RenderedComponent, _Mapping]] = ..., narration: _Optional[str] = ..., usage: _Optional[_Union[UsageReport, _Mapping]] = ..., finished: _Optional[_Union[RunFinished, _Mapping]] = ...) -> None: ...

class StatusEvent(_message.Message):
    __slots__ = ("type", "attributes")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    type: str
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, type: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RenderedComponent(_message.Message):
    __slots__ = ("name", "tool_input_json", "component_data_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_INPUT_JSON_FIELD_NUMBER: _ClassVar[int]
    COMPONENT_DATA_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool_input_json: str
    component_data_json: str
    def __init__(self, name: _Optional[str] = ..., tool_input_json: _Optional[str] = ..., component_data_json: _Optional[str] = ...) -> None: ...

class UsageReport(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cached_input_tokens")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cached_input_tokens: _Optional[int] = ...) -> None: ...

class RunFinished(_message.Message):
    __slots__ = ("data_unavailable", "question")
    DATA_UNAVAILABLE_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    data_unavailable: bool
    question: QuestionAsked
    def __init__(self, data_unavailable: _Optional[bool] = ..., question: _Optional[_Union[QuestionAsked, _Mapping]] = ...) -> None: ...

class QuestionAsked(_message.Message):
    __slots__ = ("kind", "text", "about_json", "answerer", "expires_in", "state")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ABOUT_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWERER_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    kind: _question_pb2.QuestionKind
    text: str
    about_json: str
    answerer: _question_pb2.Answerer
    expires_in: _duration_pb2.Duration
    state: bytes
    def __init__(self, kind: _Optional[_Union[_question_pb2.QuestionKind, str]] = ..., text: _Optional[str] = ..., about_json: _Optional[str] = ..., answerer: _Optional[_Union[_question_pb2.Answerer, str]] = ..., expires_in: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., state: _Optional[bytes] = ...) -> None: ...

class Continuation(_message.Message):
    __slots__ = ("child_id", "kind", "question", "about_json", "answer", "state")
    CHILD_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ABOUT_JSON_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    child_id: str
    kind: _question_pb2.QuestionKind
    question: str
    about_json: str
    answer: _question_pb2.Answering
    state: bytes
    def __init__(self, child_id: _Optional[str] = ..., kind: _Optional[_Union[_question_pb2.QuestionKind, str]] = ..., question: _Optional[str] = ..., about_json: _Optional[str] = ..., answer: _Optional[_Union[_question_pb2.Answering, _Mapping]] = ..., state: _Optional[bytes] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("sub_agent_ids", "max_concurrent_runs", "software")
    SUB_AGENT_IDS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_RUNS_FIELD_NUMBER: _ClassVar[int]
    SOFTWARE_FIELD_NUMBER: _ClassVar[int]
    sub_agent_ids: _containers.RepeatedScalarFieldContainer[str]
    max_concurrent_runs: int
    software: str
    def __init__(self, sub_agent_ids: _Optional[_Iterable[str]] = ..., max_concurrent_runs: _Optional[int] = ..., software: _Optional[str] = ...) -> None: ...
