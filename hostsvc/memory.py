"""How the process allocates memory."""

import ctypes
import gc

ALLOCATIONS_BETWEEN_COLLECTIONS = 20_000
LARGE_BYTES = 131_072

# Parameters of mallopt, from malloc.h of the GNU C library.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def tune_garbage_collection() -> None:
    """Exclude the objects alive now from collections, and collect seldom: requests leave few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)


def return_large_blocks() -> bool:
    """Make the C library return each large block to the system when it is freed.

    By default the GNU C library stops doing so once the first large block is freed: it raises its threshold
    to the size of that block. Then texts of a megabyte leave holes among small ones, and the memory of the
    process stays at its peak. Return False if the C library is another one, which may need no such setting.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(M_TRIM_THRESHOLD, LARGE_BYTES))
