"""What redis-py does with a cluster: data, server commands, counting while leaders change, many connections."""

import json
import os
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    NoPermissionError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
)
from redis.retry import Retry
from redis.sentinel import Sentinel

NODES = [(host, int(port)) for host, port in (node.split(":") for node in os.environ["HW_NODES"].split(","))]
NAME = os.environ["HW_NAME"]
SECONDS = float(os.environ.get("HW_SECONDS", "5"))
PATIENCE = 60
THREADS = 4
# What the server, or redis-py after its tries, says when another try may succeed.
AGAIN = ("UNKNOWN", "CONFLICT", "CLUSTERDOWN", "MOVED", "The cluster", "TTL")
# Where the doors are locked: who one is, and the folder of certificates.
LOGIN = {"username": "app", "password": os.environ["HW_PASSWORD"]} if "HW_PASSWORD" in os.environ else {}
CERTIFICATES = os.environ.get("HW_CERTIFICATES")


def locks(client="app", authority="ca", **login):
    """What a connection through locked doors needs, in redis-py's words. Nothing, where they are open."""
    if CERTIFICATES is None:
        return LOGIN

    def file(name):
        return f"{CERTIFICATES}/{name}"

    own = {"ssl_certfile": file(f"{client}.crt"), "ssl_keyfile": file(f"{client}.key")} if client else {}
    return {**LOGIN, **login, "ssl": True, "ssl_ca_certs": file(f"{authority}.crt"), **own}


def never():
    """No try but the first: a lost reply is an unknown outcome, and not to be asked for again behind our back."""
    return Retry(NoBackoff(), 0)


def cluster(**options):
    nodes = [ClusterNode(host, port) for host, port in NODES]
    return RedisCluster(startup_nodes=nodes, decode_responses=True, socket_timeout=5, **locks(), **options)


def leader(protocol=2):
    """A plain client, of whoever serves."""
    for host, port in NODES:
        client = redis.Redis(host, port, decode_responses=True, protocol=protocol, **locks())
        if client.info("replication")["role"] == "master":
            return client
    sys.exit("nobody serves")


def data(protocol):
    client = leader(protocol)
    client.flushall()
    assert client.set("s", "1", ex=100) and client.get("s") == "1" and 0 < client.ttl("s") <= 100
    assert client.hset("h", mapping={"a": "1", "b": "2"}) == 2 and client.hgetall("h") == {"a": "1", "b": "2"}
    assert client.sadd("t", "x", "y") == 2 and client.smembers("t") == {"x", "y"}
    assert client.zadd("z", {"m": 1.5, "n": 2}) == 2
    assert [(member, score) for member, score in client.zrange("z", 0, -1, withscores=True)] == [("m", 1.5), ("n", 2.0)]
    assert client.rpush("l", 1, 2, 3) == 3 and client.lrange("l", 0, -1) == ["1", "2", "3"]
    with client.pipeline(transaction=True) as block:
        block.incr("n").incrby("n", 4).get("n")
        assert block.execute() == [1, 5, "5"]
    assert sorted(client.scan_iter(count=2)) == ["h", "l", "n", "s", "t", "z"]
    try:
        client.lpush("s", 1)
        sys.exit("a list on a string")
    except ResponseError as error:
        assert str(error).startswith("WRONGTYPE"), error
    many = [f"key:{number}" for number in range(2000)]
    client.mset({key: key for key in many})
    assert client.mget(many) == many
    with client.pipeline(transaction=False) as pipe:
        for key in many:
            pipe.get(key)
        assert pipe.execute() == many


def server():
    client = leader()
    assert client.ping() and client.echo("x") == "x" and client.dbsize() >= 0 and len(client.time()) == 2
    assert client.info("cluster")["cluster_enabled"] == 1 and client.info()["redis_version"]
    assert client.role()[0] == "master" and client.config_get("maxmemory*")
    assert client.command_count() == len(client.command())
    assert client.client_setname("me") and client.client_getname() == "me" and client.client_id() > 0
    assert client.execute_command("CLUSTER KEYSLOT", "foo") == 12182
    assert client.execute_command("CLUSTER INFO")["cluster_state"] == "ok"
    nodes = client.execute_command("CLUSTER NODES")
    assert len(nodes) == 3 and sum("master" in node["flags"] for node in nodes.values()) == 1, nodes
    many = cluster()
    assert len(many.get_nodes()) == 3 and len(many.get_primaries()) == 1 and len(many.get_replicas()) == 2
    many.set("{tag}a", 1)
    many.set("{tag}b", 2)
    assert many.mget("{tag}a", "{tag}b") == ["1", "2"] and many.delete("{tag}a", "{tag}b") == 2
    many.flushall()
    many.mset_nonatomic({f"n{number}": number for number in range(100)})
    assert many.dbsize() == 100 and len(list(many.scan_iter())) == 100 and len(many.keys()) == 100
    with many.pipeline() as pipe:
        for number in range(100):
            pipe.get(f"n{number}")
        assert pipe.execute() == [str(number) for number in range(100)]
    # Reads on the replicas, which cluster clients ask for with READONLY.
    reader = cluster(read_from_replicas=True)
    end = time.monotonic() + 10
    while reader.get("n7") != "7":
        assert time.monotonic() < end


