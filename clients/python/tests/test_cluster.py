"""Three real processes, and the end of their leaders."""

from __future__ import annotations

import asyncio
import pathlib
import threading
from typing import Any, Callable, List

import pytest
from highwater import AsyncClient, AsyncTransaction, Client, Conflict, Freshness, NotDone, ServerError, Ticket, Transaction, UnknownOutcome

from conftest import PATIENCE, Cluster, while_leaders_end


def test_answers(cluster: Cluster) -> None:
    with Client(cluster.resp[2], patience=PATIENCE, decode_responses=True) as client:
        assert client.execute("SET", "text", "a\r\nb") == "OK"
        assert client.read("GET", "text") == "a\r\nb"
        with pytest.raises(ServerError) as raised:
            client.once("LPUSH", "text", "x")
        assert raised.value.code == "WRONGTYPE" and raised.value.is_safe_to_retry
        assert client.block([]) == []
        first, second = client.block([("INCR", "text"), ("INCR", "blocks")])
        assert isinstance(first, ServerError) and second == 1
        with pytest.raises(ServerError, match="NOSUCH"):
            client.block([("INCR", "blocks"), ("NOSUCH",)])
        many = client.pipeline([("SET", f"key:{at}", "x" * 600) for at in range(1500)] + [("INCR", "text")])
        assert many[:1500] == ["OK"] * 1500 and isinstance(many[1500], ServerError)
        assert client.pipeline([]) == []
        assert client.execute("CLIENT", "ID") == client.execute("CLIENT", "ID"), "a connection serves again"


def test_transactions_are_tried_again(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE) as client:
        attempts = 0

        def times_ten(tx: Transaction) -> int:
            nonlocal attempts
            attempts += 1
            n = int(tx.read("GET", "tens") or 0)
            if attempts < 4:
                client.once("INCR", "tens")
            tx.queue("SET", "tens", 10 * n)
            return n

        committed = client.transaction(times_ten, "tens")
        assert (committed.value, committed.replies, attempts) == (3, [b"OK"], 4)
        assert client.read("GET", "tens") == b"30"

        def gives_up(tx: Transaction) -> None:
            tx.queue("SET", "tens", 0)
            raise ZeroDivisionError

        for _ in range(20):
            with pytest.raises(ZeroDivisionError):
                client.transaction(gives_up, "tens")
        assert client.read("GET", "tens") == b"30"


def test_outcomes(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE) as client:
        session = client.execute("HW.SESSION", "NEW")
        assert client.outcome(Ticket(session, 1)).what == "never"
        client.execute("HW.ONCE", session, 2, "SET", "outcome", "x")
        client.execute("SET", "outcome", "y")
        assert client.outcome(Ticket(session, 2)).what == "committed"
        with pytest.raises(ServerError):
            client.execute("HW.ONCE", session, 3, "INCR", "outcome")
        failed = client.outcome(Ticket(session, 3))
        assert failed.what == "committed" and isinstance(failed.reply, ServerError)


def test_followers_show_what_one_wrote(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE, tokens=True) as client:
        for n in range(20):
            client.once("SET", "own", n)
            assert client.read_follower("GET", "own", freshness=Freshness.own()) == str(n).encode()
            assert client.read_follower("GET", "own", freshness=Freshness.within(0)) == str(n).encode()
        assert client.token > 0
        client.read_follower("GET", "own", freshness=Freshness.since(client.token))
        client.read_follower("GET", "own")


def test_nobody_answers() -> None:
    with pytest.raises(NotDone):
        Client("127.0.0.1:1", patience=0.1).execute("PING")


def test_interactive_transactions(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE) as client:
        client.execute("SET", "alice", 100)
        with client.begin() as tx:
            alice = int(tx.execute("GET", "alice"))
            tx.execute("SET", "alice", alice - 30)
        assert client.read("GET", "alice") == b"70"
        with pytest.raises(ZeroDivisionError):
            with client.begin() as tx:
                tx.execute("SET", "alice", 0)
                raise ZeroDivisionError
        with client.begin() as tx:
            tx.execute("SET", "alice", 0)
            tx.rollback()
        assert client.read("GET", "alice") == b"70"


def test_procedures(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE, decode_responses=True) as client:
        client.call("bank.load", 0, 10, 100)
        client.call("bank.transfer", 1, 2, 30)
        with pytest.raises(ServerError) as raised:
            client.call("bank.transfer", 1, 2, 1000)
        assert raised.value.code == "ROLLEDBACK"


def test_interactive_transactions_that_were_overtaken(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE, tokens=True) as client:
        for _ in range(3):
            client.execute("SET", "bob", 1)
            with pytest.raises(Conflict):
                with client.begin(timeout=10) as tx:
                    bob = int(tx.execute("GET", "bob"))
                    client.execute("INCR", "bob")
                    tx.execute("SET", "bob", bob + 10)
            assert client.read("GET", "bob") == b"2"

    async def awaited() -> None:
        async with AsyncClient(cluster.resp, patience=PATIENCE) as other:
            async with other.begin() as tx:
                assert await tx.execute("GET", "bob") == b"2"
                await tx.execute("SET", "bob", 3)
            assert await other.read("GET", "bob") == b"3"

    asyncio.run(awaited())


