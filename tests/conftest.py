from __future__ import annotations

import os

# One thread per process: sums come out the same every time, and two test processes share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
