"""What code of strangers tries in a confined process, and that it comes to nothing: with each Landlock, as any user."""

import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from processes.confinement.attackers import NOBODY, Place, attack, needs_landlock, place_in, users, versions

pytestmark = [needs_landlock, pytest.mark.req("S-05")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """Return a place that every user can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.owner() == Path.home().owner() and folder != Path("/") and os.getuid() == 0:
            folder.chmod(folder.stat().st_mode | 0o711)
        if folder.name.startswith("pytest-of-"):
            break
    yield place_in(tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("version", versions())
def test_files_outside_cannot_be_opened_listed_changed_or_removed(place: Place, version: int, user: int | None) -> None:
    """The modes of these files let everybody read, as a server in /opt might have it, and still nobody can."""
    secret = place.outside / "secret-key"
    secret.write_text("secret")
    secret.chmod(0o666)
    tried = attack(
        place.policy(landlock_version_max=version),
        f"""
        secret = {str(secret)!r}
        folder = os.path.dirname(secret)
        value = [
            tried(lambda: open(secret).read()),
            tried(lambda: open(secret, "a").close()),
            tried(lambda: os.truncate(secret, 0)),
            tried(lambda: os.listdir(folder)),
            tried(lambda: os.unlink(secret)),
            tried(lambda: os.rename(secret, secret + "2")),
            tried(lambda: os.link(secret, {str(place.own / "link")!r})),
            tried(lambda: open(folder + "/new", "w").close()),
            tried(lambda: open("/proc/self/root" + secret).read()),
        ]
        """,
        user,
    )
    assert set(tried) == {"PermissionError"} or set(tried) <= {"PermissionError", "OSError"}, tried
    assert secret.read_text() == "secret"
    assert [path.name for path in place.outside.iterdir()] == ["secret-key"]


@pytest.mark.parametrize("user", users())
def test_modes_owners_and_times_stay_as_they_are(place: Place, user: int | None) -> None:
    """Landlock does not govern them; a copy, which sets them of a file of its own, works all the same."""
    file = place.outside / "database"
    file.touch(0o600)
    if user is not None:
        os.chown(file, user, user)
    before = file.stat()
    copied = attack(
        place.policy(),
        f"""
        file, own = {str(file)!r}, {str(place.own)!r}
        for change in (lambda: os.chmod(file, 0o666), lambda: os.chown(file, 1, 1), lambda: os.utime(file, (1, 1)),
                       lambda: os.setxattr(file, "user.a", b"b"),
                       lambda: os.chmod("database", 0o666, dir_fd=os.open(os.path.dirname(file), os.O_PATH))):
            tried(change)
        libc.syscall(452, -100, file.encode(), 0o666, 0)
        open(own + "/a", "w").write("content")
        shutil.copy2(own + "/a", own + "/b")
        value = open(own + "/b").read()
        """,
        user,
    )
    after = file.stat()
    assert copied == "content"
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)
    assert os.listxattr(file) == []


@pytest.mark.parametrize("user", users())
def test_no_socket_reaches_anybody(place: Place, user: int | None) -> None:
    """No Unix socket of a program, port of this machine or packet of its network is reachable; socket pairs work."""
    path = place.outside / "socket"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as port:
        unix.bind(str(path))
        path.chmod(0o777)
        unix.listen()
        tried = attack(
            place.policy(),
            f"""
            def connect(family, address):
                with socket.socket(family) as made:
                    made.connect(address)
            def receive(kind):
                with socket.socketpair(type=kind)[0] as made:
                    made.connect({str(path)!r})
            left, right = socket.socketpair()
            left.sendall(b"x")
            value = [
                right.recv(1).decode(),
                tried(lambda: connect(socket.AF_UNIX, {str(path)!r})),
                tried(lambda: connect(socket.AF_INET, {port.getsockname()!r})),
                tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)),
                tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 6)),
                tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)),
                tried(lambda: socket.socket(40, socket.SOCK_STREAM)),
                tried(lambda: receive(socket.SOCK_DGRAM)),
                tried(lambda: receive(socket.SOCK_STREAM)),
            ]
            """,
            user,
        )
        port.settimeout(0)
        with pytest.raises(BlockingIOError):
            port.accept()
    assert tried == ["x", *["PermissionError"] * 8]


def test_granted_network_is_the_internets_protocols_alone(place: Place) -> None:
    """A port can be reached then; a program's Unix socket, raw sockets and ports to listen at cannot."""
    path = place.outside / "socket"
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as port:
        unix.bind(str(path))
        unix.listen()
        tried = attack(
            place.policy(allows_network=True),
            f"""
            def use(family, kind, act):
                with socket.socket(family, kind) as made:
                    act(made)
            value = [
                tried(lambda: use(socket.AF_INET, socket.SOCK_STREAM, lambda s: s.connect({port.getsockname()!r}))),
                tried(lambda: use(socket.AF_UNIX, socket.SOCK_STREAM, lambda s: s.connect({str(path)!r}))),
                tried(lambda: use(socket.AF_UNIX, socket.SOCK_DGRAM, lambda s: s.sendto(b"x", {str(path)!r}))),
                tried(lambda: use(socket.AF_PACKET, socket.SOCK_RAW, lambda s: None)),
                tried(lambda: use(socket.AF_INET, socket.SOCK_RAW, lambda s: None)),
            ]
            """,
        )
    assert tried == [None, *["PermissionError"] * 4]


