# SPDX-License-Identifier: Apache-2.0
"""operating_manager.py ROOT: what the tests of docs/operating.md have for systemd. It reads the units and drop-ins below
ROOT/etc/systemd/system, listens at the socket, starts the service at the first connection, and carries out the lines that
come through ROOT/commands, answering each through ROOT/answers: start, reload, restart, stop. SIGTERM ends the service, too."""
import atexit
import glob
import os
import re
import select
import signal
import socket
import subprocess
import sys

os.dup2(os.open("/dev/null", os.O_RDONLY), 3)  # so that nothing else is 3, which the service gets
root = sys.argv[1]
units = root + "/etc/systemd/system/"
service = None


def settings(name, key):
    values = []
    for path in [units + name] + sorted(glob.glob(units + name + ".d/*.conf")):
        with open(path, encoding="utf-8") as unit:
            for value in re.findall(rf"^{key}=(.*)$", unit.read(), re.M):
                values = values + [value] if value else []
    return values


def start():
    global service
    line = settings("sgpu-serve.service", "ExecStart")[-1].replace("/usr/local/bin/", "")
    command = [re.sub(r"^/(etc|var)/", root + r"/\1/", word) for word in line.split()]

    def activate():
        if "SERVICE_UID" in os.environ:
            uid = int(os.environ["SERVICE_UID"])
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        os.dup2(listener.fileno(), 3)
        os.set_inheritable(3, True)
        os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))

    with open(root + "/journal", "a", encoding="utf-8") as log:
        service = subprocess.Popen(command + ["--device", "cpu"], stderr=log, stdin=subprocess.DEVNULL,
                                   pass_fds=[3], preexec_fn=activate)


def stop():
    global service
    if service:
        service.send_signal(signal.SIGTERM)
        service.wait()
        service = None


atexit.register(stop)
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
path = root + settings("sgpu-serve.socket", "ListenSequentialPacket")[-1]
os.makedirs(os.path.dirname(path), exist_ok=True)
os.makedirs(root + "/var/lib/sgpu", mode=0o700, exist_ok=True)
if "SERVICE_UID" in os.environ:
    os.chown(root + "/var/lib/sgpu", int(os.environ["SERVICE_UID"]), -1)
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(path + ".new")
listener.listen(int(settings("sgpu-serve.socket", "Backlog")[-1]))
os.rename(path + ".new", path)  # whoever finds it can connect
commands = os.open(root + "/commands", os.O_RDWR)
while True:
    ready, _, _ = select.select([commands] + ([] if service else [listener]), [], [])
    if listener in ready:
        start()
    if commands not in ready:
        continue
    for word in os.read(commands, 4096).decode().split():
        if word == "reload" and service:
            service.send_signal(signal.SIGHUP)
        if word in ("restart", "stop"):
            stop()
        if word in ("restart", "start"):
            start()
        with open(root + "/answers", "w", encoding="utf-8") as answers:
            answers.write("done\n")
