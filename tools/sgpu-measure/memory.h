/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-measure memory, between its files: data are brought into a secure context on a device, and
 * measured there.
 */
#ifndef SGPU_MEASURE_MEMORY_H
#define SGPU_MEASURE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <sgpu/batch.h>
#include "secure/secure.h"

#include "transfer/transfer.h"
#include "cli.h"

struct memory_task {
	/* what was asked for */
	const char *device_name, *path, *batch_path, *segment;
	struct cli_list keys; /* paths */
	bool keyed;
	struct cli_bytes expected; /* a digest */
	uint64_t offset, size;	   /* size 0: to the end */
	/* what it runs in */
	struct sgpu_device *device;
	struct sgpu_secure *context;
	struct sgpu_engine *engine; /* over the context */
	json_t *results;	    /* array of {"label", "offset", "size", "digest"} */
};

/* Data on their way into the context. */
struct memory_payload {
	const char *name;
	uint64_t size; /* of what is read; memory_load makes it that of the plaintext */
	int fd;	       /* read from `offset` on; or the current member of an archive */
	uint64_t offset;
	struct sgpu_tar_reader *tar;
	bool sealed; /* opened on the device with this key and context */
	uint8_t key[SGPU_KEY_SIZE], context[SGPU_SEGMENT_CONTEXT_MAX];
	size_t context_size;
	const uint8_t *kt128; /* NULL, or of LOW data: the digest that they must have */
};

/* The payload into fresh memory of the context. Errors: SGPU_EKEY, SGPU_EAUTH. */
SGPU_MUST_CHECK int memory_load(struct memory_task *task, struct memory_payload *payload,
				sgpu_devptr *memory, struct sgpu_error *error);
/* Measures [offset, offset + size) of `total` bytes at `memory`, as the options say, and notes the
 * result. */
SGPU_MUST_CHECK int memory_measure(struct memory_task *task, const char *label, sgpu_devptr memory,
				   uint64_t total, struct sgpu_error *error);

/* The segments of a batch or a response. */
SGPU_MUST_CHECK int memory_batch(struct memory_task *task, int in, const char *name,
				 struct sgpu_error *error);

#endif
