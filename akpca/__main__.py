"""``python -m akpca``: the command line of :mod:`akpca.book.rerun.command`."""

import signal
import sys

from akpca.book.rerun.command import main

if __name__ == "__main__":
    # A polite kill should clean up as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
