"""A connection that sends what it is told, also what no client would send, and reads replies as they come."""

import socket
import struct


def command(*words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Refused(Exception):
    """An error as a reply."""


class Wire:
    def __init__(self, port, timeout=30):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.socket.close()

    def reset(self):
        """Goes without a word: the other side is told by a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return Refused(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if int(rest) < 0 else [self.read() for _ in range(int(rest))]
        if kind == b"+":
            return rest
        raise ValueError(f"no reply: {line[:100]!r}")

    def ask(self, *words):
        """The reply; an error is a `Refused` that is returned."""
        self.send(command(*words))
        return self.read()

    def done(self, *words):
        """The reply, which is none of refusal."""
        reply = self.ask(*words)
        if isinstance(reply, Refused):
            raise reply
        return reply

    def ended(self):
        """What comes until the other side closes."""
        data = b""
        while chunk := self.socket.recv(1 << 16):
            data += chunk
        return data
