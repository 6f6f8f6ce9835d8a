"""A stand-in for a model that needs no network: rules over words. Not an LLM, and it says so."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from examples.consumer_agent.history import Message, Role, ToolUse
from examples.consumer_agent.intents import Intent, intents_in
from examples.consumer_agent.model import Reply, ToolOffer

NOT_ANSWERED: Final = re.compile(
    r"could not answer|gave no answer|cannot be reached|before there was an answer|right now"
)
NOT_ASKED: Final = re.compile(r"^Not asked:|was not carried out")
CAVEAT: Final = re.compile(r"\s*Note: some of the data needed for this answer was unavailable\.")
REMEMBERED: Final = 3
"""Earlier answers that go into `prior_context`."""


class RuleBasedModel:
    """Calls the tools whose descriptions fit the words of the message, and composes answers from what they returned."""

    name: Final = "offline rule-based model, not an LLM"

    def __init__(self) -> None:
        self._calls = 0

    async def respond(self, prompt: str, tools: Sequence[ToolOffer], history: Sequence[Message]) -> Reply:
        """As `Model.respond`; of the prompt, rules have no use."""
        del prompt
        return self.reply(tools, history)

    def reply(self, tools: Sequence[ToolOffer], history: Sequence[Message]) -> Reply:
        """Return tool calls with a preamble, or the answer."""
        if history[-1].role is Role.TOOL:
            return Reply(compose(history))
        intents_found = intents_in(history[-1].text, tools)
        if not intents_found:
            return Reply("You are welcome! Ask me about offers, your points or an order.")
        intents = len({intent.tool.name for intent in intents_found})
        calls = [self._call(intent, intents) for intent in intents_found]
        return Reply(preamble(intents_found), calls, prior_context(history, calls))

    def _call(self, intent: Intent, intents: int) -> ToolUse:
        self._calls += 1
        known = intent.tool.schema.get("properties", {})
        arguments: dict[str, Any] = {"request": intent.words}
        if "intent_count" in known:
            arguments["intent_count"] = intents
        return ToolUse(f"call-{self._calls}", intent.tool.name, arguments)


def preamble(intents_found: Sequence[Intent]) -> str:
    """Say in a few words what is looked up."""
    if len(intents_found) == 1:
        return "One moment, I am looking that up."
    return f"I am looking up {number(len(intents_found))} things for you at once."


def number(count: int) -> str:
    """Return a small number in words."""
    return {2: "two", 3: "three", 4: "four", 5: "five"}.get(count, str(count))


def prior_context(history: Sequence[Message], calls: Sequence[ToolUse]) -> str:
    """Return what was asked and found before, if an assistant is called that was not called last; else nothing."""
    before = list(answered_calls(history))
    last = next((message for message in reversed(history[:-1]) if message.calls), None)
    if last is None or {call.name for call in calls} <= {call.name for call in last.calls}:
        return ""
    facts = [
        f'The user asked "{call.arguments.get("request", "")}" and learned: {text}'
        for call, text in before
        if not (NOT_ANSWERED.search(text) or NOT_ASKED.search(text) or CAVEAT.search(text))
    ]
    return " ".join(facts[-REMEMBERED:])


def compose(history: Sequence[Message]) -> str:
    """Write one answer out of the tool messages at the end; only what they say is said."""
    start = max(place for place, message in enumerate(history) if message.calls)
    good: list[str] = []
    sorry: list[str] = []
    for call, text in answered_calls(history[start:]):
        intent = f"About “{str(call.arguments.get('request', '')).lower()}”:"
        if NOT_ASKED.search(text):
            sorry.append(f"{intent} that was a lot at once, so I left it for later. Just ask me again.")
        elif NOT_ANSWERED.search(text):
            sorry.append(f"{intent} sorry, I could not find that out just now. Please try again in a moment.")
        elif CAVEAT.search(text):
            sorry.append(f"{CAVEAT.sub('', text)} I would rather leave it out than tell you something wrong.")
        else:
            good.append(text)
    return " ".join([*good, *sorry])


def acknowledged(history: Sequence[Message]) -> Iterator[ToolUse]:
    """Yield the calls about which `compose` tells the user that something is missing."""
    start = max((place for place, message in enumerate(history) if message.calls), default=0)
    for call, text in answered_calls(history[start:]):
        if NOT_ASKED.search(text) or NOT_ANSWERED.search(text) or CAVEAT.search(text):
            yield call


def answered_calls(history: Sequence[Message]) -> Iterator[tuple[ToolUse, str]]:
    """Yield every tool call with the text that answered it, in the order of the answers."""
    calls = {call.call_id: call for message in history for call in message.calls}
    for message in history:
        if message.role is Role.TOOL and message.call_id in calls:
            yield calls[message.call_id], message.text
