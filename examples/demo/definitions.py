"""The definitions of the demo: the example ones, and two that operators bring to users during the demo."""

from typing import Final

CONFIGURED_ENDPOINT: Final = "http://127.0.0.1:8480"
"""Where the example definitions expect the data service."""
LISTED: Final = "sub_agents: [shop, rewards, support]"
SHOP: Final = "  - id: shop\n"
AFTER_SHOP: Final = "\n  - id: rewards\n"
SHOP_MODEL: Final = "    model: gpt-5.4-mini-low\n"

TRAVEL: Final = """
  # Only in the demo: listed from the start, and on nobody's surface until an operator promotes it.
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


def at_first(example: str, data_service: str) -> str:
    """Return what the sidecar starts with: the example definitions, a fourth sub-agent, and where the data is.

    Raises:
        ValueError: the example definitions are not as expected here.
    """
    listed = _replaced(example, LISTED, LISTED.replace("]", ", travel]"))
    return _replaced(listed, CONFIGURED_ENDPOINT, data_service) + TRAVEL


def with_replacement(definitions: str) -> str:
    """Return the definitions with `shop-dates` beside `shop`: the same slot, behind a flag, on another model.

    Raises:
        ValueError: there is no `shop` as expected here.
    """
    _, found, rest = definitions.partition(SHOP)
    shop, ends, _ = rest.partition(AFTER_SHOP)
    if not (found and ends):
        raise ValueError(f"the example definitions have no {SHOP!r} before {AFTER_SHOP!r}")
    head = "  - id: shop-dates\n    slot: shop\n    enabled_via_flag: ai_assistant_subagent_shop-dates\n"
    return definitions + "\n" + head + _replaced(shop, SHOP_MODEL, SHOP_MODEL.replace("mini-low", "nano"))


def _replaced(text: str, old: str, new: str) -> str:
    if old not in text:
        raise ValueError(f"the example definitions have no {old!r}")
    return text.replace(old, new)
