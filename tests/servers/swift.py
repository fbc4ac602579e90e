"""A real object storage with the interface of S3: OpenStack Swift.

    with Swift(tmp_path) as server:
        server.make_bucket("files")
        server.url                      # http://127.0.0.1:PORT, the endpoint
        server.names("files")           # of the objects in it, ordered
        server.kill(); server.start()   # on the same port, with the same objects

It keeps its objects in a folder whose file system needs extended attributes of users.
"""

from __future__ import annotations

import subprocess
import urllib.request
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any

from server_process import INSTALLED, ServerProcess, free_ports

ACCESS_KEY, SECRET_KEY, REGION = "test:tester", "secret-of-the-tests", "us-east-1"
HASH = "[swift-hash]\nswift_hash_path_suffix = tests\n[storage-policy:0]\nname = only\ndefault = yes\n"
BACKEND = """
[DEFAULT]
swift_dir = {home}
devices = {home}/devices
mount_check = false
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
disable_fallocate = true
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
"""
PROXY = """
[DEFAULT]
swift_dir = {home}
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
[pipeline:main]
pipeline = catch_errors cache s3api tempauth copy slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:9
[filter:s3api]
use = egg:swift#s3api
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = {secret} .admin
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""
RINGS = """
import sys
from swift.common.ring.builder import RingBuilder
home = sys.argv[1]
for kind, port in zip(("account", "container", "object"), sys.argv[2:]):
    builder = RingBuilder(4, 1, 0)
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "disk",
        "weight": 1.0, "replication_ip": "127.0.0.1", "replication_port": int(port), "meta": ""})
    builder.rebalance()
    builder.get_ring().save(f"{home}/{kind}.ring.gz")
"""
BACKENDS = ("account", "container", "object")
KINDS = ("proxy", *BACKENDS)


def find_missing() -> str:
    """Return why the server cannot be started here; "" if it can."""
    if not (INSTALLED / "swift/.installed").exists():
        return "needs OpenStack Swift: run `make test-postgres`, or python scripts/object_storage_install.py"
    return ""


class Swift:
    """The server. Its key is ACCESS_KEY with SECRET_KEY, its region REGION."""

    def __init__(self, home: Path) -> None:
        """Start it. `home`: an empty folder for all that it has. Raises CannotStart."""
        self._home = home
        self._bin = INSTALLED / "swift/venv/bin"
        (home / "devices/disk").mkdir(parents=True)
        (home / "swift.conf").write_text(HASH)
        self._processes: list[ServerProcess] = []
        self._ports = free_ports(1 + len(BACKENDS))
        subprocess.run([self._bin / "python", "-c", RINGS, home, *map(str, self._ports[1:])], check=True)
        for kind, port in zip(KINDS, self._ports, strict=True):
            text = PROXY if kind == "proxy" else BACKEND
            (home / f"{kind}.conf").write_text(text.format(home=home, port=port, kind=kind, secret=SECRET_KEY))
        self.start()

    def start(self) -> None:
        """Start it, also again after `kill()`: on the same ports, with the same objects."""
        self._processes = [self._start_server(*each) for each in zip(KINDS, self._ports, strict=True)]

    def _start_server(self, kind: str, port: int) -> ServerProcess:
        command = (self._bin / "python", self._bin / f"swift-{kind}-server", self._home / f"{kind}.conf")
        return ServerProcess(command, [port], self._home / f"{kind}.log", {"SWIFT_DIR": str(self._home)})

    def kill(self) -> None:
        """Kill the processes; the objects stay."""
        for process in self._processes:
            process.kill()

    @property
    def url(self) -> str:
        """The endpoint's URL."""
        return f"http://127.0.0.1:{self._ports[0]}"

    def _open(self, bucket: str) -> Any:
        from obstore.store import S3Store

        return S3Store(
            bucket, endpoint=self.url, region=REGION, access_key_id=ACCESS_KEY, secret_access_key=SECRET_KEY,
            client_options={"allow_http": True},
        )  # fmt: skip

    def make_bucket(self, name: str) -> None:
        """Make an empty bucket."""
        import obstore

        url = obstore.sign(self._open(name), "PUT", "", timedelta(minutes=1))
        with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):
            pass

    def names(self, bucket: str) -> list[str]:
        """Return the names of its objects, ordered."""
        return [entry["path"] for page in self._open(bucket).list() for entry in page]

    def put(self, bucket: str, name: str, content: bytes) -> None:
        """Store an object."""
        self._open(bucket).put(name, content)

    def remove(self, bucket: str, name: str) -> None:
        """Remove an object."""
        self._open(bucket).delete(name)

    def __enter__(self) -> Swift:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
