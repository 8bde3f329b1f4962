# ranks: 1
# cause: none

"""A handled error is logged; the failure is another one."""

import logging

try:
    open("/nonexistent/file")
except OSError:
    logging.exception("no cache")
raise LookupError("no such split: validaton")
