#!/usr/bin/env python3
"""Free loopback ports, all different: `tests/ports.py 9` prints so many.

From below the range out of which the system serves outgoing connections, so that a process that ends and starts again finds its port free.
"""

import random
import socket
import sys


def free_ports(count):
    sockets = []
    while len(sockets) < count:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", random.randrange(10_000, 32_768)))
            sockets.append(one)
        except OSError:
            one.close()
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    print(*free_ports(int(sys.argv[1])), sep="\n")
