/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure memory, between its files: data are brought into a secure context on a device, and measured there.
 */
#ifndef SGPU_MEASURE_MEMORY_H
#define SGPU_MEASURE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/batch.h>
#include <sgpu/secure.h>

#include "cli.h"

struct memory_task {
	/* what was asked for */
	const char *device_name, *path, *batch_path, *segment;
	struct cli_list keys;      /* paths */
	bool keyed;
	struct cli_bytes expected; /* a digest */
	uint64_t offset, size;     /* size 0: to the end */
	/* what it runs in */
	struct sgpu_device *device;
	struct sgpu_secure *context;
	json_t *results; /* array of {"label", "offset", "size", "digest"} */
};

/* Where bytes come from, in order. */
struct memory_feed {
	int (*read)(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error);
	const char *name;
	int fd;
	uint64_t at;                   /* of a file that is read by position */
	const uint8_t *data;           /* or bytes in memory */
	struct sgpu_tar_reader *tar;   /* or the current member of an archive */
};
/* Exactly that many bytes; SGPU_EINVALID when there are fewer. */
int memory_read_file(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error);
int memory_read_bytes(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error);
int memory_read_member(struct memory_feed *feed, void *to, size_t size, struct sgpu_error *error);

/* `size` bytes of the feed into fresh memory of the context. kt128: the digest that they must have, or NULL. Errors: SGPU_EAUTH. */
SGPU_MUST_CHECK int memory_load(struct memory_task *task, struct memory_feed *feed, uint64_t size, const uint8_t *kt128,
				sgpu_devptr *memory, struct sgpu_error *error);
/* Sealed data, opened on the device. Errors: SGPU_EKEY, SGPU_EAUTH. */
SGPU_MUST_CHECK int memory_load_sealed(struct memory_task *task, struct memory_feed *feed, uint64_t sealed_size,
				       const uint8_t key[SGPU_KEY_SIZE], const void *context, size_t context_size,
				       sgpu_devptr *memory, uint64_t *size, struct sgpu_error *error);
/* Measures [offset, offset + size) of `total` bytes at `memory`, as the options say, and notes the result. */
SGPU_MUST_CHECK int memory_measure(struct memory_task *task, const char *label, sgpu_devptr memory, uint64_t total,
				   struct sgpu_error *error);

/* The segments of a batch or a response. */
SGPU_MUST_CHECK int memory_batch(struct memory_task *task, int in, const char *name, struct sgpu_error *error);

#endif
