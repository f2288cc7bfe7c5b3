"""Runs real clients against three replicas: `tests/clients.sh` calls it, inside an environment that has redis-py.

A client script gets HW_NODES (host:port of all, with commas), HW_NAME (the cluster's name) and HW_SECONDS. It counts with INCR on keys of its own, prints
"counting" when it has begun, and in the end one JSON object with, for each key, [acknowledged, unknown]: unknown is what may or may not have been done. Meanwhile the
leader is killed. In the end each key holds at least what was acknowledged, and at most the unknown ones more.
"""

import json
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import redis  # noqa: E402

from cluster import Cluster  # noqa: E402

NAME = "clients"
KILL_AFTER = 1
SECONDS = 4
PATIENCE = 150


def main():
    highwater, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    quick = "--quick" in sys.argv[3:]
    missing = []

    def python(*words):
        return [sys.executable, str(HERE / "redis_py.py"), *words]

    def both(words):
        return {f"redis-py, {words}, RESP{protocol}": python(words, protocol) for protocol in "23"}

    with Three(highwater, '[server]\nredirect = "moved"') as three:
        three.check("redis-py, RESP2", python("data", "2"))
        three.check("redis-py, RESP3", python("data", "3"))
        three.check("redis-py, server commands", python("server"))
        three.check("redis-py, a crowd", python("crowd"))
        three.benchmark(quick)
        three.failover({**both("cluster"), **both("sessions")})
        if not quick:
            for name, tool, install, command in others(folder):
                if shutil.which(tool) is None:
                    missing.append(f"{name} ({tool})")
                    continue
                install()
                three.failover({name: command})
    with Three(highwater, '[server]\nredirect = "readonly"') as three:
        three.failover(both("sentinel"))
        three.hand_over(both("sentinel"))
    with Locked(highwater, folder / "certificates") as locked:
        locked.check("redis-py, locked doors", python("refusals"))
        locked.failover({f"{name}, TLS, AUTH": command for name, command in {**both("cluster"), **both("sessions")}.items()})
    if missing:
        print("not run, because not at hand:", ", ".join(missing))
        sys.exit(3)
    print("all clients are content")


