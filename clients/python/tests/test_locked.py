"""Behind locked doors: TLS, certificates of clients, users with passwords, and the end of leaders."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Dict, List, Type

import pytest
from highwater import AsyncClient, AsyncTransaction, Client, Freshness, HighwaterError, NotDone, ServerError, Transaction, UnknownOutcome

from conftest import PATIENCE, Locked, while_leaders_end


def refusal(locked: Locked, kind: Type[HighwaterError], patience: float, options: Dict[str, Any]) -> List[str]:
    """What both clients say when they are not let in: the same."""
    with pytest.raises(kind) as raised:
        with Client(locked.resp, patience=patience, **options) as client:
            client.execute("PING")

    async def awaited() -> None:
        async with AsyncClient(locked.resp, patience=patience, **options) as client:
            await client.execute("PING")

    with pytest.raises(kind) as awaited_raised:
        asyncio.run(awaited())
    assert raised.value.is_safe_to_retry and awaited_raised.value.is_safe_to_retry
    return [str(error.value).lower() for error in (raised, awaited_raised)]


def test_who_is_not_let_in_is_told_why(locked: Locked) -> None:
    login = {"username": "app", "password": "secret"}
    # Nodes may differ in their certificates: all are tried, until time is up.
    for shown, words in [
        (locked.shows(locked.theirs, locked.ours), "certificate verify failed"),
        (locked.shows(locked.ours, None), "certificate required"),
        (locked.shows(locked.ours, locked.theirs), "alert"),
    ]:
        # On a busy machine no try may have come to its end in a short time.
        for patience in (0.5, 5.0, PATIENCE):
            told = refusal(locked, NotDone, patience, {**login, **shown})
            if all(words in said for said in told):
                break
        assert all(words in said for said in told), told
    refusal(locked, NotDone, 0.5, login)
    # A password is the cluster's: who has a wrong one is told at once.
    good = locked.shows(locked.ours, locked.ours)
    nobody: Dict[str, Any] = {"username": None, "password": None}
    for wrong, word in [({"password": "guessed"}, "wrongpass"), ({"username": "nobody"}, "wrongpass"), (nobody, "noauth")]:
        for said in refusal(locked, ServerError, PATIENCE, {**login, **wrong, **good}):
            assert said.startswith(word)


def test_rules_hold_under_sessions(locked: Locked) -> None:
    with Client(locked.resp, patience=PATIENCE, **{**locked.login, "username": "guest"}) as guest:
        assert guest.once("INCR", "guest:n") == 1
        forbidden: Callable[[], Any]
        for forbidden in [lambda: guest.once("INCR", "n"), lambda: guest.execute("INCR", "n"), lambda: guest.read_follower("GET", "n")]:
            with pytest.raises(ServerError) as raised:
                forbidden()
            assert raised.value.code == "NOPERM"
        assert guest.once("INCR", "guest:n") == 2


def test_counters_are_exact_behind_locked_doors(locked: Locked) -> None:
    client = Client(locked.resp, patience=PATIENCE, tokens=True, **locked.login)
    counts = {"singles": 0, "moved": 0, "sure": 0, "perhaps": 0, "awaited": 0}

    def singles(over: threading.Event) -> None:
        while not over.is_set():
            n = client.once("INCR", "singles")
            counts["singles"] += 1
            # Followers let it in, too.
            assert int(client.read_follower("GET", "singles", freshness=Freshness.own())) == n == counts["singles"]

    def moved(over: threading.Event) -> None:
        def move(tx: Transaction) -> None:
            tx.queue("SET", "moved", int(tx.read("GET", "moved") or 0) + 1)

        while not over.is_set():
            client.transaction(move, "moved")
            counts["moved"] += 1

    def blind(over: threading.Event) -> None:
        while not over.is_set():
            try:
                client.execute("INCR", "blind")
                counts["sure"] += 1
            except UnknownOutcome:
                counts["perhaps"] += 1

    def awaited(over: threading.Event) -> None:
        async def move(tx: AsyncTransaction) -> None:
            tx.queue("SET", "awaited", int(await tx.read("GET", "awaited") or 0) + 1)

        async def story() -> None:
            async with AsyncClient(locked.resp, patience=PATIENCE, **locked.login) as other:
                while not over.is_set():
                    await other.once("INCR", "awaited")
                    await other.transaction(move, "awaited")
                    counts["awaited"] += 2

        asyncio.run(story())

    while_leaders_end(locked, [singles, moved, blind, awaited])
    read: Callable[[str], int] = lambda key: int(client.read("GET", key))
    assert read("singles") == counts["singles"] > 0
    assert read("moved") == counts["moved"] > 0
    assert read("awaited") == counts["awaited"] > 0
    assert counts["sure"] <= read("blind") <= counts["sure"] + counts["perhaps"]
    client.close()
