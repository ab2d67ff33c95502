"""The Python client (`clients/python/hostsvc-client`) against a real service."""
