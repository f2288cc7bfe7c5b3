"""redis-py's connections: how they are opened, and what their exceptions mean."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from typing import Any, DefaultDict, Dict, Generic, List, Optional, Sequence, Tuple, TypeVar, Union

import redis
import redis.exceptions as errors

from ._rules import Failure, Lent
from ._values import Words
from .errors import HighwaterError, InvalidRequest, ServerError

# Of a pipeline so much is written before replies are read: a server whose replies are not read takes no more.
MOST_UNREAD = 500
CODES: Sequence[Tuple[type, str]] = (
    (errors.MovedError, "MOVED"),
    (errors.AskError, "ASK"),
    (errors.TryAgainError, "TRYAGAIN"),
    (errors.ClusterDownError, "CLUSTERDOWN"),
    (errors.MasterDownError, "MASTERDOWN"),
    (errors.BusyLoadingError, "LOADING"),
    (errors.ReadOnlyError, "READONLY"),
    (errors.OutOfMemoryError, "OOM"),
    (errors.ExecAbortError, "EXECABORT"),
    (errors.NoPermissionError, "NOPERM"),
    (errors.NoScriptError, "NOSCRIPT"),
)


def failure_of(error: Exception) -> Failure:
    """What the server said: redis-py keeps some first words as classes only."""
    text = str(error)
    if isinstance(error, (errors.MovedError, errors.AskError)):
        code = "MOVED" if isinstance(error, errors.MovedError) else "ASK"
        return Failure(f"{code} {error.slot_id} {error.host}:{error.port}")
    for kind, code in CODES:
        if isinstance(error, kind):
            return Failure(text if text.startswith(code) else f"{code} {text}")
    if isinstance(error, errors.AuthenticationError):
        # Of both kinds redis-py leaves away the first word.
        return Failure(f"WRONGPASS {text}" if "username-password" in text else f"NOAUTH {text}")
    first = text.split(" ", 1)[0]
    coded = first.isalnum() and first.isupper() and len(first) > 1
    return Failure(text if coded else f"ERR {text}")


def plain(reply: Any) -> Any:
    """A reply without redis-py's exceptions in it."""
    if isinstance(reply, errors.RedisError):
        return failure_of(reply)
    return [plain(part) for part in reply] if isinstance(reply, list) else reply


def settings(node: str, options: Dict[str, Any], protocol: int) -> Dict[str, Any]:
    host, _, port = node.rpartition(":")
    return {**options, "host": host.strip("[]"), "port": int(port), "protocol": protocol}


def checked_nodes(nodes: Union[str, Sequence[str]]) -> List[str]:
    listed = [nodes] if isinstance(nodes, str) else list(nodes)
    for node in listed:
        host, colon, port = node.rpartition(":")
        if not colon or not host or not port.isdigit():
            raise InvalidRequest(f"{node!r} is no address of a node: it must be host:port")
    if not listed:
        raise InvalidRequest("no nodes are named: name at least one, as host:port")
    return listed


def refused(error: Exception) -> Union[str, HighwaterError]:
    """Why there is no connection; an exception, if there will never be one."""
    if isinstance(error, redis.ResponseError) or isinstance(error, errors.AuthenticationError):
        failure = failure_of(error)
        return failure.text if failure.nothing_done_yet else ServerError(failure.text)
    return str(error) or type(error).__name__


def portions(commands: List[Words]) -> List[List[Words]]:
    return [commands[at : at + MOST_UNREAD] for at in range(0, len(commands), MOST_UNREAD)]


C = TypeVar("C")


class Handle(Lent, Generic[C]):
    """A connection that is lent."""

    def __init__(self, key: Tuple[str, bool], connection: C) -> None:
        self.key = key
        self.connection = connection
        self.broken = False


class Idle(Generic[C]):
    """Connections that nobody uses."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.by_key: DefaultDict[Tuple[str, bool], List[C]] = defaultdict(list)

    def take(self, key: Tuple[str, bool]) -> Optional[C]:
        kept = self.by_key.get(key)
        return kept.pop() if kept else None

    def put(self, key: Tuple[str, bool], connection: C) -> Optional[C]:
        """One that is to be closed, because there are too many."""
        self.by_key[key].append(connection)
        if sum(map(len, self.by_key.values())) <= self.most:
            return None
        return next(kept for kept in self.by_key.values() if kept).pop(0)

    def all(self) -> List[C]:
        connections = [connection for kept in self.by_key.values() for connection in kept]
        self.by_key.clear()
        return connections


async def has_something(connection: Any) -> bool:
    """Something came where nothing was asked: the other end has closed it. Before redis-py 8 the question had another name."""
    ask = getattr(connection, "can_read", None) or connection.can_read_destructive
    return bool(await ask())


SUPPRESSED = contextlib.suppress(Exception)
