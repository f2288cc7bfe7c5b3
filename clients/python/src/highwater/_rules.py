"""What to ask whom, what answers mean, and when to ask again: without sockets and clocks of its own.

Each operation is a generator that yields what it needs (`Effect_`) and is sent what came of it. ``_client`` and ``_aio`` carry that
out, waiting or awaiting. The rule: what may have been done is sent again only if that does no harm.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Generator, List, Optional, Tuple, TypeVar, Union

from ._values import Freshness, Key, Outcome, Ticket, Word, Words
from .errors import Conflict, HighwaterError, InvalidRequest, NotDone, RolledBack, ServerError, UnknownOutcome

T = TypeVar("T")
FIRST_PAUSE = 0.002
LAST_PAUSE = 0.1
MOST_NODES = 64
MOST_SESSIONS = 64
ELSEWHERE = frozenset(["NOQUORUM", "CLUSTERDOWN", "TRYAGAIN", "LOADING", "MASTERDOWN", "READONLY"])
# About one try, and no end of a request: they say nothing of earlier tries.
OF_THE_TRY = frozenset(["EXPIRED", "STALE", "OOM", "DISKFULL", "NOAUTH", "NOPERM", "WRONGPASS"])


@dataclass(frozen=True)
class Failure:
    """An error that the server answered."""

    text: str

    @property
    def code(self) -> str:
        return self.text.split(" ", 1)[0]

    @property
    def nothing_done_yet(self) -> bool:
        """Nothing was done, and another try may succeed."""
        return self.code in ELSEWHERE or self.code in ("NOTLEADER", "MOVED", "ASK", "CONFLICT")

    def leader(self) -> Optional[str]:
        """Who leads, if it says so."""
        words = self.text.split()
        named = words[2:3] if self.code in ("MOVED", "ASK") else words if self.code == "NOTLEADER" else []
        found = [address for address in map(address_of, named) if address]
        return found[-1] if found else None

    def error(self) -> HighwaterError:
        return RolledBack(self.text) if self.code == "ROLLEDBACK" else ServerError(self.text)


def address_of(word: str) -> Optional[str]:
    """``host:port``, if it is one; an IPv6 address without brackets gets some."""
    host, colon, port = word.rstrip(",;.").rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        return None
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"


class Lent:
    """A connection out of the pool; who carries effects out knows more of it."""

    broken: bool = False


@dataclass
class Lend:
    """A connection is wanted; sent back: it, or why there is none."""

    node: str
    reader: bool
    deadline: float


@dataclass
class Exchange:
    """Commands are to be sent, together; sent back: `Tried`."""

    lent: Lent
    commands: List[Words]
    deadline: float


@dataclass
class Release:
    """The connection is not needed any more."""

    lent: Lent


@dataclass
class Sleep:
    """Time is to pass."""

    seconds: float


@dataclass
class Tried:
    """So many replies came; and why not all, if not all."""

    replies: List[Any]
    broken: Optional[str] = None


Need = Union[Lend, Exchange, Release, Sleep]
Steps = Generator[Need, Any, T]


class Topology:
    """Whom to ask, by what was heard last."""

    def __init__(self, nodes: List[str]) -> None:
        self.nodes = list(nodes)
        self.named = len(nodes)
        self.known: Optional[str] = None
        self.next = 0

    def leader(self) -> str:
        return self.known or self.nodes[self.next % len(self.nodes)]

    def readers(self, turn: int) -> List[str]:
        turn %= len(self.nodes)
        return sorted(self.nodes[turn:] + self.nodes[:turn], key=lambda node: node == self.known)

    def served(self, node: str) -> None:
        self.known = node

    def referred(self, node: str, leader: Optional[str]) -> None:
        if leader is None:
            self.failed(node)
            return
        if leader not in self.nodes:
            if len(self.nodes) >= max(MOST_NODES, self.named + 1):
                del self.nodes[self.named]
            self.nodes.append(leader)
        self.known = leader

    def failed(self, node: str) -> None:
        # Somebody else's trouble says nothing of the leader.
        if self.known in (None, node):
            self.known = None
            if node in self.nodes:
                self.next = (self.nodes.index(node) + 1) % len(self.nodes)


class Session:
    """All its requests up to now have ended."""

    def __init__(self, session: int) -> None:
        self.session = session
        self.used = 0

    def ticket(self) -> Ticket:
        self.used += 1
        return Ticket(self.session, self.used)


@dataclass
class Rules:
    """One client's state."""

    topology: Topology
    now: Callable[[], float]
    patience: float
    tokens: bool
    sessions: List[Session] = field(default_factory=list)
    token: int = 0
    turns: int = 0

    def deadline(self) -> float:
        return self.now() + self.patience

    # One command, or several apart.

    def command(self, words: Words, harmless: bool) -> Steps[Any]:
        ended, _ = yield from self.apart([words], harmless, self.deadline())
        return value_of(ended[0])

    def pipeline(self, commands: List[Words]) -> Steps[List[Any]]:
        ended, _ = yield from self.apart(commands, False, self.deadline())
        return [end.error() if isinstance(end, Failure) else end for end in ended]

    def apart(self, commands: List[Words], harmless: bool, deadline: float) -> Steps[Tuple[List[Any], bool]]:
        """Each is a request of its own. How each ended (a reply, a `Failure` or an exception), and whether a try was lost."""
        ended: Dict[int, Any] = {}
        pause, lost = FIRST_PAUSE, False
        while len(ended) < len(commands):
            open_ = [at for at in range(len(commands)) if at not in ended]
            node = self.topology.leader()
            lent = yield Lend(node, False, deadline)
            least, why, conflict = 0.0, "", False
            if isinstance(lent, HighwaterError):
                raise lent
            if isinstance(lent, str):
                self.topology.failed(node)
                why = f"{node}: {lent}"
            else:
                tried = yield from self.ask(lent, [commands[at] for at in open_], deadline)
                yield Release(lent)
                if tried.broken is not None:
                    self.topology.failed(node)
                for position, at in enumerate(open_):
                    missing = Failure(f"UNKNOWN {node}: {tried.broken}")
                    reply = tried.replies[position] if position < len(tried.replies) else missing
                    if isinstance(reply, Failure) and reply.code == "UNKNOWN":
                        why = reply.text
                        if harmless:
                            lost, least = True, max(least, pause)
                        else:
                            ended[at] = UnknownOutcome(why)
                    elif isinstance(reply, Failure) and reply.nothing_done_yet:
                        why, conflict = reply.text, reply.code == "CONFLICT"
                        least = self.refer(node, reply, pause, least)
                    else:
                        if not isinstance(reply, Failure):
                            self.topology.served(node)
                        ended[at] = reply
            if len(ended) < len(commands):
                over = yield from self.wait(max(least, FIRST_PAUSE), deadline)
                pause = min(2 * pause, LAST_PAUSE)
                if over:
                    for at in range(len(commands)):
                        ended.setdefault(at, late(why, lost, conflict))
        return [ended[at] for at in range(len(commands))], lost

    def refer(self, node: str, failure: Failure, pause: float, least: float) -> float:
        """Nothing was done there. How long to wait, at least."""
        if failure.code == "CONFLICT":
            return max(least, pause)
        leader = failure.leader()
        self.topology.referred(node, leader)
        return FIRST_PAUSE if leader else max(least, pause)

    def wait(self, pause: float, deadline: float) -> Steps[bool]:
        """Whether time is up."""
        if self.now() + pause >= deadline:
            return True
        # Those that failed together do not come together.
        yield Sleep(pause * random.uniform(0.5, 1.0))
        # Whoever slept too long tells why the last try failed, and not that there was no time for another one.
        return self.now() >= deadline

    def ask(self, lent: Lent, commands: List[Words], deadline: float) -> Steps[Tried]:
        """Sends commands, and asks for the token behind them."""
        if not self.tokens:
            tried: Tried = yield Exchange(lent, commands, deadline)
            return tried
        tried = yield Exchange(lent, [*commands, ("HW.TOKEN",)], deadline)
        if tried.broken is None:
            token = tried.replies.pop()
            if isinstance(token, int):
                self.token = max(self.token, token)
        return tried

    # Under sessions.

    def open(self, deadline: float) -> Steps[Session]:
        # One whose reply got lost is never used.
        ended, _ = yield from self.apart([("HW.SESSION", "NEW")], True, deadline)
        try:
            return Session(int(value_of(ended[0])))
        except UnknownOutcome as error:
            raise NotDone(error.why) from error

    def take(self, deadline: float) -> Steps[Session]:
        if self.sessions:
            return self.sessions.pop()
        return (yield from self.open(deadline))

    def give_back(self, session: Session) -> None:
        """Only when all its requests have ended: a later number would deny what is still on its way."""
        if len(self.sessions) < MOST_SESSIONS:
            self.sessions.append(session)

    def once(self, words: Words) -> Steps[Any]:
        deadline = self.deadline()
        session = yield from self.take(deadline)
        while True:
            ticket = session.ticket()
            command = ("HW.ONCE", ticket.session, ticket.number, *words)
            ended, lost = yield from self.apart([command], True, deadline)
            end = ended[0]
            if isinstance(end, UnknownOutcome):
                raise UnknownOutcome(end.why, ticket)
            if isinstance(end, Failure) and end.code in OF_THE_TRY:
                if lost:
                    raise UnknownOutcome(end.text, ticket)
                if end.code == "EXPIRED":
                    session = yield from self.open(deadline)
                    continue
            self.give_back(session)
            return value_of(end)

    def block(self, commands: List[Words]) -> Steps[List[Any]]:
        deadline = self.deadline()
        session = yield from self.take(deadline)
        pause = FIRST_PAUSE
        while True:
            ticket = session.ticket()
            node = self.topology.leader()
            lent = yield Lend(node, False, deadline)
            if isinstance(lent, HighwaterError):
                raise lent
            if isinstance(lent, str):
                self.topology.failed(node)
                end: Any = NotDone(f"{node}: {lent}")
            else:
                end = yield from self.finish(lent, node, ticket, commands, deadline, pause)
            if isinstance(end, list):
                self.give_back(session)
                return end
            if end is None or isinstance(end, Failure) and end.code == "EXPIRED":
                session = yield from self.open(deadline)
                continue
            if (yield from self.wait(pause, deadline)):
                raise end
            pause = min(2 * pause, LAST_PAUSE)

    def finish(self, lent: Lent, node: str, ticket: Ticket, commands: List[Words], deadline: float, pause: float) -> Steps[Any]:
        """Sends a block under a number and gives the connection back. The replies; or `Conflict` or `NotDone` if nothing was done, and another
        number may be tried; or ``None`` if the session is no more."""
        words: List[Words] = [("MULTI",), ("HW.ONCE", ticket.session, ticket.number), *commands, ("EXEC",)]
        tried = yield from self.ask(lent, words, deadline)
        yield Release(lent)
        if tried.broken is not None:
            self.topology.failed(node)
        queued, last = tried.replies[: len(words) - 1], tried.replies[len(words) - 1 :]
        failures = [reply for reply in queued if isinstance(reply, Failure)]
        early = [failure for failure in failures if failure.nothing_done_yet]
        if early or last and isinstance(last[0], Failure) and last[0].nothing_done_yet:
            failure = early[0] if early else last[0]
            self.refer(node, failure, pause, 0.0)
            return Conflict(failure.text) if failure.code == "CONFLICT" else NotDone(failure.text)
        if last and not (isinstance(last[0], Failure) and last[0].code == "UNKNOWN"):
            if isinstance(last[0], Failure):
                failure = failures[0] if failures else last[0]
                if failure.code == "EXPIRED":
                    return None
                raise failure.error()
            self.topology.served(node)
            return exec_of(last[0])
        # Nobody said what became of it.
        why = last[0].text if last else f"{node}: {tried.broken}"
        try:
            outcome = yield from self.outcome_by(ticket, deadline)
        except HighwaterError as error:
            raise UnknownOutcome(why, ticket) from error
        if outcome.what == "committed":
            return exec_of(outcome.reply)
        if outcome.what == "failed":
            raise outcome.reply
        return Conflict("others were in the way") if outcome.what == "rolledback" else NotDone(why)

    def outcome(self, ticket: Ticket) -> Steps[Outcome]:
        return (yield from self.outcome_by(ticket, self.deadline()))

    def outcome_by(self, ticket: Ticket, deadline: float) -> Steps[Outcome]:
        ended, _ = yield from self.apart([("HW.OUTCOME", ticket.session, ticket.number)], True, deadline)
        what, reply = value_of(ended[0])
        word = text_of(what)
        if word not in ("committed", "rolledback", "failed", "never"):
            raise ServerError(f"ERR HW.OUTCOME answered {word}")
        if isinstance(reply, Failure):
            reply = reply.error()
        elif word == "failed":
            reply = ServerError(text_of(reply))
        return Outcome(word, reply)  # type: ignore[arg-type]

    # On followers.

    def read_anywhere(self, words: Words, freshness: Freshness) -> Steps[Any]:
        bound = freshness.words
        if bound is None:
            if not self.tokens:
                raise InvalidRequest("to read one's own writes open the client with tokens=True")
            bound = ("SINCE", self.token)
        deadline = self.deadline()
        self.turns += 1
        pause = FIRST_PAUSE
        while True:
            why = ""
            for node in self.topology.readers(self.turns):
                lent = yield Lend(node, True, deadline)
                if isinstance(lent, HighwaterError):
                    raise lent
                if isinstance(lent, str):
                    why = f"{node}: {lent}"
                    continue
                tried = yield from self.ask(lent, [("HW.FRESHNESS", *bound), words], deadline)
                yield Release(lent)
                if tried.broken is not None:
                    why = f"{node}: {tried.broken}"
                    continue
                first, reply = tried.replies
                if isinstance(first, Failure):
                    raise first.error()
                if not isinstance(reply, Failure):
                    return reply
                if reply.code not in ("NOTFRESH", "UNKNOWN") and not reply.nothing_done_yet:
                    raise reply.error()
                if reply.leader():
                    self.topology.referred(node, reply.leader())
                why = reply.text
            if (yield from self.wait(pause, deadline)):
                raise NotDone(why)
            pause = min(2 * pause, LAST_PAUSE)


