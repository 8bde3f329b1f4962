# ranks: 2
# cause: module-missing
# says: flash_attn_of_mine
# remedy: --python PATH

"""A package that is not installed."""

import flash_attn_of_mine

flash_attn_of_mine.run()
