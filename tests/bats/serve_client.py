#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serve_client.py SOCKET WHAT [ARGUMENT...]: a client of sgpu-serve that keeps to no rule. Prints, for each answer, the
# name of its error and its text; "gone" where the server hung up without one. It becomes user SERVE_UID before it connects.
import array, fcntl, os, random, select, signal, socket, struct, sys, time

MAGIC, VERSION = 0x53475055, 7
STATUS, SUBMIT, PROGRESS, STATUS_IS, TAKEN, ANSWER, PROGRESS_IS = range(1, 8)
REQUESTS = range(14, 17)
QUOTE, QUOTE_IS = 16, 17
NAME, TEXT = 512, 512
HELD = []


def header(kind, size, magic=MAGIC, version=VERSION, zero=0):
    return struct.pack("=IHHII", magic, version, kind, size, zero)


def submission(timeout_ns=0, **other):
    body = struct.pack("=QQQ", timeout_ns, 0, 0) + b"batch".ljust(NAME, b"\0") + b"response".ljust(NAME, b"\0") + bytes(80)
    return header(SUBMIT, 16 + len(body), **other) + body


def connect(path):
    if "SERVE_UID" in os.environ:
        os.setuid(int(os.environ.pop("SERVE_UID")))
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(300)
    s.connect(path)
    return s


def send(s, data, fds=()):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    try:
        s.sendmsg([data], rights)
    except BrokenPipeError:
        pass


def receive(s):
    for _ in range(2):
        try:
            return s.recv(1 << 17)
        except ConnectionResetError:
            pass
    return b""


def answer(s):
    while True:
        data = receive(s)
        if not data:
            return "gone"
        kind = struct.unpack("=IHHII", data[:16])[2]
        if kind == ANSWER:
            code = struct.unpack("=i", data[16:20])[0]
            return "%d %s" % (code, data[20:20 + TEXT].split(b"\0")[0].decode())


def submit(path, in_fd, out_fd, **other):
    s = connect(path)
    send(s, submission(**other), [in_fd, out_fd, in_fd])
    return s


def place():
    return os.memfd_create("response")


def memory(data):
    fd = os.memfd_create("batch")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def queue(path, *batches):
    """Submits all at once; then each answer, and the response of BATCH in BATCH.response."""
    work = [(name, open(name, "rb").read(), open(name + ".response", "wb"), place()) for name in batches]
    held = [submit(path, memory(data), fd) for _, data, _, fd in work]
    print("sent", flush=True)
    for (name, _, file, fd), s in zip(work, held):
        text = answer(s)
        if text == "0 ":
            file.write(os.pread(fd, os.fstat(fd).st_size, 0))
        file.close()
        print(os.path.basename(name), text, flush=True)


def kinds(path, batch):
    """The kinds of all messages for a batch."""
    s = submit(path, memory(open(batch, "rb").read()), place())
    while data := receive(s):
        print(struct.unpack("=IHHII", data[:16])[2])


def flood(path, batch, depth):
    """Has always so many batches under way."""
    whole = open(batch, "rb").read()
    held = []
    while True:
        while len(held) < depth:
            b, r = memory(whole), place()
            held.append(submit(path, b, r))
            os.close(b)
            os.close(r)
        text = answer(held.pop(0))
        if text != "0 ":
            print(text, flush=True)
        else:
            print("answered", flush=True)


def garbage(path):
    good = submission()
    cases = [b"x", b"\0" * 16, os.urandom(16), os.urandom(1144), good[:100], good + b"x", header(SUBMIT, 16),
             header(SUBMIT, 1144), header(99, 16), header(0, 16), header(TAKEN, 16), header(ANSWER, 16),
             header(PROGRESS, 16), submission(version=1), submission(zero=1), submission(magic=7), header(STATUS, 99),
             os.urandom(100000)]
    for data in cases:
        for fds in ([], [0], [0, place()], [0, place(), 0], [0] * 4, [0] * 100):
            s = connect(path)
            send(s, data, fds)
            if answer(s).startswith("0"):
                print("taken:", data[:20], len(fds))
            s.close()
    for wrong, said in (({"version": VERSION - 1}, "different versions"), ({"version": VERSION + 1}, "different versions"),
                        ({"zero": 1}, "malformed")):
        s = connect(path)
        send(s, submission(**wrong), [0, place(), 0])
        if said not in answer(s):
            print("taken:", wrong)
        s.close()
    for _ in range(20):
        connect(path).close()
    print("done")


