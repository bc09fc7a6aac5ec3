# SPDX-License-Identifier: Apache-2.0
"""One `sgpu pipe` for each host, kept warm: frames of sgpu-pipe(5) over its standard input and output."""

import atexit
import json
import os
import shutil
import struct
import subprocess
import threading

HEAD = struct.Struct("<4sIQ")
MAGIC = b"sgpu"


class SgpuError(Exception):
    """What sgpu says of a job that failed.

    code: its short name, such as "EAUTH"; text and hint: for people; retryable: whether the same call can succeed later.
    """

    def __init__(self, code, text, hint=None, retryable=False):
        super().__init__(f"{text} ({code})" + (f"; {hint}" if hint else ""))
        self.code = code
        self.text = text
        self.hint = hint
        self.retryable = retryable


def find(program="sgpu"):
    """The path of a program, from the variable SGPU_BIN (a directory) or the PATH."""
    folder = os.environ.get("SGPU_BIN")
    path = shutil.which(program, path=folder) if folder else shutil.which(program)
    if path is None:
        raise SgpuError(
            "EUNAVAILABLE",
            f"there is no program '{program}' in " + (f"'{folder}'" if folder else "the PATH"),
            "build sgpu with make, and put its bin directory in the PATH or in SGPU_BIN",
        )
    return path


class Pipe:
    """A running `sgpu pipe`. Calls of several threads take turns."""

    def __init__(self, on=None, device=None):
        command = [find(), "pipe", "--json"]
        command += ["--on", on] if on is not None else []
        command += ["--device", device] if device is not None else []
        self.lock = threading.Lock()
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._said = []
        # What it says is read all the time, so that a full pipe never stops it.
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._receive()

    def _listen(self):
        for line in self.process.stderr:
            self._said = (self._said + [line])[-8:]

    def _ended(self):
        """The error of a process that has ended."""
        self.process.wait()
        self._listener.join(1)
        for line in reversed(self._said):
            try:
                error = json.loads(line)["error"]
                return SgpuError(error["code"], error["text"], error.get("hint"), error.get("retryable", False))
            except (ValueError, KeyError, TypeError):
                continue
        return SgpuError("EDEVICE", f"'sgpu pipe' has ended with status {self.process.returncode}")

    def _read(self, size):
        data = bytearray(size)
        view = memoryview(data)
        at = 0
        while at < size:
            got = self.process.stdout.readinto(view[at:])
            if not got:
                raise self._ended()
            at += got
        return data

    def _receive(self):
        magic, json_size, data_size = HEAD.unpack(self._read(HEAD.size))
        if magic != MAGIC:
            raise SgpuError("EINVALID", "'sgpu pipe' does not speak sgpu-pipe(5)")
        answer = json.loads(self._read(json_size))
        return answer, self._read(data_size)

    def _write(self, data):
        view = memoryview(data).cast("B")
        while view:
            view = view[self.process.stdin.write(view):]

    def call(self, text, arrays):
        """Runs the job of a manifest (bytes) on buffers; returns the outputs' descriptions and their bytes."""
        size = sum(memoryview(array).nbytes for array in arrays)
        with self.lock:
            try:
                self._write(HEAD.pack(MAGIC, len(text), size) + text)
                for array in arrays:
                    if memoryview(array).nbytes:
                        self._write(array)
            except BrokenPipeError:
                raise self._ended() from None
            answer, data = self._receive()
        if "error" in answer:
            error = answer["error"]
            raise SgpuError(error["code"], error["text"], error.get("hint"), error.get("retryable", False))
        return answer["outputs"], data

    def close(self):
        """Ends the process, which ends its sgpu-enclave."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


_pipes = {}
_pipes_lock = threading.Lock()


def pipe_for(on=None, device=None):
    """The pipe to a host, started at the first use; anew in a child process and after it has ended."""
    key = (os.getpid(), on, device)
    with _pipes_lock:
        pipe = _pipes.get(key)
        if pipe is None or pipe.process.poll() is not None:
            pipe = _pipes[key] = Pipe(on, device)
        return pipe


@atexit.register
def close_all():
    """Ends all pipes of this process; the next call starts one anew."""
    with _pipes_lock:
        for key in [key for key in _pipes if key[0] == os.getpid()]:
            try:
                _pipes.pop(key).close()
            except OSError:
                pass
