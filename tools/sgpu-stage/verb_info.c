/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage info: what this machine offers for staging, what would be used, and why. GPUs
 * are looked up in sysfs alone, so no software of NVIDIA is needed.
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

static json_t *nodes_json(void)
{
	struct sgpu_numa_node *nodes = NULL;
	json_t *array = json_array();
	int count = 0;

	(void)!sgpu_numa_nodes(&nodes, &count, NULL); /* without memory there are none */
	for (int i = 0; i < count; i++) {
		json_array_append_new(array, json_pack("{s:i, s:I, s:I}", "node", nodes[i].node,
						       "total_bytes", (json_int_t)nodes[i].total,
						       "free_bytes", (json_int_t)nodes[i].free));
	}
	free(nodes);
	return array;
}

/* Adds the kind of pages that a large region would get, and why, to `choice`. */
static int choose_pages(bool in_memory, bool transparent, json_t *choice, struct sgpu_error *error)
{
	struct sgpu_huge_mount *mounts = NULL;
	bool usable = false;
	int count = 0;
	const char *why;
	const int rc = sgpu_huge_mounts(&mounts, &count, error);

	for (int i = 0; rc == SGPU_OK && i < count; i++) {
		usable = usable || (mounts[i].writable && mounts[i].free > 0 &&
				    mounts[i].page_size == (uint64_t)2 << 20);
	}
	sgpu_huge_mounts_free(&mounts, count);
	transparent = transparent && in_memory;
	why = usable ? "a hugetlbfs is writable and has free pages; a region that does not fit "
		       "there, or that is written by the runner, gets others"
	      : !in_memory ? "the directory is not in memory"
	      : transparent
		      ? "no hugetlbfs that is writable has free pages; the directory's tmpfs gives "
			"huge pages on request"
		      : "no hugetlbfs has free pages, and the directory's tmpfs is mounted without "
			"huge=advise";
	json_object_set_new(choice, "pages",
			    json_string(sgpu_page_kind_name(usable	  ? SGPU_PAGES_HUGE
							    : transparent ? SGPU_PAGES_TRANSPARENT
									  : SGPU_PAGES_NORMAL)));
	json_object_set_new(choice, "pages_why", json_string(why));
	return rc;
}

/* Adds the GPUs' node, or null when there is nothing to choose, and the reason, to `choice`. */
static void choose_node(json_t *choice, const json_t *nodes, const json_t *gpus)
{
	const json_t *node = NULL, *gpu;
	const char *why;
	bool apart = false;
	size_t i;

	json_array_foreach (gpus, i, gpu) {
		const json_t *own = json_object_get(gpu, "numa_node");

		apart = apart || json_is_null(own) || (node && !json_equal(node, own));
		node = own;
	}
	if (json_array_size(nodes) <= 1) {
		why = json_array_size(nodes) ? "there is one node"
					     : "this build or this kernel knows no NUMA nodes";
		node = NULL;
	} else if (apart) {
		why = "the GPUs are on several nodes, or the kernel does not say where";
		node = NULL;
	} else {
		why = node ? "the GPU is there: load --node puts regions near to it"
			   : "there is no GPU to be near to";
	}
	json_object_set_new(choice, "numa_node", node ? json_copy((json_t *)node) : json_null());
	json_object_set_new(choice, "numa_node_why", json_string(why));
}

static json_t *bytes_json(uint64_t bytes)
{
	return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

int stage_gpu_node(void)
{
	json_t *choice = json_object(), *gpus = gpus_json(), *nodes = nodes_json();
	const json_t *node;
	int number;

	choose_node(choice, nodes, gpus);
	node = json_object_get(choice, "numa_node");
	number = json_is_integer(node) ? (int)json_integer_value(node) : -1;
	json_decref(choice);
	json_decref(gpus);
	json_decref(nodes);
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
	json_t *choice = json_object(), *gpus = gpus_json(), *nodes = nodes_json();
	json_t *found = NULL;
	const char *file_system = "unknown";
	char *folder = NULL, setting[32] = "", processor[96];
	const char *why;
	const uint64_t lockable = stage_lockable(&why);
	uint64_t total, available, room = 0;
	bool in_memory = false;

	sgpu_host_memory(&total, &available);
	sgpu_host_processor(processor, sizeof(processor));
	if (sgpu_stage_directory(&folder, error) == SGPU_OK &&
	    sgpu_stage_file_system(folder, &file_system, &in_memory, &room, error) == SGPU_OK &&
	    choose_pages(in_memory, sgpu_shmem_huge(folder, setting), choice, error) == SGPU_OK) {
		choose_node(choice, nodes, gpus);
		found = json_pack("{s:{s:s, s:s, s:b, s:o}, s:s, s:I, s:o, s:o, s:I, s:s, s:O, "
				  "s:O, s:O, s:o, s:s}",
				  "directory", "path", folder, "file_system", file_system,
				  "in_memory", in_memory, "free_bytes", bytes_json(room),
				  "processor", processor, "cpus", (json_int_t)sgpu_cpu_count(),
				  "memory_bytes", bytes_json(total), "memory_available_bytes",
				  bytes_json(available), "page_bytes",
				  (json_int_t)sysconf(_SC_PAGESIZE), "transparent", setting,
				  "numa_nodes", nodes, "gpus", gpus, "choice", choice,
				  "lockable_bytes", bytes_json(lockable), "lockable_why", why);
	}
	json_decref(nodes);
	json_decref(gpus);
	json_decref(choice);
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
