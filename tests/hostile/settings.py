"""Settings that people give by variables and flags, and files that they give for certificates: taken as they are, or refused in plain words."""

import os
import subprocess
import tempfile
import time

from ports import free_ports
from wire import Refused, Wire

PASSWORDS = [
    "plain", " ", " leading", "trailing ", "\ttab", '"quoted"', "'quoted'", '""', "''", '"half', "half'", '"""long"""', "'''long'''", 'a"b',
    "[1]", "[]", '["x"]', "{}", "{ a = 1 }", "42", "-1", "1_000", "0x1f", "1e3", "inf", "nan", "true", "2026-11-27", "07:32:00",
    "2026-11-27T07:32:00Z", "before # after", "two\nlines", "Grüße, 鍵", "back\\slash \\n \\u0041 = $HOME", "x" * 600,
]


def one_node(highwater, folder, port, flags=(), variables=None):
    peer, admin = free_ports(2)
    config = f"{folder}/highwater.toml"
    with open(config, "w") as file:
        file.write(
            '[cluster]\nworkers = 1\ndurability = "memory"\n'
            f'nodes = [{{ id = 0, peer = "127.0.0.1:{peer}", resp = "127.0.0.1:{port}", admin = "127.0.0.1:{admin}" }}]\n'
            "[limits]\nmemory_mb = 300\n[auth]\npassword = 'of the file'\n"
        )
    command = [highwater, "serve", "--config", config, *flags]
    log = open(f"{folder}/log", "ab")
    return subprocess.Popen(command, env={**os.environ, **(variables or {})}, stdout=log, stderr=log)


def opens(process, port):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        assert process.poll() is None, f"it ended with {process.returncode}"
        try:
            return Wire(port)
        except OSError:
            time.sleep(0.02)
    raise AssertionError("it does not listen after 30 s")


def passwords(at):
    """35 passwords, by variable and by flag, each over the one of the file."""
    with tempfile.TemporaryDirectory(prefix="highwater-settings-") as folder:
        for password in PASSWORDS:
            for how in ({"variables": {"HIGHWATER_AUTH_PASSWORD": password}}, {"flags": ["--set", f"auth.password={password}"]}):
                (port,) = free_ports(1)
                process = one_node(at.highwater, folder, port, **how)
                try:
                    with opens(process, port) as wire:
                        for wrong in {password.strip("\"' \t"), "of the file", ""} - {password}:
                            assert isinstance(wire.ask("AUTH", wrong), Refused), f"{password!r} by {list(how)}: {wrong!r} is let in"
                        assert wire.ask("AUTH", password) == b"OK", f"{password!r} by {list(how)}"
                finally:
                    process.kill()
                    process.wait()
    return f"{2 * len(PASSWORDS)} nodes"


def certificates(at):
    """Files that OpenSSL makes and this build cannot use."""
    wanted = {
        "version 1": ("v1.crt", "p256.key", "certificate of version 1"),
        "P-521": ("p521.crt", "p521.key", "P-521"),
        "trusted": ("trusted.crt", "p256.key", "TRUSTED CERTIFICATE"),
        "DER": ("der.crt", "p256.key", "is DER"),
        "protected": ("p256.crt", "protected.key", "passphrase"),
        "exchanged": ("p256.key", "p256.crt", "holds a key, and no certificate"),
    }
    with tempfile.TemporaryDirectory(prefix="highwater-certificates-") as folder:
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

        for curve, name in (("prime256v1", "p256"), ("secp521r1", "p521")):
            openssl("genpkey", "-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-out", f"{name}.key")
            openssl("req", "-x509", "-new", "-key", f"{name}.key", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-out", f"{name}.crt")
        openssl("req", "-new", "-key", "p256.key", "-subj", "/CN=localhost", "-out", "request.csr")
        openssl("x509", "-req", "-in", "request.csr", "-signkey", "p256.key", "-out", "v1.crt")
        openssl("x509", "-in", "p256.crt", "-trustout", "-addtrust", "serverAuth", "-out", "trusted.crt")
        openssl("x509", "-in", "p256.crt", "-outform", "der", "-out", "der.crt")
        openssl("pkcs8", "-topk8", "-in", "p256.key", "-passout", "pass:secret", "-out", "protected.key")
        for what, (certificate, key, words) in wanted.items():
            flags = ["tls.resp=true", f"tls.certificate={folder}/{certificate}", f"tls.key={folder}/{key}"]
            process = one_node(at.highwater, folder, free_ports(1)[0], [word for flag in flags for word in ("--set", flag)])
            assert process.wait(30) == 3, what
            with open(f"{folder}/log") as log:
                last = log.read().splitlines()[-1]
            assert words in last and "Other(" not in last, f"{what}: {last}"
    return f"{len(wanted)} files"
