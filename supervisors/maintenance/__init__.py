"""Maintenance services: each has a `run_once` that a test can call; `loop.repeat` runs it for ever."""
