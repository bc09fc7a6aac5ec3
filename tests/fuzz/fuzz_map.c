/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the byte code of map: what is accepted runs over a few elements. The
 * first bytes are the types of the inputs.
 */
#include <stdlib.h>

#include "host/host.h"
#include "ops/map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { COUNT = 5 };

static void run(struct sgpu_op_call *call)
{
	static struct sgpu_pool *pool;
	static uint64_t values[SGPU_ARGUMENTS_MAX][COUNT];

	if (!pool && sgpu_pool_create(1, &pool, NULL)) {
		abort();
	}
	for (int i = 0; i < SGPU_ARGUMENTS_MAX; i++) {
		call->data[i] = values[i];
		values[i][i % COUNT] += 0x3fe1234567890123u;
	}
	struct sgpu_launch launch = { .pool = pool };

	sgpu_pool_enter(pool);
	if (call->op->cpu(call, &launch)) {
		abort();
	}
	sgpu_pool_leave(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char text[SGPU_BASE64URL_MAX(4096)];
	struct sgpu_op_call call = { .op = sgpu_op_find("map"), .text = text };
	struct sgpu_map_job job;
	struct sgpu_type output;

	if (size < SGPU_MAP_INPUTS || size > 4096) {
		return 0;
	}
	for (int i = 0; i < SGPU_MAP_INPUTS; i++) {
		call.type[i] = sgpu_ops_type((enum sgpu_dtype)(data[i] % SGPU_DTYPE_COUNT),
					     data[i] / 16 % 2, (const uint64_t[]){ COUNT });
	}
	sgpu_base64url_encode(data + SGPU_MAP_INPUTS, size - SGPU_MAP_INPUTS, text);
	if (!sgpu_map_prepare(&call, &job, &output, NULL)) {
		run(&call);
	}
	return 0;
}
