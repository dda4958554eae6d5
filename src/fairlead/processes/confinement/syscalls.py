"""Which system calls a confined process is denied, with which arguments, and which it may make without the network."""

import errno
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

DENIED: Final = (
    # Other processes: their memory, their descriptors.
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_getfd"),
    *("migrate_pages", "move_pages", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"),
    # What the kernel is made of.
    *("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "acct", "syslog"),
    *("swapon", "swapoff", "quotactl", "quotactl_fd", "iopl", "ioperm", "modify_ldt", "vhangup", "uselib", "ustat"),
    *("sethostname", "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "lookup_dcookie"),
    *("add_key", "request_key", "keyctl", "nfsservctl", "personality", "memfd_secret"),
    # Namespaces and mounts.
    *("setns", "unshare", "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen"),
    *("open_tree_attr", "fsconfig", "fsmount", "fspick", "mount_setattr", "statmount", "listmount"),
    # Files by other ways than by opening them: what happens in a folder, handles, attributes.
    *("inotify_init", "inotify_init1", "inotify_add_watch", "fanotify_init", "fanotify_mark"),
    *("name_to_handle_at", "open_by_handle_at"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr"),
    *("removexattrat", "file_setattr"),
    # Memory and queues that belong to no process.
    *("shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl"),
    *("ipc", "mq_open", "mq_unlink"),
    # Users and groups.
    *("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid", "setgroups"),
    *("capset",),
)
"""Answered with EPERM, whatever the arguments."""

PRETENDED: Final = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat", "chown32", "lchown32"),
    *("fchown32", "utime", "utimes", "utimensat", "utimensat_time64", "futimesat"),
)
"""Answered as if done, but not executed.

Nothing but the owner decides about these, and files of the server have the same owner. Libraries that copy a file set
its mode and its times afterwards, and take an error for the failure of the copy.
"""

UNKNOWN: Final = ("clone3",)
"""Answered with ENOSYS, so that the C library uses the older call, whose arguments a filter can see."""

SHARED_MEMORY: Final = ("memfd_create",)
PAGES_IN_PIPES: Final = ("sendfile", "sendfile64", "splice", "tee", "vmsplice")
"""Answered with ENOSYS, where no control group counts memory: a pipe that holds a byte of a page keeps all of it."""
SIGNALS: Final = ("kill", "tkill", "tgkill", "pidfd_send_signal", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

ALLOWED: Final = (
    # Files.
    *("open", "openat", "openat2", "creat", "close", "close_range", "read", "write", "pread64", "pwrite64"),
    *("readv", "writev", "preadv", "pwritev", "preadv2", "pwritev2", "lseek", "truncate", "ftruncate", "fallocate"),
    *("stat", "lstat", "fstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2"),
    *("fsync", "fdatasync", "sync_file_range", "fadvise64", "readahead", "flock", "fcntl", "ioctl", "umask"),
    *("dup", "dup2", "dup3", "sendfile", "copy_file_range", "splice", "tee", "vmsplice", "pipe", "pipe2"),
    *("getdents", "getdents64", "getcwd", "chdir", "fchdir", "mkdir", "mkdirat", "rmdir", "mknod", "mknodat"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"),
    *("readlink", "readlinkat", "getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr"),
    # Memory.
    *("brk", "mmap", "munmap", "mremap", "mprotect", "msync", "mincore", "madvise", "mseal", "membarrier"),
    *("mlock", "mlock2", "munlock", "pkey_alloc", "pkey_free", "pkey_mprotect", "map_shadow_stack", "memfd_create"),
    *("mbind", "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node"),
    # Processes, threads and their signals.
    *("clone", "fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "prctl", "arch_prctl"),
    *("getpid", "getppid", "gettid", "getpgid", "getpgrp", "setpgid", "getsid", "setsid", "pidfd_open"),
    *("getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "capget"),
    *("getrlimit", "setrlimit", "prlimit64", "getrusage", "getpriority", "setpriority", "ioprio_get", "times"),
    *("sched_yield", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_getscheduler", "sched_getattr"),
    *("sched_get_priority_max", "sched_get_priority_min", "sched_rr_get_interval", "getcpu"),
    *("futex", "futex_wait", "futex_wake", "futex_waitv", "futex_requeue", "set_robust_list", "get_robust_list"),
    *("set_tid_address", "rseq", "restart_syscall", "kill", "tkill", "tgkill", "pidfd_send_signal", "sigaltstack"),
    *("rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait"),
    *("rt_sigqueueinfo", "rt_tgsigqueueinfo", "signalfd", "signalfd4", "pause"),
    # Time, and waiting.
    *("time", "gettimeofday", "clock_gettime", "clock_getres", "nanosleep", "clock_nanosleep", "alarm"),
    *("getitimer", "setitimer", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime"),
    *("timerfd_create", "timerfd_gettime", "timerfd_settime", "poll", "ppoll", "select", "pselect6"),
    *("epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "eventfd2"),
    # Pairs of sockets.
    *("socketpair", "sendto", "sendmsg", "sendmmsg", "recvfrom", "recvmsg", "recvmmsg", "shutdown"),
    *("getsockname", "getpeername", "getsockopt", "setsockopt"),
    # The machine, and more confinement.
    *("uname", "sysinfo", "getrandom", "riscv_hwprobe", "riscv_flush_icache"),
    *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"),
)
"""All that a process without the network may make, with the arguments that are not denied; others are unknown to it.

What is missing: asynchronous requests of disks, flushing other people's files, and whatever kernels learn after this
list. A library is told that the system lacks such a call, and uses an older one.
"""

NEW_NUMBERS: Final = {
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "epoll_pwait2": 441,
    "memfd_secret": 447,
    "process_mrelease": 448,
    "futex_waitv": 449,
    "set_mempolicy_home_node": 450,
    "fchmodat2": 452,
    "map_shadow_stack": 453,
    "futex_wake": 454,
    "futex_wait": 455,
    "futex_requeue": 456,
    "statmount": 457,
    "listmount": 458,
    "mseal": 462,
    "setxattrat": 463,
    "removexattrat": 466,
    "open_tree_attr": 467,
    "file_setattr": 469,
}
"""Calls that an older libseccomp does not know by name; since 424 a call has one number on all architectures."""

_UNIX: Final = 1
_INTERNET: Final = (2, 10)
_FAMILIES_MAX: Final = 64
_INT: Final = 0xFFFF_FFFF
"""The bits of an argument that the kernel reads as an `int`; it ignores the others, so a filter must too."""
_TYPE_MASK: Final = 0xF
_DATAGRAM: Final = 2
_STREAM: Final = 1
_SEQUENCE: Final = 5
_NAMESPACES: Final = (
    0x00020000,  # mounts
    0x02000000,  # control groups
    0x04000000,  # host name
    0x08000000,  # queues and semaphores
    0x10000000,  # users
    0x20000000,  # processes
    0x40000000,  # network
)
_CLONE_PARENT: Final = 0x00008000
_PARENT_DEATH_SIGNAL: Final = 1
_CHILD_SUBREAPER: Final = 36
_SIGKILL: Final = 9
_MAP_KIND: Final = 0x0F
_ANONYMOUS: Final = 0x20
_SHARED: Final = (1, 3)
_SET_OWNER: Final = (8, 15)
_SET_PIPE_SIZE: Final = 1031
_SOCKET_LEVEL: Final = 1
_BUFFER_SIZES: Final = (7, 8, 32, 33)
_INSERT_INPUT: Final = 0x5412


class Condition(NamedTuple):
    """A comparison of the argument at an index: NE, EQ, GE, GT, or MASKED_EQ with the mask first."""

    argument: int
    operator: str
    values: tuple[int, ...]


_Rule = tuple[int, str, tuple[Condition, ...]]


def conditions(*, network: bool, shared_memory: bool, signals: bool) -> Iterator[_Rule]:
    """Calls that are denied for some arguments: the errno, the call, and the comparison."""
    yield from _of_sockets(network=network)
    yield from _of_processes()
    if not shared_memory:
        yield from _of_buffers(network=network)
        for kind in _SHARED:
            mask = Condition(3, "MASKED_EQ", (_MAP_KIND | _ANONYMOUS, kind | _ANONYMOUS))
            yield from ((errno.EPERM, name, (mask,)) for name in ("mmap", "mmap2"))
    if not signals:
        for command in _SET_OWNER:
            owner = Condition(1, "MASKED_EQ", (_INT, command))
            yield from ((errno.EPERM, name, (owner,)) for name in ("fcntl", "fcntl64"))
    yield errno.EPERM, "ioctl", (Condition(1, "MASKED_EQ", (_INT, _INSERT_INPUT)),)


def _of_sockets(*, network: bool) -> Iterator[_Rule]:
    """Rules against sockets of other families and kinds than allowed, and against pairs that can reach others."""
    yield errno.EACCES, "socketpair", (Condition(0, "NE", (_UNIX,)),)
    for kind in _kinds_but(_STREAM, _SEQUENCE):  # the end of a pair of datagrams can write to any other socket
        yield errno.EACCES, "socketpair", (Condition(1, "MASKED_EQ", (_TYPE_MASK, kind)),)
    if not network:
        yield from ((errno.EACCES, name, ()) for name in ("socket", "connect", "bind", "listen"))
        return
    for family in sorted(set(range(_FAMILIES_MAX)).difference(_INTERNET)):
        yield errno.EACCES, "socket", (Condition(0, "EQ", (family,)),)
    yield errno.EACCES, "socket", (Condition(0, "GE", (_FAMILIES_MAX,)),)
    for kind in _kinds_but(_STREAM, _DATAGRAM):
        yield errno.EACCES, "socket", (Condition(1, "MASKED_EQ", (_TYPE_MASK, kind)),)


def _of_buffers(*, network: bool) -> Iterator[_Rule]:
    """Rules by which each buffer of a socket or pipe has its usual size, and is behind a descriptor that is seen."""
    for option in _BUFFER_SIZES:  # libraries set them for speed, and take an error for a failure
        yield 0, "setsockopt", (_int(1, _SOCKET_LEVEL), _int(2, option))
    yield from ((errno.EPERM, name, (_int(1, _SET_PIPE_SIZE),)) for name in ("fcntl", "fcntl64"))
    if not network:  # names are resolved by them
        yield from ((errno.EPERM, name, ()) for name in ("sendmsg", "sendmmsg"))


def _kinds_but(*allowed: int) -> Sequence[int]:
    return [kind for kind in range(_TYPE_MASK + 1) if kind not in allowed]


def _of_processes() -> Iterator[_Rule]:
    """Namespaces, parents, and what may be set of processes other than oneself."""
    for flag in (*_NAMESPACES, _CLONE_PARENT):
        yield errno.EPERM, "clone", (Condition(0, "MASKED_EQ", (flag, flag)),)
    yield errno.EPERM, "prlimit64", (Condition(0, "NE", (0,)),)
    yield errno.EPERM, "setpriority", (Condition(0, "NE", (0,)),)
    yield errno.EPERM, "setpriority", (Condition(0, "EQ", (0,)), Condition(1, "NE", (0,)))
    yield 0, "sched_setaffinity", (Condition(0, "NE", (0,)),)
    yield errno.EPERM, "prctl", (_option(_PARENT_DEATH_SIGNAL), Condition(1, "NE", (_SIGKILL,)))
    yield errno.EPERM, "prctl", (_option(_CHILD_SUBREAPER), Condition(1, "EQ", (0,)))


def _option(number: int) -> Condition:
    """What prctl(2) is asked for."""
    return _int(0, number)


def _int(argument: int, value: int) -> Condition:
    return Condition(argument, "MASKED_EQ", (_INT, value))
