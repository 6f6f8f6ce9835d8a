"""Example lifecycle policies: change freeze, two persons, largest step, observation time. Pure, from facts alone."""
