/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage info: what this machine offers for staging, the node that would be used, and why.
 * GPUs are looked up in sysfs alone, so no software of NVIDIA is needed.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <device/device.h>

#include "stage/stage.h"
#include "verbs.h"

#define PCI "/sys/bus/pci/devices"

const struct cli_option info_options[] = { CLI_COMMON, CLI_END };

/* Reads a line of a file below a PCI device; "" when it is not there. */
static void pci_word(const char *address, const char *file, char *word, size_t size)
{
	char path[512];

	snprintf(path, sizeof(path), PCI "/%s/%s", address, file);
	sgpu_peek_line(path, word, size);
}

/* Whether a PCI device is a GPU: vendor NVIDIA, class 3D controller or VGA. */
static int is_gpu(const struct dirent *entry)
{
	char vendor[16], class[16];

	pci_word(entry->d_name, "vendor", vendor, sizeof(vendor));
	pci_word(entry->d_name, "class", class, sizeof(class));
	return strcmp(vendor, "0x10de") == 0 &&
	       (strncmp(class, "0x0302", 6) == 0 || strncmp(class, "0x0300", 6) == 0);
}

static json_t *gpu_json(const char *address)
{
	char path[512], target[256], device[16], node[16];
	ssize_t length;
	const char *driver;

	snprintf(path, sizeof(path), PCI "/%s/driver", address);
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	driver = strrchr(target, '/');
	pci_word(address, "device", device, sizeof(device));
	pci_word(address, "numa_node", node, sizeof(node));
	return json_pack("{s:s, s:s, s:s, s:o}", "address", address, "device_id", device, "driver",
			 driver ? driver + 1 : "", "numa_node",
			 node[0] && node[0] != '-' ? json_integer(strtol(node, NULL, 10))
						   : json_null());
}

static json_t *gpus_json(void)
{
	struct dirent **list = NULL;
	json_t *gpus = json_array();
	const int count = scandir(PCI, &list, is_gpu, alphasort);

	for (int i = 0; i < count; i++) {
		json_array_append_new(gpus, gpu_json(list[i]->d_name));
		free(list[i]);
	}
	free(list);
	return gpus;
}

/* Returns the GPUs' node, or null when there is nothing to choose; *why: the reason. */
static json_t *choose_node(const json_t *gpus, const char **why)
{
	const json_t *node = NULL, *gpu;
	char nodes[64];
	bool apart = false;
	size_t i;

	json_array_foreach (gpus, i, gpu) {
		const json_t *own = json_object_get(gpu, "numa_node");

		apart = apart || json_is_null(own) || (node && !json_equal(node, own));
		node = own;
	}
	if (!sgpu_peek_line("/sys/devices/system/node/has_memory", nodes, sizeof(nodes)) ||
	    !strpbrk(nodes, ",-")) {
		*why = "there is one node";
	} else if (apart) {
		*why = "the GPUs are on several nodes, or the kernel does not say where";
	} else if (!node) {
		*why = "there is no GPU to be near to";
	} else {
		*why = "the GPU is there: load --node puts regions near to it";
		return json_copy((json_t *)node);
	}
	return json_null();
}

static json_t *bytes_json(uint64_t bytes)
{
	return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

int stage_gpu_node(void)
{
	const char *why;
	json_t *gpus = gpus_json(), *node = choose_node(gpus, &why);
	const int number = json_is_integer(node) ? (int)json_integer_value(node) : -1;

	json_decref(node);
	json_decref(gpus);
	return number;
}

uint64_t stage_lockable(const char **why)
{
	const uint64_t limit = sgpu_lock_limit();
	uint64_t memory;

	sgpu_host_memory(NULL, &memory);
	*why = limit >= memory ? "this is the memory that is available"
			       : "RLIMIT_MEMLOCK of this process; 'ulimit -l', or LimitMEMLOCK= of "
				 "a unit, raises it";
	return sgpu_min_u64(limit, memory);
}

/* Collects the findings. NULL: an error, or out of memory. */
static json_t *look(struct sgpu_error *error)
{
	json_t *gpus = gpus_json(), *found = NULL;
	char *folder = NULL, processor[96];
	const char *why, *node_why;
	const uint64_t lockable = stage_lockable(&why);
	uint64_t total, available, room = 0;
	bool in_memory = false;

	sgpu_host_memory(&total, &available);
	sgpu_host_processor(processor, sizeof(processor));
	if (sgpu_stage_directory(&folder, error) == SGPU_OK &&
	    sgpu_stage_file_system(folder, &in_memory, &room, error) == SGPU_OK) {
		json_t *node = choose_node(gpus, &node_why);

		found = json_pack("{s:{s:s, s:b, s:o}, s:s, s:I, s:o, s:o, s:O, s:{s:o, s:s}, "
				  "s:o, s:s}",
				  "directory", "path", folder, "in_memory", in_memory, "free_bytes",
				  bytes_json(room), "processor", processor, "cpus",
				  (json_int_t)sgpu_cpu_count(), "memory_bytes", bytes_json(total),
				  "memory_available_bytes", bytes_json(available), "gpus", gpus,
				  "choice", "numa_node", node, "numa_node_why", node_why,
				  "lockable_bytes", bytes_json(lockable), "lockable_why", why);
	}
	json_decref(gpus);
	free(folder);
	return found;
}

int verb_info(int argc, char **argv)
{
	struct sgpu_error error = { .code = SGPU_ENOMEM };
	char **arguments;
	json_t *found;
	int status = cli_read(argc, argv, NULL, &arguments);

	if (status) {
		return status;
	}
	found = look(&error);
	if (!found) {
		return cli_error(&error);
	}
	if (cli_json) {
		status =
			cli_print_json(json_incref(found), stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
	} else {
		cli_record(stdout, found);
	}
	stage_warn_of_directory(cli_text_of(json_object_get(found, "directory"), "path"));
	json_decref(found);
	return status;
}
