"""The definitions of the demo: the example ones, and two that operators bring to users during the demo."""

from typing import Final

DATA_SOCKET: Final = "data.sock"
"""Where the data service listens, in the folder that the sidecar runs in."""
CONFIGURED_ENDPOINT: Final = "endpoint: http://127.0.0.1:8480/v1/enrich"
"""Where the example definitions expect it."""
DEMO_ENDPOINT: Final = f"endpoint: unix:{DATA_SOCKET}\n    connector: grpc"
"""The same in every run, whatever ports are free: the address is part of a definition's digest, and the gates decide by
results that were recorded for a digest."""
LISTED: Final = "sub_agents: [shop, rewards, support]"
SHOP: Final = "  - id: shop\n"
AFTER_SHOP: Final = "\n  - id: rewards\n"
SHOP_MODEL: Final = "    model: gpt-5.4-mini-low\n"
DESCRIPTION: Final = "    description: >-\n"
AFTER_DESCRIPTION: Final = "    role: native\n"
SHORTER: Final = """\
      The assistant for everything about the programme. Use it when the user wants to know what there is to gain, or has
      a question about the programme. It returns a short text.
"""
"""Reads well, and has none of the words by which a model knows that the user looks for an offer."""
SCRIPTED: Final = "sub_agents: # what each answers where a case gives no text of its own\n"
TRAVEL_SCRIPT: Final = """\
  travel:
    answer: "A day trip to City Aquarium: family ticket, two for one, for 900 points."
    status: searching_offers
"""

REPLACEMENT: Final = "shop-dates"
TRAVEL: Final = """
  # Only in the demo: listed from the start, but on no surface until an operator promotes it.
  - id: travel
    description: >-
      Plans trips that points pay for: where to travel, and how many points the trip takes. Use it when the user wants
      a day trip, a journey or something to do on a free day. Typical questions: Where could we travel on Sunday? Which
      trip do my points pay for? Put into the request what the user wants in their own words. It returns a short text
      with one trip. Not for offers in shops, points, orders or returns; it cannot book anything.
    role: native
    model: gpt-5.4-mini-low
    tools: [search_offers]
    prompt_blocks: [persona-shop]
    ownership: [offers]
    enabled_via_flag: ai_assistant_subagent_travel
"""


def at_first(example: str) -> str:
    """Return what the sidecar starts with: the example definitions, a fourth sub-agent, and where the data is.

    Raises:
        ValueError: the example definitions are not as expected here.
    """
    listed = _replaced(example, LISTED, LISTED.replace("]", ", travel]"))
    return _replaced(listed, CONFIGURED_ENDPOINT, DEMO_ENDPOINT) + TRAVEL


def with_replacement(definitions: str) -> str:
    """Return the definitions with `shop-dates` beside `shop`: the same slot, behind a flag, on another model.

    Raises:
        ValueError: there is no `shop` as expected here.
    """
    _, found, rest = definitions.partition(SHOP)
    shop, ends, _ = rest.partition(AFTER_SHOP)
    if not (found and ends):
        raise ValueError(f"the example definitions have no {SHOP!r} before {AFTER_SHOP!r}")
    head = f"  - id: {REPLACEMENT}\n    slot: shop\n    enabled_via_flag: ai_assistant_subagent_{REPLACEMENT}\n"
    return definitions + "\n" + head + _replaced(shop, SHOP_MODEL, SHOP_MODEL.replace("mini-low", "nano"))


def with_shorter_description(definitions: str) -> str:
    """Return the definitions with another description of `shop-dates`, the last of them: a change that hurts routing.

    Raises:
        ValueError: there is no `shop-dates` as expected here.
    """
    before, found, replacement = definitions.partition(f"  - id: {REPLACEMENT}\n")
    head, begins, rest = replacement.partition(DESCRIPTION)
    _, ends, after = rest.partition(AFTER_DESCRIPTION)
    if not (found and begins and ends):
        raise ValueError(f"the definitions have no {REPLACEMENT} with a description")
    return before + found + head + begins + SHORTER + ends + after


def with_travel_answers(suite: str) -> str:
    """Return the suite of the example's routing cases with a scripted answer of travel.

    Raises:
        ValueError: the suite is not as expected here.
    """
    return _replaced(suite, SCRIPTED, SCRIPTED + TRAVEL_SCRIPT)


def _replaced(text: str, old: str, new: str) -> str:
    if old not in text:
        raise ValueError(f"the example definitions have no {old!r}")
    return text.replace(old, new)
