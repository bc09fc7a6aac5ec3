/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-module-host: the process that runs modules of the CPU device. The library contains the
 * program and starts it with nothing but a socket; the process holds no key and no data but those
 * of a launch. It is the parent of workers, one for each module, which are confined before they
 * load anything.
 */
#ifndef SGPU_MODULE_HOST_H
#define SGPU_MODULE_HOST_H

#include <stdbool.h>
#include <sys/types.h>

#include <device/cpu/module_wire.h>

enum { HOST_IMAGE_PATH = 64 };

/* ---- root.c: confinement of the host and all of its workers ---- */
/* Enters as many new namespaces as the kernel allows. In a new process namespace, its first process
 * returns, and the calling process waits for that one and exits with its status. */
void root_enter(struct sgpu_module_confinement *confinement);
/* In a new mount namespace, makes a root with the libraries in it and nothing else. */
void root_change(struct sgpu_module_confinement *confinement);
/* Drops all capabilities, for good. False: some are left. */
bool root_drop(void);
/* Sets `path` to where the loader finds the image: a copy in the new root, or the descriptor. */
bool root_place(const struct sgpu_module_confinement *confinement, int fd, unsigned number,
		char path[HOST_IMAGE_PATH]);
void root_remove(const struct sgpu_module_confinement *confinement, const char *path);

/* Confines the calling process with Landlock: it can read the libraries and `image` (NULL: it is
 * open), and reaches no other file, no network, and no process outside. Returns Landlock's version,
 * or 0 if that failed. */
int root_landlock(const char *image);

/* ---- filter.c ---- */
enum host_verdict {
	HOST_LOAD,	/* a call of the loader: refused once all is loaded */
	HOST_LOAD_SOFT, /* likewise, but with EPERM, after which the C library goes on */
	HOST_SERVE,	/* allowed once all is loaded, to receive the device's memory, which could
			 * become code before that */
	HOST_REFUSE,
};
/* Puts the calling process under the filter for good. It allows the calls of computing code, and
 * messages over `channel` and `handoff`. The listener, whose descriptor *listener becomes, decides
 * on other calls; -1 in a build without filters. Returns false without a filter. */
bool filter_install(int channel, int handoff, int *listener);
/* Decides on a call of which the listener was notified. */
enum host_verdict filter_verdict(int number, const uint64_t arguments[6], int channel);
/* Gets the name of a call; "": no call has that number. */
void filter_name(int number, char *name, size_t size);
/* The first argument of prctl() by which a worker tells the listener that all is loaded. It then
 * returns 0. */
enum { HOST_ALL_LOADED = 0x73677075 };

/* ---- worker.c ---- */
struct worker_start {
	int channel, handoff;	    /* to the device; to the host, for the listener */
	int image;		    /* or -1 */
	bool in_root;		    /* `path` is in the new root, not that of a descriptor */
	char path[HOST_IMAGE_PATH]; /* "": there is no image, this is a trial of the confinement */
};
/* First tells the host Landlock's version, in one byte, with the listener if there is one. */
_Noreturn void worker_run(const struct worker_start *start);

#endif
