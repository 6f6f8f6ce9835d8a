"""Words that the offline router knows: words without meaning, and English words for words of four languages."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

BOUNDARY: Final = re.compile(
    r"[?!.;:]+\s+|[?!.;:]+$|,\s+(?:and|und|y|et|e|then|dann)?\s*|\s+(?:and|und|y|et|e|sowie|also|plus|then)\s+",
    re.IGNORECASE,
)
WORD: Final = re.compile(r"[a-z]+")
ENDINGS: Final = ("ies", "ing", "ed", "es", "s")
SHORTEST: Final = 3
EMPTY: Final = frozenset(
    "a about ago all am an and any are as at be been by can could day did do does else every few for from get give go "
    "gone good had has have hello her here hey hi him his how i if in into is it its just kind know last let like list "
    "long look lot make many may me mean might more most much must my name need new next no nor not now of off on one "
    "only or our out own part per place please question right said same say see short should so some soon still such "
    "tell than thank that the their them then there these they thing think this those thus time to today tomorrow too "
    "typical under until up us use user very want was way we week well were what when where which while who whole "
    "whom why will wish with word would year yes yet you your assistant ask call request text text answer help best "
    "itself own".split()
)
FOREIGN: Final[Mapping[str, Mapping[str, str]]] = {
    "de": dict(
        word.split("=")
        for word in "angebot=offer angebote=offer angeboten=offer kaffee=coffee kaufen=buy laufschuhe=shoes "
        "schuhe=shoes jacke=jacket gutschein=bargain rabatt=bargain schnappchen=bargain laden=shop "
        "punkte=points punkten=points punktestand=balance kontostand=balance stufe=tier gutgeschrieben=earned "
        "bestellung=order bestellungen=order paket=parcel lieferung=delivery geliefert=delivery angekommen=arrive "
        "zurucksenden=return zuruckgeben=return rucksendung=return kaputt=broken kopfhorer=headphones "
        "anmelden=sign konto=account wert=worth gold=gold storniert=cancelled lebensmittel=groceries "
        "ausflug=trip reise=trip reisen=travel".split()
    ),
    "es": dict(
        word.split("=")
        for word in "oferta=offer ofertas=offer cafe=coffee comprar=buy zapatillas=shoes zapatos=shoes "
        "chaqueta=jacket descuento=bargain descuentos=bargain tienda=shop puntos=points saldo=balance nivel=tier "
        "pedido=order pedidos=order paquete=parcel entrega=delivery llegado=arrive devolver=return "
        "devolucion=return roto=broken rotos=broken auriculares=headphones cuenta=account valen=worth oro=gold "
        "comestibles=groceries viaje=trip excursion=trip viajar=travel".split()
    ),
    "fr": dict(
        word.split("=")
        for word in "offre=offer offres=offer cafe=coffee acheter=buy chaussures=shoes veste=jacket "
        "promotion=bargain promotions=bargain reduction=bargain reductions=bargain magasin=shop points=points "
        "solde=balance niveau=tier commande=order commandes=order colis=parcel livraison=delivery arrive=arrive "
        "retourner=return retour=return casse=broken casses=broken ecouteurs=headphones casque=headphones "
        "compte=account valent=worth epicerie=groceries voyage=trip voyager=travel".split()
    ),
    "it": dict(
        word.split("=")
        for word in "offerta=offer offerte=offer caffe=coffee comprare=buy scarpe=shoes giacca=jacket "
        "sconto=bargain sconti=bargain negozio=shop punti=points saldo=balance livello=tier ordine=order "
        "ordini=order pacco=parcel consegna=delivery arrivato=arrive restituire=return reso=return rotte=broken "
        "rotto=broken cuffie=headphones conto=account valgono=worth oro=gold spesa=groceries gita=trip "
        "viaggio=trip viaggiare=travel".split()
    ),
}
SAME_AS: Final[Mapping[str, str]] = {
    "deal": "bargain",
    "discount": "bargain",
    "package": "parcel",
    "refund": "return",
    "ship": "deliver",
    "deliveri": "deliver",
    "delivery": "deliver",
}
ADMITS: Final[Mapping[str, str]] = {
    "en": "Sorry, I could not look this up: {what}.",
    "de": "Leider konnte ich das nicht nachsehen: {what}.",
    "es": "Lo siento, no he podido consultar esto: {what}.",
    "fr": "Désolé, je n'ai pas pu vérifier ceci : {what}.",
    "it": "Mi dispiace, non ho potuto verificare questo: {what}.",
}


def clauses(message: str) -> Sequence[str]:
    """Return the parts of a message that may each be an intent, in order."""
    return [part for part in (one.strip(" ,.;:?!¿¡") for one in BOUNDARY.split(message) if one) if part]


def language_of(message: str) -> str:
    """Return the language most of whose words occur in a message; English if none does.

    "points" is a French word, too: the small words of an English message outweigh it.
    """
    words = set(_words(message))
    hits = {language: len(words & set(known)) for language, known in FOREIGN.items()}
    best = max(hits, key=lambda language: hits[language])
    return best if hits[best] and hits[best] >= len(words & EMPTY) else "en"


def stems(text: str) -> Sequence[str]:
    """Return the meaningful words of a text, folded onto English, without common endings."""
    return list(_stems(text))


def _stems(text: str) -> Iterator[str]:
    for word in _words(text):
        english = next((known[word] for known in FOREIGN.values() if word in known), word)
        if english in EMPTY or len(english) < SHORTEST:
            continue
        cut = _stem(english)
        yield SAME_AS.get(cut, cut)


def _stem(word: str) -> str:
    for ending in ENDINGS:
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= SHORTEST:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _words(text: str) -> Sequence[str]:
    plain = unicodedata.normalize("NFKD", text.lower())
    return WORD.findall("".join(one for one in plain if not unicodedata.combining(one)))