@pytest.mark.parametrize("user", users())
def test_shared_memory_that_nobody_counts_is_not_to_be_had(place: Place, user: int | None) -> None:
    """A shared anonymous mapping, a memory file, System V memory and /dev/shm are all refused."""
    tried = attack(
        place.policy(),
        """
        def old():
            if libc.shmget(0, 1 << 20, 0o1600) < 0:
                raise PermissionError
        value = [
            tried(lambda: mmap.mmap(-1, 1 << 20)),
            tried(lambda: mmap.mmap(-1, 1 << 20, flags=0x23)),
            tried(lambda: os.memfd_create("memory")),
            tried(lambda: os.open("/dev/zero", os.O_RDWR)),
            tried(lambda: os.open("/dev/shm/memory", os.O_RDWR | os.O_CREAT)),
            tried(old),
            len(mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)),
        ]
        """,
        user,
    )
    assert tried == [*["PermissionError"] * 6, 1 << 20]


def test_process_gets_no_more_memory_than_its_bound(place: Place) -> None:
    """The system refuses it, and the process hears of that."""
    code = """
    try:
        value = len(bytearray(512 << 20))
    except MemoryError:
        value = "MemoryError"
    """
    assert attack(place.policy(memory=256 << 20), code) == "MemoryError"


@pytest.mark.parametrize("user", users())
@pytest.mark.parametrize("version", versions())
def test_server_cannot_be_signalled_traced_slowed_or_bounded(place: Place, version: int, user: int | None) -> None:
    """The same holds for any other process of the user, whether or not Landlock governs signals."""
    before = os.sched_getaffinity(0)
    tried = attack(
        place.policy(landlock_version_max=version),
        """
        other = os.getppid()
        def traced():
            if libc.ptrace(16, other, None, None) != 0:
                raise PermissionError
        value = [
            tried(lambda: os.kill(other, 0)),
            tried(lambda: signal.pidfd_send_signal(os.pidfd_open(other), 0)),
            tried(traced),
            tried(lambda: resource.prlimit(other, resource.RLIMIT_NOFILE, (0, 0))),
            tried(lambda: os.setpriority(os.PRIO_PROCESS, other, 19)),
            tried(lambda: os.setpriority(os.PRIO_USER, 0, 19)),
            tried(lambda: os.sched_setscheduler(other, os.SCHED_IDLE, os.sched_param(0))),
            tried(lambda: open(f"/proc/{other}/environ").read()),
        ]
        os.sched_setaffinity(other, [0])
        """,
        user,
    )
    assert set(tried) == {"PermissionError"}, tried
    assert os.getpriority(os.PRIO_PROCESS, 0) < 19
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("user", users())
def test_privileges_are_gone_and_do_not_come_back(place: Place, user: int | None) -> None:
    """Neither the process, nor a program it starts, nor a namespace gets them back."""
    if user is None and os.getuid() != 0:
        user = os.getuid()
    value = attack(
        place.policy(),
        """
        status = lambda: [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapE", "CapP"))]
        grep = ["/bin/grep", "-E", "^Cap(Eff|Prm)", "/proc/self/status"]
        shell = subprocess.run(grep, capture_output=True, text=True)
        value = [
            {*status()} == {"0" * 16},
            [int(line.split()[1], 16) for line in shell.stdout.splitlines()],
            libc.unshare(0x10000000),
            libc.prctl(4294967297, 0, 0, 0, 0),
            libc.prctl(36, 0, 0, 0, 0),
            libc.prctl(1, 0, 0, 0, 0),
            tried(lambda: os.setuid(12345)),
            tried(lambda: os.chroot("/usr/lib")),
        ]
        """,
        user,
    )
    assert value[0]
    assert set(value[1]) <= {0}
    assert value[2:6] == [-1] * 4
    assert set(value[6:]) == {"PermissionError"}


