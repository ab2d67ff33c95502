"""`python -m hostsvc` is the command `hostsvc`."""

from hostsvc.cli.commands import main

main(prog_name="hostsvc")
