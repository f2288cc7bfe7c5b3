"""The client that waits."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Type, TypeVar, Union

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from . import _rules as rules
from ._rules import Exchange, Failure, Lend, Need, Release, Sleep, Tried, value_of
from ._values import Committed, Freshness, Key, Outcome, Ticket, Word, Words
from ._wire import SUPPRESSED, Handle, Idle, checked_nodes, failure_of, plain, portions, refused, settings
from .errors import Conflict, HighwaterError, InvalidRequest, NotDone, ServerError, UnknownOutcome

T = TypeVar("T")
Connection = Any


class Client:
    """A client of a cluster; threads may share it.

    ``nodes`` are addresses (``host:port``) where Redis clients connect: some are enough. ``patience`` bounds a request, failover
    included, ``timeout`` a node that does not answer; ``max_connections`` are open at one time, and who wants another one waits.
    Further arguments go to redis-py's connections: ``username``, ``password``, ``decode_responses``, ``ssl_ca_certs``, ..
    """

    def __init__(
        self,
        nodes: Union[str, Sequence[str]],
        *,
        patience: float = 10.0,
        timeout: float = 2.0,
        max_connections: int = 16,
        tokens: bool = False,
        ssl: bool = False,
        protocol: int = 3,
        **connection: Any,
    ) -> None:
        if patience <= 0 or timeout <= 0 or max_connections < 1:
            raise InvalidRequest("patience, timeout and max_connections must be more than 0")
        self._rules = rules.Rules(rules.Topology(checked_nodes(nodes)), time.monotonic, patience, tokens)
        self._timeout = timeout
        self._protocol = protocol
        self._kind: Type[Any] = redis.SSLConnection if ssl else redis.Connection
        self._options: Dict[str, Any] = {
            **connection,
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "retry": Retry(NoBackoff(), 0),
        }
        self._idle: Idle[Connection] = Idle(max_connections)
        self._free = threading.BoundedSemaphore(max_connections)
        self._lock = threading.Lock()

    # Requests.

    def execute(self, *words: Word) -> Any:
        """Runs a command on the latest state. It is sent again while nothing was done; when that is not known it raises
        ``UnknownOutcome``. For writes that must neither be lost nor done twice: ``once``."""
        return self._carry_out(self._rules.command(words, harmless=False))

    def read(self, *words: Word) -> Any:
        """Runs a command that only reads, on the latest state: it is sent again until it is answered, or time is up."""
        return self._carry_out(self._rules.command(words, harmless=True))

    def once(self, *words: Word) -> Any:
        """Runs a command exactly once, however often it has to be sent: under a session of the client's. ``UnknownOutcome`` is raised only
        if ``patience`` ends before anybody answers; its ticket then serves to ask ``outcome`` later."""
        return self._carry_out(self._rules.once(words))

    def block(self, commands: Sequence[Words]) -> List[Any]:
        """Runs commands as one transaction, exactly once: all or nothing. A command that fails among them does not undo the others: its
        reply is an exception in the list."""
        return self._carry_out(self._rules.block(list(commands)))

    def pipeline(self, commands: Sequence[Words]) -> List[Any]:
        """Sends commands together, each a transaction of its own; each as by ``execute``, its exception in the list."""
        return self._carry_out(self._rules.pipeline(list(commands)))

    def transaction(self, function: Callable[[Transaction], T], *keys: Union[str, bytes]) -> Committed[T]:
        """Calls ``function``, which reads with ``tx.read`` and says what to write with ``tx.queue``. If any of ``keys`` was written by
        others before the end, nothing is done, and it is called again. What it queued is done exactly once."""
        if not keys:
            raise InvalidRequest("a transaction without keys watches nothing: use block")
        deadline = self._rules.deadline()
        pause = rules.FIRST_PAUSE
        session = self._carry_out(self._rules.take(deadline))
        while True:
            ticket = session.ticket()
            end: Any
            try:
                with Transaction(self, deadline) as tx:
                    tx.exchange(("WATCH", *keys))
                    value = function(tx)
                    handle, tx.handle = tx.take(), None
            except _Again as again:
                end = NotDone(str(again))
            except BaseException:
                # Nothing was sent under this number.
                self._rules.give_back(session)
                raise
            else:
                finish = self._rules.finish(handle, tx.node, ticket, tx.queued, deadline, pause)
                end = self._carry_out(finish, [handle])
            if isinstance(end, list):
                self._rules.give_back(session)
                return Committed(value, end)
            if end is None:
                session = self._carry_out(self._rules.open(deadline))
                continue
            if self._carry_out(self._rules.wait(pause, deadline)):
                raise end
            pause = min(2 * pause, rules.LAST_PAUSE)

    def outcome(self, ticket: Ticket) -> Outcome:
        """What became of a request under a session. Once that is ``never``, it will not be done any more."""
        return self._carry_out(self._rules.outcome(ticket))

    @property
    def token(self) -> int:
        """Covers everything that this client has seen answered so far; only with ``tokens=True``, else 0."""
        return self._rules.token

    def read_follower(self, *words: Word, freshness: Freshness = Freshness.any()) -> Any:
        """Runs a command that only reads on a snapshot of some node, followers first: on the next one, if a node has none that is fresh
        enough, and in the end on the leader."""
        return self._carry_out(self._rules.read_anywhere(words, freshness))

    # Beyond Redis.

    def call(self, procedure: str, *args: Word, once: bool = True) -> Any:
        """Calls a procedure: exactly once, unless told otherwise. ``RolledBack`` is raised if it decided against itself."""
        words = ("HW.CALL", procedure, *args)
        return self.once(*words) if once else self.execute(*words)

    def call_raw(self, procedure: str, args: bytes, once: bool = True) -> Any:
        """The same with arguments and reply as bytes, as the procedure itself has them."""
        words = ("HW.CALL", procedure, "RAW", args)
        return self.once(*words) if once else self.execute(*words)

    def procedures(self, pattern: str = "*") -> Any:
        """The procedures that may be called, and how."""
        return self.read("HW.PROCEDURES", pattern)

    def create_table(self, name: str, *types: str) -> Any:
        """Creates a table whose keys have columns of these types: ``HW.TABLE CREATE``."""
        return self.once("HW.TABLE", "CREATE", name, *types)

    def drop_table(self, name: str) -> Any:
        """Drops a table: ``HW.TABLE DROP``. 0: there was none."""
        return self.once("HW.TABLE", "DROP", name)

    def put(self, table: str, key: Key, value: Word) -> Any:
        """Sets a row: ``HW.PUT``. 1: it is new."""
        return self.once("HW.PUT", table, *rules.columns(key), value)

    def get(self, table: str, key: Key) -> Any:
        """A row's value, or ``None``: ``HW.GET``."""
        return self.read("HW.GET", table, *rules.columns(key))

    def delete(self, table: str, key: Key) -> Any:
        """Removes a row: ``HW.DEL``. 0: there was none."""
        return self.once("HW.DEL", table, *rules.columns(key))

    def range(self, table: str, start: Key, stop: Key, *, limit: Optional[int] = None, reverse: bool = False) -> Any:
        """Rows in the order of their keys, each its columns and its value: ``HW.RANGE``. Bounds are written as there: ``(7, "-")`` to
        ``(7, "+")`` are all rows whose first column is 7."""
        return self.read(*rules.range_words(table, start, stop, limit, reverse))

    def begin(self, timeout: Optional[float] = None) -> Interactive:
        """An interactive transaction, as a context: ``HW.BEGIN``. It commits at the end of the ``with``, or is rolled back by an
        exception. ``Conflict``: what it read was changed; nothing was done, and it may be begun anew."""
        return Interactive(self, timeout)

    # Connections.

    def close(self) -> None:
        """Closes connections that nobody uses."""
        with self._lock:
            connections = self._idle.all()
        for connection in connections:
            with SUPPRESSED:
                connection.disconnect()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()

    def _carry_out(self, steps: Generator[Need, Any, T], lent: Sequence[Handle[Connection]] = ()) -> T:
        """Does what the rules need, until they have a result. ``lent``: what they begin with."""
        held = list(lent)
        result: Any = None
        try:
            while True:
                need = steps.send(result)
                result = None
                if isinstance(need, Lend):
                    result = self._lend(need)
                    if isinstance(result, Handle):
                        held.append(result)
                elif isinstance(need, Exchange):
                    result = self._exchange(need)
                elif isinstance(need, Release):
                    assert isinstance(need.lent, Handle)
                    held.remove(need.lent)
                    self._release(need.lent)
                elif isinstance(need, Sleep):
                    time.sleep(need.seconds)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            for handle in held:
                handle.broken = True
                self._release(handle)

    def _lend(self, need: Lend) -> Union[Handle[Connection], str, HighwaterError]:
        key = (need.node, need.reader)
        left = need.deadline - time.monotonic()
        if not self._free.acquire(timeout=max(0.0, left)):
            return "all of this client's connections are in use"
        try:
            while True:
                with self._lock:
                    idle = self._idle.take(key)
                if idle is None:
                    return Handle(key, self._open(need))
                with SUPPRESSED:
                    # Something to read where nothing was asked: the other end has closed it.
                    if not idle.can_read(timeout=0):
                        return Handle(key, idle)
                with SUPPRESSED:
                    idle.disconnect()
        except (redis.RedisError, OSError) as error:
            self._free.release()
            return refused(error)
        except BaseException:
            self._free.release()
            raise

    def _open(self, need: Lend) -> Connection:
        connection = self._kind(**settings(need.node, self._options, self._protocol))
        try:
            connection.connect()
            if need.reader:
                connection.send_command("READONLY")
                connection.read_response()
        except BaseException:
            with SUPPRESSED:
                connection.disconnect()
            raise
        return connection

    def _exchange(self, need: Exchange) -> Tried:
        handle = need.lent
        assert isinstance(handle, Handle)
        replies: List[Any] = []
        try:
            for commands in portions(need.commands):
                packed = b"".join(b"".join(handle.connection.pack_command(*words)) for words in commands)
                handle.connection.send_packed_command([packed], check_health=False)
                for _ in commands:
                    try:
                        reply = plain(handle.connection.read_response())
                    except (redis.ResponseError, redis.BusyLoadingError, redis.AuthenticationError) as error:
                        reply = failure_of(error)
                    replies.append(reply)
        except (redis.RedisError, OSError) as error:
            handle.broken = True
            return Tried(replies, str(error) or type(error).__name__)
        except BaseException:
            handle.broken = True
            raise
        return Tried(replies)

    def _release(self, handle: Handle[Connection]) -> None:
        closed: Optional[Connection] = handle.connection
        if not handle.broken:
            with self._lock:
                closed = self._idle.put(handle.key, handle.connection)
        self._free.release()
        if closed is not None:
            with SUPPRESSED:
                closed.disconnect()