class Progress:
    """One thread's counting: for so long after its first increment, which may take a busy machine some time."""

    begun = threading.Barrier(THREADS, action=lambda: print("counting", flush=True), timeout=PATIENCE)

    def __init__(self):
        self.acknowledged = self.unknown = 0
        self.end = time.monotonic() + PATIENCE

    def goes_on(self):
        return time.monotonic() < self.end

    def counted(self):
        self.acknowledged += 1
        if self.acknowledged == 1:
            Progress.begun.wait()
            self.end = time.monotonic() + SECONDS


def counting(count, protocol):
    """Counts in threads, each on a key of its own; prints what each knows."""
    counts, failures = {}, []

    def body(number):
        try:
            key, progress = f"count:{os.getpid()}:{number}", Progress()
            count(protocol, key, progress)
            counts[key] = progress.acknowledged, progress.unknown
        except Exception as error:  # told at the end
            failures.append(repr(error))

    threads = [threading.Thread(target=body, args=[number]) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("\n".join(failures))
    print(json.dumps(counts))


def plainly(increment, key, progress):
    """INCR until the end: an error that says that nothing was done is tried again, any other is unknown."""
    while progress.goes_on():
        try:
            increment(key)
            progress.counted()
        except (MovedError, ClusterDownError, ReadOnlyError):
            time.sleep(0.02)
        except ResponseError as error:
            if not str(error).startswith(("UNKNOWN", "CONFLICT")):
                raise
            progress.unknown += str(error).startswith("UNKNOWN")
        except (ConnectionError, TimeoutError):
            progress.unknown += 1
            time.sleep(0.02)


def sentinel_counts(protocol, key, progress):
    found = Sentinel(NODES, socket_timeout=5, sentinel_kwargs={"retry": never(), "protocol": protocol})
    master = found.master_for(NAME, socket_timeout=5, retry=never(), protocol=protocol)
    plainly(master.incr, key, progress)


def cluster_counts(protocol, key, progress):
    plainly(cluster(retry=never(), protocol=protocol).incr, key, progress)


def session_counts(protocol, key, progress):
    """Under a session whatever was not answered is sent again, by the library and here: nothing is unknown in the end."""
    client = cluster(protocol=protocol)
    # It names no key, so a cluster client does not know whom to ask.
    session, number = leader().execute_command("HW.SESSION", "NEW"), 0
    while progress.goes_on():
        number += 1
        while True:
            try:
                assert client.execute_command("HW.ONCE", session, number, "INCR", key) == number
                progress.counted()
                break
            except (ResponseError, ConnectionError, TimeoutError) as error:
                if isinstance(error, ResponseError) and not str(error).startswith(AGAIN):
                    raise
                time.sleep(0.02)


def crowd():
    """A thousand connections that do nothing, and a hundred that are busy."""
    host, port = leader().connection_pool.connection_kwargs["host"], leader().connection_pool.connection_kwargs["port"]
    idle = [redis.Redis(host, port) for _ in range(1000)]
    for client in idle:
        assert client.ping()
    key = f"crowd:{os.getpid()}"

    def busy():
        client = redis.Redis(host, port)
        for _ in range(100):
            client.incr(key)

    threads = [threading.Thread(target=busy) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int(idle[0].get(key)) == 10_000
    assert leader().info("clients")["connected_clients"] >= 1000
    for client in idle:
        assert client.ping()
        client.close()


def refusals():
    """Locked doors let in nobody else, and say why."""
    host, port = NODES[0]

    def refused(words, kind=ConnectionError, **options):
        client = redis.Redis(host, port, retry=never(), **options)
        try:
            sys.exit(f"let in: {client.ping()}, {words}")
        except kind as error:
            assert words.lower() in str(error).lower(), f"{error!r} does not say {words}"

    refused("certificate verify failed", **locks(authority="other/ca"))
    refused("certificate required", **locks(client=None))
    refused("alert", **locks(client="other/app"))
    refused("invalid username-password", AuthenticationError, **locks(password="guessed"))
    refused("invalid username-password", AuthenticationError, **locks(username="nobody"))
    refused("authenticated", AuthenticationError, **locks(username=None, password=None))
    # Who does not speak TLS hears nothing that could be taken for an answer.
    refused("", **LOGIN)
    # And who is let in does what the rules allow.
    app = leader()
    assert app.set("app:1", "x") and app.get("app:1") == "x"
    for forbidden in [lambda: app.get("other"), app.flushall, lambda: app.acl_list()]:
        try:
            sys.exit(f"done: {forbidden()}")
        except NoPermissionError:
            pass


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["data", protocol]:
            data(int(protocol))
        case ["server"]:
            server()
        case ["cluster", protocol]:
            counting(cluster_counts, int(protocol))
        case ["sessions", protocol]:
            counting(session_counts, int(protocol))
        case ["sentinel", protocol]:
            counting(sentinel_counts, int(protocol))
        case ["refusals"]:
            refusals()
        case ["crowd"]:
            crowd()
        case other:
            sys.exit(f"no such part: {other}")
