"""The version of the service."""

from importlib.metadata import version

VERSION = version("hostsvc")
