"""The command `hostsvc`, which is also `python -m hostsvc`."""

import os
import signal
import sys

# SIGHUP asks a service to read its configuration again, which it does anyway once it is ready. Until then the
# signal is ignored, also while the other modules are imported. On a terminal it says that this closes.
if sys.argv[1:2] == ["serve"] and not os.isatty(0):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

from hostsvc.cli.commands import main

if __name__ == "__main__":
    main(prog_name="hostsvc")