def test_folder_of_others_cannot_be_watched(place: Place) -> None:
    """Names of new files would be told by it, and blobs are found by their names."""
    code = f"""
    descriptor = libc.inotify_init()
    value = [descriptor, libc.inotify_add_watch(descriptor, {str(place.outside).encode()!r}, 0x100)]
    """
    assert attack(place.policy(), code) == [-1, -1]


def test_folder_of_blobs_is_read_by_names_and_never_listed(place: Place) -> None:
    """A file whose name is known can be read, and not be written."""
    blobs = place.outside.parent / "blobs"
    (blobs / "ab").mkdir(parents=True)
    (blobs / "ab" / "known").write_text("content")
    code = f"""
    blobs = {str(blobs)!r}
    value = [tried(lambda: open(blobs + "/ab/known").read()), tried(lambda: os.listdir(blobs)),
             tried(lambda: os.listdir(blobs + "/ab")), tried(lambda: open(blobs + "/ab/known", "a"))]
    """
    assert attack(place.policy(named=(str(blobs),)), code) == ["content", *["PermissionError"] * 3]


def test_fork_keeps_to_less_than_its_template(place: Place) -> None:
    """A host of one workspace reads its own folder, and that of no other; of /proc it sees itself."""
    mine, other = place.own / "mine", place.own / "other"
    for folder in (mine, other):
        folder.mkdir()
    (other / "input").write_text("private")
    code = f"""
    received, sending = os.pipe()
    if os.fork() == 0:
        narrow = msgspec.structs.replace(policy, writable=({str(mine)!r},), is_forked=False)
        held = not applying.narrow(narrow).missing
        answer = [held, tried(lambda: open({str(other / "input")!r}).read()),
                  tried(lambda: os.listdir({str(place.own)!r})),
                  open({str(mine / "own")!r}, "w").write("x"), len(open("/proc/self/maps").read()) > 0,
                  tried(lambda: open(f"/proc/{{os.getppid()}}/cmdline").read())]
        os.write(sending, json.dumps(answer).encode())
        os._exit(0)
    os.close(sending)
    value = json.loads(os.read(received, 10000))
    """
    value = attack(place.policy(is_forked=True), code)
    assert value == [True, "PermissionError", "PermissionError", 1, True, "PermissionError"]


@pytest.mark.req("T-03")
@pytest.mark.parametrize("user", users())
def test_memory_of_another_process_of_the_same_user_is_hidden(place: Place, user: int | None) -> None:
    """It is out of reach even where the kernel has no Landlock, and where one is an ancestor of the other."""
    policy = place.policy(landlock_version_max=0, is_required=False, is_forked=True)
    code = """
    received, sending = os.pipe()
    other = os.fork()
    if other == 0:
        applying.narrow(msgspec.structs.replace(policy, is_forked=False))
        os.write(sending, b"x")
        time.sleep(30)
    os.read(received, 1)
    value = [tried(lambda: open(f"/proc/{other}/{name}", "rb").read(1) and name)
             for name in ("mem", "maps", "environ", "auxv", "smaps")]
    value.append(tried(lambda: os.readlink(f"/proc/{other}/fd/0")))
    value.append(len(open("/proc/self/maps").read()) > 0)
    """
    assert attack(policy, code, user) == [*["PermissionError"] * 6, True]


