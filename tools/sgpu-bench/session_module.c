/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a module, of the case session: on the plain device, and in a secure context, where it is brought to
 * protected memory and measured there first.
 */
#include <string.h>

#include <sgpu/secure.h>

#include "cases.h"

/* The smallest module there is: what is timed is not its translation. */
static const char image[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry nothing() { ret; }\n";

struct loading {
	struct sgpu_device *device;
	struct sgpu_secure *context;   /* NULL: on the plain device */
	uint8_t digest[SGPU_CHANNEL_DIGEST_SIZE];
};

static int load(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct loading *l = argument;
	struct sgpu_device_module *module = NULL;
	uint64_t begin = sgpu_now_ns();
	int rc = l->context ? sgpu_secure_module_load(l->context, image, sizeof(image), l->digest, &module, error) :
		 sgpu_device_module_load(l->device, image, sizeof(image), &module, error);

	*ns = sgpu_now_ns() - begin;
	sgpu_device_module_free(&module);
	return rc;
}

int bench_session_module(struct sgpu_bench *bench, struct sgpu_secure *context, struct sgpu_error *error)
{
	struct loading plain = { .device = bench->device }, secure = { .context = context };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = load, .argument = &plain },
		{ .name = "secure", .run = load, .argument = &secure },
	};
	const struct sgpu_bench_point point = { .parameters = { { "what", "module", 0 } } };

	if (strcmp(bench->info.selector, "cpu") == 0) {
		sgpu_bench_waive(bench, &point, NULL, "no GPU: a module of the CPU device is a shared object");
		return SGPU_OK;
	}
	sgpu_measure_pages(image, sizeof(image), NULL, secure.digest);
	return sgpu_bench_measure(bench, &point, variants, 2, error);
}
