"""The outside world of the operations, made up: time, chance, store, sub-agents, data services, clients.

Nothing in here decides anything about dispatching; what should come of it is predicted apart, in `predicting.py`.
"""
