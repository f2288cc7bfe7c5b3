"""A client for Highwater clusters with a leader.

It finds who leads, stays with the cluster when that changes, and says of every request whether it was done. ``Client`` waits,
``AsyncClient`` awaits; both have the same methods.
"""

from ._aio import AsyncClient, AsyncInteractive, AsyncTransaction
from ._client import Client, Interactive, Transaction
from ._values import Committed, Freshness, Outcome, Ticket
from .errors import (
    Conflict,
    Effect,
    HighwaterError,
    InvalidRequest,
    NotDone,
    RolledBack,
    ServerError,
    UnknownOutcome,
)

__all__ = [
    "AsyncClient",
    "AsyncInteractive",
    "AsyncTransaction",
    "Client",
    "Committed",
    "Conflict",
    "Effect",
    "Freshness",
    "HighwaterError",
    "Interactive",
    "InvalidRequest",
    "NotDone",
    "Outcome",
    "RolledBack",
    "ServerError",
    "Ticket",
    "Transaction",
    "UnknownOutcome",
]
