"""What an unlucky operator does to nodes that run: strangers at their doors, no descriptors left, folders moved away and files removed. Every
node lives through it, says what is wrong, and is well again when it is over."""

import os
import resource
import shutil
import socket
import subprocess
import threading
import time

from wire import Wire

SOON = 30


def until(what, holds):
    end = time.monotonic() + SOON
    while not (found := holds()):
        assert time.monotonic() < end, f"it does not come to that: {what}"
        time.sleep(0.05)
    return found


def trouble(at, node):
    """What is wrong with a node's files, by its status."""
    try:
        return (at.status(node).get("disk") or {}).get("trouble")
    except (OSError, ValueError, EOFError, subprocess.SubprocessError):
        return None


def fill(at, rounds=60):
    """Enough for checkpoints, and for other files of the journal."""
    for step in range(rounds):
        end = time.monotonic() + SOON
        while True:
            try:
                with Wire(at.port(), timeout=10) as wire:
                    if wire.ask("SET", f"filler:{step % 10}", b"x" * 1_000_000) == b"OK":
                        break
            except (OSError, EOFError):
                pass
            at.look_for_leader()
            assert time.monotonic() < end, "writes do not come through"


def folder(at, node):
    return at.folder / "data" / f"node-{node}"


def followers(at):
    leader = at.leader()
    return [node for node in sorted(at.processes) if node != leader]


def strangers(at):
    """More connections to every door than a node has descriptors; those that are hung up on come again."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = {node: resource.prlimit(process.pid, resource.RLIMIT_NOFILE) for node, process in at.processes.items()}
    peers = [at.ports[3 * node] for node in at.processes]
    stopping, held = threading.Event(), []

    def besiege(port):
        mine = []
        held.append(mine)
        while not stopping.is_set():
            try:
                mine.append(socket.create_connection(("127.0.0.1", port), timeout=2))
            except OSError:
                time.sleep(0.01)
            if len(mine) > 1500:
                mine.pop(0).close()
                time.sleep(0.001)

    threads = [threading.Thread(target=besiege, args=(port,)) for port in peers + at.ports_of_admins()]
    for thread in threads:
        thread.start()
    try:
        fill(at)
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
        for mine in held:
            for one in mine:
                one.close()
    for node in at.processes:
        text = (at.folder / f"{node}.log").read_text(errors="replace")
        assert "Too many open files" not in text, f"node {node} ran out of descriptors: {text[-1000:]}"
    return f"limits {sorted(set(before.values()))}"


def no_descriptors(at):
    """The limit is lowered to nothing under two followers, and raised again."""
    victims = followers(at)
    before = {node: resource.prlimit(at.processes[node].pid, resource.RLIMIT_NOFILE) for node in victims}
    for node, (_, hard) in before.items():
        resource.prlimit(at.processes[node].pid, resource.RLIMIT_NOFILE, (3, hard))
    writer = threading.Thread(target=fill, args=(at, 120))
    writer.start()

    def told():
        logs = [(at.folder / f"{node}.log").read_text(errors="replace") for node in victims]
        return all("no file descriptor is left for the journal" in log for log in logs)

    try:
        until("both say so", told)
    finally:
        for node, limits in before.items():
            resource.prlimit(at.processes[node].pid, resource.RLIMIT_NOFILE, limits)
    writer.join()
    for node in victims:
        until("it is well again", lambda node=node: trouble(at, node) is None)


def folder_moved(at):
    """A follower's folder, then the leader's, is moved away and back."""
    for victim in [followers(at)[0], at.leader()]:
        away = at.folder / "away"
        folder(at, victim).rename(away)
        until("it is noticed", lambda: "moved away" in (trouble(at, victim) or ""))
        until("another node leads", lambda: at.leader() != victim)
        fill(at, 5)
        away.rename(folder(at, victim))
        until("it is well again", lambda: trouble(at, victim) is None)


def folder_replaced(at):
    """A copy is put in a follower's place, file by file. It has to be restarted, and has lost nothing."""
    victim = followers(at)[0]
    copy = at.folder / "copy"
    shutil.copytree(folder(at, victim), copy)
    folder(at, victim).rename(at.folder / "original")
    copy.rename(folder(at, victim))
    until("it is noticed", lambda: "another folder" in (trouble(at, victim) or ""))
    fill(at, 3)
    at.end(victim, kill=True)
    shutil.rmtree(folder(at, victim))
    (at.folder / "original").rename(folder(at, victim))
    at.restart(victim)


def checkpoints_removed(at):
    """Every checkpoint of a follower is removed, files of one that is being written too: it writes another."""
    victim = followers(at)[0]

    def files(what):
        """By the numbers of their checkpoints; a number is used again once all files with it are gone."""
        return {path.name.split(".")[0]: path for path in folder(at, victim).glob(f"checkpoint-*.{what}")}

    def has_one():
        # What was written before counts, too: how much more makes one due is not known.
        fill(at, 10)
        return files("manifest")

    until("it has one", has_one)
    for path in list(folder(at, victim).glob("checkpoint-*")):
        path.unlink(missing_ok=True)
    # The manifest of one that was being written, and has lost its part, is none.
    until("it writes another", lambda: files("manifest").keys() & files("part-0").keys())
    until("it is well again", lambda: trouble(at, victim) is None)
    at.end(victim, kill=True)
    at.restart(victim)


def odd_words(at):
    """Variables and arguments that are no text."""
    odd = b"caf\xe9"
    environment = {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}
    for more in [{b"PS1": odd}, {odd: odd}, {b"HIGHWATER_CLUSTER_ID": odd}, {b"HIGHWATER_ADMIN_TOKEN": odd}]:
        for words in [[b"config", b"default"], [b"status", odd], [odd], [b"serve", b"--set", odd], [b"serve", b"--config", odd]]:
            done = subprocess.run([os.fsencode(at.highwater), *words], env={**environment, **more}, capture_output=True, timeout=SOON)
            assert done.returncode >= 0 and b"panicked" not in done.stderr, f"{words} {more}: {done.returncode} {done.stderr}"
