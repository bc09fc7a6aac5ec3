/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-module-host: the process that modules of the CPU device run in. The library has the program
 * inside itself and starts it, with nothing but a socket; it holds no key and no data but those of
 * a launch. It stays behind as the parent of workers, one a module, which are confined before they
 * load anything.
 */
#ifndef SGPU_MODULE_HOST_H
#define SGPU_MODULE_HOST_H

#include <stdbool.h>
#include <sys/types.h>

#include <device/cpu/module_wire.h>

enum { HOST_IMAGE_PATH = 64 };

/* ---- root.c: what holds for the host and all of its workers ---- */
/* Enters as many new namespaces as the kernel allows. The process that returns is the first of its
 * process namespace. The one that was started waits for it and ends as it does. */
void root_enter(struct sgpu_module_confinement *confinement);
/* In a new mount namespace, makes a root with the libraries in it and nothing else. */
void root_change(struct sgpu_module_confinement *confinement);
/* Drops all capabilities, for good. False: some are left. */
bool root_drop(void);
/* Puts the image where the loader finds it: a file of the new root, or the descriptor itself. */
bool root_place(const struct sgpu_module_confinement *confinement, int fd, unsigned number,
		char path[HOST_IMAGE_PATH]);
void root_remove(const struct sgpu_module_confinement *confinement, const char *path);

/* Confines the calling process: it may read the libraries and the image (a path, or NULL: it is
 * open), and reaches no other file, no network, and no process outside. Returns Landlock's version;
 * 0: the kernel has none. */
int root_landlock(const char *image);

/* ---- filter.c ---- */
enum host_verdict {
	HOST_LOAD,	/* a call of the loader: refused once all is loaded */
	HOST_LOAD_SOFT, /* likewise, but then it only fails: the C library tries it and does without
			 */
	HOST_SERVE, /* allowed once all is loaded, for memory from the device; before that, shared
		       memory could become code */
	HOST_REFUSE,
};
/* Puts the calling process under the filter, for good. Calls of computing code are allowed. A
 * listener decides on all others; its descriptor comes back in *listener. Where the kernel gives
 * none (-1), the loader's calls are allowed, and others end the process. The process goes on using
 * the sockets `channel` and `handoff`. False: no filter. */
bool filter_install(int channel, int handoff, int *listener);
/* Without a listener: from now on the loader's calls end the process, too. */
bool filter_tighten(void);
/* Decides on a call of which the listener was notified. */
enum host_verdict filter_verdict(int number, const uint64_t arguments[6], int channel);
/* Gets the name of a call; "": no call has that number. */
void filter_name(int number, char *name, size_t size);
/* The first argument of prctl() by which a worker says that all is loaded; the listener answers 0.
 */
enum { HOST_ALL_LOADED = 0x73677075 };

/* ---- worker.c ---- */
struct worker_start {
	int channel, handoff;	    /* to the device; to the host, for the listener */
	int image;		    /* or -1 */
	bool in_root;		    /* `path` is in the new root, not that of a descriptor */
	char path[HOST_IMAGE_PATH]; /* "": there is no image, this is a trial of the confinement */
};
/* What a worker tells the host, with the listener if there is one. */
struct worker_confined {
	uint8_t landlock, seccomp;
};
_Noreturn void worker_run(const struct worker_start *start);

#endif
