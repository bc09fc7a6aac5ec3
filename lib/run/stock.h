/* SPDX-License-Identifier: Apache-2.0
 *
 * What a runner keeps from one batch for the next: streams, and staging memory on both sides. Staging memory only ever
 * holds what travels: sealed chunks, and LOW payloads.
 */
#ifndef SGPU_RUN_STOCK_H
#define SGPU_RUN_STOCK_H

#include <sgpu/device.h>

struct sgpu_stock;

/* keep: most bytes of host memory, and of device memory, that are kept while nobody uses them. */
SGPU_MUST_CHECK int sgpu_stock_create(struct sgpu_device *device, uint64_t keep, struct sgpu_stock **stock,
				      struct sgpu_error *error);
/* Everything has been given back. Accepts a pointer to NULL. */
void sgpu_stock_free(struct sgpu_stock **stock);
/* Any thread may call these. What is given back must be of the size that was taken. */
SGPU_MUST_CHECK int sgpu_stock_take_stream(struct sgpu_stock *stock, struct sgpu_stream **stream,
					   struct sgpu_error *error);
/* Waits for its work first; a stream that fails then is not kept. Accepts a pointer to NULL. */
void sgpu_stock_give_stream(struct sgpu_stock *stock, struct sgpu_stream **stream);
/* Memory that the device reads by itself, where it has any (sgpu_host_alloc). */
SGPU_MUST_CHECK int sgpu_stock_take_host(struct sgpu_stock *stock, uint64_t size, void **memory,
					 struct sgpu_error *error);
void sgpu_stock_give_host(struct sgpu_stock *stock, void **memory, uint64_t size);
SGPU_MUST_CHECK int sgpu_stock_take_memory(struct sgpu_stock *stock, uint64_t size, sgpu_devptr *memory,
					   struct sgpu_error *error);
void sgpu_stock_give_memory(struct sgpu_stock *stock, sgpu_devptr *memory, uint64_t size);
/* Gives the device back what nobody uses. */
void sgpu_stock_trim(struct sgpu_stock *stock);

#endif
