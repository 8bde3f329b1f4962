"""The code that ``python -c`` runs in the processes that are started beside an agent. Imports nothing."""

from __future__ import annotations

# Our folder replaces the '' that stands for the working directory: we must not import a user's `json.py`
# from there.
_CODE = (
    "import sys; sys.version_info < (3, 11) and (sys.stderr.write('rankdeck: ranks need Python 3.11 or "
    "newer, and ' + sys.executable + ' is ' + sys.version.split()[0] + '\\n'), sys.exit(2)); "
    "sys.path[: not sys.path[0]] = [sys.argv.pop(1)]; "
    "{first}from launcher.agent{folder} import {modules}; {call}"
)
RANK = _CODE.format(first="", folder="", modules="rank_main", call="rank_main.main()")
SERVICE = _CODE.format(first="", folder="", modules="rank_main", call="rank_main.serve()")
# The collector would look again and again at all that is imported, and take a sixth of the time. `fresh`
# looks at what a fresh rank has imported, before anything else is. Forks return from `main` with the code of
# their own, so that their stack has nothing else below it.
ZYGOTE = _CODE.format(
    first="import gc; gc.disable(); ",
    folder=".warm",
    modules="fresh, zygote",
    call="exec(*zygote.main())",
)