@pytest.mark.parametrize("user", users())
def test_calls_that_are_not_listed_are_unknown_without_the_network(place: Place, user: int | None) -> None:
    """A library is told that the system lacks them, and uses others; what is denied by name is told as before."""
    code = """
    def fails(call, *given):
        return errno.errorcode[ctypes.get_errno()] if call(*given) == -1 else "done"
    import errno
    value = [fails(libc.syncfs, -1), fails(libc.fsync, -1), fails(libc.ptrace, 2, 2**31 - 2, None, None)]
    """
    assert attack(place.policy(), code, user) == ["ENOSYS", "EBADF", "EPERM"]
    assert attack(place.policy(allows_network=True), code, user) == ["EBADF", "EBADF", "EPERM"]


@pytest.mark.parametrize("user", users())
def test_everything_that_nodes_need_works(place: Place, user: int | None) -> None:
    """Programs, threads, event loops, pipes between processes, temporary files."""
    value = attack(
        place.policy(),
        f"""
        tempfile.tempdir = {str(place.own)!r}
        async def asked():
            return await asyncio.to_thread(lambda: 5)
        done = []
        thread = threading.Thread(target=done.append, args=(1,)); thread.start(); thread.join()
        left, right = multiprocessing.Pipe()
        if os.fork() == 0:
            left.send("child"); os._exit(0)
        with tempfile.TemporaryDirectory() as folder:
            open(folder + "/a", "w").write("x"); os.rename(folder + "/a", folder + "/b")
            os.makedirs(folder + "/c/d"); shutil.move(folder + "/b", folder + "/c/d/e")
        child = subprocess.Popen(["/bin/sleep", "60"])
        child.kill()
        value = [asyncio.run(asked()), done, right.recv(), os.listdir({str(place.own)!r}), child.wait(),
                 subprocess.run(["/bin/echo", "hello"], capture_output=True, text=True).stdout]
        """,
        user,
    )
    assert value == [5, [1], "child", [], -9, "hello\n"]


def test_process_with_threads_is_not_confined(place: Place) -> None:
    """The other threads would go on as they were."""
    code = """
    started = threading.Thread(target=time.sleep, args=(30,), daemon=True)
    started.start()
    try:
        applying.narrow(policy)
    except ConfinementError as error:
        value = str(error)
    """
    assert attack(place.policy(), code) == "a process with 2 threads cannot be confined"


@pytest.mark.parametrize("how", ["folder", "link", "file"])
def test_policy_that_exposes_what_is_protected_is_refused(place: Place, how: str) -> None:
    """Where the data directory lies below what can be read, by its name or another."""
    secret = place.outside / "deep" / "secret"
    secret.parent.mkdir()
    secret.touch()
    link = place.own / "link"
    link.symlink_to(place.outside)
    exposing = {"folder": place.outside, "link": link, "file": secret}[how]
    value = attack(place.policy(readable=(str(exposing),), protected=(str(secret),)), "")
    assert value.startswith("refused: ")
    assert str(secret) in value
    assert "move it" in value


@pytest.mark.parametrize("missing", ["landlock", "seccomp"])
def test_process_without_a_required_mechanism_is_refused(place: Place, missing: str) -> None:
    """A process whose mechanisms are optional goes on, and says what is missing."""
    changed = {"landlock_version_max": 0} if missing == "landlock" else {}
    policy = place.policy(**changed)
    if missing == "seccomp":
        policy = msgspec.structs.replace(policy, filters=())
    assert attack(policy, "").startswith(f"refused: this process cannot be confined: {missing}")
    lax = type(policy)(
        writable=policy.writable, landlock_version_max=policy.landlock_version_max, filters=policy.filters
    )
    names = attack(lax, "value = [mechanism.name for mechanism in report.missing]")
    assert missing in names


def test_user_without_rights_has_its_processes_counted(place: Place) -> None:
    """A process of an ordinary user starts no more than it may."""
    user = NOBODY if os.getuid() == 0 else None
    code = """
    started = []
    try:
        while len(started) < 200:
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
                os._exit(0)
            started.append(pid)
    except BlockingIOError:
        pass
    for pid in started:
        os.kill(pid, signal.SIGKILL)
    value = len(started)
    """
    assert attack(place.policy(processes=20), code, user) < 40
