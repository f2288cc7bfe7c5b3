#!/usr/bin/env python3
"""The dashboard in a real browser: starts three nodes, loads them, opens the page in headless Chromium and looks.

    cargo build --release && tests/dashboard.py            # needs Chromium
    tests/dashboard.py --binary target/debug/highwater --pictures /tmp/pictures

Checks that figures of every node arrive, that a failover shows, that nothing is wider than a telephone, that a cluster which is down
looks it, and that the console is silent. With --pictures it keeps what it saw: wide and narrow, light and dark.
"""

import argparse
import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

PATIENCE = 120


class Browser:
    """Chromium, over a pair of pipes: JSON, each ended by a zero."""

    def __init__(self, path, folder):
        to_browser, self.to = os.pipe()
        self.of, from_browser = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$0" "$@"'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--no-first-run", f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", script, path, *flags], pass_fds=[to_browser, from_browser],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.buffer, self.session, self.errors = 0, b"", None, []

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.hear()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def hear(self):
        while b"\0" not in self.buffer:
            more = os.read(self.of, 1 << 16)
            if not more:
                raise RuntimeError("the browser has gone")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"])[:500])
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(json.dumps(params["args"])[:500])
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return message

    def open(self, url):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")
        self.size(1280, "light")
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && !!document.body", "the page is there")

    def size(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def eval(self, code):
        result = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, code, what):
        until = time.time() + PATIENCE
        while not self.eval(code):
            if time.time() > until:
                raise AssertionError(f"{what}: {self.eval('document.body.innerText')}\n{self.errors}")
            time.sleep(0.1)

    def picture(self, path):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                         clip={"x": 0, "y": 0, "scale": 1, "width": self.eval("innerWidth"),
                               "height": self.eval("document.documentElement.scrollHeight")})
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def end(self):
        self.process.terminate()
        self.process.wait()


