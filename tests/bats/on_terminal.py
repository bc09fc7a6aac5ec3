# SPDX-License-Identifier: Apache-2.0
"""on_terminal.py ANSWER... -- COMMAND...: runs the command on a terminal of its own, and types an answer, or sends the
signal of that name, whenever the echo is off. Shows what the terminal showed, and whether it has its echo at the end.
Exits as the command did; -N for a signal is 128 + N."""
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios


def echoes(terminal):
    return bool(termios.tcgetattr(terminal)[3] & termios.ECHO)


def wait_for(process, master, slave, prompts, seen):
    """Until that many prompts were shown, of which the last has turned the echo off."""
    while process.poll() is None and (seen.count(b"': ") < prompts or echoes(slave)):
        if select.select([master], [], [], 0.01)[0]:
            seen += os.read(master, 1000)


def main():
    cut = sys.argv.index("--")
    answers, command = sys.argv[1:cut], sys.argv[cut + 1:]
    master, slave = pty.openpty()

    def session():
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=session, pass_fds=(slave,))
    seen = bytearray()
    for number, answer in enumerate(answers, 1):
        wait_for(process, master, slave, number, seen)
        if answer.startswith("SIG"):
            process.send_signal(getattr(signal, answer))
        else:
            os.write(master, answer.encode() + b"\n")
    status = process.wait(timeout=60)
    if not echoes(slave):
        print("the echo is off")
    while select.select([master], [], [], 0)[0]:
        seen += os.read(master, 1000)
    print(seen.decode(errors="replace"))
    sys.exit(128 - status if status < 0 else status)


main()
