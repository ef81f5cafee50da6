"""`python -m leasehold.cli`: the command line where no script is installed. It does nothing but call it."""

from __future__ import annotations

import sys

from leasehold.cli import main

if __name__ == "__main__":
    sys.exit(main())
