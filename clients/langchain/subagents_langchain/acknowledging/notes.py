"""Notes for the user about missing calls that the answer does not acknowledge, in the user's language.

The words name neither the call nor a reason, so that they are true beside any answer.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from subagents_langchain.outcomes.missing import Missing, MissingKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases:
    """Sentences for users of one language. Each sentence must fit one or several calls.

    Attributes:
        one_moment: preamble for a response in which the model wrote none; empty: no preamble.
        nothing: note if no call was answered and the answer mentions no missing call; replaces `answer`.
        answer: note for calls without an answer (`Missing.ANSWER`).
        data: note for answers that lack data (`Missing.DATA`).
        rest: note for answers that may be incomplete (`Missing.REST`).
        turn: note for calls beyond the fan-out cap (`Missing.TURN`).
    """

    one_moment: str
    nothing: str
    answer: str
    data: str
    rest: str
    turn: str


@dataclass(frozen=True, slots=True)
class MissingNote:
    """A note for the user about missing calls that the answer does not mention; an item of the custom stream.

    Attributes:
        text: one or two sentences in the user's language, to be shown below the answer.
        missing: what is missing in the calls; there is at most one note for each value.
        call_ids: ids of the calls that the note is about, in emission order.
    """

    text: str
    missing: Missing
    call_ids: Sequence[str]


ENGLISH: Final = Phrases(
    one_moment="One moment, I am looking that up.",
    nothing="Sorry, I could not help with that right now. Please try again in a moment.",
    answer="Sorry, there is no answer to part of your request right now.",
    data="Sorry, some of the information for this was unavailable just now.",
    rest="This may not be everything.",
    turn="That was a lot at once, so part of it is left for later. Just ask me again.",
)
BUILT_IN: Final[Mapping[str, Phrases]] = MappingProxyType(
    {
        "en": ENGLISH,
        "de": Phrases(
            one_moment="Einen Augenblick, ich sehe nach.",
            nothing="Leider kann ich dabei gerade nicht helfen. Bitte versuche es gleich noch einmal.",
            answer="Zu einem Teil deiner Anfrage gibt es gerade leider keine Antwort.",
            data="Ein Teil der Informationen dafür war gerade leider nicht verfügbar.",
            rest="Das ist möglicherweise nicht alles.",
            turn="Das war viel auf einmal, deshalb steht ein Teil noch aus. Frag mich einfach noch einmal.",
        ),
        "es": Phrases(
            one_moment="Un momento, lo estoy consultando.",
            nothing="Lo siento, ahora mismo no puedo ayudar con eso. Vuelve a intentarlo dentro de un momento.",
            answer="Lo siento, ahora mismo no hay respuesta para una parte de tu petición.",
            data="Lo siento, parte de la información no estaba disponible en este momento.",
            rest="Puede que esto no sea todo.",
            turn="Era mucho a la vez, así que una parte queda para después. Vuelve a preguntarme.",
        ),
        "fr": Phrases(
            one_moment="Un instant, je regarde.",
            nothing="Désolé, je ne peux pas vous aider pour le moment. Veuillez réessayer dans un instant.",
            answer="Désolé, une partie de votre demande reste sans réponse pour le moment.",
            data="Désolé, une partie des informations n'était pas disponible à l'instant.",
            rest="Ce n'est peut-être pas tout.",
            turn="Cela faisait beaucoup à la fois, une partie reste donc pour plus tard. Reposez-moi la question.",
        ),
        "it": Phrases(
            one_moment="Un momento, sto controllando.",
            nothing="Mi dispiace, al momento non posso aiutarti. Riprova tra poco.",
            answer="Mi dispiace, al momento non c'è risposta a una parte della tua richiesta.",
            data="Mi dispiace, parte delle informazioni non era disponibile in questo momento.",
            rest="Potrebbe non essere tutto.",
            turn="Era molto in una volta sola, quindi una parte resta per dopo. Chiedimelo di nuovo.",
        ),
    }
)
"""Language to its built-in phrases. `OrchestratorRules.phrases` replaces them; other languages get English."""


def notes_for(
    lacks: Sequence[MissingKind], stated: Collection[str], phrases: Phrases, *, nothing: bool
) -> list[MissingNote]:
    """Return the notes for the calls that the answer does not state: each in exactly one note, one note per kind.

    Args:
        lacks: the calls that did not fully succeed.
        stated: ids of the calls that the answer mentions.
        phrases: the sentences in the user's language.
        nothing: whether no call of the turn was answered.

    Source: PC1-FR-5b, PC2-FR-8b, PC2-FR-14a.
    """
    owed: dict[Missing, list[str]] = {}
    for lack in lacks:
        if lack.call_id not in stated:
            owed.setdefault(lack.missing, []).append(lack.call_id)
    answer = phrases.nothing if nothing and not stated else phrases.answer
    words = {
        Missing.ANSWER: answer, Missing.DATA: phrases.data, Missing.REST: phrases.rest, Missing.TURN: phrases.turn
    }  # fmt: skip
    return [MissingNote(words[kind], kind, tuple(ids)) for kind, ids in owed.items()]
