"""What differs between platforms, in one place: durable writes, publishing, locks, processes.

Linux is what the tests run on.  macOS and Windows take the branches marked so; they are
written from the platforms' documentation and not yet proven by tests.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from session.later import later

if TYPE_CHECKING:
    import shutil
    import socket
else:
    # What only looks moves no files, and tells nobody where it runs.
    shutil = later("shutil")
    socket = later("socket")

WINDOWS = sys.platform == "win32"

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


def fsync_file(fd: int) -> None:
    """Make a file's data durable.  macOS needs F_FULLFSYNC to get past the drive's cache."""
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif WINDOWS:
        os.fsync(fd)
    else:
        os.fdatasync(fd)


def fsync_directory(path: Path) -> None:
    """Make names in a directory durable; Windows has no such call and needs none for NTFS."""
    if WINDOWS:
        return
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private(path: Path) -> Path:
    """Create a directory of our own with mode 0700, parents included."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


class Writer:
    """A new file that is being written; see `writing`."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path
        self.size = 0

    def write(self, data: bytes) -> None:
        with naming(self._path):
            write_all(self._fd, data)
        self.size += len(data)

    def write_and_compare(self, data: bytes) -> None:
        """Write, and read it back to see that the file holds it.  Raises OSError (EIO)."""
        with naming(self._path):
            write_all(self._fd, data)
        if pread(self._fd, len(data), self.size) != data:
            raise OSError(errno.EIO, "the file does not hold what was written", str(self._path))
        self.size += len(data)

    def make_durable(self) -> None:
        with naming(self._path):
            fsync_file(self._fd)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of a descriptor say which file it was about."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def writing(path: Path, mode: int = 0o600) -> Iterator[Writer]:
    """Create `path`, which must not exist.  Its name is durable after `fsync_directory`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        yield Writer(fd, path)
    finally:
        os.close(fd)


@contextlib.contextmanager
def in_background(fn: Callable[[], None]) -> Iterator[None]:
    """Run `fn` on a thread while the block runs; the block ends when both have, with its error
    or else with `fn`'s."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            fn()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failures:
        raise failures[0]


@contextlib.contextmanager
def behind(fn: Callable[[bytes], None]) -> Iterator[Callable[[bytes], None]]:
    """Yields a function that hands a value to `fn` on a thread and returns while it is at work,
    a few values ahead of it at most.

    What `fn` raises is raised from the next call or when the block ends; it is not called again.
    """
    waiting: queue.Queue[bytes | None] = queue.Queue(maxsize=4)
    failures: list[BaseException] = []

    def run() -> None:
        while (value := waiting.get()) is not None:
            try:
                if not failures:
                    fn(value)
            except BaseException as error:
                failures.append(error)

    def hand(value: bytes) -> None:
        if failures:
            raise failures[0]
        waiting.put(value)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield hand
    finally:
        waiting.put(None)
        thread.join()
    if failures:
        raise failures[0]


def write_durably(path: Path, chunks: Iterable[bytes], mode: int = 0o600) -> int:
    """Create `path` (which must not exist) from `chunks`; data is durable on return.

    Returns the number of bytes.  The name is durable only after `fsync_directory`.
    """
    with writing(path, mode) as file:
        for chunk in chunks:
            file.write(chunk)
        file.make_durable()
    return file.size


def pread(fd: int, size: int, offset: int) -> bytes:
    """Bytes at `offset`; Windows has no such call, and moves the file's position instead."""
    if sys.platform == "win32":
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)
    return os.pread(fd, size, offset)


def pread_into(fd: int, view: memoryview, offset: int) -> int:
    """Bytes at `offset` into `view`: how many, 0 at the end of the file."""
    if sys.platform == "win32":
        data = pread(fd, len(view), offset)
        view[: len(data)] = data
        return len(data)
    return os.preadv(fd, [view], offset)


