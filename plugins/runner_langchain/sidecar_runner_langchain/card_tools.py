"""The tools of a card as LangChain tools. They have no state of a run: each call reads the current attempt."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_stream_writer
from typing_extensions import override

from sidecar_runner_langchain.attempt import Attempt, current_attempt
from sidecar_runner_langchain.failures import CardNotRunnable
from sidecar_runner_langchain.schemas import STATUS_KEYWORD, Schema, schema_of
from subagents_client.runner import Card, DataUnavailable, Delegate, Run, Tool
from subagents_errors import DelegationRefused, InvalidRequest, MessageTooLarge, ToolBudgetExhausted, ToolNotAllowed

DATA_UNAVAILABLE: Final = "data unavailable"
"""The whole answer to the model if a data service returned no data. Source: PC2-FR-12, DESIGN section 6."""
COMPONENT: Final = "render_"
REPORT: Final = "report_status"
"""A local tool of this name reports progress; the schema of its arguments lists the types that a model may use."""

LocalTool = Callable[[Mapping[str, Any], Run], Awaitable[Any]]
"""The function of a tool without a data service: gets the arguments and the run, and returns a JSON value. For a
`render_*` tool, the value is the data of the component."""


class CardTool(BaseTool):
    """A tool of a card. It validates the arguments first, and returns correctable mistakes to the model.

    Attributes:
        arguments_json: JSON schema of the arguments, as JSON text.
        status: type of the status event that each call reports; empty: none.
    """

    arguments_json: str
    status: str = ""

    @override
    def _run(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.name} waits for other processes: use ainvoke")

    @override
    async def _arun(self, /, *args: Any, **arguments: Any) -> str:
        # `self` is positional only, so that a model may name an argument as it likes.
        attempt = current_attempt()
        if problems := schema_of(self.arguments_json).problems(arguments):
            raise attempt.mistake(self.name, problems)
        if self.status:
            get_stream_writer()({"status": self.status})
        return await self.carry_out(attempt, arguments)

    async def carry_out(self, attempt: Attempt, arguments: Mapping[str, Any]) -> str:
        """Run the tool with valid arguments, and return the text for the model.

        Raises:
            ToolException: the tool failed; the model gets the exception's text.
        """
        raise ToolException(f"{self.name} does nothing")


class DataTool(CardTool):
    """Reads data through the tool gateway, for the user of the turn. Source: PC2-FR-11."""

    @override
    async def carry_out(self, attempt: Attempt, arguments: Mapping[str, Any]) -> str:
        try:
            result = await attempt.run.call_tool(self.name, arguments)
        except (InvalidRequest, MessageTooLarge) as error:
            raise attempt.mistake(self.name, error.message) from None
        except (ToolNotAllowed, ToolBudgetExhausted):
            raise ToolException(f"{self.name} cannot be called any more; answer with what you have.") from None
        attempt.note_data(self.name, came=not isinstance(result, DataUnavailable))
        if isinstance(result, DataUnavailable):
            return DATA_UNAVAILABLE
        return _text({"partial": True, "data": result.payload} if result.partial else result.payload)


class AskTool(CardTool):
    """Calls another sub-agent of the turn. Source: SX-17."""

    @override
    async def carry_out(self, attempt: Attempt, arguments: Mapping[str, Any]) -> str:
        try:
            answer = await attempt.run.delegate(self.name, arguments)
        except (InvalidRequest, MessageTooLarge) as error:
            raise attempt.mistake(self.name, error.message) from None
        except DelegationRefused as refused:
            again = "now" if refused.metadata.get("reason") == "busy" else "any more"
            raise ToolException(f"{self.name} cannot be asked {again}; answer with what you have.") from None
        if not answer.narration and answer.message:
            return answer.message
        shown = [{"component": each.name, "data": json.loads(each.component_data_json)} for each in answer.components]
        told = {"answer": answer.narration, **({"components": shown} if shown else {})}
        return _text({**told, "note": answer.message} if answer.message else told)


class OwnTool(CardTool):
    """Calls a function of the host."""

    does: LocalTool

    @override
    async def carry_out(self, attempt: Attempt, arguments: Mapping[str, Any]) -> str:
        return _text(await self.does(arguments, attempt.run))


class ReportTool(CardTool):
    """Reports progress: `type`, and further arguments as its attributes. Source: PC1-FR-13a."""

    @override
    async def carry_out(self, attempt: Attempt, arguments: Mapping[str, Any]) -> str:
        attributes = {name: value for name, value in arguments.items() if name != "type"}
        get_stream_writer()({"status": arguments["type"], "attributes": attributes})
        return "reported"


class RenderTool(CardTool):
    """Makes a component, with a function of the host or, without one, from the arguments alone. Source: PC1-FR-3c.

    Attributes:
        component_json: JSON schema of the component, as JSON text.
        does: the function that returns the component; None: the arguments are the component.
    """

    component_json: str
    does: LocalTool | None = None

    @override
    async def carry_out(self, attempt: Attempt, arguments: Mapping[str, Any]) -> str:
        made = arguments if self.does is None else await self.does(arguments, attempt.run)
        if problems := schema_of(self.component_json).problems(made):
            raise attempt.mistake(self.name, problems)
        try:
            attempt.run.render(self.name, tool_input=arguments, component_data=made)
        except ValueError as error:
            raise ToolException(f"{error}; answer with what you have.") from None
        return "shown"


def tools_of(card: Card, local: Mapping[str, LocalTool]) -> Sequence[BaseTool]:
    """Return the tools of a card, in declared order.

    Raises:
        CardNotRunnable: a schema is none, or a local tool has no function here.
    """
    return [_tool_of(tool, card, local.get(tool.tool_id)) for tool in card.tools]


def asking(delegates: Sequence[Delegate]) -> Sequence[BaseTool]:
    """Return a tool for each sub-agent to which this one may delegate, in the order of the sidecar.

    Raises:
        CardNotRunnable: a schema is invalid.
    """
    return [
        AskTool(
            name=each.name,
            description=each.description,
            args_schema=_shown(_checked(each.name, each.arguments_schema_json).content),
            arguments_json=each.arguments_schema_json,
            handle_tool_error=True,
        )
        for each in delegates
    ]


def _tool_of(tool: Tool, card: Card, does: LocalTool | None) -> BaseTool:
    schema = _checked(tool.tool_id, tool.arguments_schema_json)
    status = schema.content.get(STATUS_KEYWORD, "")
    shared: dict[str, Any] = {
        "name": tool.tool_id,
        "description": tool.description,
        "args_schema": _shown(schema.content),
        "arguments_json": tool.arguments_schema_json,
        "status": status if isinstance(status, str) else "",
        "handle_tool_error": True,
    }
    if tool.data_backed:
        return DataTool(**shared)
    if tool.tool_id.startswith(COMPONENT):
        component = card.component_schemas_json.get(tool.tool_id, "{}")
        _checked(tool.tool_id, component)
        return RenderTool(**shared, component_json=component, does=does)
    if tool.tool_id == REPORT and does is None:
        _check_types(schema.content)
        return ReportTool(**shared)
    if does is None:
        raise CardNotRunnable(f"{tool.tool_id} is a local tool and this host has no function for it; give --tools")
    return OwnTool(**shared, does=does)


def _check_types(schema: Mapping[str, Any]) -> None:
    """Refuse a schema that does not name the types which may be reported: a model would make them up.

    Raises:
        CardNotRunnable: `type` is not required, or is not an enumeration.
    """
    types = schema.get("properties", {}).get("type", {}).get("enum")
    if not types or "type" not in schema.get("required", ()) or not all(isinstance(one, str) for one in types):
        raise CardNotRunnable(f"{REPORT} needs a required argument `type` whose `enum` lists status events")


def _checked(tool_id: str, text: str) -> Schema:
    try:
        return schema_of(text)
    except ValueError:
        raise CardNotRunnable(f"a schema of {tool_id} is no JSON schema") from None


def _shown(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the model sees of a schema: without our annotation, and an object also where nothing is declared."""
    shown = {key: value for key, value in content.items() if key != STATUS_KEYWORD}
    return {"type": "object", "properties": {}, **shown}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
