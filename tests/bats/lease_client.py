#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# lease_client.py WHAT [ARGUMENT...]: what hostile clients do to leases of sgpu-serve, by the socket SGPU_SOCKET. It
# becomes user SERVE_UID before it connects.
#
#   rewrite FROM TO [lease=ID] [offset=N]  a batch or a response whose payloads are said to be elsewhere; nothing else changes
#   ask SIZE [ID]                          prints what the server says to a request
#   hold SIZE                              a lease that is never filled; says when it has it, and stays
#   flip FILE SEGMENT [OFFSET]             changes a byte of a payload where it lies, by the pool of another lease
#   scribble                               writes to all of the pool, again and again
#   punch                                  takes the pages of all of the pool away, again and again
#   look FILE                              where the pool has bytes 64 to 127 of the file; -1: nowhere
#   attack                                 connections that break off at each point
import array, ctypes, json, mmap, os, socket, struct, sys, tarfile, time

MAGIC, VERSION, ANSWER, LEASE, LEASE_IS, LEASE_DONE = 0x53475055, 7, 6, 14, 19, 20
SEALED_HEADER = 56


def header(kind, size):
    return struct.pack("=IHHII", MAGIC, VERSION, kind, size, 0)


def request(size, identity=b"", batch=b"b" * 16):
    return header(LEASE, 80) + struct.pack("=Q16s40s", size, batch, identity)


def connect():
    if "SERVE_UID" in os.environ:
        os.setuid(int(os.environ.pop("SERVE_UID")))
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(300)
    s.connect(os.environ["SGPU_SOCKET"])
    return s


def answer(s):
    """("error", code, text), ("lease", id, offset, size, pool size, descriptor), or ("gone",)."""
    fds = array.array("i")
    try:
        data, control, _, _ = s.recvmsg(1 << 17, 256)
    except ConnectionResetError:
        return ("gone",)
    for level, kind, value in control:
        fds.frombytes(value[:len(value) - len(value) % 4])
    if len(data) < 16:
        return ("gone",)
    kind = struct.unpack("=IHHII", data[:16])[2]
    if kind == ANSWER:
        return ("error", struct.unpack("=i", data[16:20])[0], data[20:532].split(b"\0")[0].decode())
    if kind == LEASE_IS:
        identity, offset, size, pool = struct.unpack("=40sQQQ", data[16:80])
        return ("lease", identity.split(b"\0")[0].decode(), offset, size, pool, fds[0])
    return ("other", kind)


def lease(size, **other):
    s = connect()
    s.send(request(size, **other))
    return s, answer(s)


def pool():
    s, got = lease(1)
    assert got[0] == "lease", got
    return s, mmap.mmap(got[5], got[4])


def rewrite(source, target, changes):
    with tarfile.open(source) as old:
        members = [(m.name, old.extractfile(m).read()) for m in old]
    at = next(i for i, (name, _) in enumerate(members) if name == "locations.json")
    locations = json.loads(members[at][1])
    for one in locations["locations"]:
        if "lease" in one:
            # An offset of +N is so far behind where it is.
            _, identity, offset, size = one["lease"].split(":")
            new = changes.get("offset", offset)
            offset = int(offset) + int(new) if new[0] == "+" else int(new)
            one["lease"] = f"sgpu:{changes.get('lease', identity)}:{offset}:{size}"
    members[at] = "locations.json", json.dumps(locations).encode()
    with open(source, "rb") as f:
        head = f.read(512)
    with open(target, "wb") as out:
        for name, data in members:
            block = bytearray(head)
            block[0:100] = name.encode().ljust(100, b"\0")
            block[124:136] = b"%011o\0" % len(data)
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
            out.write(bytes(block) + data + b"\0" * (-len(data) % 512))
        out.write(b"\0" * 1024)


def flip(file, wanted, at):
    with tarfile.open(file) as tar:
        locations = json.loads(tar.extractfile("locations.json").read())["locations"]
    place = next(one["lease"] for one in locations if one["segment_id"] == wanted)
    s, memory = pool()
    # Where the lease begins is the server's secret, as far as it is one: this finds a lease that is alone in the pool.
    memory[int(place.split(":")[2]) + at] ^= 1
    s.close()


def scribble():
    _, memory = pool()
    print("scribbles", flush=True)
    noise, size, parent = os.urandom(65536), len(memory), os.getppid()
    while os.getppid() == parent:
        for at in range(0, size, 65536):
            memory[at:at + 65536] = noise


PUNCH_HOLE, KEEP_SIZE = 2, 1
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def punch_once(fd, size):
    if libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, size) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))


def punch():
    _, got = lease(1)
    parent = os.getppid()
    while os.getppid() == parent:
        punch_once(got[5], got[4])
        print("punches", flush=True)
        time.sleep(0.001)


def renew():
    """Has always a lease, and none for long."""
    parent, kept = os.getppid(), None
    while os.getppid() == parent:
        s, got = lease(4096)
        if got[0] == "lease":
            print("renews", flush=True)
        time.sleep(0.2)
        if kept:
            kept.close()
        kept = s


def attack():
    for _ in range(10):
        for size in (0, 1, 4096, 1 << 20, 1 << 40, (1 << 64) - 1):
            connect().close()
            s = connect()
            s.send(request(size))
            s.close()
            s, got = lease(size)
            s.close()
            s, got = lease(size)
            try:
                s.send(os.urandom(16))
                answer(s)
            except BrokenPipeError:
                pass  # it was refused
            s.close()
            s, got = lease(size)
            s.sendmsg([header(LEASE_DONE, 16)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]) \
                if got[0] == "lease" else None
            s.close()
        for identity in (b"x", b"f" * 32, b"f" * 40, os.urandom(40), b"../" * 12):
            s, got = lease(0, identity=identity)
            if got[0] == "lease":
                print("given:", identity)
            s.close()
    print("done")


what, rest = sys.argv[1], sys.argv[2:]
if what == "rewrite":
    rewrite(rest[0], rest[1], dict(r.split("=") for r in rest[2:]))
elif what == "ask":
    got = lease(int(rest[0]), identity=rest[1].encode() if rest[1:] else b"")[1]
    print(*got[:3])
elif what == "hold":
    kept = lease(int(rest[0]))
    print(*kept[1][:1], flush=True)
    time.sleep(1000)
elif what == "flip":
    flip(rest[0], rest[1], int(rest[2]) if rest[2:] else SEALED_HEADER)
elif what == "renew":
    renew()
elif what == "scribble":
    scribble()
elif what == "punch":
    punch()
elif what == "look":
    print(pool()[1].find(open(rest[0], "rb").read()[64:128]))
elif what == "attack":
    attack()
