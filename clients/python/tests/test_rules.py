"""The rules, without a cluster."""

from __future__ import annotations

import pathlib
import runpy
from typing import Any, Generator, List

import highwater
import pytest
import redis.exceptions as errors
from highwater import Client, Effect, InvalidRequest, NotDone, UnknownOutcome
from highwater._rules import Exchange, Failure, Lend, Lent, Release, Rules, Sleep, Topology, Tried, address_of
from highwater._wire import failure_of


def test_whoever_is_named_is_asked_next() -> None:
    assert Failure("NOTLEADER leader is node 1 at 10.0.0.2:7200").leader() == "10.0.0.2:7200"
    assert Failure("NOTLEADER this node does not serve at the moment; ask node 1 at [::1]:7").leader() == "[::1]:7"
    assert Failure("NOTLEADER no leader is known at the moment; retry").leader() is None
    assert Failure("MOVED 866 10.0.0.2:7200").leader() == "10.0.0.2:7200"
    assert Failure("WRONGTYPE at 10.0.0.2:7200").leader() is None
    assert address_of("fe80::1:7200") == "[fe80::1]:7200"
    assert address_of("10.0.0.2:99999") is None


def test_nodes_are_asked_in_turns_until_one_leads() -> None:
    topology = Topology(["a:1", "b:1"])
    topology.referred("a:1", "c:1")
    assert topology.leader() == "c:1"
    assert topology.readers(0) == ["a:1", "b:1", "c:1"]
    topology.failed("a:1")
    assert topology.leader() == "c:1", "somebody else's trouble says nothing of the leader"
    topology.failed("c:1")
    assert topology.leader() == "a:1"
    topology.referred("a:1", None)
    assert topology.leader() == "b:1"
    for port in range(200):
        topology.referred("c:1", f"d:{port}")
    assert len(topology.nodes) == 64 and topology.nodes[:2] == ["a:1", "b:1"]


def test_what_redis_py_makes_of_errors_is_undone() -> None:
    assert failure_of(errors.MovedError("866 10.0.0.2:7200")).text == "MOVED 866 10.0.0.2:7200"
    assert failure_of(errors.ClusterDownError("The cluster is down")).text.startswith("CLUSTERDOWN")
    assert failure_of(errors.ResponseError("wrong number of arguments")).code == "ERR"
    assert failure_of(errors.ResponseError("WRONGTYPE x")).code == "WRONGTYPE"
    assert failure_of(errors.OutOfMemoryError("command not allowed")).code == "OOM"
    assert failure_of(errors.AuthenticationError("invalid username-password pair or user is disabled.")).code == "WRONGPASS"
    assert failure_of(errors.AuthenticationError("Authentication required.")).code == "NOAUTH"
    assert failure_of(errors.AuthenticationError("HELLO must be called with the client already authenticated, ..")).code == "NOAUTH"


def test_who_slept_too_long_tells_why_the_last_try_failed() -> None:
    rules = Rules(Topology(["a:1"]), lambda: clock[0], 1.0, False)
    clock, steps = [0.0], rules.command(("PING",), harmless=True)
    need, told = next(steps), 0
    with pytest.raises(NotDone, match="bad certificate"):
        while True:
            told += isinstance(need, Lend)
            if isinstance(need, Sleep):
                clock[0] += 2.0
            need = steps.send("bad certificate" if isinstance(need, Lend) else None)
    assert told == 1, "nobody is asked when time is up"


class Story:
    """A client whose nodes answer what is written here."""

    def __init__(self, answers: List[Any]) -> None:
        self.clock = 0.0
        self.answers = answers
        self.asked: List[Any] = []
        self.rules = Rules(Topology(["a:1", "b:1"]), lambda: self.clock, 1.0, False)

    def run(self, steps: Generator[Any, Any, Any]) -> Any:
        result: Any = None
        node = ""
        try:
            while True:
                need = steps.send(result)
                result = None
                if isinstance(need, Lend):
                    node = need.node
                    result = Lent() if self.answers[0] != "down" else self.answers.pop(0)
                elif isinstance(need, Exchange):
                    self.asked.append((node, [words[0] for words in need.commands]))
                    result = self.answers.pop(0)
                elif isinstance(need, Sleep):
                    self.clock += need.seconds
                else:
                    assert isinstance(need, Release)
        except StopIteration as end:
            return end.value


def test_what_may_have_been_done_is_not_sent_again() -> None:
    story = Story([Tried([Failure("MOVED 1 b:1")]), Tried([], "broken")])
    with pytest.raises(UnknownOutcome) as raised:
        story.run(story.rules.command(("INCR", "a"), harmless=False))
    assert raised.value.effect is Effect.UNKNOWN and not raised.value.is_safe_to_retry
    assert [node for node, _ in story.asked] == ["a:1", "b:1"]


def test_what_does_no_harm_is_sent_again() -> None:
    story = Story([Tried([], "broken"), "down", Tried([Failure("UNKNOWN x")]), Tried([7])])
    assert story.run(story.rules.command(("GET", "a"), harmless=True)) == 7


def test_time_is_bounded() -> None:
    story = Story([Tried([Failure("CLUSTERDOWN x")])] * 1000)
    with pytest.raises(NotDone):
        story.run(story.rules.command(("INCR", "a"), harmless=False))
    assert 0.8 < story.clock <= 1.0


def test_a_request_keeps_its_number_and_a_lost_try_is_not_forgotten() -> None:
    story = Story([Tried([5]), Tried([], "broken"), Tried([Failure("OOM x")])])
    with pytest.raises(UnknownOutcome) as raised:
        story.run(story.rules.once(("INCR", "a")))
    assert raised.value.ticket is not None and raised.value.ticket.session == 5
    assert not story.rules.sessions, "its session is not used again"
    story = Story([Tried([5]), Tried([Failure("EXPIRED x")]), Tried([6]), Tried([1])])
    assert story.run(story.rules.once(("INCR", "a"))) == 1
    assert [session.session for session in story.rules.sessions] == [6]


def test_a_block_whose_end_is_lost_is_asked_for() -> None:
    ok = [b"OK", b"QUEUED", b"QUEUED"]
    story = Story([Tried([5]), Tried(ok, "broken"), Tried([[b"committed", [b"OK", 1]]])])
    assert story.run(story.rules.block([("INCR", "a")])) == [1]
    story = Story([Tried([5]), Tried(ok, "broken"), Tried([[b"never", None]]), Tried([*ok, [b"OK", 2]])])
    assert story.run(story.rules.block([("INCR", "a")])) == [2]
    aborted = Failure("EXECABORT x")
    story = Story([Tried([5]), Tried([b"OK", Failure("MOVED 1 b:1"), b"QUEUED", aborted]), Tried([*ok, [b"OK", 3]])])
    assert story.run(story.rules.block([("INCR", "a")])) == [3]


def test_both_clients_are_one() -> None:
    folder = pathlib.Path(__file__).parent.parent
    source = pathlib.Path(highwater.__file__).parent
    made = runpy.run_path(str(folder / "awaiting.py"))["awaiting"]((source / "_client.py").read_text())
    assert made == (source / "_aio.py").read_text(), "run awaiting.py, and change _client.py only"


def test_arguments_are_checked() -> None:
    for nodes in ([], ["localhost"], "localhost"):
        with pytest.raises(InvalidRequest):
            Client(nodes)
    with pytest.raises(InvalidRequest):
        Client("a:1", patience=0)
