/* SPDX-License-Identifier: Apache-2.0
 *
 * To be replaced by sgpu/transfer.h, as soon as that is implemented.
 *
 * Large secure copies between host memory and a device, at nearly the speed of a plain copy from pinned memory.
 *
 * Sealed at rest: the host's memory holds sealed chunks, which the device opens or seals. Sealed live: the host's
 * memory holds plaintext, and only what crosses the bus is sealed. Both work in groups of chunks: while one group is
 * on the bus, the one before is opened on the device and the one after is sealed by the processors, so that the bus is
 * never idle. Groups are small where the other stages would have to wait, at the begin and at the end.
 *
 * An engine holds streams, pinned memory, device memory and threads. It is made once and used for many copies, by any
 * thread, one copy at a time: others wait. Every copy has ended when its function returns.
 */
#ifndef SGPU_TRANSFER_OLD_H
#define SGPU_TRANSFER_OLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sgpu/device.h>
#include <sgpu/seal.h>
#include <sgpu/transfer.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sgpu_transfer;
struct sgpu_transfer_key;

/* How an engine is built; 0 stands for what was found to be best. Units: bytes of plaintext, rounded to chunks. */
struct sgpu_transfer_config {
	unsigned jobs;           /* threads that seal and open for live copies, the caller's one among them; 0:
	                            sgpu_cpu_count() */
	uint64_t sealed_group;   /* largest group of a copy that is sealed at rest */
	unsigned sealed_slots;   /* groups of that size in device memory */
	/* Largest groups of live copies to the device and from it, and how many there are in pinned memory. */
	uint64_t in_group, out_group;
	unsigned in_slots, out_slots;
	uint64_t first_group;    /* smallest groups: when a live copy begins ... */
	uint64_t last_group;     /* ... and where the device works alone, before or after the bus */
};

/* config: NULL stands for zeros. Errors: SGPU_ENOMEM, SGPU_EDEVICE, SGPU_EUSAGE for a config without sense. */
SGPU_MUST_CHECK int sgpu_transfer_create(struct sgpu_device *device, const struct sgpu_transfer_config *config,
					 struct sgpu_transfer **transfer, struct sgpu_error *error);
/* Before the device is closed; its keys have been freed. Accepts NULL; wipes what it held. */

/* ---- sealed at rest ----
 * `task`, which may be NULL, gets the outcome: code, text, bad_chunk, and the host's times of begin and end. The same
 * code is returned. SGPU_EAUTH: the lowest chunk that does not verify is in bad_chunk, counted as `first` is. After any
 * error the destination is cleared, and the engine can be used again; but after SGPU_EUSAGE, where it is not known to
 * be the caller's, it holds nothing, or what has verified. */

/* As sgpu_open_chunks: `sealed` is read from host memory, at full speed only where the device reads it by itself
 * (sgpu_host_alloc, sgpu_host_register), and `to` gets the plaintext. Nothing that was not verified stays in `to`. */
SGPU_MUST_CHECK int sgpu_transfer_in_sealed(struct sgpu_transfer *transfer, struct sgpu_device_key *key, uint64_t first,
					    bool last, const void *sealed, uint64_t size, sgpu_devptr to,
					    struct sgpu_task *task);
/* As sgpu_seal_chunks: plaintext on the device to sealed chunks in host memory. The caller sees to it that no chunk
 * number is ever used twice with one key. */
SGPU_MUST_CHECK int sgpu_transfer_out_sealed(struct sgpu_transfer *transfer, struct sgpu_device_key *key,
					     uint64_t first, bool last, sgpu_devptr from, uint64_t size, void *sealed,
					     struct sgpu_task *task);

/* ---- sealed live ---- */

/* A key for live copies, on the device and with every thread. It counts the chunks that it has sealed, in both
 * directions, so that no nonce is ever used twice: so `keys` must be fresh (sgpu_sealed_keys_new) and not be used
 * elsewhere. Another engine refuses it (SGPU_EUSAGE). */
SGPU_MUST_CHECK int sgpu_transfer_key_load(struct sgpu_transfer *transfer, const struct sgpu_sealed_keys *keys,
					   struct sgpu_transfer_key **key, struct sgpu_error *error);
/* Wipes it; no copy with it may run. Accepts NULL. */
void sgpu_transfer_key_free(struct sgpu_transfer_key **key);

/* Plaintext from ordinary host memory to the device. The task is as above; bad_chunk counts from the begin of the
 * copy. */
SGPU_MUST_CHECK int sgpu_transfer_in_live(struct sgpu_transfer *transfer, struct sgpu_transfer_key *key,
					  const void *plaintext, uint64_t size, sgpu_devptr to, struct sgpu_task *task);
/* Plaintext from the device to ordinary host memory: a chunk reaches it only when it has verified. */
SGPU_MUST_CHECK int sgpu_transfer_out_live(struct sgpu_transfer *transfer, struct sgpu_transfer_key *key,
					   sgpu_devptr from, uint64_t size, void *plaintext, struct sgpu_task *task);

/* What a live copy to the device is made of, to be timed one upon the other, as Graviton (OSDI 2018) breaks it down.
 * What `to` holds afterwards is defined for the first, which protects nothing, and for the last alone. */
SGPU_MUST_CHECK int sgpu_transfer_in_stages(struct sgpu_transfer *transfer, struct sgpu_transfer_key *key,
					    enum sgpu_transfer_stage stage, const void *plaintext, uint64_t size,
					    sgpu_devptr to, struct sgpu_task *task);

#ifdef __cplusplus
}
#endif
#endif
