/* SPDX-License-Identifier: Apache-2.0
 *
 * The host: the process that runs modules of the CPU device. It is sgpu-enclave, which executes
 * itself for it before it reads a key: the host gets nothing but a socket, and holds no data but
 * those of a launch. Its forks, workers, one for each module, are confined before they load
 * anything.
 */
#ifndef SGPU_MODULE_HOST_H
#define SGPU_MODULE_HOST_H

#include <stdbool.h>

#include <device/cpu/module_wire.h>

/* For main(), before that does anything else. Returns an exit status: 2, after a message, if nobody
 * is at SGPU_HOST_CONTROL. */
int host_main(int argc, char **argv);

/* ---- root.c ---- */
/* What a worker may read, and all of its root: libraries, and the loader's list of them. Ends with
 * NULL. */
extern const char *const root_paths[];
/* Enters as many new namespaces as the kernel allows, makes a root, and drops all capabilities, for
 * good. In a new process namespace, its first process returns; the caller waits for that and exits
 * with its status. */
void root_enter(struct sgpu_module_confinement *confinement);

/* ---- worker.c ---- */
/* A worker's descriptors, besides the standard streams. */
enum {
	WORKER_CHANNEL = 3, /* to the device */
	WORKER_HANDOFF,	    /* to the host, for the listener */
	WORKER_IMAGE	    /* unless the new root has a copy */
};
/* Tries the confinement of a worker in a child. */
void worker_try(struct sgpu_module_confinement *confinement);
/* Sends the host a byte, with the listener of its calls if any, and loads the image. path: of its
 * copy in the new root, or NULL. landlock: what the trial found. */
_Noreturn void worker_run(const char *path, int landlock);

/* The first argument of prctl() by which a worker tells the listener that all is loaded. It then
 * returns 0. */
enum { HOST_ALL_LOADED = 0x73677075 };

#endif
