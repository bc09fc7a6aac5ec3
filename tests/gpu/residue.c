/* SPDX-License-Identifier: Apache-2.0
 *
 * What is left in a GPU's memory, for the tests of faults.
 *
 *   residue look FILE      takes all device memory that it can get and looks for the marker in
 *                          the file, 32 bytes, at every multiple of 32; exit 0 when it is
 *                          nowhere, 1 when it is
 *   residue control FILE   the same with the marker written first: exit 1, or looking does not work
 *   residue hold MIB       takes all but this much, says so, and keeps it until its standard
 *                          input ends
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/device.h>

#include "host/host.h"

enum { MARKER = 32, BLOCKS = 4096, SLOTS = 2 };
#define PIECE ((uint64_t)64 << 20)

static struct sgpu_device *device;
static struct sgpu_pool *pool;
static struct sgpu_error error;
static uint8_t marker[MARKER];
static struct {
	sgpu_devptr memory;
	uint64_t size;
} blocks[BLOCKS];
static unsigned block_count;
static uint64_t taken;

static struct {
	struct sgpu_stream *stream;
	void *memory;
	bool pending;
} slots[SLOTS];
static atomic_uint_fast64_t found;

static void stop(const char *what)
{
	fprintf(stderr, "residue: %s: %s\n", what, error.text);
	exit(3);
}

/* Blocks of whatever size there still is, until so much is left. */
static void take_all_but(uint64_t leave)
{
	struct sgpu_device_info info;
	uint64_t size = (uint64_t)4 << 30;

	while (size >= PIECE && block_count < BLOCKS) {
		if (sgpu_device_get_info(device, &info, &error) != SGPU_OK) {
			stop("cannot ask for free memory");
		}
		if (info.memory_free < leave + size ||
		    sgpu_device_alloc(device, size, &blocks[block_count].memory, &error) !=
			    SGPU_OK) {
			size /= 2;
			continue;
		}
		blocks[block_count++].size = size;
		taken += size;
	}
}

static void search(void *argument, uint64_t begin, uint64_t end)
{
	const uint8_t *bytes = argument;
	uint64_t i, first, word;

	memcpy(&first, marker, sizeof(first));
	for (i = begin; i < end; i += MARKER) {
		memcpy(&word, bytes + i, sizeof(word));
		if (word == first && memcmp(bytes + i, marker, MARKER) == 0) {
			atomic_fetch_add(&found, 1);
		}
	}
}

static void look_at(unsigned slot)
{
	if (!slots[slot].pending) {
		return;
	}
	if (sgpu_stream_sync(slots[slot].stream, &error) != SGPU_OK) {
		stop("cannot copy");
	}
	slots[slot].pending = false;
	if (sgpu_pool_for(pool, PIECE, (uint64_t)1 << 20, 0, search, slots[slot].memory) !=
	    SGPU_OK) {
		stop("cannot search");
	}
}

/* One piece is copied while the one before it is searched. */
static void look_everywhere(void)
{
	unsigned i, slot = 0;
	uint64_t at;

	for (i = 0; i < block_count; i++) {
		for (at = 0; at < blocks[i].size; at += PIECE, slot = (slot + 1) % SLOTS) {
			look_at(slot);
			if (sgpu_copy_out(slots[slot].stream, slots[slot].memory,
					  blocks[i].memory + at, PIECE, NULL) != SGPU_OK) {
				stop("cannot copy");
			}
			slots[slot].pending = true;
		}
	}
	for (i = 0; i < SLOTS; i++) {
		look_at(i);
	}
}

static void prepare(const char *path)
{
	FILE *file = fopen(path, "rb");
	unsigned i;

	if (!file || fread(marker, 1, MARKER, file) != MARKER ||
	    sgpu_pool_create(0, &pool, &error) != SGPU_OK) {
		stop("cannot start");
	}
	fclose(file);
	sgpu_pool_enter(pool);
	for (i = 0; i < SLOTS; i++) {
		if (sgpu_stream_create(device, &slots[i].stream, &error) != SGPU_OK ||
		    sgpu_host_alloc(device, PIECE, &slots[i].memory, &error) != SGPU_OK) {
			stop("cannot start");
		}
	}
}

static void plant(void)
{
	uint64_t i;

	for (i = 0; i < PIECE; i += MARKER) {
		memcpy((uint8_t *)slots[0].memory + i, marker, MARKER);
	}
	if (block_count == 0 ||
	    sgpu_copy_in(slots[0].stream, blocks[block_count - 1].memory, slots[0].memory, PIECE,
			 NULL) != SGPU_OK ||
	    sgpu_stream_sync(slots[0].stream, &error) != SGPU_OK) {
		stop("cannot plant");
	}
	memset(slots[0].memory, 0, PIECE);
}

int main(int argc, char **argv)
{
	char ignored[64];

	if (argc != 3) {
		fprintf(stderr, "usage: residue look|control FILE, residue hold MIB\n");
		return 2;
	}
	if (sgpu_device_open("cuda", NULL, &device, &error) != SGPU_OK) {
		stop("no device");
	}
	if (strcmp(argv[1], "hold") == 0) {
		take_all_but(strtoull(argv[2], NULL, 10) << 20);
		printf("holding %" PRIu64 " MiB\n", taken >> 20);
		fflush(stdout);
		while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0) {
		}
		return 0;
	}
	prepare(argv[2]);
	take_all_but((uint64_t)256 << 20);
	if (strcmp(argv[1], "control") == 0) {
		plant();
	}
	look_everywhere();
	printf("looked at %" PRIu64 " MiB: the marker is there %" PRIu64 " times\n", taken >> 20,
	       (uint64_t)atomic_load(&found));
	return atomic_load(&found) ? 1 : 0;
}
