"""The model of a card, as the registry names it."""

import logging
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel

from sidecar_runner_langchain.failures import CardNotRunnable
from subagents_client.runner import Card

LOG: Final = logging.getLogger("sidecar_runner_langchain")
KEY_PREFIX: Final = "MODEL_KEY_"
NO_KEY: Final = "none"
"""Sent to an endpoint that asks for none, since the client insists on sending something."""

ModelMaker = Callable[[Card], BaseChatModel]
"""Returns the model of a card. Called once for each card, in a thread; the model then serves every user."""


def model_of(card: Card) -> BaseChatModel:
    """Return the model of a card. Source: PC1-FR-2a, PC1-D-7.

    `provider_model` is a string of `init_chat_model`, such as `openai:gpt-5.4-mini` or `anthropic:claude-...`. With a
    `base_url`, it is the model's name at that OpenAI-compatible endpoint; a prefix `openai:` is removed.

    The client repeats no request by itself: the contract of the attempt decides what may be repeated.

    Raises:
        CardNotRunnable: the provider's package or its key is missing, or the name is unknown.
    """
    try:
        return _tuned(card, _place_of(card))
    except Exception as error:  # noqa: BLE001 - each provider's package has exceptions of its own
        raise CardNotRunnable(f"no model {card.model!r}: {type(error).__name__}: {error!s:.300}") from None


def key_variable(model: str) -> str:
    """Return the environment variable that holds the key of a model with a `base_url`.

    One for each model, since the provider's own key must never be sent to another endpoint.
    """
    return KEY_PREFIX + re.sub(r"[^A-Z0-9]", "_", model.upper())


def _place_of(card: Card) -> Mapping[str, Any]:
    if not card.base_url:
        return {"model": card.provider_model}
    return {
        "model": card.provider_model.removeprefix("openai:"),
        "model_provider": "openai",
        "base_url": card.base_url,
        "api_key": os.environ.get(key_variable(card.model), NO_KEY),
        "use_responses_api": False,  # the newer API is the provider's own; endpoints that imitate it speak the older
    }


def _tuned(card: Card, place: Mapping[str, Any]) -> BaseChatModel:
    plain = _made(place, {})
    fields = type(plain).model_fields
    wanted = {
        "max_tokens": card.max_output_tokens or None,
        "reasoning_effort": card.reasoning_effort or None,
        "verbosity": card.text_verbosity or None,
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    if refused := sorted(given.keys() - fields.keys()):
        LOG.warning("model %s (%s) takes no %s", card.model, type(plain).__name__, ", ".join(refused))
    tuning = {name: value for name, value in {**given, "max_retries": 0}.items() if name in fields}
    return _made(place, tuning)


def _made(place: Mapping[str, Any], tuning: Mapping[str, Any]) -> BaseChatModel:
    settings = {**place, **tuning}
    made: BaseChatModel = init_chat_model(str(settings.pop("model")), **settings)
    return made
