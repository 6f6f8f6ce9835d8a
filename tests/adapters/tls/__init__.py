"""Certificates in files, and connections that follow them."""
