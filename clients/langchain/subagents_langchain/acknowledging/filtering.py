"""Removes statements of missing calls from every stream, with a chat model that wraps the chat model.

A wrapper is necessary because callbacks of the model stream its tokens before any middleware gets the response.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import AgentState, ModelRequest, ModelResponse
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableConfig
from typing_extensions import override

from subagents_langchain.acknowledging.statements import LineFilter, StatementRequest, metadata_of, without_statement

UNSEEN: Final[RunnableConfig] = {"callbacks": []}
"""Removes the run's callbacks from the inner model: they would stream unfiltered tokens. The wrapper calls them."""


class FilteredModel(BaseChatModel):
    """A chat model that removes statements from the responses of an inner model, complete or streamed.

    Attributes:
        inner: the wrapped model.
        asked: the missing calls that the model is asked to state.
    """

    inner: Runnable[Any, Any]
    asked: StatementRequest

    @property
    @override
    def _llm_type(self) -> str:
        return "subagents-filtered"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        if not isinstance(self.inner, BaseChatModel):
            raise TypeError("tools are bound once")
        bound: Runnable[Any, Any] = self.inner.bind_tools(tools, **kwargs)
        given: dict[str, Any] = {}
        while isinstance(bound, RunnableBinding):  # it would bring back the callbacks of the run
            given = {**bound.kwargs, **given}
            bound = bound.bound
        return self.model_copy(update={"inner": bound}).bind(**given)

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise TypeError("the graph has to run asynchronously")

    @override
    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = await self.inner.ainvoke(messages, UNSEEN, **_with_stop(stop, kwargs))
        return ChatResult(generations=[ChatGeneration(message=without_statement(message, self.asked))])

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        lines = LineFilter()
        index: Any = None
        async for piece in self.inner.astream(messages, UNSEEN, **_with_stop(stop, kwargs)):
            content = lines.content(piece.content)
            index = next((one["index"] for one in content if isinstance(one, dict) and "index" in one), index)
            if piece.chunk_position != "last":
                yield ChatGenerationChunk(message=piece.model_copy(update={"content": content}))
                continue
            rest: Any = lines.rest()
            if not isinstance(content, str):
                place = {} if index is None else {"index": index}
                rest = [{"type": "text", "text": rest, **place}] if rest else []
            metadata = {**piece.response_metadata, **metadata_of(self.asked, lines)}
            last = {"content": content + rest, "response_metadata": metadata}
            yield ChatGenerationChunk(message=piece.model_copy(update=last))


def filtered(model: BaseChatModel, asked: StatementRequest) -> BaseChatModel:
    """Return a model that removes the statements of `model`; a `FilteredModel` is returned unchanged."""
    if isinstance(model, FilteredModel):
        return model
    return FilteredModel(inner=model, asked=asked, disable_streaming=not _streams(model), cache=False)


class StatementFilter(AgentMiddleware[AgentState[Any], Any, Any]):
    """Removes statements from the responses of the model that is finally called.

    Place it inside of any middleware that may replace the model, e.g. by a fallback: `SidecarMiddleware` only filters
    the model that it gets itself.
    """

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Filter the model if this call asks for a statement."""
        asked: StatementRequest | None = request.runtime.context.asked
        return await handler(request if asked is None else request.override(model=filtered(request.model, asked)))


def _streams(model: BaseChatModel) -> bool:
    """Whether a model can stream its responses."""
    told_not_to = "streaming" in model.model_fields_set and getattr(model, "streaming", None) is False
    if model.disable_streaming or told_not_to:
        return False
    kind, base = type(model), BaseChatModel
    return kind._astream is not base._astream or kind._stream is not base._stream  # noqa: SLF001  no public way to ask


def _with_stop(stop: list[str] | None, more: dict[str, Any]) -> dict[str, Any]:
    return more if stop is None else {**more, "stop": stop}
