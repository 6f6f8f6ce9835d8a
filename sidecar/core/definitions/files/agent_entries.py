"""Reads the entries of `agent_config.yaml::agents`.

Part of the loading of a configuration: `registries` calls this for each agent, and `resolve` builds the cards from
the result.
"""

from typing import Final, cast

from sidecar.core.definitions.cards.ask_arguments import DEFAULT_ARGUMENTS
from sidecar.core.definitions.cards.card import (
    AgentDefinition,
    Limits,
    Role,
    RunnerRef,
    Tuning,
)
from sidecar.core.definitions.files.addresses import problem_with_target
from sidecar.core.definitions.files.documents import Entry, SourceLocation
from sidecar.core.definitions.files.fields import Fields
from sidecar.core.definitions.files.names import (
    FLAG,
    FLAG_RULE,
    MODEL_KEY,
    MODEL_RULE,
    SUBAGENT_FLAG_PREFIX,
    WORD,
    WORD_RULE,
    optional_id,
    read_id,
)
from sidecar.core.definitions.files.problems import Problem, quoted
from sidecar.core.definitions.files.schemas import read_schema
from sidecar.core.identifiers import BlockId, DefinitionId, ModelId, Slot, ToolId, Vertical

GRPC: Final = "grpc"
AGENT_FIELDS: Final = (
    "id", "description", "role", "model", "tools", "prompt_blocks", "sub_agents", "tuning", "enabled_via_flag",
    "deprecated", "status", "slot", "vertical", "runner", "arguments", "ownership", "limits", "components",
    "success_criteria", "allow_empty_answer", "verbatim_text",
)  # fmt: skip
TUNING_FIELDS: Final = ("max_output_tokens", "reasoning_effort", "text_verbosity")
RUNNER_FIELDS: Final = ("kind", "target")
LIMIT_FIELDS: Final = (
    "attempt_timeout", "max_retries", "idle_timeout", "wall_clock", "tool_calls", "tokens", "close_on_completion",
    "max_delegation_depth", "calls_per_user_per_day",
)  # fmt: skip


def read_agent(place: SourceLocation, problems: list[Problem]) -> Entry[AgentDefinition]:
    """Return the entry at `place`; add its problems to `problems`.

    Source: PC1-FR-1, REQUIREMENTS 6.1, DESIGN section 3.
    """
    fields = Fields(place, AGENT_FIELDS, problems)
    name = read_id(fields, "id")
    slot = optional_id(fields, "slot") or name
    model = fields.matching("model", MODEL_KEY, MODEL_RULE) if fields.has("model") else fields.text("model")
    definition = AgentDefinition(
        id=DefinitionId(name),
        # Not trimmed: the description reaches the model, and the digest, exactly as it is written.
        description=fields.text("description"),
        # A wrong value is reported, and reading continues with any valid one: the result is discarded because of the
        # error.
        role=fields.choice("role", Role) or Role.NATIVE,
        model=ModelId(model or ""),
        tools=cast(tuple[ToolId, ...], fields.texts("tools")),
        prompt_blocks=cast(tuple[BlockId, ...], fields.texts("prompt_blocks")),
        sub_agents=cast(tuple[Slot, ...], fields.texts("sub_agents")),
        tuning=_tuning(fields),
        enabled_via_flag=_flag(fields, name),
        deprecated=_deprecated(fields),
        slot=Slot(slot),
        vertical=Vertical(optional_id(fields, "vertical") or slot),
        runner=_runner(fields),
        arguments=read_schema(fields, "arguments", of_object=True) or DEFAULT_ARGUMENTS,
        ownership=fields.texts("ownership"),
        limits=_limits(fields),
        components=_components(fields),
        success_criteria=fields.texts("success_criteria"),
        allow_empty_answer=fields.flag("allow_empty_answer", False),
        verbatim_text=fields.flag("verbatim_text", False),
    )
    return Entry(definition, place)


def _tuning(agent: Fields) -> Tuning:
    fields = agent.section("tuning", TUNING_FIELDS)
    if fields is None:
        return Tuning()
    return Tuning(
        max_output_tokens=fields.whole("max_output_tokens", 1),
        reasoning_effort=fields.matching("reasoning_effort", WORD, WORD_RULE),
        text_verbosity=fields.matching("text_verbosity", WORD, WORD_RULE),
    )


def _runner(agent: Fields) -> RunnerRef:
    fields = agent.section("runner", RUNNER_FIELDS)
    if fields is None:
        return RunnerRef()
    kind, target = fields.matching("kind", WORD, WORD_RULE), fields.optional_text("target")
    # Without a kind, the default runner applies, usually `grpc`. Other runners check their targets themselves.
    problem = problem_with_target(target) if target is not None and kind in {None, GRPC} else None
    if problem is not None:
        fields.note("target", problem if kind else f"{problem} (for another kind of runner, name it in `kind`)")
    return RunnerRef(kind=kind, target=target)


def _limits(agent: Fields) -> Limits:
    fields = agent.section("limits", LIMIT_FIELDS)
    if fields is None:
        return Limits()
    # A wrong value reads as None and gets the default: its problem discards the result anyway.
    default = Limits()
    return Limits(
        attempt_timeout=fields.duration("attempt_timeout") or default.attempt_timeout,
        max_retries=fields.whole("max_retries", 0) or 0,
        idle_timeout=fields.duration("idle_timeout"),
        wall_clock=fields.duration("wall_clock"),
        tool_calls=fields.whole("tool_calls", 1),
        tokens=fields.whole("tokens", 1),
        close_on_completion=fields.flag("close_on_completion", default.close_on_completion),
        max_delegation_depth=fields.whole("max_delegation_depth", 0) or 0,
        calls_per_user_per_day=fields.whole("calls_per_user_per_day", 1),
    )


def _components(agent: Fields) -> dict[str, dict[str, object]]:
    declared = agent.mapping("components")
    # All names are known here: a component may have any name.
    problems_of = agent.section("components", tuple(declared))
    if problems_of is None:
        return {}
    return {name: dict(read_schema(problems_of, name, of_object=True)) for name in declared}


def _flag(fields: Fields, name: str) -> str | None:
    """Return the kill-switch flag, which is named after the definition. Source: TN-58, TN-96, REQUIREMENTS 6.13."""
    flag = fields.matching("enabled_via_flag", FLAG, FLAG_RULE)
    own = SUBAGENT_FLAG_PREFIX + name
    # Not without an id: its absence is reported already.
    if flag is not None and name and flag != own:
        fields.note("enabled_via_flag", f"{quoted(flag)} must be {quoted(own)}: each definition has its own flag")
    return flag


def _deprecated(fields: Fields) -> bool:
    """Return whether the entry exists only for replay. Both spellings count. Source: PF1-NFR-5b, TN-88."""
    status = fields.optional_text("status")
    if status is not None and status not in {"active", "deprecated"}:
        fields.note("status", f"unknown value {quoted(status)}, not one of active, deprecated")
        status = None
    # `status` decides if `deprecated` is not written; two spellings that contradict each other are an error.
    deprecated = fields.flag("deprecated", status == "deprecated")
    if status is not None and deprecated != (status == "deprecated"):
        fields.note("status", f"says {status} while `deprecated` says {str(deprecated).lower()}; keep one of them")
    return deprecated
