#!/usr/bin/env python3
"""One hot key: clients that INCR it through one of three replicas, or through all of them.

    benches/hot_key.py target/dist [--engine meerkat] [--workers 1] [--nodes 3] [--clients 20] [--seconds 3]

Tells replies a second, in all and through each replica; the errors; CPU of all three for an operation; and how long clients waited. `--nodes` are those that are asked; clients ask
anew as soon as they are answered. It fails if the key does not hold what was acknowledged. Compare builds in turns, on a quiet machine.
"""

import argparse
import collections
import pathlib
import selectors
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))

from cluster import Cluster  # noqa: E402

INCR = b"*2\r\n$4\r\nINCR\r\n$3\r\nhot\r\n"
GET = b"*2\r\n$3\r\nGET\r\n$3\r\nhot\r\n"
PATIENCE = 60


class Client:
    """A connection to a replica, and when it asked last."""

    def __init__(self, cluster, node):
        self.node, self.asked = node, 0.0
        self.socket = socket.create_connection(("127.0.0.1", cluster.resp(node)), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request):
        self.asked = time.monotonic()
        self.socket.sendall(request)

    def ask(self, request):
        self.send(request)
        return self.socket.recv(4096)


def serves(cluster, node):
    """Waits until it counts; how often it did."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            if Client(cluster, node).ask(INCR).startswith(b":"):
                return 1
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"node {node} does not serve")


def cpu(cluster):
    """CPU seconds of all replicas."""
    stats = (pathlib.Path(f"/proc/{process.pid}/stat").read_text() for process in cluster.processes.values())
    return sum(sum(map(int, stat.rsplit(")", 1)[1].split()[11:13])) for stat in stats) / 100


def run(clients, seconds):
    """Replies by replica, errors by their words, and how long each took."""
    done, errors, took = collections.Counter(), collections.Counter(), []
    with selectors.DefaultSelector() as ready:
        for client in clients:
            ready.register(client.socket, selectors.EVENT_READ, client)
            client.send(INCR)
        stop, busy = time.monotonic() + seconds, len(clients)
        while busy:
            found = ready.select(PATIENCE)
            if not found:
                raise SystemExit(f"{busy} clients have no answer for {PATIENCE} s")
            for key, _ in found:
                client, now = key.data, time.monotonic()
                reply = client.socket.recv(4096)
                took.append(now - client.asked)
                if reply.startswith(b":"):
                    done[client.node] += 1
                else:
                    errors[reply.split(b" ")[0].decode() or "closed"] += 1
                if now < stop and reply:
                    client.send(INCR)
                else:
                    busy -= 1
    return done, errors, sorted(took)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", type=pathlib.Path, help="the folder of the command")
    parser.add_argument("--engine", default="meerkat")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3, choices=[1, 2, 3])
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    settings = f'durability = "memory"\nengine = "{args.engine}"'
    with Cluster(args.release, 3, settings, workers=args.workers) as cluster:
        for node in range(3):
            cluster.start(node, range(3))
        counted = sum(serves(cluster, node) for node in range(3))
        clients = [Client(cluster, at % args.nodes) for at in range(args.clients)]
        before, began = cpu(cluster), time.monotonic()
        done, errors, took = run(clients, args.seconds)
        spent, length, all_done = cpu(cluster) - before, time.monotonic() - began, sum(done.values())
        by_node = ", ".join(f"{done[node] / length:.0f}" for node in range(args.nodes))
        words = ", ".join(f"{count} {word}" for word, count in errors.items()) or "no errors"
        print(f"{args.engine}, {args.workers} worker(s): {all_done / length:.0f}/s ({by_node} by node); {words}; {1e6 * spent / max(all_done, 1):.0f} us of CPU each")
        print(f"half within {1e3 * took[len(took) // 2]:.2f} ms, 99 % within {1e3 * took[len(took) * 99 // 100]:.1f} ms, the longest {1e3 * took[-1]:.0f} ms")
        held = int(Client(cluster, 0).ask(GET).split(b"\r\n")[1])
        if held < all_done + counted or (held > all_done + counted and not errors):
            raise SystemExit(f"the key holds {held}, and {all_done + counted} were acknowledged")


if __name__ == "__main__":
    main()
