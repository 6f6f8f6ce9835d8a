"""Example lifecycle policies: change freeze, two persons, largest step, observation time. Pure, from facts alone.

And an example audit sink, which writes JSON lines.
"""
