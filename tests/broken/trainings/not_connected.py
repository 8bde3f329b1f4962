# ranks: 1
# cause: none

"""A database refuses: that is no master of a gang."""

import socket

socket.create_connection(("127.0.0.1", 9))
