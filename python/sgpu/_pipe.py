# SPDX-License-Identifier: Apache-2.0
"""One `sgpu pipe` for each host, kept warm: frames of sgpu-pipe(5) over its standard input and output."""

import atexit
import json
import os
import shutil
import struct
import subprocess
import threading

import numpy as np

HEAD = struct.Struct("<4sIQ")
MAGIC = b"sgpu"
VERSION = 1
BUFFER_SIZE = 1 << 16
VECTORS_MAX = 1024
DTYPES = {
    "f16": np.dtype("<f2"), "f32": np.dtype("<f4"), "f64": np.dtype("<f8"),
    "i8": np.dtype("<i1"), "i16": np.dtype("<i2"), "i32": np.dtype("<i4"), "i64": np.dtype("<i8"),
    "u8": np.dtype("<u1"), "u16": np.dtype("<u2"), "u32": np.dtype("<u4"), "u64": np.dtype("<u8"),
}  # fmt: skip
# After any other error, the next call starts over: the enclave may be gone, or the host may have to prove itself anew.
OF_THE_JOB = {"EINVALID", "EUSAGE", "ENOMEM", "ENOSPACE", "ETIMEOUT", "ERETRY", "ESEGMENTS", "EDEPENDENCY"}


class SgpuError(Exception):
    """A job that failed, or programs that are missing.

    code: a short name for programs, such as "EINVALID" or "EAUTH"; sgpu_error(3) lists them.
    text: what went wrong, in a sentence.
    hint: what to do next, or None.
    retryable: whether the same call can succeed later.
    """

    def __init__(self, code, text, hint=None, retryable=False):
        super().__init__(code, text, hint, retryable)
        self.code = code
        self.text = text
        self.hint = hint
        self.retryable = retryable

    def __str__(self):
        return f"{self.text} ({self.code})" + (f"; {self.hint}" if self.hint else "")


def find():
    """The path of the program `sgpu`, from the variable SGPU_BIN (a directory) or the PATH."""
    folder = os.environ.get("SGPU_BIN")
    path = shutil.which("sgpu", path=folder or None)
    if path is None:
        raise SgpuError(
            "EUNAVAILABLE",
            "there is no program 'sgpu' in " + (f"'{folder}'" if folder else "the PATH"),
            "this package has no programs: build sgpu from its sources with 'make' (Linux), then put the directory "
            "build/bin in the PATH, or name it in the variable SGPU_BIN",
        )
    return path


def error_of(answer):
    """The exception for the member "error" of an answer or a message."""
    error = answer["error"]
    return SgpuError(error["code"], error["text"], error.get("hint"), error.get("retryable", False))


