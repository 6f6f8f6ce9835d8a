"""Example lifecycle policies (change freeze, two persons, largest step, observation time) and an audit sink.

The policies are pure functions of facts. The audit sink writes JSON lines.
"""
