"""How long tests wait for what should come within seconds, in a module that every other one may import."""

# It measures nothing, so that a machine that is many times slower than ours passes as well. A hung test is
# given more (tests/conftest.py), so that a wait in vain says what it waited for.
PATIENCE_SECONDS = 200.0