def requests(path):
    """Each kind with what is none, and from clients that have gone before they are heard."""
    for kind in REQUESTS:
        for size in (0, 1, 100, 8224):
            for fds in ([], [0], [0] * 3):
                s = connect(path)
                send(s, header(kind, 16 + size) + os.urandom(size), fds)
                text = answer(s)
                if text.startswith("0") or text == "gone":
                    print("taken:", kind, size, text)
                s.close()
                s = connect(path)
                send(s, header(kind, 16 + size) + os.urandom(size), fds)
                s.close()
    print("done")


def ask_quote(path, nonce=b"0123456789abcdef"):
    s = connect(path)
    body = struct.pack("=II", len(nonce), 0) + nonce.ljust(64, b"\0")
    send(s, header(QUOTE, 16 + len(body)) + body)
    return s


def told(s):
    """The text of a quote; else the error, or nothing where the server hung up."""
    data, fds = b"", []
    for _ in range(2):
        try:
            data, fds, _, _ = socket.recv_fds(s, 1 << 17, 4)
            break
        except ConnectionResetError:
            pass
    if struct.unpack("=IHHII", data[:16].ljust(16, b"\0"))[2] == QUOTE_IS:
        return data[16:].decode()
    return "error: " + data[20:20 + TEXT].split(b"\0")[0].decode() if data else ""


def quote(path, nonce):
    print(told(ask_quote(path, bytes.fromhex(nonce))), end="")


def quotes(path, count, depth):
    """Asks for many, so many at a time, and for some without waiting for the answer: how many came of the others, and
    whether all else that was said is to come again."""
    came = odd = 0
    held = []
    for i in range(count):
        held.append(ask_quote(path))
        if i % 7 == 0:
            held.pop().close()
        if len(held) == depth or i == count - 1:
            for s in held:
                text = told(s)
                came += text.startswith("{")
                odd += not text.startswith("{") and "which is the limit" not in text and "too many" not in text
                s.close()
            held = []
    print("some" if came else "none", odd)


def untaken(path, most):
    """Asks for leases and takes none of the answers, until one is refused. Prints how many answers have descriptors, and the
    refusal; then those of a status that is told to this user."""
    held, text = [], ""
    body = struct.pack("=Q", 4096) + bytes(16 + 40)
    while not text and len(held) < most:
        s = connect(path)
        send(s, header(14, 16 + len(body)) + body)
        data = s.recv(1 << 17, socket.MSG_PEEK)
        if struct.unpack("=IHHII", data[:16])[2] == ANSWER:
            text = answer(s)
        s.shutdown(socket.SHUT_WR)
        held.append(s)
    print(len(held) - 1, text)
    s = connect(path)
    send(s, header(STATUS, 16))
    print(len(socket.recv_fds(s, 1 << 17, 4)[1]))


def crowded(path, count, room):
    """Asks for so many quotes at once: says when no more than `room` are without an answer, and then how many come."""
    held = [ask_quote(path) for _ in range(count)]
    while len(held) > room:
        for s in select.select(held, [], [])[0]:
            held.remove(s)
            told(s)
    print("full", flush=True)
    print(sum(told(s).startswith("{") for s in held), "quotes", flush=True)


def pose(path, count):
    """A server that gives what is no quote, then hangs up without a word, and then gives files that are not in memory."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    print("posing", flush=True)
    for i in range(count):
        s, _ = listener.accept()
        asked = struct.unpack("=IHHII", s.recv(1 << 17)[:16])[2]
        if i == 0:
            send(s, header(QUOTE_IS, 16), [memory(b"\x1b[2Jno quote")])
        if i > 1:
            kind = {STATUS: STATUS_IS, QUOTE: QUOTE_IS}[asked]
            send(s, header(kind, 16), [os.open("/proc/self/status", os.O_RDONLY)])
        s.close()


def tell(path, status):
    """A server that answers each question with what is in that file."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    print("telling", flush=True)
    while True:
        s, _ = listener.accept()
        receive(s)
        send(s, header(STATUS_IS, 16), [memory(open(status, "rb").read())])
        s.close()


