"""How the threads of torch wait: asleep. Imported before torch, whose OpenMP reads this once.

By default they spin after every operation, ready for the next one. Beside other busy processes they so take the core
that the work itself waits for: a run took two to three times the CPU seconds and the clock. Who sets OMP_WAIT_POLICY
keeps it; where torch was loaded before focalsweep nothing changes.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
