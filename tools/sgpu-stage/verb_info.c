/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage info: what this machine offers for staging, what would be used, and why.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "machine.h"
#include "verbs.h"

const struct cli_option info_options[] = { CLI_COMMON, CLI_END };

static const char *limit_text(uint64_t bytes, char text[STAGE_BYTES_TEXT])
{
	return bytes == UINT64_MAX ? "no limit" : stage_bytes(bytes, text);
}

static void print_pages(const struct machine *machine)
{
	char text[STAGE_BYTES_TEXT];
	int i;

	printf("page size     %s\n", stage_bytes(machine->page_size, text));
	printf("huge pages    %s", stage_bytes(machine->huge_page_size, text));
	printf(", %" PRIu64 " in all, %" PRIu64 " free\n", machine->huge_total, machine->huge_free);
	for (i = 0; i < machine->mount_count; i++) {
		cli_print_line(stdout, "hugetlbfs     %s, %s, %" PRIu64 " free, %s",
			       machine->mounts[i].path,
			       stage_bytes(machine->mounts[i].page_size, text),
			       machine->mounts[i].free,
			       machine->mounts[i].writable ? "writable" : "not writable");
	}
	if (machine->mount_count == 0) {
		printf("hugetlbfs     not mounted\n");
	}
	printf("transparent   %s for files in the directory\n", machine->transparent_setting);
}

static void print_machine(const struct machine *machine)
{
	char a[STAGE_BYTES_TEXT], b[STAGE_BYTES_TEXT];
	int i;

	printf("processor     %s, %u usable\n", machine->processor, machine->cpus);
	printf("memory        %s, %s available\n", stage_bytes(machine->memory_total, a),
	       stage_bytes(machine->memory_available, b));
	for (i = 0; i < machine->node_count; i++) {
		printf("NUMA node %-2d  %s, %s free\n", machine->nodes[i].node,
		       stage_bytes(machine->nodes[i].total, a),
		       stage_bytes(machine->nodes[i].free, b));
	}
	if (machine->node_count == 0) {
		printf("NUMA nodes    not known to this build or this kernel\n");
	}
	for (i = 0; i < machine->gpu_count; i++) {
		printf("GPU           %s, NVIDIA %s, driver %s", machine->gpus[i].address,
		       machine->gpus[i].device,
		       machine->gpus[i].driver[0] ? machine->gpus[i].driver : "none");
		printf(machine->gpus[i].numa_node < 0 ? ", node not known\n" : ", node %d\n",
		       machine->gpus[i].numa_node);
	}
	if (machine->gpu_count == 0) {
		printf("GPU           none on the PCI bus\n");
	}
}

static void print_text(const struct machine *machine)
{
	char room[STAGE_BYTES_TEXT];
	const char *why;
	int node;

	cli_print_line(stdout, "directory     %s (%s, %s%s)", machine->folder, machine->file_system,
		       limit_text(machine->room, room), machine->room == UINT64_MAX ? "" : " free");
	print_machine(machine);
	print_pages(machine);
	printf("\npages         %s", sgpu_page_kind_name(machine_pages(machine, &why)));
	printf(": %s\n", why);
	node = machine_node(machine, &why);
	if (node >= 0) {
		printf("node          %d: %s\n", node, why);
	} else {
		printf("node          none: %s\n", why);
	}
	printf("sealing       %s\n",
	       "none: files of a tmpfs cannot be sealed, so runners use positioned reads");
}

static json_t *mounts_json(const struct machine *machine)
{
	json_t *array = json_array();
	int i;

	for (i = 0; i < machine->mount_count; i++) {
		json_array_append_new(array,
				      json_pack("{s:s, s:I, s:I, s:I, s:b}", "path",
						machine->mounts[i].path, "page_bytes",
						(json_int_t)machine->mounts[i].page_size, "pages",
						(json_int_t)machine->mounts[i].total, "free_pages",
						(json_int_t)machine->mounts[i].free, "writable",
						machine->mounts[i].writable));
	}
	return array;
}

static json_t *nodes_json(const struct machine *machine)
{
	json_t *array = json_array();
	int i;

	for (i = 0; i < machine->node_count; i++) {
		json_array_append_new(array,
				      json_pack("{s:i, s:I, s:I}", "node", machine->nodes[i].node,
						"total_bytes", (json_int_t)machine->nodes[i].total,
						"free_bytes", (json_int_t)machine->nodes[i].free));
	}
	return array;
}

static json_t *gpus_json(const struct machine *machine)
{
	json_t *array = json_array();
	int i;

	for (i = 0; i < machine->gpu_count; i++) {
		json_array_append_new(
			array,
			json_pack("{s:s, s:s, s:s, s:o}", "address", machine->gpus[i].address,
				  "device_id", machine->gpus[i].device, "driver",
				  machine->gpus[i].driver, "numa_node",
				  machine->gpus[i].numa_node < 0
					  ? json_null()
					  : json_integer(machine->gpus[i].numa_node)));
	}
	return array;
}

static json_t *bytes_json(uint64_t bytes)
{
	return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static int print_json(const struct machine *machine)
{
	const char *pages_why, *node_why;
	enum sgpu_page_kind pages = machine_pages(machine, &pages_why);
	int node = machine_node(machine, &node_why);
	json_t *object = json_pack(
		"{s:{s:s, s:s, s:b, s:o}, s:s, s:I, s:o, s:o, s:I, s:{s:I, s:I, s:I}, s:s, s:o, "
		"s:o, s:o, "
		"s:{s:s, s:s, s:o, s:s}}",
		"directory", "path", machine->folder, "file_system", machine->file_system,
		"in_memory", machine->in_memory, "free_bytes", bytes_json(machine->room),
		"processor", machine->processor, "cpus", (json_int_t)machine->cpus, "memory_bytes",
		bytes_json(machine->memory_total), "memory_available_bytes",
		bytes_json(machine->memory_available), "page_bytes", (json_int_t)machine->page_size,
		"huge_pages", "page_bytes", (json_int_t)machine->huge_page_size, "pages",
		(json_int_t)machine->huge_total, "free_pages", (json_int_t)machine->huge_free,
		"transparent", machine->transparent_setting, "hugetlbfs", mounts_json(machine),
		"numa_nodes", nodes_json(machine), "gpus", gpus_json(machine), "choice", "pages",
		sgpu_page_kind_name(pages), "pages_why", pages_why, "numa_node",
		node < 0 ? json_null() : json_integer(node), "numa_node_why", node_why);

	return cli_print_json(object, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
}

int verb_info(int argc, char **argv)
{
	struct sgpu_error error = { 0 };
	struct machine machine;
	char **arguments;
	int status = cli_read(argc, argv, NULL, &arguments);

	if (status) {
		return status;
	}
	if (machine_look(&machine, &error) < 0) {
		return cli_error(&error);
	}
	if (cli_json) {
		status = print_json(&machine);
	} else {
		print_text(&machine);
	}
	if (!machine.in_memory) {
		cli_warning(
			"'%s' is not in memory (%s): LOW payloads are written to it as they are",
			machine.folder, machine.file_system);
	}
	machine_clear(&machine);
	return status;
}
