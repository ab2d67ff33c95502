"""Clients of the world outside, as the ports of the inner layers ask for them."""
