"""What goes in and comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, List, Literal, Optional, Sequence, Tuple, TypeVar, Union

Word = Union[str, bytes, int, float]
"""A word of a command."""
Words = Sequence[Word]
"""A command."""
Key = Union[Word, List[Word], Tuple[Word, ...]]
"""A key of a typed table, or a bound: a word for each column; of one column the word alone will do."""
T = TypeVar("T")


@dataclass(frozen=True)
class Ticket:
    """A request under a session."""

    session: int
    number: int


@dataclass(frozen=True)
class Outcome:
    """What became of a request under a session: done, undone by itself, refused, or it was not done and never will be.

    A command that was done and answered with an error is committed: ``reply`` is the exception, as it is if it failed."""

    what: Literal["committed", "rolledback", "failed", "never"]
    reply: Any


@dataclass(frozen=True)
class Committed(Generic[T]):
    """A transaction that committed: what its function returned at the attempt that counts, and the replies to what it queued."""

    value: T
    replies: List[Any]


@dataclass(frozen=True)
class Freshness:
    """How old what a follower shows may be."""

    words: Optional[Words]

    @classmethod
    def any(cls) -> Freshness:
        """Whatever the node has: usually some milliseconds old."""
        return cls(("ANY",))

    @classmethod
    def within(cls, seconds: float) -> Freshness:
        """Everything that was acknowledged to anybody so long before."""
        return cls(("WITHIN", max(0, int(seconds * 1000))))

    @classmethod
    def since(cls, token: int) -> Freshness:
        """Everything that this token covers."""
        return cls(("SINCE", token))

    @classmethod
    def own(cls) -> Freshness:
        """Everything that this client has seen answered: its own writes. It needs ``tokens=True``."""
        return cls(None)
