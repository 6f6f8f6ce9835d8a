"""The conversation: what the user says, what goes wrong meanwhile, and what must come of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from subagents_client import CapBehaviour, Outcome

GOOD: Final = Outcome.SUCCEEDED


class PlannedFault(Enum):
    """What the demo does behind the scenes during a turn."""

    NONE = auto()
    REWARDS_RAISES = auto()
    """The rewards sub-agent raises an exception."""
    SOMEBODY_ELSES_DATA = auto()
    """The data service answers the points request with another user's data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedTurn:
    """One turn.

    Attributes:
        title: in a few words.
        watch: what to look at.
        says: the user's message.
        calls: slot and outcome of each call, in emission order.
        trouble: what goes wrong.
        cap: whether the calls stay within the cap of 3.
        switched: whether a sub-agent is called that the last dispatching turn did not call.
        answer_has: what the answer must say.
        answer_lacks: what it must not say.
        least_status: progress reports that the user must see at least.
    """

    title: str
    watch: str
    says: str
    calls: Sequence[tuple[str, Outcome]]
    trouble: PlannedFault = PlannedFault.NONE
    cap: CapBehaviour = CapBehaviour.WITHIN
    switched: bool = False
    answer_has: Sequence[str] = ()
    answer_lacks: Sequence[str] = ("About “",)
    least_status: int = 0


SCENES: Final[Sequence[ScriptedTurn]] = (
    ScriptedTurn(
        title="one intent",
        watch="The model picks one tool by its description. The sidecar does the rest, up to the tool's result.",
        says="Hi! Are there any offers on coffee?",
        calls=[("shop", GOOD)],
        answer_has=["coffee beans", "Harbour Roasters"],
        least_status=1,
    ),
    ScriptedTurn(
        title="two intents in one message",
        watch="Two calls in one response: both run at the same time, the answer is composed from both.",
        says="Do I have enough points for that, and are there any deals on running shoes?",
        calls=[("rewards", GOOD), ("shop", GOOD)],
        switched=True,
        answer_has=["points (bronze tier)", "running shoes"],
        least_status=2,
    ),
    ScriptedTurn(
        title="the subject changes",
        watch="Support was not asked before. It gets a summary (prior_context), so it knows which order is meant.",
        says="And where is my order?",
        calls=[("support", GOOD)],
        switched=True,
        answer_has=["coffee beans", "processing"],
        answer_lacks=["groceries", "About “"],
        least_status=1,
    ),
    ScriptedTurn(
        title="a long one, with progress",
        watch="Sub-agents report typed progress (searching_offers, store=...); the words are made here, in the client.",
        says="Plan a weekend for us with everything on offer, and tell me which points are still on their way.",
        calls=[("shop", GOOD), ("rewards", GOOD)],
        switched=True,
        answer_has=["City Aquarium", "Greenfield Market", "on their way"],
        least_status=5,
    ),
    ScriptedTurn(
        title="a sub-agent fails",
        watch="Rewards raises an exception. Shop is not affected; the answer says what is missing, and no details.",
        says="What is my points balance, and are there offers on headphones?",
        calls=[("rewards", Outcome.FAILED), ("shop", GOOD)],
        trouble=PlannedFault.REWARDS_RAISES,
        answer_has=["headphones", "About “what is my points balance”: sorry"],
        answer_lacks=["PlantedDefect", "Traceback", "RUNNER_FAILED", "<<", "part of your request"],
    ),
    ScriptedTurn(
        title="the data service answers for somebody else",
        watch="The data is another user's. The sidecar withholds all of it, before rewards sees a byte, and counts.",
        says="What is my points balance now?",
        calls=[("rewards", Outcome.DEGRADED)],
        trouble=PlannedFault.SOMEBODY_ELSES_DATA,
        answer_has=["cannot be looked up"],
        answer_lacks=["bronze", "silver", "gold"],
    ),
    ScriptedTurn(
        title="more calls than the cap",
        watch="Four calls, the cap is 3: three run, the fourth is dropped before it starts, and the user is told.",
        says="Offers on rain jackets, offers on groceries, my points balance, and where is my order?",
        calls=[("shop", GOOD), ("shop", GOOD), ("rewards", GOOD), ("support", Outcome.DROPPED)],
        cap=CapBehaviour.OVER,
        switched=True,
        answer_has=["Rain jackets", "groceries", "bronze tier", "About “where is my order”"],
        answer_lacks=["sorry"],
    ),
    ScriptedTurn(
        title="nothing to call",
        watch="Small talk needs no sub-agent. The turn is on record all the same.",
        says="Thanks, that was all!",
        calls=[],
        answer_has=["welcome"],
    ),
)
