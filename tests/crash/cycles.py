"""How often the crash tests repeat a fault: a few times in `make test-slow`, hundreds in `make crash`."""

import os

CYCLES = int(os.environ.get("HOSTSVC_CRASH_CYCLES", "5"))
POSTGRES_CYCLES = max(2, CYCLES // 10)  # of PostgreSQL, which takes longer to come back
STANDSTILL_SECONDS = min(30.0, max(10.0, CYCLES / 3))
