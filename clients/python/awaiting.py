"""Writes ``_aio.py``: ``_client.py`` with ``async`` and ``await``. So the two cannot drift apart; a test compares them.

python awaiting.py          # in this folder
"""

import pathlib
import re

SOURCE = pathlib.Path(__file__).parent / "src" / "highwater"


def awaiting(s: str) -> str:
    s = s.replace('"""The client that waits."""', '"""The client that awaits: ``_client`` with ``async`` and ``await``."""')
    s = s.replace("checked_nodes, failure_of, plain", "checked_nodes, failure_of, has_something, plain")
    s = s.replace("import threading\n", "import asyncio\n").replace(
        "import redis\nfrom redis.backoff", "import redis\nimport redis.asyncio\nfrom redis.backoff"
    )
    s = s.replace("from redis.retry import Retry", "from redis.asyncio.retry import Retry")
    s = s.replace("from typing import Any, Callable, Dict", "from typing import Any, Awaitable, Callable, Dict")
    for name in ("Client", "Transaction", "Interactive"):
        s = re.sub(rf"\b{name}\b(?!\")", f"Async{name}", s)
    s = s.replace("redis.SSLConnection if ssl else redis.Connection", "redis.asyncio.SSLConnection if ssl else redis.asyncio.Connection")
    s = s.replace("Callable[[AsyncTransaction], T]", "Callable[[AsyncTransaction], Awaitable[T]]").replace(
        "value = function(tx)", "value = await function(tx)"
    )
    sync = {"__init__", "token", "begin", "_release", "take", "queue", "forget", "give_up"}
    s = re.sub(r"    def (\w+)\(", lambda m: m.group(0) if m.group(1) in sync else f"    async def {m.group(1)}(", s)
    s = s.replace("async def __enter__", "async def __aenter__").replace("async def __exit__", "async def __aexit__")
    for call in (
        "self._carry_out(",
        "self.client._carry_out(",
        "self._lend(",
        "self._exchange(",
        "self.client._lend(",
        "self.client._exchange(",
        "self.once(",
        "self.execute(",
        "self.read(",
        "self.lend()",
        "self.exchange(",
        "self._ask(",
        "self.commit()",
        "self.close()",
        "self.client.outcome(",
        "tx.exchange(",
        "self._open(",
    ):
        s = re.sub(r"(?<![\w.])(?<!await )" + re.escape(call), "await " + call, s)
    s = s.replace("with AsyncTransaction(self, deadline) as tx:", "async with AsyncTransaction(self, deadline) as tx:")
    s = s.replace("time.sleep(need.seconds)", "await asyncio.sleep(need.seconds)")
    s = s.replace(
        "self._free = threading.BoundedSemaphore(max_connections)\n        self._lock = threading.Lock()",
        "self._free = asyncio.Semaphore(max_connections)",
    )
    s = s.replace(
        """        with self._lock:
            connections = self._idle.all()
        for connection in connections:
            with SUPPRESSED:
                connection.disconnect()""",
        """        for connection in self._idle.all():
            with SUPPRESSED:
                await connection.disconnect()""",
    )
    s = s.replace(
        """        if not self._free.acquire(timeout=max(0.0, left)):
            return""",
        """        try:
            await asyncio.wait_for(self._free.acquire(), max(0.0, left))
        except asyncio.TimeoutError:
            return""",
    )
    s = s.replace(
        """                with self._lock:
                    idle = self._idle.take(key)
""",
        """                idle = self._idle.take(key)
""",
    )
    s = s.replace(
        """                    if not idle.can_read(timeout=0):
                        return Handle(key, idle)
                with SUPPRESSED:
                    idle.disconnect()""",
        """                    if not await has_something(idle):
                        return Handle(key, idle)
                with SUPPRESSED:
                    await idle.disconnect()""",
    )
    s = (
        s.replace("connection.connect()", "await connection.connect()")
        .replace('connection.send_command("READONLY")', 'await connection.send_command("READONLY")')
        .replace("                connection.read_response()", "                await connection.read_response()")
    )
    s = s.replace(
        "            with SUPPRESSED:\n                connection.disconnect()\n            raise",
        "            with SUPPRESSED:\n                await connection.disconnect(nowait=True)\n            raise",
    )
    s = s.replace("handle.connection.send_packed_command([packed]", "await handle.connection.send_packed_command([packed]").replace(
        "plain(handle.connection.read_response())", "plain(await handle.connection.read_response())"
    )
    s = s.replace(
        """            with self._lock:
                closed = self._idle.put(handle.key, handle.connection)
        self._free.release()
        if closed is not None:
            with SUPPRESSED:
                closed.disconnect()""",
        """            closed = self._idle.put(handle.key, handle.connection)
        self._free.release()
        if closed is not None:
            drop(closed)""",
    )
    s = s.replace(
        "class _Again(Exception):",
        '''def drop(connection: Connection) -> None:
    """Closes a connection without waiting for that."""
    with SUPPRESSED:
        task = asyncio.ensure_future(connection.disconnect(nowait=True))
        closing.add(task)
        task.add_done_callback(closing.discard)


closing: Set[asyncio.Future[None]] = set()


class _Again(Exception):''',
    )
    s = s.replace("Optional, Sequence, Type,", "Optional, Sequence, Set, Type,")
    s = s.replace("threads may share it.", "tasks of one event loop may share it.")
    return s


if __name__ == "__main__":
    (SOURCE / "_aio.py").write_text(awaiting((SOURCE / "_client.py").read_text()))
