"""Why a request was not answered as it was asked, by what one can do."""

from __future__ import annotations

import enum
from typing import Optional

from ._values import Ticket


class Effect(enum.Enum):
    """What a request that ended in an error has done."""

    NONE = "none"
    """Nothing: it may be sent again."""
    UNKNOWN = "unknown"
    """Nobody knows: it may have been done, or may still be."""


class HighwaterError(Exception):
    """Any of them."""

    effect: Effect = Effect.NONE

    @property
    def is_safe_to_retry(self) -> bool:
        """Whether the request may be sent again without being done twice."""
        return self.effect is Effect.NONE


class ServerError(HighwaterError):
    """The server refused it; nothing was done. ``code`` is its first word: ``WRONGTYPE``, ``OOM``, .."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.code = text.split(" ", 1)[0]


class RolledBack(ServerError):
    """A procedure rolled back; nothing was done."""


class NotDone(HighwaterError):
    """Nobody took it in time. Nothing was done."""


class Conflict(HighwaterError):
    """Other transactions were in the way, again and again. Nothing was done."""


class InvalidRequest(HighwaterError, ValueError):
    """It makes no sense to ask: it was not sent."""


class UnknownOutcome(HighwaterError):
    """It was sent, and nobody says what became of it. With a ticket one may ask ``outcome`` later."""

    effect = Effect.UNKNOWN

    def __init__(self, why: str, ticket: Optional[Ticket] = None) -> None:
        super().__init__(f"it may have been done or not: {why}")
        self.why = why
        self.ticket = ticket
