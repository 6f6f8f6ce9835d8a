"""Believable data, the same for a principal at every call, different between principals."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

Payload = dict[str, Any]
Arguments = Mapping[str, Any]

OFFERS: Final = (
    ("Double points on running shoes", "Northside Sports", 1500),
    ("10 % back on coffee beans", "Harbour Roasters", 300),
    ("Family ticket, two for one", "City Aquarium", 900),
    ("Free delivery on groceries", "Greenfield Market", 250),
    ("Extra points on headphones", "Sound & Sons", 2200),
    ("Rain jackets at half the points", "Northside Sports", 1800),
)
PURCHASES: Final = ("Groceries", "Running shoes", "Cinema tickets", "Coffee beans", "Headphones", "Train ticket")
ORDER_STATES: Final = (("processing", "2031-04-19"), ("shipped", "2031-04-14"), ("delivered", None), ("returned", None))
TIERS: Final = ("bronze", "silver", "gold")


def _numbers(principal: str) -> bytes:
    """Return 32 bytes that stand for a principal's luck."""
    return hashlib.sha256(principal.encode("utf-8", "surrogatepass")).digest()


def offer_search(principal: str, arguments: Arguments) -> Payload:
    """Offers for this user; `query` narrows by title or merchant, and falls back to everything."""
    luck = _numbers(principal)
    query = str(arguments.get("query", ""))[:200]
    chosen = [OFFERS[(luck[0] + step) % len(OFFERS)] for step in range(4)]
    fitting = [offer for offer in OFFERS if query and query.lower() in f"{offer[0]} {offer[1]}".lower()]
    return {
        "query": query,
        "offers": [
            {
                "offer_id": f"offer-{luck[step]:02x}{luck[step + 8]:02x}",
                "title": title,
                "merchant": merchant,
                "points": points,
                "expires_on": f"2031-05-{luck[step] % 28 + 1:02d}",
            }
            for step, (title, merchant, points) in enumerate(fitting or chosen)
        ],
    }


def points_balance(principal: str, _arguments: Arguments) -> Payload:
    """What the user has, what is on its way, and the last three movements."""
    luck = _numbers(principal)
    return {
        "balance": 500 + luck[1] * 37,
        "pending": luck[2] * 3,
        "tier": TIERS[luck[3] % len(TIERS)],
        "recent_activity": [
            {
                "date": f"2031-04-{luck[step] % 28 + 1:02d}",
                "description": PURCHASES[luck[step] % len(PURCHASES)],
                "points": luck[step] + 10,
            }
            for step in (4, 5, 6)
        ],
    }


def order_status(principal: str, arguments: Arguments) -> Payload:
    """The user's orders; `order_id` narrows to one, under that number."""
    luck = _numbers(principal)
    asked = str(arguments.get("order_id") or "")[:40]
    numbers = [asked] if asked else [f"A-{luck[step]:03d}{luck[step + 1]:03d}" for step in (7, 9)]
    orders = []
    for step, number in enumerate(numbers):
        status, eta = ORDER_STATES[luck[11 + step] % len(ORDER_STATES)]
        item = PURCHASES[luck[13 + step] % len(PURCHASES)]
        orders.append({"order_id": number, "item": item, "status": status, "eta": eta})
    return {"orders": orders}


PAYLOADS: Final[dict[tuple[str, str], Callable[[str, Arguments], Payload]]] = {
    ("offers", "offer_search"): offer_search,
    ("rewards", "points_balance"): points_balance,
    ("orders", "order_status"): order_status,
}


def with_canary(payload: Payload, canary: str) -> Payload:
    """Return `payload` with `canary` in a text field; it still fits its schema."""
    marked = {**payload}
    for name, field in (("offers", "title"), ("recent_activity", "description"), ("orders", "item")):
        if marked.get(name):
            first, *rest = marked[name]
            marked[name] = [{**first, field: canary}, *rest]
    return marked
