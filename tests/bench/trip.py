#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The trip of one HIGH segment from the main of sgpu-enclave to the CPU device and back, file by file.

trip.py [BUILD [FUNCTION...]]: builds the runner with -finstrument-functions in a directory of its own, runs a batch with one input,
one operation and one output, all HIGH, and then a batch with two of each. Prints the files that the first run entered
after its submission, without reading the head of the batch, in the order of their first entry; how often each was
entered from another file; and how many more entries the second run made. Then the files that one copy to the device
enters, most frequent first. docs/architecture.md explains the result.

trip.py --served [BUILD]: the trip of a segment of 4 KiB in the enclave of a server that has run batches before, from the
submission to what it does after its answer, beside that in a sgpu-enclave for this batch alone, both with the head of the
batch, on one processor. Prints for each file how often it is entered from another one; the sums of these and of all calls;
how often the next call is another thread's, which is a hand-off; and the threads by what they run. lib/base is left out.
"""
import collections
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SERVED = "--served" in sys.argv
ARGUMENTS = [word for word in sys.argv[1:] if word != "--served"]
BUILD = os.path.abspath(ARGUMENTS[0] if ARGUMENTS else "build/trip")
SIZE = 4 << 10 if SERVED else 1 << 20
BATCHES = 6  # of a server; the first one is not counted
HEAD = ["admit"]  # functions that read the head of a batch, check it and plan its run

TRACER = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>

enum { LOG_MAX = 1 << 22 };
static struct { int thread, depth; void *function; } entries[LOG_MAX];
static atomic_uint count;
static atomic_int threads;
static _Thread_local int thread, depth;

void __cyg_profile_func_enter(void *function, void *site)
{
	unsigned i = atomic_fetch_add(&count, 1);

	thread = thread ? thread : atomic_fetch_add(&threads, 1) + 1;
	depth++;
	if (i < LOG_MAX) {
		entries[i].thread = thread;
		entries[i].depth = depth;
		entries[i].function = function;
	}
	(void)site;
}
void __cyg_profile_func_exit(void *function, void *site)
{
	(void)function;
	(void)site;
	depth--;
}

static int base_of(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(ElfW(Addr) *)base = info->dlpi_addr;
	return 1;
}
static int output = -1;
__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("TRIP_LOG");

	if (strcmp(program_invocation_short_name, "sgpu-enclave") != 0) {
		return; /* the server, which starts one */
	}
	unsetenv("LD_PRELOAD");
	output = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
}
__attribute__((destructor)) static void end(void)
{
	ElfW(Addr) base = 0;

	dl_iterate_phdr(base_of, &base);
	for (unsigned i = 0; i < count && i < LOG_MAX && output >= 0; i++) {
		dprintf(output, "%d %d %lx\n", entries[i].thread, entries[i].depth, (unsigned long)entries[i].function - base);
	}
}
"""


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def manifest(count):
    segments, operations = [], []
    for i in range(count):
        shape = {"dtype": "u8", "shape": [SIZE]}
        segments.append({"segment_id": f"in{i}", "data_location_client": f"in{i}", "sensitivity_level": "HIGH",
                         "direction": "INPUT", "data_type_info": shape})
        segments.append({"segment_id": f"out{i}", "sensitivity_level": "HIGH", "direction": "OUTPUT"})
        operations.append({"gpu_operation_id": f"COPY{i}", "kernel": "copy",
                           "arguments": {"input": f"in{i}", "output": f"out{i}"}})
    return {"version": 1, "manifest_id": "trip", "segments": segments, "operations": operations}


def tool(name):
    return os.path.join(BUILD, "bin", name)


def seal(work, count):
    """Makes a batch with `count` segments, and its key."""
    at = lambda name: os.path.join(work, name)
    for i in range(count):
        with open(at(f"in{i}"), "wb") as file:
            file.write(os.urandom(SIZE))
    with open(at("job.json"), "w") as file:
        json.dump(manifest(count), file)
    if not os.path.exists(at("key")):
        run(tool("sgpu-seal"), "keygen", "--no-sign", "-o", at("key"), stderr=subprocess.DEVNULL)
    packed = run(tool("sgpu-manifest"), "pack", at("job.json"), stdout=subprocess.PIPE).stdout
    sealed = run(tool("sgpu-seal"), "seal", "-q", "-k", at("key"), input=packed, stdout=subprocess.PIPE).stdout
    with open(at("batch"), "wb") as file:
        file.write(sealed)


def traced(work):
    return dict(os.environ, LD_PRELOAD=os.path.join(work, "tracer.so"), TRIP_LOG=os.path.join(work, "log"))


def read_log(work):
    with open(os.path.join(work, "log")) as file:
        return [(int(a), int(b), int(c, 16)) for a, b, c in (line.split() for line in file)]


def trace(work, count):
    """The calls of a run with `count` segments: (thread, depth, address)."""
    at = lambda name: os.path.join(work, name)
    seal(work, count)
    run(tool("sgpu-enclave"), "-q", "--device", "cpu", "-j", "1", "-k", at("key"), "-o", at("response"), at("batch"),
        env=traced(work))
    os.remove(at("response"))
    return read_log(work)


