# ranks: 1
# cause: none

"""A corpus that is not there. Its folder has the name that a C compiler has too."""

import os

corpora = {name: os.listdir(f"/nonexistent/corpora/{name}") for name in ("cc", "wiki")}
