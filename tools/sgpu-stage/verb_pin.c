/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage pin: makes an empty region near the GPU.
 */
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>
#include <sgpu/batch.h>

#include "base/io.h"
#include "host/host.h"
#include "stage/stage.h"
#include "manifest/manifest.h"
#include "verbs.h"

struct pin {
	struct sgpu_region_options options;
	const char *variable;
	bool results;
	unsigned node; /* UINT_MAX: the GPU's */
};

const struct cli_option pin_options[] = {
	{ "results", 0, NULL, "for results, which a runner leaves there",
	  CLI_FLAG(struct pin, results) },
	{ "as", 0, "NAME", "print the shell assignment of this variable, which a manifest names",
	  CLI_TEXT(struct pin, variable) },
	{ "lifetime", 0, "DURATION",
	  "time until the region expires: 90s, 30m, 2h, 1d (default: 1h)",
	  CLI_DURATION(struct pin, options.lifetime_ns, 0) },
	{ "node", 0, "N", "bind the region to this NUMA node (default: the GPU's)",
	  CLI_NUMBER(struct pin, node, 0, 65535) },
	CLI_END,
};

/* Returns the NUMA node of all GPUs of NVIDIA, by sysfs; -1: nothing to choose, or the kernel does
 * not say where they are. */
static int gpu_node(void)
{
	char nodes[64];
	glob_t files = { 0 };
	int node = -1;
	bool apart = false;

	if (!sgpu_peek_line("/sys/devices/system/node/has_memory", nodes, sizeof(nodes)) ||
	    !strpbrk(nodes, ",-") ||
	    glob("/sys/bus/pci/drivers/nvidia/*/numa_node", 0, NULL, &files)) {
		return -1;
	}
	for (size_t i = 0; i < files.gl_pathc; i++) {
		const int own = sgpu_host_node(files.gl_pathv[i]);

		apart = apart || own < 0 || (node >= 0 && own != node);
		node = own;
	}
	globfree(&files);
	return apart ? -1 : node;
}

static int print_pinned(const struct pin *pin, const struct sgpu_region *region)
{
	char handle[SGPU_HANDLE_TEXT];

	sgpu_handle_text(region->id, 0, region->size, handle);
	if (cli_json) {
		return cli_print_json(json_pack("{s:s, s:s, s:I, s:I, s:o}", "region", region->id,
						"handle", handle, "size", (json_int_t)region->size,
						"expires", (json_int_t)region->expires, "numa_node",
						region->numa_node < 0
							? json_null()
							: json_integer(region->numa_node)),
				      stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
	}
	if (pin->variable) {
		printf("%s='%s'\n", pin->variable, handle);
	} else {
		printf("%s\n", handle);
	}
	return 0;
}

int verb_pin(int argc, char **argv)
{
	struct pin pin = { .options = { .keep = true }, .node = UINT_MAX };
	struct sgpu_region region = { .fd = -1 };
	struct sgpu_error error = { 0 };
	uint64_t size = 0;
	char **arguments;
	int rc, status = cli_read(argc, argv, &pin, &arguments);

	if (status) {
		return status;
	}
	if (sgpu_parse_size(*arguments, "SIZE", 1, SGPU_REGION_MAX, &size, &error) != SGPU_OK) {
		return cli_usage("%s", error.text);
	}
	if (pin.variable && !sgpu_variable_is_free(pin.variable)) {
		return cli_usage("'%s' is not a name that a variable can have",
				 SGPU_EXCERPT(pin.variable));
	}
	pin.options.numa_node = pin.node == UINT_MAX ? gpu_node() : (int)pin.node;
	pin.options.use = pin.results ? SGPU_REGION_RESULTS : SGPU_REGION_INPUTS;
	cli_signals(NULL);
	rc = sgpu_region_reap(NULL, &error);
	rc = rc ? rc : sgpu_region_create(size, &pin.options, &region, &error);
	if (rc == SGPU_OK) {
		stage_warn_of_directory(region.path);
		rc = sgpu_region_back(&region, 0, size, &error);
		rc = rc ? rc : sgpu_region_publish(&region, &error);
	}
	status = rc ? cli_error(&error) : print_pinned(&pin, &region);
	sgpu_region_close(&region);
	return cli_finish(status);
}