def test_tables(cluster: Cluster) -> None:
    with Client(cluster.resp, patience=PATIENCE, decode_responses=True) as client:
        client.create_table("orders", "u64", "string")
        assert client.put("orders", (7, "book"), 3) == 1
        assert client.put("orders", (7, "pen"), 1) == 1
        assert client.put("orders", (8, "ink"), 2) == 1
        assert client.get("orders", (7, "book")) == "3"
        assert client.get("orders", [9, "book"]) is None
        rows = client.range("orders", (7, "-"), (7, "+"))
        assert [row[1] for row in rows] == ["book", "pen"]
        assert [row[1] for row in client.range("orders", ("-", "-"), ("+", "+"), limit=1, reverse=True)] == ["ink"]
        assert client.delete("orders", (8, "ink")) == 1
        with pytest.raises(ServerError) as raised:
            client.get("nowhere", 1)
        assert raised.value.code == "NOTABLE"
        assert client.drop_table("orders") == 1


def test_counters_are_exact_though_leaders_are_killed(cluster: Cluster) -> None:
    client = Client(cluster.resp[1], patience=PATIENCE)
    client.execute("SET", "rich", 1_000_000)
    counts = {"singles": 0, "blocks": 0, "transfers": 0, "sure": 0, "perhaps": 0, "awaited": 0}
    lock = threading.Lock()

    def count(name: str, by: int = 1) -> None:
        with lock:
            counts[name] += by

    def singles(over: threading.Event) -> None:
        while not over.is_set():
            client.once("INCR", "singles")
            count("singles")

    def blocks(over: threading.Event) -> None:
        while not over.is_set():
            first, second = client.block([("INCR", "pairs"), ("INCR", "pairs")])
            assert second == first + 1 and first % 2 == 1
            count("blocks", 2)

    def transfers(over: threading.Event) -> None:
        def move(tx: Transaction) -> int:
            rich, poor = int(tx.read("GET", "rich")), int(tx.read("GET", "poor") or 0)
            tx.queue("SET", "rich", rich - 1)
            tx.queue("SET", "poor", poor + 1)
            return rich + poor

        while not over.is_set():
            assert client.transaction(move, "rich", "poor").value == 1_000_000
            count("transfers")

    def blind(over: threading.Event) -> None:
        while not over.is_set():
            try:
                client.execute("INCR", "blind")
                count("sure")
            except UnknownOutcome:
                count("perhaps")

    def awaited(over: threading.Event) -> None:
        async def one(other: AsyncClient) -> None:
            async def move(tx: AsyncTransaction) -> None:
                tx.queue("SET", "awaited", int(await tx.read("GET", "awaited") or 0) + 1)

            while not over.is_set():
                await other.transaction(move, "awaited")
                count("awaited")
                await other.once("INCR", "awaited")
                count("awaited")

        async def all_() -> None:
            async with AsyncClient(cluster.resp, patience=PATIENCE) as other:
                await asyncio.gather(one(other), one(other))

        asyncio.run(all_())

    while_leaders_end(cluster, [singles, singles, blocks, transfers, transfers, blind, awaited])
    read: Callable[[str], int] = lambda key: int(client.read("GET", key))
    assert read("singles") == counts["singles"] > 0
    assert read("pairs") == counts["blocks"] > 0
    assert read("poor") == counts["transfers"] > 0
    assert read("awaited") == counts["awaited"] > 0
    assert counts["sure"] <= read("blind") <= counts["sure"] + counts["perhaps"]
    client.close()


def test_awaited_answers(cluster: Cluster) -> None:
    async def story() -> None:
        async with AsyncClient(cluster.resp, patience=PATIENCE, tokens=True, decode_responses=True) as client:
            await client.once("SET", "greeting", "hello")
            assert await client.read_follower("GET", "greeting", freshness=Freshness.own()) == "hello"
            results: List[Any] = await asyncio.gather(*(client.once("INCR", "together") for _ in range(100)))
            assert sorted(results) == list(range(1, 101))
            assert await client.block([("INCR", "together")]) == [101]
            with pytest.raises(ServerError):
                await client.execute("INCR", "greeting")
            assert await client.pipeline([("GET", "greeting")]) == ["hello"]
            assert await client.execute("CLIENT", "ID") == await client.execute("CLIENT", "ID")

    asyncio.run(story())


def test_readme(cluster: Cluster) -> None:
    """Its Python, with this cluster's addresses."""
    readme = pathlib.Path(__file__).parent.parent / "README.md"
    blocks = readme.read_text().split("```python\n")[1:]
    assert len(blocks) >= 2
    for block in blocks:
        code = block.split("```")[0].replace('["10.0.0.1:7200", "10.0.0.2:7200", "10.0.0.3:7200"]', repr(cluster.resp))
        exec(compile(code, str(readme), "exec"), {"__name__": "readme"})
