"""What is read: the golden set, the configuration that is measured, cases out of recorded conversations."""