class Nodes:
    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        sockets = [socket.socket() for _ in range(9)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        self.ports = [one.getsockname()[1] for one in sockets]
        for one in sockets:
            one.close()
        nodes = ", ".join(
            f'{{ id = {id}, peer = "127.0.0.1:{self.ports[3 * id]}", resp = "127.0.0.1:{self.ports[3 * id + 1]}", '
            f'admin = "127.0.0.1:{self.ports[3 * id + 2]}" }}' for id in range(3))
        self.processes = {}
        for id in range(3):
            with open(f"{folder}/{id}.toml", "w") as file:
                file.write(f'node = {id}\n[cluster]\nid = "dashboard"\nworkers = 2\nnodes = [{nodes}]\n'
                           f'[storage]\ndir = "{folder}/data"\n[limits]\nmemory_mb = 900\n[slowlog]\nslower_than_us = 3000\n')
            self.start(id)

    def start(self, id):
        log = open(f"{self.folder}/{id}.log", "a")
        self.processes[id] = subprocess.Popen([self.binary, "serve", "--config", f"{self.folder}/{id}.toml"], stderr=log)

    def follower(self):
        """Some node that does not lead, once one does."""
        until = time.time() + PATIENCE
        while time.time() < until:
            for id in range(3):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{self.ports[3 * id + 2]}/readyz?role=leader", timeout=5)
                    return (id + 1) % 3
                except OSError:
                    time.sleep(0.05)
        raise AssertionError("nobody leads")

    def kill(self, id):
        self.processes[id].kill()
        self.processes[id].wait()

    def end(self):
        for process in self.processes.values():
            process.kill()
            process.wait()


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def load(nodes, number, stop):
    """Writes to whoever takes it, until it is told to stop."""
    turn, id = 0, number
    while not stop.is_set():
        id = (id + 1) % 3
        try:
            with socket.create_connection(("127.0.0.1", nodes.ports[3 * id + 1]), timeout=2) as connection:
                connection.sendall(command("CLIENT", "SETNAME", f"shop-{number}"))
                while not stop.is_set():
                    turn += 1
                    batch = command("INCR", "orders:today") * 30 + command("SET", f"cart:{number}:{turn % 5000}", "x" * 300)
                    batch += command("GET", f"cart:{number}:{(turn * 7) % 5000}")
                    if turn % 400 == 0:
                        batch += command("MSET", *[word for n in range(3000) for word in (f"stock:{n}", "y" * 40)])
                    connection.sendall(batch)
                    said = connection.recv(1 << 16)
                    if not said or said.startswith((b"-MOVED", b"-CLUSTERDOWN", b"-NOTLEADER")):
                        break
                    time.sleep(0.002)
        except OSError:
            time.sleep(0.05)


def look(nodes, browser, pictures):
    browser.open(f"http://127.0.0.1:{nodes.ports[3 * nodes.follower() + 2]}/")
    browser.wait("(document.body.dataset.turns | 0) >= 5 && document.querySelector('#tiles').innerText.includes('3 of 3')",
                 "all nodes answer")
    browser.wait("/leads epoch \\d/.test(document.querySelector('#tiles').innerText)", "somebody leads")
    browser.wait("parseFloat(document.querySelector('.tile b').innerText) > 0", "transactions are released")
    browser.wait("!document.querySelectorAll('.tile b')[2].innerText.includes('–')", "latencies arrive")
    for id, what in [("topology", "svg circle"), ("nodes", "tbody tr"), ("throughput", "svg path"), ("latency", "svg path"),
                     ("streams", "tbody tr"), ("memory", "svg rect"), ("timeline", "svg rect.span"), ("events", "tbody tr"),
                     ("disk", "tbody tr"), ("slow", "tbody tr"), ("hot", "tbody tr")]:
        browser.wait(f"document.querySelectorAll('#{id} {what}').length > 0", f"#{id} has something")
    assert browser.eval("document.querySelectorAll('#nodes tbody tr').length") == 3
    assert "orders:today" in browser.eval("document.querySelector('#hot').innerText")
    assert not browser.errors, browser.errors
    print("figures of all three nodes arrive, and the console is silent")

    lead = browser.eval("serving()[0].id")
    nodes.kill(lead)
    browser.wait(f"serving().length && serving()[0].id !== {lead}", "another one leads")
    browser.wait("document.querySelector('#tiles').innerText.includes('2 of 3')", "the dead one is silent")
    nodes.start(lead)
    browser.wait("document.querySelector('#tiles').innerText.includes('3 of 3')", "it comes back")
    print(f"node {lead} was killed: another one leads, and it is back")
    browser.wait("past.length > 45", "there is something to draw")
    wide = browser.eval("document.documentElement.scrollWidth")
    assert wide <= 1280, f"{wide} is wider than the window"
    shots = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]
    for width, scheme in shots:
        browser.size(width, scheme)
        time.sleep(1.5)
        wide = browser.eval("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} is wider than a window of {width}"
        if pictures:
            os.makedirs(pictures, exist_ok=True)
            browser.picture(f"{pictures}/{width}-{scheme}.png")
    # A killed node refuses connections, of which the console tells, and nothing else.
    others = [error for error in browser.errors if "ERR_CONNECTION" not in error]
    assert not others, others
    print("it fits into 1280 and 400 points")
    look_at_the_end(nodes, browser, pictures)


def look_at_the_end(nodes, browser, pictures):
    """A cluster that is well, lacks a node, lacks a majority, is gone: the page says each at once."""
    browser.size(1280, "light")
    verdict = "(document.querySelector('#verdict').hidden ? '' : document.querySelector('#verdict').className + ' ' + document.querySelector('#verdict').innerText)"
    browser.wait(f"{verdict} === ''", "a cluster that is well has no banner")
    filled = """Math.max(...[...document.querySelectorAll('#memory .bar svg')].map(svg =>
        [...svg.querySelectorAll('rect:not(.track)')].reduce((sum, rect) => sum + parseFloat(rect.getAttribute('width')), 0) / 560))"""
    shares = browser.eval("list().map(node => node.status.memory).map(m => "
                          "(m.records + m.index + m.logs + m.retired + m.requests + m.replies + m.receiving) / m.budget)")
    assert browser.eval(filled) <= max(shares) + 0.02, f"bars are filled to {browser.eval(filled)} of budgets used to {shares}"
    lead = browser.eval("serving()[0].id")
    first, second = (id for id in range(3) if id != lead)
    nodes.kill(first)
    browser.wait(f"{verdict}.startsWith('risk One more loss stops service: 2 of 3 voters')", "the banner warns")
    nodes.kill(second)
    browser.wait(f"{verdict}.startsWith('down Down: node {lead} leads, and has to refuse clients')", "the banner says that it is down")
    browser.wait("document.querySelector('#tiles').innerText.includes('nobody')", "nobody serves")
    browser.wait("document.querySelectorAll('#timeline rect.stalled').length > 0", "the leader's lane is red")
    time.sleep(1.5)
    if pictures:
        browser.picture(f"{pictures}/down.png")
    nodes.kill(lead)
    browser.wait(f"{verdict}.startsWith('down No node answers')", "nobody is left")
    browser.wait("document.querySelector('#tiles').innerText.includes('0 of 3')", "no node answers")
    if pictures:
        browser.picture(f"{pictures}/dead.png")
    others = [error for error in browser.errors if "ERR_CONNECTION" not in error]
    assert not others, others
    print("a node lost, a majority lost, all lost: the banner says so")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="target/release/highwater")
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("chromium-browser"))
    parser.add_argument("--pictures", help="a folder for what was seen")
    args = parser.parse_args()
    if not args.browser:
        sys.exit("there is no Chromium: install it, or say where it is with --browser")
    stop, browser = threading.Event(), None
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(os.path.abspath(args.binary), folder)
        threads = [threading.Thread(target=load, args=(nodes, number, stop)) for number in range(6)]
        try:
            for thread in threads:
                thread.start()
            browser = Browser(args.browser, f"{folder}/browser")
            look(nodes, browser, args.pictures)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            if browser:
                browser.end()
            nodes.end()


if __name__ == "__main__":
    main()
