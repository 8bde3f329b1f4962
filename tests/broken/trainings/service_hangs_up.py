# ranks: 2
# cause: none

"""Rank 1 has no shard and ends at once; later a service of the user's own resets rank 0's connection."""

import os
import socket
import struct
import sys
import time

if os.environ["RANK"] == "1":
    sys.exit(0)
time.sleep(3)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
peer.close()
client.recv(1)
