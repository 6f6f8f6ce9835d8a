"""The script of the conversation: the user's messages, the planned faults, and the expected results."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from subagents_client import CapBehaviour, Outcome

GOOD: Final = Outcome.SUCCEEDED


class PlannedFault(Enum):
    """A fault that the demo injects during a turn."""

    NONE = auto()
    REWARDS_RAISES = auto()
    """The rewards sub-agent raises an exception."""
    WRONG_PRINCIPAL = auto()
    """The data service answers the points request with the data of another user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """One turn of the script.

    Attributes:
        title: in a few words.
        watch: what the turn demonstrates.
        says: the user's message.
        calls: the expected slot and outcome of each call, in emission order.
        fault: the injected fault.
        cap: whether the calls stay within the cap of 3.
        answer_has: words that the answer must contain.
        answer_lacks: words that the answer must not contain.
        min_status: the minimum number of progress reports that the user sees.
        short: whether the short demo plays the turn, too.
    """

    title: str
    watch: str
    says: str
    calls: Sequence[tuple[str, Outcome]]
    fault: PlannedFault = PlannedFault.NONE
    cap: CapBehaviour = CapBehaviour.WITHIN
    answer_has: Sequence[str] = ()
    answer_lacks: Sequence[str] = ("About “",)
    min_status: int = 0
    short: bool = False


SCENES: Final[Sequence[ScriptedTurn]] = (
    ScriptedTurn(
        title="one question, one sub-agent",
        watch="The model picks one tool by its description. The sidecar runs the sub-agent and returns its result.",
        says="Hi! Are there any offers on coffee?",
        calls=[("shop", GOOD)],
        answer_has=["coffee beans", "Harbour Roasters"],
        min_status=1,
    ),
    ScriptedTurn(
        title="two questions in one message",
        watch="Two calls in one model response: both sub-agents run concurrently; the answer combines the results.",
        says="Do I have enough points for that, and are there any deals on running shoes?",
        calls=[("rewards", GOOD), ("shop", GOOD)],
        answer_has=["points (bronze tier)", "running shoes"],
        min_status=2,
    ),
    ScriptedTurn(
        title="the subject changes",
        watch="The user changes the subject. Support gets a summary (prior_context), so it knows which order is meant.",
        says="And where is my order?",
        calls=[("support", GOOD)],
        answer_has=["coffee beans", "processing"],
        answer_lacks=["groceries", "About “"],
        min_status=1,
    ),
    ScriptedTurn(
        title="a long request, with progress",
        watch="Sub-agents report typed progress (searching_offers, store=...); the client turns it into words.",
        says="Plan a weekend for us with everything on offer, and tell me which points are still on their way.",
        calls=[("shop", GOOD), ("rewards", GOOD)],
        answer_has=["City Aquarium", "Greenfield Market", "on their way"],
        min_status=5,
    ),
    ScriptedTurn(
        title="a sub-agent crashes",
        watch="Rewards raises an exception. Shop is not affected. The answer says what is missing, without details.",
        short=True,
        says="What is my points balance, and are there offers on headphones?",
        calls=[("rewards", Outcome.FAILED), ("shop", GOOD)],
        fault=PlannedFault.REWARDS_RAISES,
        answer_has=["headphones", "About “what is my points balance”: sorry"],
        answer_lacks=["PlantedDefect", "Traceback", "RUNNER_FAILED", "<<", "part of your request"],
    ),
    ScriptedTurn(
        title="the data service returns another user's data",
        watch="The sidecar withholds the response before rewards sees a byte of it, and counts the mismatch.",
        short=True,
        says="What is my points balance now?",
        calls=[("rewards", Outcome.DEGRADED)],
        fault=PlannedFault.WRONG_PRINCIPAL,
        answer_has=["cannot be looked up"],
        answer_lacks=["bronze", "silver", "gold"],
    ),
    ScriptedTurn(
        title="more calls than allowed",
        watch="Four calls, but the cap is 3: three run, the fourth is dropped before it starts, and the user is told.",
        says="Offers on rain jackets, offers on groceries, my points balance, and where is my order?",
        calls=[("shop", GOOD), ("shop", GOOD), ("rewards", GOOD), ("support", Outcome.DROPPED)],
        cap=CapBehaviour.OVER,
        answer_has=["Rain jackets", "groceries", "bronze tier", "About “where is my order”"],
        answer_lacks=["sorry"],
    ),
    ScriptedTurn(
        title="small talk",
        watch="Small talk needs no sub-agent. The turn is recorded nevertheless.",
        says="Thanks, that was all!",
        calls=[],
        answer_has=["welcome"],
    ),
)
SHORT_SCENES: Final[Sequence[ScriptedTurn]] = tuple(scene for scene in SCENES if scene.short)
"""The turns of the short demo."""
