"""The texts of a fact: what a user, a model or a sub-agent wrote, and what names the user. They can be erased."""

from sidecar.core.journal.marks import Values
from sidecar.core.journal.opening.claims import UserTexts
from sidecar.core.journal.opening.contracts import ContractTexts
from sidecar.core.journal.opening.part import Part
from sidecar.core.journal.opening.requests import RequestTexts


class OutcomeTexts(Part, frozen=True):
    """Texts of one outcome.

    Attributes:
        components: name, input and data of each.
        tool_name: None: as the call has it.
    """

    narration: str = ""
    components: tuple[tuple[str, str, str], ...] = ()
    data_unavailable: bool = False
    hint: str = ""
    tool_name: str | None = None


class EndTexts(Part, frozen=True):
    """Texts of the end of a turn. The fingerprint is a hash of texts, so it is erased with them."""

    fingerprint: str = ""
    narration: str = ""
    user_message: str = ""


class Texts(Part, frozen=True):
    """All texts of one fact; each kind has some of them.

    Attributes:
        contracts: of the children that open, in their order.
        outcomes: of the calls that settle, in their order.
        values: of the marks, in their order, child after child. In a `DispatchOpened`, the answers to questions (see
            `answers_of`); in a `ScoreRecorded`, the explanation.
    """

    user: UserTexts | None = None
    request: RequestTexts | None = None
    contracts: tuple[ContractTexts, ...] = ()
    outcomes: tuple[OutcomeTexts, ...] = ()
    values: tuple[Values, ...] = ()
    end: EndTexts | None = None
