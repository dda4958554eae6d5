"""Is never through with its import."""

import time

time.sleep(1_000_000)