def others(folder):
    """Clients in other languages: name, the tool that they need, how to install, how to run."""

    def copy(name):
        target = folder / name
        shutil.copytree(HERE / name, target, dirs_exist_ok=True)
        return target

    def node(name):
        return lambda: run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=copy(name))

    def go():
        at = copy("go-redis")
        run(["go", "mod", "tidy"], cwd=at)
        run(["go", "build", "-o", "counter", "."], cwd=at)

    def java():
        run(["mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"], cwd=copy("jedis"))

    jedis = folder / "jedis" / "target"
    for name in ("ioredis", "node-redis"):
        yield f"{name}, cluster", "npm", node(name), ["node", str(folder / name / "counter.js")]
    yield "go-redis, cluster", "go", go, [str(folder / "go-redis" / "counter")]
    yield "jedis, cluster", "mvn", java, ["java", "-cp", f"{jedis}/classes:{jedis}/lib/*", "Counter"]


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Three(Cluster):
    """Three replicas, configured with these lines besides."""

    # What redis-py needs to come in, and what a client script is told of it.
    login, told = {}, {}

    def __init__(self, highwater, lines):
        super().__init__(highwater.parent, 3, f'id = "{NAME}"\ndurability = "memory"', lines)
        self.highwater = highwater

    def __enter__(self):
        for node in range(3):
            self.start(node, range(3))
        self.leader()
        return self

    def client(self, node):
        return redis.Redis(port=self.resp(node), decode_responses=True, socket_timeout=5, **self.login)

    def leader(self):
        """Who takes writes; waits for it."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            for node in self.processes:
                try:
                    with self.client(node) as one:
                        if one.role()[0] == "master" and one.set("probe", 1):
                            return node
                except redis.RedisError:
                    pass
            time.sleep(0.05)
        sys.exit(f"no leader within 30 s; see {self.folder}")

    def nodes(self):
        return ",".join(f"127.0.0.1:{self.resp(node)}" for node in range(3))

    def environment(self, seconds=SECONDS):
        return {**os.environ, "HW_NODES": self.nodes(), "HW_NAME": NAME, "HW_SECONDS": str(seconds), **self.told}

    def check(self, name, command):
        started = time.monotonic()
        run(command, env=self.environment())
        print(f"{name}: fine, {time.monotonic() - started:.1f} s", flush=True)

    def benchmark(self, quick):
        """Every test of redis-benchmark, whose output must name no error."""
        count = "2000" if quick else "20000"
        port = str(self.resp(self.leader()))
        for mode in [[], ["-P", "16"]]:
            command = ["redis-benchmark", "-p", port, "-n", count, "-c", "20", "-q", *mode]
            done = subprocess.run(command, capture_output=True, text=True)
            text = done.stdout.replace("\r", "\n")
            bad = [line for line in (text + done.stderr).splitlines() if re.search("error|unknown|ERR", line, re.I)]
            if done.returncode != 0 or bad:
                sys.exit(f"redis-benchmark: {bad or text}")
            tests = sum("requests per second" in line for line in text.splitlines())
            print(f"redis-benchmark {' '.join(mode)}: {tests} tests, fine", flush=True)

    def failover(self, clients):
        """The leader is killed while the clients count, and comes back."""

        def disturb():
            victim = self.leader()
            self.end(victim, kill=True)
            time.sleep(1)
            self.start(victim, range(3))

        self.disturbed("a leader killed", clients, disturb)

    def hand_over(self, clients):
        def disturb():
            here = self.leader()
            there = (here + 1) % 3
            run([self.highwater, "hand-over", "--to", str(there), "--admin", f"127.0.0.1:{self.ports[3 * here + 2]}"])

        self.disturbed("a lead handed over", clients, disturb)

    def disturbed(self, what, clients, disturb):
        """`clients`: names and commands, at the same time. What befalls the replicas in the middle must not fail, either."""
        self.settle()
        started, errors = {}, tempfile.TemporaryFile("w+")
        for name, command in clients.items():
            started[name] = subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=errors, text=True)

        def end_all():
            for client in started.values():
                client.kill()

        # Whoever hangs is ended, and fails by its exit code.
        patience = threading.Timer(PATIENCE, end_all)
        patience.start()
        try:
            for client in started.values():
                client.stdout.readline()
            time.sleep(KILL_AFTER)
            disturb()
            said = {name: client.stdout.read() for name, client in started.items()}
            ended = {name: client.wait() for name, client in started.items()}
        finally:
            patience.cancel()
            end_all()
        for name, out in said.items():
            if ended[name] != 0:
                errors.seek(0)
                sys.exit(f"{name}, {what}: failed with {ended[name]}:\n{out}\n{errors.read()}")
            self.judge(f"{name}, {what}", json.loads(out.strip().splitlines()[-1]))

    def judge(self, name, counts):
        with self.client(self.leader()) as leader:
            for key, (acknowledged, unknown) in counts.items():
                found = int(leader.get(key) or 0)
                if not acknowledged <= found <= acknowledged + unknown or acknowledged == 0:
                    sys.exit(f"{name}: {key} is {found}; acknowledged {acknowledged}, unknown {unknown}")
        done, doubts = (sum(count[at] for count in counts.values()) for at in (0, 1))
        print(f"{name}: {done} increments acknowledged, {doubts} unknown, all counters hold", flush=True)

    def settle(self):
        """Waits until all three replicas are there."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            with self.client(self.leader()) as one:
                nodes = one.execute_command("CLUSTER", "SLOTS")[0][2:]
            if len(nodes) == 3:
                return
            time.sleep(0.1)
        sys.exit("a replica did not come back within 30 s")


class Locked(Three):
    """The same behind locked doors: TLS, a client's certificate, a user with a password and rules."""

    def __init__(self, highwater, certificates):
        other = certificates / "other"
        ours = [["ca"], ["node", "--id", "0"], ["client", "--name", "app"]]
        theirs = [["ca"], ["client", "--name", "app"]]
        for folder, words in [(certificates, words) for words in ours] + [(other, words) for words in theirs]:
            run([highwater, "cert", *words, "--dir", folder])
        password = secrets.token_hex(8)
        users = certificates / "users.acl"
        rules = "~app:* ~count:* +@all -@admin -@dangerous +info +role +cluster"
        users.write_text(f"user default off\nuser root on >{password} ~* +@all\nuser app on >{password} {rules}\n")
        files = {"ca": "ca.crt", "certificate": "node-0.crt", "key": "node-0.key"}
        tls = "".join(f'{key} = "{certificates / file}"\n' for key, file in files.items())
        super().__init__(highwater, f'[auth]\nusers_file = "{users}"\n[tls]\nresp = true\nclient_auth = "required"\n{tls}')
        own = {"ssl_certfile": f"{certificates}/app.crt", "ssl_keyfile": f"{certificates}/app.key"}
        self.login = {"username": "root", "password": password, "ssl": True, "ssl_ca_certs": f"{certificates}/ca.crt", **own}
        self.told = {"HW_PASSWORD": password, "HW_CERTIFICATES": str(certificates)}


if __name__ == "__main__":
    main()