class _Again(Exception):
    """This attempt leads nowhere; nothing was done."""


class _Pinned:
    """A connection that is kept for several requests."""

    def __init__(self, client: Client, deadline: float) -> None:
        self.client = client
        self.rules = client._rules
        self.deadline = deadline
        self.node = self.rules.topology.leader()
        self.handle: Optional[Handle[Connection]] = None
        self.trouble: Optional[str] = None

    def lend(self) -> None:
        lent = self.client._lend(Lend(self.node, False, self.deadline))
        if isinstance(lent, HighwaterError):
            raise lent
        if isinstance(lent, str):
            self.rules.topology.failed(self.node)
            raise _Again(f"{self.node}: {lent}")
        self.handle = lent

    def take(self) -> Handle[Connection]:
        if self.trouble is not None:
            raise _Again(self.trouble)
        assert self.handle is not None
        return self.handle

    def give_up(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            # What it has open there is nobody's business any more.
            handle.broken = True
            self.client._release(handle)

    def exchange(self, words: Words) -> Any:
        """A reply; `_Again` if this connection leads nowhere."""
        handle = self.take()
        tried = self.client._exchange(Exchange(handle, [words], self.deadline))
        if tried.broken is not None:
            self.rules.topology.failed(self.node)
            self.trouble = f"{self.node}: {tried.broken}"
            raise _Again(self.trouble)
        reply = tried.replies[0]
        if isinstance(reply, Failure) and (reply.nothing_done_yet or reply.code == "UNKNOWN"):
            self.rules.refer(self.node, reply, 0.0, 0.0)
            self.trouble = reply.text
            raise _Again(reply.text)
        return value_of(reply)


class Transaction(_Pinned):
    """An attempt of a transaction."""

    def __init__(self, client: Client, deadline: float) -> None:
        super().__init__(client, deadline)
        self.queued: List[Words] = []

    def read(self, *words: Word) -> Any:
        """Reads, now. What it reads of watched keys holds when the transaction commits; before, two reads need not go together."""
        return self.exchange(words)

    def queue(self, *words: Word) -> None:
        """Writes, when the transaction commits."""
        self.queued.append(words)

    def forget(self) -> None:
        """Writes nothing of what was queued so far."""
        self.queued.clear()

    def __enter__(self) -> Transaction:
        self.lend()
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.give_up()


class Interactive(_Pinned):
    """An interactive transaction: commands are answered at once, and what they answered holds when it commits."""

    def __init__(self, client: Client, timeout: Optional[float]) -> None:
        super().__init__(client, client._rules.deadline())
        self.timeout = timeout
        self.over = False
        self.session: Optional[rules.Session] = None

    def execute(self, *words: Word) -> Any:
        """Runs a command in the transaction."""
        return self._ask(words)

    def commit(self) -> None:
        """Commits, exactly once. ``Conflict``: what it read was changed, and nothing was done."""
        handle = self.take()
        session, self.session, self.over = self.session, None, True
        assert session is not None
        ticket = session.ticket()
        words = ("HW.ONCE", ticket.session, ticket.number, "HW.COMMIT")
        tried = self.client._carry_out(self.rules.ask(handle, [words], self.deadline))
        reply = tried.replies[0] if tried.replies else None
        if tried.broken is not None or isinstance(reply, Failure) and reply.code == "UNKNOWN":
            why = tried.broken if reply is None else reply.text
            self.rules.topology.failed(self.node)
            try:
                outcome = self.client.outcome(ticket)
            except HighwaterError as error:
                raise UnknownOutcome(str(why), ticket) from error
            self.rules.give_back(session)
            if outcome.what != "committed":
                raise NotDone(str(why))
            return
        self.rules.give_back(session)
        if isinstance(reply, Failure):
            raise _end_of(reply)
        self.handle = None
        self.client._release(handle)

    def give_up(self) -> None:
        super().give_up()
        session, self.session = self.session, None
        if session is not None:
            # Nothing was sent under a number of it.
            self.rules.give_back(session)

    def rollback(self) -> None:
        """Ends it with nothing done."""
        self.over = True
        self._ask(("HW.ROLLBACK",))

    def __enter__(self) -> Interactive:
        begin = rules.begin_words(self.timeout)
        pause = rules.FIRST_PAUSE
        while True:
            try:
                # Once it is begun its connection takes no session's commands, and there may be no other.
                self.session = self.client._carry_out(self.rules.take(self.deadline))
                self.node, self.trouble = self.rules.topology.leader(), None
                self.lend()
                self.exchange(begin)
                return self
            except _Again as again:
                self.give_up()
                if self.client._carry_out(self.rules.wait(pause, self.deadline)):
                    raise NotDone(str(again)) from None
                pause = min(2 * pause, rules.LAST_PAUSE)
            except BaseException:
                self.give_up()
                raise

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        try:
            if not self.over and error is None:
                self.commit()
        finally:
            self.give_up()

    def _ask(self, words: Words) -> Any:
        try:
            return self.exchange(words)
        except _Again as again:
            self.over = True
            raise (Conflict if str(again).startswith("CONFLICT") else NotDone)(str(again)) from None


def _end_of(failure: Failure) -> HighwaterError:
    if failure.code == "CONFLICT":
        return Conflict(failure.text)
    return NotDone(failure.text) if failure.nothing_done_yet else ServerError(failure.text)
