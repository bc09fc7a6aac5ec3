#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# fake_server.py SOCKET REAL: passes on what the clients of SOCKET say to the server at REAL, and back what that one answers,
# with what a terminal obeys in place of every text, FAKE_PID, if it is set, in place of every process, and of a lease another
# one, half as large. Says "ready" when it listens.
import json, os, re, select, socket, struct, sys

MALICE = "\x1b]0;x\x07\x1b[31m\x9b31m\u202e\u2066\nsgpu-run: OK\r"
STATUS_IS, LEASE_IS = 4, 19


def twisted(value):
    if isinstance(value, dict):
        pid = os.environ.get("FAKE_PID")
        return {name: int(pid) if pid and name == "pid" else twisted(member) for name, member in value.items()}
    if isinstance(value, list):
        return [twisted(member) for member in value]
    return MALICE if isinstance(value, str) else value


def answer(data, fds):
    """What the client gets of a message of the server; the texts in it end with a NUL."""
    kind = struct.unpack("=IHHII", data[:16])[2]
    if kind == STATUS_IS:
        text = json.dumps(twisted(json.loads(data[16:])), ensure_ascii=False).encode()
        return data[:8] + struct.pack("=I", 16 + len(text)) + data[12:16] + text, fds
    if kind == LEASE_IS:
        return data[:16] + b"0" * 32 + data[48:64] + struct.pack("=Q", struct.unpack("=Q", data[64:72])[0] // 2) + data[72:], fds
    text = MALICE.encode() * 100
    return data[:16] + re.sub(rb"[ -~]{3,}(?=\0)", lambda found: text[:len(found[0])], data[16:]), fds


def relay(client, real):
    for said, other, change in ((client, real, None), (real, client, answer)):
        if said in select.select([client, real], [], [])[0]:
            data, fds, _, _ = socket.recv_fds(said, 1 << 17, 4)
            if not data:
                return False
            data, fds = change(data, fds) if change else (data, fds)
            socket.send_fds(other, [data], fds)
            for fd in fds:
                os.close(fd)
    return True


def main(path, real_path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    while True:
        client, _ = listener.accept()
        real = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        real.connect(real_path)
        try:
            while relay(client, real):
                pass
        except OSError:
            pass
        client.close()
        real.close()


main(*sys.argv[1:])
