/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage pin and hold: make an empty region near the GPU, and keep regions locked in memory.
 */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <sgpu/batch.h>

#include "base/io.h"
#include "stage/stage.h"
#include "manifest/manifest.h"
#include "verbs.h"

/* ---- pin ---- */
struct pin {
	struct sgpu_region_options options;
	const char *variable;
	bool results;
	unsigned node; /* UINT_MAX: the GPU's */
};

const struct cli_option pin_options[] = {
	CLI_COMMON,
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

/* Reads a line of a file below a PCI device of sysfs; "" when it is not there. */
static void read_line(const char *device, const char *file, char line[16])
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", device, file);
	sgpu_peek_line(path, line, 16);
}

/* Returns the NUMA node of all GPUs of NVIDIA, by sysfs; -1: there is nothing to choose, or the
 * kernel does not say where they are. */
static int gpu_node(void)
{
	char nodes[64], vendor[16], class[16], line[16];
	glob_t devices = { 0 };
	int node = -1;
	bool apart = false;

	if (!sgpu_peek_line("/sys/devices/system/node/has_memory", nodes, sizeof(nodes)) ||
	    !strpbrk(nodes, ",-") || glob("/sys/bus/pci/devices/*", 0, NULL, &devices)) {
		return -1;
	}
	for (size_t i = 0; i < devices.gl_pathc; i++) {
		read_line(devices.gl_pathv[i], "vendor", vendor);
		read_line(devices.gl_pathv[i], "class", class);
		/* a 3D controller, or VGA */
		if (!strcmp(vendor, "0x10de") &&
		    (!strncmp(class, "0x0302", 6) || !strncmp(class, "0x0300", 6))) {
			read_line(devices.gl_pathv[i], "numa_node", line);
			const int own = isdigit((unsigned char)*line) ? atoi(line) : -1;

			apart = apart || own < 0 || (node >= 0 && own != node);
			node = own;
		}
	}
	globfree(&devices);
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

/* ---- hold ---- */
struct held {
	struct sgpu_region region;
	void *memory; /* locked */
	uint64_t size;
};

const struct cli_option hold_options[] = { CLI_COMMON, CLI_END };

enum { LOOK_MS = 1000 };

static int lock_region(struct held *held, struct sgpu_error *error)
{
	struct stat status;

	if (fstat(held->region.fd, &status) != 0) {
		return sgpu_fail_errno(error, "cannot inspect region '%s'", held->region.id);
	}
	held->size = (uint64_t)status.st_size;
	held->memory = mmap(NULL, held->size, PROT_READ, MAP_SHARED, held->region.fd, 0);
	if (held->memory == MAP_FAILED) {
		held->memory = NULL;
		return sgpu_fail_errno(error, "cannot map region '%s'", held->region.id);
	}
	(void)madvise(held->memory, held->size, MADV_DONTDUMP);
	if (mlock(held->memory, held->size) != 0) {
		sgpu_fail_errno(error, "cannot lock the %llu bytes of region '%s'",
				(unsigned long long)held->size, held->region.id);
		return sgpu_lock_limit() == UINT64_MAX
			       ? error->code
			       : sgpu_hint(error,
					   "RLIMIT_MEMLOCK of this process is %llu bytes; 'ulimit "
					   "-l', or LimitMEMLOCK= of a unit, raises it",
					   (unsigned long long)sgpu_lock_limit());
	}
	return sgpu_region_mark(held->region.fd, error);
}

static int take_region(const char *name, struct held *held, struct sgpu_error *error)
{
	struct sgpu_location location = { .kind = SGPU_LOCATION_REGION };
	int rc = SGPU_OK;

	if (strncmp(name, "sgpu:", 5) == 0) {
		rc = sgpu_handle_parse(name, "the handle", &location, &held->size, error);
		name = location.region;
	}
	rc = rc ? rc : sgpu_region_open(name, false, false, &held->region, error);
	rc = rc ? rc : lock_region(held, error);
	/* Whoever releases the region can still overwrite it. */
	(void)flock(held->region.fd, LOCK_UN);
	return rc;
}

static void let_go(struct held *held)
{
	if (held->memory) {
		munmap(held->memory, held->size);
		held->memory = NULL;
	}
	sgpu_region_close(&held->region);
}

/* Returns how many are still there; lets those go that have been released. */
static int count_held(struct held *list, int count)
{
	struct stat status;
	int left = 0;

	for (int i = 0; i < count; i++) {
		if (list[i].memory && fstat(list[i].region.fd, &status) == 0 &&
		    status.st_nlink > 0) {
			left++;
		} else {
			let_go(&list[i]);
		}
	}
	return left;
}

int verb_hold(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct held *list;
	char **names;
	int count = 0, rc = SGPU_OK, status = cli_read(argc, argv, NULL, &names);

	if (status) {
		return status;
	}
	while (names[count]) {
		count++;
	}
	list = calloc((size_t)count, sizeof(*list));
	if (!list) {
		return cli_fail(SGPU_ENOMEM, "out of memory");
	}
	cli_signals(NULL);
	for (int i = 0; i < count; i++) {
		list[i].region.fd = -1;
	}
	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		rc = take_region(names[i], &list[i], &error);
	}
	status = rc ? cli_error(&error) : 0;
	if (status == 0) {
		cli_note("holding %d region%s", count, count == 1 ? "" : "s");
	}
	while (status == 0 && !sgpu_io_interrupted() && count_held(list, count) > 0) {
		(void)poll(NULL, 0, LOOK_MS);
	}
	for (int i = 0; i < count; i++) {
		let_go(&list[i]);
	}
	free(list);
	return cli_finish(status);
}