def mute(path):
    """A server whose worker takes a batch, and then says nothing."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    print("mute", flush=True)
    s, _ = listener.accept()
    receive(s)
    send(s, header(TAKEN, 16))
    asked = 0
    while receive(s):
        asked += 1
    print("asked", asked > 1, flush=True)


def descriptors(path, batch):
    """Each with what a server must not wait for, nor believe."""
    good = os.open(batch, os.O_RDONLY)
    directory = os.open(".", os.O_RDONLY)
    if not os.path.exists("fifo"):
        os.mkfifo("fifo")
    fifo = os.open("fifo", os.O_RDWR)
    pair = socket.socketpair()
    appending = os.open("appended", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    reading = os.open("appended", os.O_RDONLY)
    sealed = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW)
    ins = {"zero": os.open("/dev/zero", os.O_RDONLY), "null": os.open("/dev/null", os.O_RDWR), "directory": directory,
           "path": os.open(batch, os.O_PATH), "write-only": os.open("w", os.O_WRONLY | os.O_CREAT, 0o600),
           "memory": os.open("/proc/self/mem", os.O_RDWR), "proc": os.open("/proc/self/maps", os.O_RDONLY),
           "sys": os.open("/sys/kernel/mm/transparent_hugepage/enabled", os.O_RDONLY), "fifo": fifo,
           "socket": pair[0].fileno(), "direct": os.open(batch, os.O_RDONLY | os.O_DIRECT),
           "tty": os.open("/dev/ptmx", os.O_RDWR),
           "epoll": select.epoll().fileno(), "pipe": os.pipe()[0]}
    outs = {"full": os.open("/dev/full", os.O_RDWR), "directory": directory, "path": ins["path"], "read-only": reading,
            "memory": ins["memory"], "append": appending, "fifo": fifo, "socket": pair[0].fileno(),
            "pipe": os.pipe()[1], "sealed": sealed}
    for name, fd in ins.items():
        print("in", name, answer(submit(path, fd, place())))
    for name, fd in outs.items():
        os.lseek(good, 0, os.SEEK_SET)
        print("out", name, answer(submit(path, good, fd)))


def held_batch():
    """One that holding.c has a worker wait for, until this process gets SIGTERM."""
    fd = os.memfd_create("held")
    os.fchmod(fd, 0o1600)
    HELD.append(fd)
    return fd


def release(*_):
    for fd in HELD:
        os.fchmod(fd, 0o600)
    os._exit(1)


def hold(path, count, seconds):
    """Runs that see nothing of their batch, for so long."""
    held = [submit(path, held_batch(), place()) for _ in range(count)]
    for s in held:
        receive(s)
    print("held", flush=True)
    time.sleep(seconds)


def users(path, first, count, seconds):
    """Each user of a range has a batch that never comes; says when all wait, and then who is told what."""
    held = []
    r, out = held_batch(), place()
    for uid in range(first, first + count):
        os.seteuid(uid)
        held.append(submit(path, r, out))
        os.seteuid(0)
    for s in held:
        receive(s)
    print("waiting", flush=True)
    poll, end = select.poll(), time.monotonic() + seconds
    uids = {s.fileno(): (first + i, s) for i, s in enumerate(held)}
    for s in held:
        poll.register(s, select.POLLIN)
    while time.monotonic() < end:
        for fd, _ in poll.poll(1000):
            uid, s = uids[fd]
            data = receive(s)
            if not data:
                poll.unregister(fd)
            elif struct.unpack("=IHHII", data[:16])[2] == ANSWER:
                print(uid, data[20:20 + TEXT].split(b"\0")[0].decode(), flush=True)


def crowd(path, count, most):
    """Connections that say nothing: how many were refused because there are too many."""
    held = [connect(path) for _ in range(count)]
    refused, end = 0, time.monotonic() + 8
    while refused < count - most and time.monotonic() < end:
        for s in select.select(held, [], [], 0.1)[0]:
            held.remove(s)
            refused += b"connections that wait" in s.recv(1 << 17)
    print(refused)


def slow_close(path, server, at, seconds):
    """Hands over a socket whose closing takes long. The worker is the last that has it: else it is we who close long."""
    late, peer = lingering()
    os.kill(server, signal.SIGSTOP)
    s = connect(path)
    fds = [memory(b"batch"), place(), memory(b"manifest")]
    fds[at] = late.fileno()
    send(s, submission(), fds)
    late.close()
    os.kill(server, signal.SIGCONT)
    print(answer(s), flush=True)
    time.sleep(seconds)


def direct(path, batch, rounds):
    """A file of a disk that is read past the kernel's cache from some moment on, which reads of odd sizes cannot be."""
    whole = open(batch, "rb").read()
    for _ in range(rounds):
        with open("direct", "w+b") as file:
            file.write(whole)
            file.seek(0)
            s = submit(path, file.fileno(), place())
            time.sleep(random.random() / 2000)
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_DIRECT)
            answer(s)
    print("done")


