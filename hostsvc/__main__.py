"""`python -m hostsvc` is the command `hostsvc`."""

from hostsvc.cli import main

main(prog_name="hostsvc")
