"""What runs beside and inside the ranks: standard library only at import time.

Executors may have nothing of ours installed and neither psutil nor pynvml; whatever is here must still
import there, from a zip.
"""