def shrinking(path, batch, rounds):
    """Batch and response are cut short while the run is under way."""
    whole = open(batch, "rb").read()
    for i in range(rounds):
        b, r = os.memfd_create("b"), place()
        os.write(b, whole)
        os.lseek(b, 0, os.SEEK_SET)
        s = submit(path, b, r)
        s.setblocking(False)
        for _ in range(3000):
            os.ftruncate(r, 0)
            if i % 2:
                os.ftruncate(b, len(whole) // 2)
            try:
                if not s.recv(16):
                    break
            except BlockingIOError:
                pass
        s.settimeout(300)
        try:
            while s.recv(1 << 17):
                pass
        except ConnectionResetError:
            pass
    print("done")


def many(path, batch, count):
    fd = os.open(batch, os.O_RDONLY)
    for i in range(count):
        os.lseek(fd, 0, os.SEEK_SET)
        r = place()
        text = answer(submit(path, fd, r))
        os.close(r)
        if text != "0 ":
            print(i, text)
            return
    print("done")


def hang_up(path, batch, count):
    """Clients that go at any moment."""
    whole = open(batch, "rb").read()
    for i in range(count):
        fd = memory(whole)
        s = submit(path, fd, place())
        os.close(fd)
        time.sleep(0.0003 * (i % 10))
        s.close()
    print("done")


def lingering():
    """A socket that is closed for as long as its owner likes."""
    listener = socket.create_server(("127.0.0.1", 0))
    s = socket.create_connection(listener.getsockname())
    peer, _ = listener.accept()
    s.setblocking(False)
    try:
        while True:
            s.send(b"x" * 65536)
    except BlockingIOError:
        pass
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 1000000))
    return s, peer


def linger(path, server, seconds):
    """Messages that nobody receives, with descriptors that cannot be closed at once."""
    kept = []
    for message in header(ANSWER, 16), b"garbage", header(TAKEN, 16), header(STATUS, 16):
        late, peer = lingering()
        s = connect(path)
        os.kill(server, signal.SIGSTOP)
        send(s, message, [late.fileno()])
        late.close()  # the message holds it alone now
        os.kill(server, signal.SIGCONT)
        kept += [s, peer]
    print("sent", flush=True)
    time.sleep(seconds)


def silent(path, count, seconds):
    """Connections that ask for nothing."""
    kept = [connect(path) for _ in range(count)]
    print("silent", flush=True)
    time.sleep(seconds)


def dying(path, batch, count):
    """Clients that are killed at any moment, from before they connect to after they have their answer."""
    whole = open(batch, "rb").read()
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            answer(submit(path, memory(whole), place()))
            os._exit(0)
        time.sleep(random.random() * 0.02)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    print("done")


def damaged(path, batch, count):
    """Batches of which a byte is wrong, one that is cut short, and one that is changed while it is read."""
    whole = bytearray(open(batch, "rb").read())
    for i in range(count):
        at = random.randrange(len(whole))
        whole[at] ^= 1 << i % 8
        b = memory(whole[:at] if i % 3 == 1 else whole)
        whole[at] ^= 1 << i % 8
        s = submit(path, b, place())
        for _ in range(20 if i % 3 == 2 else 0):
            os.pwrite(b, os.urandom(64), random.randrange(len(whole)))
        answer(s)
        os.close(b)
    print("done")


def refused(path, *batches):
    """Each is submitted, and none may succeed."""
    for whole in [open(name, "rb").read() for name in batches]:
        text = answer(submit(path, memory(whole), place()))
        print("taken" if text == "0 " else text)
    print("done")


def endlessly(path, what, *rest):
    """The same again and again, each time by a new process; says when one has come to its end."""
    while True:
        pid = os.fork()
        if pid == 0:
            DEEDS[what](path, *rest)
            os._exit(0)
        if os.waitpid(pid, 0)[1] == 0:
            print("round", flush=True)


signal.signal(signal.SIGTERM, release)
path, what, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
DEEDS = {"garbage": garbage, "requests": requests, "descriptors": descriptors,
 "quote": quote, "quotes": lambda p, n, d: quotes(p, int(n), int(d)),
 "mute": mute, "tell": tell, "pose": lambda p, n: pose(p, int(n)),
 "untaken": lambda p, n: untaken(p, int(n)),
 "crowded": lambda p, n, r: crowded(p, int(n), int(r)),
 "hold": lambda p, n, t: hold(p, int(n), float(t)),
 "users": lambda p, f, n, t: users(p, int(f), int(n), float(t)),
 "crowd": lambda p, n, m: crowd(p, int(n), int(m)),
 "linger": lambda p, s, t: linger(p, int(s), float(t)), "silent": lambda p, n, t: silent(p, int(n), float(t)),
 "queue": queue, "kinds": kinds, "flood": lambda p, b, n: flood(p, b, int(n)),
 "slow-close": lambda p, s, a, t: slow_close(p, int(s), int(a), float(t)),
 "direct": lambda p, b, n: direct(p, b, int(n)), "shrinking": lambda p, b, n: shrinking(p, b, int(n)), "many": lambda p, b, n: many(p, b, int(n)),
 "hang-up": lambda p, b, n: hang_up(p, b, int(n)), "dying": lambda p, b, n: dying(p, b, int(n)),
 "damaged": lambda p, b, n: damaged(p, b, int(n)), "refused": refused, "endlessly": endlessly}
DEEDS[what](path, *rest)
