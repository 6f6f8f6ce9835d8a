"""How a definition reaches users: its state, its ramp, who is served, and every step an operator may take (PF1)."""
