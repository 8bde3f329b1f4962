"""A script that prints what it was given, and fails if it is asked to."""

from __future__ import annotations

import json
import os
import sys

if __name__ == "__main__":
    print(json.dumps({"rank": os.environ["RANK"], "argv": sys.argv[1:]}), flush=True)
    if "--fail" in sys.argv:
        sys.exit(7)
