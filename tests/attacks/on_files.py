"""What happens to stored files: damaged and deleted ones, one that takes long to read, and more than may be stored."""

import struct
import uuid
from pathlib import Path
from typing import Final

import httpx

from attacks.world import Attack, Verdict, World, environment
from end_to_end.workflow_clients import WorkflowClient, node, picture
from servers import serving, wait_until

_MODEL: Final = "/v2/models/local/procedural-image-1"
_MIB: Final = 2**20


def flip_bytes(world: World) -> Verdict:
    """Flip a byte of a stored file, as a failing disk would, and ask for it."""
    content = picture(colour="#123456") + uuid.uuid4().bytes
    before = _blobs(world)
    name = world.bystander.upload(content)
    (blob,) = _blobs(world) - before
    _flip(blob, len(content) // 2)
    answer = world.bystander.http.get("/api/view", params={"filename": name, "type": "input"}, follow_redirects=True)
    report = world.server.cli("audit", "--blobs", "--json")
    blob.write_bytes(content)  # so that the books of files are right in the end
    is_told = blob.name in str(report)
    return Verdict(not answer.is_success and is_told, f"answered {answer.status_code}; audit names it: {is_told}")


def delete_result(world: World) -> Verdict:
    """Delete the stored result of a queued run, and ask how the run stands."""
    before = _blobs(world)
    run = world.bystander.http.post(f"{_MODEL}/requests", json={"prompt": uuid.uuid4().hex}).json()
    wait_until(lambda: world.bystander.http.get(run["status_url"]).json()["status"] == "COMPLETED", "its end")
    lost = {blob: blob.read_bytes() for blob in _blobs(world) - before}
    for blob in lost:
        blob.unlink()
    collected = world.bystander.http.get(run["response_url"])
    status = world.bystander.http.get(run["status_url"])
    is_told = not status.is_success or "error_type" in status.json()
    for blob, content in lost.items():
        blob.write_bytes(content)
    return Verdict(not collected.is_success and is_told, f"collect {collected.status_code}, status {status.text[:120]}")


def slow_movie(world: World) -> Verdict:
    """Have a movie of 128 KB read whose tables say the same again and again."""
    runs = b"".join(struct.pack(">III", first, 0, 1) for first in (1, 16_001) * 2_500)
    tables = (
        _box(b"stsd", bytes(8), _box(b"Opus", bytes(28))),
        _box(b"stsz", bytes(4), struct.pack(">II", 0, 0)),
        _box(b"stsc", bytes(4), struct.pack(">I", 5_000), runs),
        _box(b"stco", bytes(4), struct.pack(">I", 16_000), bytes(64_000)),
    )
    sound = _box(b"hdlr", bytes(8), b"soun", bytes(13)), _box(b"mdhd", bytes(12), struct.pack(">II", 48_000, 48_000))
    track = _box(b"trak", _box(b"mdia", *sound, _box(b"minf", _box(b"stbl", *tables))))
    head = _box(b"mvhd", bytes(12), struct.pack(">II", 48_000, 48_000))
    name = world.attacker.upload(_box(b"ftyp", b"isom") + _box(b"moov", head, track) + _box(b"mdat"), "slow.mp4")
    job = world.attacker.run({"1": node("LoadAudio", audio=name), "2": node("PreviewAudio", audio=["1", 0])})
    return Verdict(job["status"] == "failed", f"the job {job['status']}")


def _box(kind: bytes, *parts: bytes) -> bytes:
    return struct.pack(">I4s", 8 + sum(map(len, parts)), kind) + b"".join(parts)


def fill_the_disk(world: World) -> Verdict:
    """Upload more than a workspace may store."""
    settings = {"FAIRLEAD_STORAGE_LIMIT_MIB": "2"}
    with serving(world.folder / f"storage-{uuid.uuid4().hex}", env=environment(settings)) as server:
        client = WorkflowClient(server)
        files = [{"image": (f"{number}.png", picture() + bytes([number]) * _MIB)} for number in range(4)]
        statuses = [client.http.post("/api/upload/image", files=file).status_code for file in files]
        client.http.close()
    refused = [status for status in statuses if status != httpx.codes.OK]
    return Verdict(len(refused) >= 2 and all(status < 500 for status in refused), f"answered {statuses}")


def _blobs(world: World) -> set[Path]:
    return {path for path in (world.server.data / "blobs").rglob("*") if path.is_file() and len(path.name) == 64}


def _flip(blob: Path, place: int) -> None:
    content = bytearray(blob.read_bytes())
    content[place] ^= 0xFF
    blob.chmod(0o600)
    blob.write_bytes(content)


ATTACKS: Final = (
    Attack("flip bytes", "a stored file is damaged, and asked for", flip_bytes),
    Attack("delete a result", "a stored result is deleted, and asked for", delete_result, on_both=True),
    Attack("slow movie", "a movie of 128 KB with tables that repeat themselves", slow_movie),
    Attack("fill the disk", "more files than a workspace may store", fill_the_disk, on_both=True, is_elsewhere=True),
)
