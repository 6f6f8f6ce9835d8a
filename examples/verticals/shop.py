"""The shop sub-agent: finds offers."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from examples.verticals.staging import Staging
from subagents_client.runner import Answer, DataUnavailable, Run

KNOWN: Final = ("coffee", "running shoes", "headphones", "rain jackets", "groceries", "aquarium")
"""What it can search for; each is a word of some offer."""

THOROUGH: Final = ("everything", "plan", "weekend")
"""Words of a request that is worth a search in several places."""

DATED: Final = "shop-dates"
"""The definition that tells until when an offer lasts; it fills the same slot, and is served by the same host."""

PLACES: Final = (
    ("coffee", "Harbour Roasters"),
    ("groceries", "Greenfield Market"),
    ("rain jackets", "Northside Sports"),
    ("aquarium", "City Aquarium"),
)
Offer = Mapping[str, Any]


async def answer(run: Run, staging: Staging) -> Answer:
    """Find offers for what is asked, in one search or, if a lot is asked, in several."""
    request = run.request.lower()
    if any(word in request for word in THOROUGH):
        searches: Sequence[tuple[str, str]] = PLACES
    else:
        searches = [(_query(request) or _query(run.context.prior_context.lower()), "")]
    found: list[Offer] = []
    for query, store in searches:
        await run.status("searching_offers", **({"store": store} if store else {}))
        await staging.pause(0.9)
        result = await run.call_tool("search_offers", {"query": query})
        if isinstance(result, DataUnavailable):
            return Answer("The offers cannot be looked up at the moment.", data_unavailable=True)
        found += result.payload["offers"][: 1 if store else 2]
    for offer in found:
        card = {key: offer[key] for key in ("offer_id", "title", "merchant", "points")}
        run.render("render_offer_card", tool_input={"offer_id": offer["offer_id"]}, component_data=card)
    return Answer(_narration(found, dated=run.definition_id == DATED))


def _query(text: str) -> str:
    return next((word for word in KNOWN if word in text), "")


def _narration(offers: Sequence[Offer], *, dated: bool) -> str:
    if not offers:
        return "There is no such offer at the moment."
    said = [
        f"{one['title']} at {one['merchant']} ({one['points']:,} points{_until(one) if dated else ''})"
        for one in offers
    ]
    return f"I found {'an offer' if len(said) == 1 else f'{len(said)} offers'}: {'; '.join(said)}."


def _until(offer: Offer) -> str:
    return f", until {offer['expires_on']}"
