"""Commands about the quality of what is served: scores of calls, and the watchdog of ramps."""
