"""Inputs that are wrong on purpose, with what is said about them."""
