"""The start of the command: `kinfolk`, or `python -m kinfolk`.

Loading all modules takes a moment, in which there is nothing yet to clean up: an interruption ends it at once.
"""

import gc
import os
import signal
from types import FrameType


def start() -> None:
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell may have us ignore it
    if ours:
        signal.signal(signal.SIGINT, _leave)
    # Libraries and numba make millions of objects that stay: to look for what may be freed at every 700 new ones, as
    # Python does, takes a tenth of the time of the first use.
    gc.set_threshold(50_000, 20, 20)
    from kinfolk.cli.main import run

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(signum: int, frame: FrameType | None) -> None:
    os._exit(130)


if __name__ == "__main__":
    start()
