# ranks: 1
# cause: none or checkpoint-torn
# certainty: likely

"""A helper program fails and sends nothing: there is no file that could be whole or not."""

import pickle
import subprocess
import sys

helper = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"], stdout=subprocess.PIPE)
features = pickle.load(helper.stdout)
