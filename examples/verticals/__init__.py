"""Example sub-agents, each meant to run in a runner host of its own: shop, rewards, support, and travel in the demo.

They are small scripts around their data, not models, so that they need no network and say the same every time.
"""