def late(why: str, lost: bool, conflict: bool) -> HighwaterError:
    """Time is up."""
    if lost:
        return UnknownOutcome(why)
    return Conflict(why) if conflict else NotDone(why)


def value_of(end: Any) -> Any:
    """A reply; errors are raised."""
    if isinstance(end, Failure):
        raise end.error()
    if isinstance(end, HighwaterError):
        raise end
    return end


def exec_of(reply: Any) -> Any:
    """The replies to a block's commands, without that of ``HW.ONCE``; a conflict if it did not hold."""
    if reply is None:
        return Conflict("others were in the way")
    return [part.error() if isinstance(part, Failure) else part for part in reply[1:]]


def text_of(word: Any) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else str(word)


def columns(key: Key) -> List[Word]:
    return list(key) if isinstance(key, (list, tuple)) else [key]


def range_words(table: Word, start: Key, stop: Key, limit: Optional[int], reverse: bool) -> List[Word]:
    words: List[Word] = ["HW.RANGE", table, *columns(start), *columns(stop)]
    if limit is not None:
        words += ["LIMIT", limit]
    return words + ["REV"] if reverse else words


def begin_words(timeout: Optional[float]) -> List[Word]:
    return ["HW.BEGIN"] if timeout is None else ["HW.BEGIN", "TIMEOUT", int(timeout * 1000)]
