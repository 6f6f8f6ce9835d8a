"""The calls of one model response: cap, intents, order, outcomes, and the routing decision (PC2)."""
