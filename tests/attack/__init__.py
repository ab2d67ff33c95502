"""Attacks on a running service, over the network only: `python -m tests.attack --url …`."""
