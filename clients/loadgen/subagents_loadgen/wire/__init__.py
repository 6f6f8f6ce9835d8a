"""What goes over the wire: RPCs, failures, and the promises that answers are held to."""
