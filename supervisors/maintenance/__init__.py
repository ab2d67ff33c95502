"""Small standing duties: each a `run_once` that a test can call, and one loop that only waits and logs."""