def write_all(fd: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    return len(data)


def publish(source: Path, destination: Path) -> None:
    """Give `source` its public name in one atomic step that cannot replace anything.

    Raises FileExistsError when `destination` exists.  A hard link of our own staged file is
    the step on POSIX; where links are refused, and on Windows, a rename (which on Windows
    refuses an existing name, and elsewhere runs under the caller's lock after a check).
    """
    if not WINDOWS:
        try:
            os.link(source, destination, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            if destination.exists():
                raise FileExistsError(
                    errno.EEXIST, os.strerror(errno.EEXIST), str(destination)
                ) from None
        else:
            os.unlink(source)
            return
    os.rename(source, destination)


def move_tree(source: Path, destination: Path) -> None:
    """Move a file or directory of ours, across file systems if need be, durably."""
    make_private(destination.parent)
    try:
        os.rename(source, destination)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        partial = destination.with_name(f".turntree-{destination.name}")
        remove_tree(partial)
        try:
            copy_tree(source, partial)
            fsync_tree(partial)
        except OSError:
            remove_tree(partial)
            raise
        os.rename(partial, destination)
        fsync_directory(destination.parent)
        remove_tree(source)
    fsync_directory(destination.parent)
    fsync_directory(source.parent)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file, or a directory and everything in it, with times and modes."""
    if not source.is_dir() or source.is_symlink():
        with naming(target):
            shutil.copy2(source, target, follow_symlinks=False)
        return
    target.mkdir(mode=0o700)
    for entry in sorted(source.iterdir()):
        copy_tree(entry, target / entry.name)
    shutil.copystat(source, target)


def fsync_tree(path: Path) -> None:
    """Make a file, or a directory and everything in it, durable."""
    if path.is_dir():
        for folder, _, names in os.walk(path, topdown=False):
            for name in names:
                _fsync_path(Path(folder, name))
            fsync_directory(Path(folder))
    else:
        _fsync_path(path)


def _fsync_path(path: Path) -> None:
    fd = os.open(path, (os.O_RDWR if WINDOWS else os.O_RDONLY) | os.O_CLOEXEC)
    try:
        fsync_file(fd)
    finally:
        os.close(fd)


def remove_tree(path: Path) -> None:
    """Remove a file or directory of ours; absence is fine."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_read_only(path: Path) -> bool:
    """Whether the file system that holds `path` is mounted for reading only."""
    if sys.platform == "win32":
        return False
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def may_read(path: str, state: os.stat_result) -> bool:
    """Whether this process may read a file, without asking the system where `state` tells."""
    if sys.platform != "win32" and state.st_uid == os.geteuid() and state.st_mode & stat.S_IRUSR:
        return True
    return os.access(path, os.R_OK)


def real_path(path: str) -> str:
    """As os.path.realpath; a text that can be no path (it holds a NUL) stays as it is."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path


def free_bytes(path: Path) -> int:
    """Bytes that may still be written on the file system that holds `path`."""
    return shutil.disk_usage(path).free


def try_lock(fd: int) -> bool:
    """Take the exclusive advisory lock of an open file without waiting; False when it is held.

    The lock belongs to the open file, so it also excludes a second handle of this process,
    and the system releases it when the process dies.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def process_start(pid: int) -> str | None:
    """A token for when a process started, None when no such process lives.

    A pid together with its token names one process for good: pids are reused.  On Linux the
    token is field 22 of /proc/<pid>/stat (proc(5)), in clock ticks since boot.
    """
    if sys.platform == "linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    return "alive" if _answers(pid) else None


def _answers(pid: int) -> bool:
    if sys.platform == "win32":
        import ctypes  # only here is it needed

        kernel = ctypes.windll.kernel32
        handle = kernel.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
        if not handle:
            return False
        code = ctypes.c_ulong()
        kernel.GetExitCodeProcess(handle, ctypes.byref(code))
        kernel.CloseHandle(handle)
        return code.value == 259  # STILL_ACTIVE
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def host() -> str:
    return socket.gethostname()


def utc(seconds: float | None = None) -> str:
    """RFC 3339 UTC with milliseconds."""
    at = time.time() if seconds is None else seconds
    millis = round(at * 1000)
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)) + f".{millis % 1000:03d}Z"
    )


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor of the file, for as long as it is needed."""
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    except OSError as error:
        # A failed read of a descriptor, unlike a failed open, does not say of which file.
        if error.filename is None:
            error.filename = str(path)
        raise
    finally:
        os.close(fd)