def trace_served(work):
    """The calls of the enclave of a server that runs the batch again and again."""
    at = lambda name: os.path.join(work, name)
    server = subprocess.Popen([tool("sgpu-serve"), "-q", "--device", "cpu", "-j", "1", "-k", at("key"), "--socket",
                               at("socket"), "--ahead", "0"], env=traced(work))
    while not os.path.exists(at("socket")):
        assert server.poll() is None
        time.sleep(0.01)
    for _ in range(BATCHES):
        run(tool("sgpu-run"), "-q", "--socket", at("socket"), "-o", at("response"), at("batch"))
        time.sleep(0.2)  # so that what comes after the answer is of this batch
    server.send_signal(signal.SIGTERM)
    assert server.wait() == 0
    return read_log(work)


def resolve(calls):
    """(thread, depth, function, file) of each call."""
    addresses = sorted({address for _, _, address in calls})
    text = run("addr2line", "-f", "-e", os.path.join(BUILD, "bin", "sgpu-enclave"), input="\n".join(map(hex, addresses)),
               stdout=subprocess.PIPE, text=True).stdout.split("\n")
    names = {}
    for i, address in enumerate(addresses):
        file = text[2 * i + 1].split(":")[0]
        names[address] = text[2 * i], os.path.normpath(file)
    return [(thread, depth) + names[address] for thread, depth, address in calls]


def entries(calls):
    """By file, in order: how often it was entered from another one."""
    stacks, result = {}, {}
    for thread, depth, _, file in calls:
        stack = stacks.setdefault(thread, [])
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if not stack or stack[-1][1] != file:
            result[file] = result.get(file, 0) + 1
        stack.append((depth, file))
    return result


def subtrees(calls, name):
    """The indexes of the calls under each outermost call of a function, that call included."""
    seen = set()
    for i, (thread, depth, function, _) in enumerate(calls):
        if function == name and i not in seen:
            inside = [i]
            for k in range(i + 1, len(calls)):
                if calls[k][0] == thread:
                    if calls[k][1] <= depth:
                        break
                    inside.append(k)
            seen.update(inside)
            yield inside


def trip(calls):
    """Without what comes before the submission, and without reading and planning the head of the batch."""
    begin = next(i for i, call in enumerate(calls) if call[2] == "sgpu_run_batch")
    calls = calls[begin:]
    dropped = set()
    for name in HEAD:
        for inside in subtrees(calls, name):
            dropped.update(inside)
    return [call for i, call in enumerate(calls) if i not in dropped]


def files_of(calls, inside):
    files = []
    for i in inside:
        if calls[i][3] not in files:
            files.append(calls[i][3])
    return tuple(files)


def thread_names(calls):
    """By thread: the first function of its own that it called."""
    names = {}
    for thread, _, function, file in calls:
        if not file.startswith("lib/base/"):
            names.setdefault(thread, f"{function} ({file})")
    return names


def sums(calls):
    """Entries by file, and what else --served prints, of one batch."""
    calls = [call for call in calls if not call[3].startswith("lib/base/")]
    handoffs = sum(1 for a, b in zip(calls, calls[1:]) if a[0] != b[0])
    return entries(calls), {"entries": sum(entries(calls).values()), "calls": len(calls), "hand-offs": handoffs}, \
        {call[0] for call in calls}


def compare_served(work):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    alone = resolve(trace(work, 1))
    served = resolve(trace_served(work))
    begin = next(i for i, call in enumerate(alone) if call[2] == "sgpu_run_batch")
    begins = [i for i, call in enumerate(served) if call[2] == "take_batch"]
    assert len(begins) == BATCHES
    one, one_sums, one_threads = sums(alone[begin:])
    warm = [sums(served[a:b]) for a, b in zip(begins[1:], begins[2:])]
    files = list(one) + [file for file in warm[0][0] if file not in one]
    print("alone  served  file")
    for file in files:
        print(f"{one.get(file, 0):5}  {warm[0][0].get(file, 0):6}  {file}")
    print(f"{len(one):5}  {len(warm[0][0]):6}  files")
    for name in one_sums:
        print(f"{one_sums[name]:5}  {statistics.median_low(w[1][name] for w in warm):6}  {name}")
    for title, calls, threads in ("alone", alone, one_threads), ("served", served, set.union(*(w[2] for w in warm))):
        names = collections.Counter(thread_names(calls)[thread] for thread in threads)
        print(f"\n{len(threads)} threads, {title}:", *(f"{count} {name}" for name, count in names.items()), sep="\n    ")


def main():
    run("make", "-s", "programs", "CUDA=0", "CLONES=0", f"BUILD={BUILD}",
        "CFLAGS=-O0 -g -finstrument-functions", *[f"{v}={os.environ[v]}" for v in ("CC",) if v in os.environ])
    with tempfile.TemporaryDirectory() as work:
        run("cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", os.path.join(work, "tracer.so"),
            input=TRACER.encode())
        if SERVED:
            compare_served(work)
            return
        one, two = resolve(trace(work, 1)), resolve(trace(work, 2))
    first, second = entries(trip(one)), entries(trip(two))
    print("entries  more of a second segment  file")
    for file in first:
        print(f"{first[file]:7}  {second.get(file, 0) - first[file]:24}  {file}")
    print(f"{len(first)} files; {sum(1 for f in first if second.get(f, 0) > first[f])} again for a second segment")
    for name in ARGUMENTS[1:] or ["sgpu_copy_in", "sgpu_device_open_chunks"]:
        sets = collections.Counter(files_of(two, inside) for inside in subtrees(two, name))
        for files, count in sets.most_common(3):
            print(f"\n{name}, {count} times:", *files, sep="\n    ")


if __name__ == "__main__":
    main()