def last_error(messages):
    """The exception for the last error among the lines that a program wrote with --json, or None."""
    for line in reversed(messages.splitlines()):
        try:
            return error_of(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
    return None


class Pipe:
    """An `sgpu pipe`, started by the first call and anew after it has ended. Calls of several threads take turns."""

    def __init__(self, on, device):
        if on is not None and device is not None:
            raise ValueError("device is for jobs that run here; a host chooses its own")
        self._arguments = ["pipe", "--json"]
        self._arguments += ["--on", on] if on is not None else []
        self._arguments += ["--device", device] if device is not None else []
        self._lock = threading.Lock()
        self._process = None
        self._messages = None
        self._buffer = memoryview(bytearray(BUFFER_SIZE))

    def _start(self):
        # Ctrl-C reaches all processes of a terminal, but whether it ends a call is for Python to say.
        command = ["/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"', find(), *self._arguments]
        # A file in memory never fills up, so nobody has to read along.
        self._messages = open(os.memfd_create("sgpu-messages"), "rb", buffering=0)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._messages, bufsize=0
        )
        ready, _ = self._receive()
        if ready.get("version") != VERSION:
            raise SgpuError("EINVALID", f"'{command[3]}' is of another version than this package")

    def _drop(self):
        process, self._process = self._process, None
        if process is not None:
            with process, self._messages:
                process.terminate()

    def _ended(self):
        process = self._process
        process.stdin.close()
        process.wait()
        self._messages.seek(0)
        return last_error(self._messages.read()) or SgpuError(
            "EDEVICE", f"'sgpu pipe' has ended with status {process.returncode}", retryable=process.returncode < 0
        )

    def _read(self, view, least):
        """Reads at least that many bytes, and what else is there and has room. Returns how many."""
        got = 0
        while got < least:
            count = self._process.stdout.readinto(view[got:])
            if not count:
                raise self._ended()
            got += count
        return got

    def _receive(self):
        """Reads a frame. Returns its JSON, and its arrays by segment. A small frame comes with one read."""
        buffer = self._buffer
        got = self._read(buffer, HEAD.size)
        magic, size, _ = HEAD.unpack_from(buffer)
        if magic != MAGIC:
            raise SgpuError("EINVALID", "'sgpu pipe' does not speak sgpu-pipe(5)")
        at = HEAD.size + size
        if at > len(buffer):
            buffer = memoryview(bytearray(at))
            buffer[:got] = self._buffer[:got]
        if got < at:
            got += self._read(buffer[got:], at - got)
        answer = json.loads(bytes(buffer[HEAD.size:at]))
        arrays = {}
        for output in answer.get("outputs", ()):
            array = np.empty(output["shape"], DTYPES[output["dtype"]])
            data = array.reshape(-1).view(np.uint8)
            here = min(got - at, data.size)
            data[:here] = buffer[at:at + here]
            at += here
            if here < data.size:
                self._read(memoryview(data[here:]), data.size - here)
            arrays[output["segment_id"]] = array
        return answer, arrays

    def _send(self, parts):
        """Writes all parts. Linux takes less than 2 GiB at a time."""
        try:
            while parts:
                sent = os.writev(self._process.stdin.fileno(), parts[:VECTORS_MAX])
                while parts and sent >= len(parts[0]):
                    sent -= len(parts.pop(0))
                if sent:
                    parts[0] = parts[0][sent:]
        except BrokenPipeError:
            raise self._ended() from None

    def call(self, text, arrays):
        """Runs the job of a manifest (bytes) on arrays; returns the arrays of its outputs by segment."""
        parts = [np.asarray(array, order="C").reshape(-1).view(np.uint8) for array in arrays]
        head = HEAD.pack(MAGIC, len(text), sum(map(len, parts)))
        with self._lock:
            try:
                warm = self._process is not None and self._process.poll() is None
                if not warm:
                    self._drop()
                    self._start()
                self._send([head, text, *parts])
                answer, made = self._receive()
            except BaseException:  # KeyboardInterrupt, too: an answer that nobody reads would be that to the next call
                self._drop()
                raise
            if "error" not in answer:
                return made
            error = error_of(answer)
            if error.code not in OF_THE_JOB:
                self._drop()
        if warm and error.code == "EKEY":  # the worker that proved itself has ended, so nobody has opened anything
            return self.call(text, arrays)
        raise error

    def close(self):
        process = self._process
        if process is not None:
            process.terminate()  # before the lock: it ends a call of another thread
        with self._lock:
            self._drop()

    def forget(self):
        """In a child of a fork: leaves the process to the parent."""
        process = self._process
        if process is not None:
            process.stdin.close()
            process.stdout.close()
            self._messages.close()
            process.returncode = 0


_pipes = {}


def pipe_for(on=None, device=None):
    """The pipe to a host."""
    pipe = _pipes.get((on, device))
    return pipe or _pipes.setdefault((on, device), Pipe(on, device))


@atexit.register
def close_all():
    """Ends the programs that wait for calls, and calls of other threads. The next call starts anew."""
    for pipe in list(_pipes.values()):
        pipe.close()


def _after_fork():
    for pipe in _pipes.values():
        pipe.forget()
    _pipes.clear()


os.register_at_fork(after_in_child=_after_fork)
