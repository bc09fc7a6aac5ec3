/* SPDX-License-Identifier: Apache-2.0
 *
 * What sgpu-stage info gathers before it prints.
 */
#ifndef SGPU_STAGE_MACHINE_H
#define SGPU_STAGE_MACHINE_H
#include "stage/stage.h"

enum { MACHINE_GPUS_MAX = 64 };

struct machine_gpu {
	char address[32]; /* of the PCI bus, "0000:3b:00.0" */
	char device[8];	  /* PCI device id, "0x2335" */
	int numa_node;	  /* -1: the kernel does not say */
	char driver[32];  /* bound to it, or "" */
};

struct machine {
	char *folder;
	const char *file_system;
	bool in_memory;
	uint64_t room;			    /* bytes, of that file system */
	uint64_t page_size, huge_page_size; /* bytes */
	uint64_t huge_total, huge_free;	    /* pages of huge_page_size */
	bool transparent;
	char transparent_setting[32];
	struct sgpu_huge_mount *mounts;
	int mount_count;
	struct sgpu_numa_node *nodes;
	int node_count;
	uint64_t memory_total, memory_available;
	unsigned cpus;
	char processor[96];
	struct machine_gpu gpus[MACHINE_GPUS_MAX];
	int gpu_count;
};

SGPU_MUST_CHECK int machine_look(struct machine *machine, struct sgpu_error *error);
void machine_clear(struct machine *machine);

/* The pages that a large region would get, and why: a sentence. */
enum sgpu_page_kind machine_pages(const struct machine *machine, const char **why);
/* The node nearest to the GPUs, or -1 when there is nothing to choose; and why. */
int machine_node(const struct machine *machine, const char **why);

#endif
