"""Runs real clients against three replicas: `tests/clients.sh` calls it, inside an environment that has redis-py.

A client script gets HW_NODES (host:port of all, with commas), HW_NAME (the cluster's name) and HW_SECONDS. It counts with INCR on keys of its own and
prints one JSON object with, for each key, [acknowledged, unknown]: unknown is what may or may not have been done. Meanwhile the leader
is killed. In the end each key holds at least what was acknowledged, and at most the unknown ones more.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
sys.path.insert(0, str(HERE))

import redis  # noqa: E402

from cluster import Cluster  # noqa: E402

NAME = "clients"
KILL_AFTER = 1.5
SECONDS = 5


def main():
    highwater, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    quick = "--quick" in sys.argv[3:]
    missing = []
    python = [sys.executable, str(HERE / "redis_py.py")]
    with Three(highwater, "moved") as three:
        three.check("redis-py, RESP2", [*python, "data", "2"])
        three.check("redis-py, RESP3", [*python, "data", "3"])
        three.check("redis-py, server commands", [*python, "server"])
        three.benchmark(quick)
        three.failover("redis-py, cluster", [*python, "cluster"])
        three.failover("redis-py, cluster, sessions", [*python, "sessions"])
        if not quick:
            three.check("redis-py, a crowd", [*python, "crowd"])
            for name, tool, install, command in others(folder):
                if shutil.which(tool) is None:
                    missing.append(f"{name} ({tool})")
                    continue
                install()
                three.failover(name, command)
    with Three(highwater, "readonly") as three:
        three.failover("redis-py, Sentinel", [*python, "sentinel"])
        three.hand_over("redis-py, Sentinel, a lead handed over", [*python, "sentinel"])
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

    def node():
        run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=copy("ioredis"))

    def go():
        at = copy("go-redis")
        run(["go", "mod", "tidy"], cwd=at)
        run(["go", "build", "-o", "counter", "."], cwd=at)

    def java():
        run(["mvn", "-q", "-B", "package", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"], cwd=copy("jedis"))

    jedis = folder / "jedis" / "target"
    yield "ioredis, cluster", "npm", node, ["node", str(folder / "ioredis" / "counter.js")]
    yield "go-redis, cluster", "go", go, [str(folder / "go-redis" / "counter")]
    yield "jedis, cluster", "mvn", java, ["java", "-cp", f"{jedis}/classes:{jedis}/lib/*", "Counter"]


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Three(Cluster):
    """Three replicas whose clients are spoken to in these words."""

    def __init__(self, highwater, words):
        release = highwater.parent
        super().__init__(release, 3, f'id = "{NAME}"\ndurability = "memory"', f'[server]\nredirect = "{words}"')
        self.highwater = highwater

    def __enter__(self):
        for node in range(3):
            self.start(node, range(3))
        self.leader()
        return self

    def nodes(self):
        return ",".join(f"127.0.0.1:{self.resp(node)}" for node in range(3))

    def environment(self, seconds=SECONDS):
        return {**os.environ, "HW_NODES": self.nodes(), "HW_NAME": NAME, "HW_SECONDS": str(seconds)}

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

    def failover(self, name, command):
        """The leader is killed while the client counts, and comes back."""

        def disturb():
            victim = self.leader()
            self.end(victim, kill=True)
            time.sleep(1)
            self.start(victim, range(3))

        self.disturbed(name, command, disturb)

    def hand_over(self, name, command):
        def disturb():
            here = self.leader()
            there = (here + 1) % 3
            run([self.highwater, "hand-over", "--to", str(there), "--admin", f"127.0.0.1:{self.ports[3 * here + 2]}"])

        self.disturbed(name, command, disturb)

    def disturbed(self, name, command, disturb):
        self.settle()
        client = subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        fault = threading.Timer(KILL_AFTER, disturb)
        fault.start()
        out, err = client.communicate(timeout=120)
        fault.join()
        if client.returncode != 0:
            sys.exit(f"{name} failed:\n{out}\n{err}")
        counts = json.loads(out.strip().splitlines()[-1])
        port = self.resp(self.leader())
        with redis.Redis(port=port, decode_responses=True) as leader:
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
            leader = self.leader()
            with redis.Redis(port=self.resp(leader), decode_responses=True) as one:
                nodes = one.execute_command("CLUSTER", "SLOTS")[0][2:]
            if len(nodes) == 3:
                return
            time.sleep(0.1)
        sys.exit("a replica did not come back within 30 s")


if __name__ == "__main__":
    main()
