/* SPDX-License-Identifier: Apache-2.0
 *
 * sgpu-stage info: what this machine offers for staging, what would be used, and why. The text is
 * made from the object that --json prints. GPUs are looked up in sysfs alone, so no software of
 * NVIDIA is needed.
 */
#include <dirent.h>
#include <inttypes.h>
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

static json_t *huge_pages_json(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t value, total = 0, available = 0, size = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "HugePages_Total: %" SCNu64, &value) == 1) {
			total = value;
		} else if (sscanf(line, "HugePages_Free: %" SCNu64, &value) == 1) {
			available = value;
		} else if (sscanf(line, "Hugepagesize: %" SCNu64, &value) == 1) {
			size = value * 1024;
		}
	}
	if (file) {
		fclose(file);
	}
	return json_pack("{s:I, s:I, s:I}", "page_bytes", (json_int_t)size, "pages",
			 (json_int_t)total, "free_pages", (json_int_t)available);
}

static json_t *nodes_json(struct sgpu_error *error)
{
	struct sgpu_numa_node *nodes = NULL;
	json_t *array = NULL;
	int count = 0;

	if (sgpu_numa_nodes(&nodes, &count, error) == SGPU_OK) {
		array = json_array();
	}
	for (int i = 0; array && i < count; i++) {
		json_array_append_new(array, json_pack("{s:i, s:I, s:I}", "node", nodes[i].node,
						       "total_bytes", (json_int_t)nodes[i].total,
						       "free_bytes", (json_int_t)nodes[i].free));
	}
	free(nodes);
	return array;
}

/* Returns the mounts of hugetlbfs; adds the kind of pages that a large region would get, and why,
 * to `choice`. */
static json_t *mounts_json(bool in_memory, bool transparent, json_t *choice,
			   struct sgpu_error *error)
{
	struct sgpu_huge_mount *mounts = NULL;
	bool writable = false, usable = false;
	int count = 0;
	json_t *array;
	const char *why;

	if (sgpu_huge_mounts(&mounts, &count, error) < 0) {
		return NULL;
	}
	array = json_array();
	for (int i = 0; i < count; i++) {
		const struct sgpu_huge_mount *mount = &mounts[i];

		writable = writable || mount->writable;
		usable = usable || (mount->writable && mount->free > 0 &&
				    mount->page_size == (uint64_t)2 << 20);
		json_array_append_new(
			array, json_pack("{s:s, s:I, s:I, s:I, s:b}", "path", mount->path,
					 "page_bytes", (json_int_t)mount->page_size, "pages",
					 (json_int_t)mount->total, "free_pages",
					 (json_int_t)mount->free, "writable", mount->writable));
	}
	sgpu_huge_mounts_free(&mounts, count);
	transparent = transparent && in_memory;
	if (usable) {
		why = "a hugetlbfs is writable and has free pages; a region that does not fit "
		      "there, "
		      "or that is written by the runner, gets others";
	} else if (transparent) {
		why = !count ? "no hugetlbfs is mounted; the directory's tmpfs gives huge pages on "
			       "request"
		      : writable
			      ? "no hugetlbfs has free pages; the directory's tmpfs gives huge "
				"pages on request"
			      : "no hugetlbfs is writable; the directory's tmpfs gives huge pages "
				"on request";
	} else {
		why = in_memory
			      ? "no hugetlbfs has free pages, and the directory's tmpfs is mounted "
				"without huge=advise"
			      : "the directory is not in memory";
	}
	json_object_set_new(choice, "pages",
			    json_string(sgpu_page_kind_name(usable	  ? SGPU_PAGES_HUGE
							    : transparent ? SGPU_PAGES_TRANSPARENT
									  : SGPU_PAGES_NORMAL)));
	json_object_set_new(choice, "pages_why", json_string(why));
	return array;
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
	struct sgpu_error error;
	json_t *choice = json_object(), *gpus = gpus_json(), *nodes = nodes_json(&error);
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
	json_t *choice = json_object(), *gpus = gpus_json(), *nodes = nodes_json(error);
	json_t *mounts = NULL, *found = NULL;
	const char *file_system = "unknown";
	char *folder = NULL, setting[32] = "", processor[96];
	const char *why;
	const uint64_t lockable = stage_lockable(&why);
	uint64_t total, available, room = 0;
	bool in_memory = false;

	sgpu_host_memory(&total, &available);
	sgpu_host_processor(processor, sizeof(processor));
	if (nodes && sgpu_stage_directory(&folder, error) == SGPU_OK &&
	    sgpu_stage_file_system(folder, &file_system, &in_memory, &room, error) == SGPU_OK) {
		mounts = mounts_json(in_memory, sgpu_shmem_huge(folder, setting), choice, error);
	}
	if (mounts) {
		choose_node(choice, nodes, gpus);
		found = json_pack("{s:{s:s, s:s, s:b, s:o}, s:s, s:I, s:o, s:o, s:I, s:o, s:s, "
				  "s:O, s:O, s:O, s:O, s:o, s:s}",
				  "directory", "path", folder, "file_system", file_system,
				  "in_memory", in_memory, "free_bytes", bytes_json(room),
				  "processor", processor, "cpus", (json_int_t)sgpu_cpu_count(),
				  "memory_bytes", bytes_json(total), "memory_available_bytes",
				  bytes_json(available), "page_bytes",
				  (json_int_t)sysconf(_SC_PAGESIZE), "huge_pages",
				  huge_pages_json(), "transparent", setting, "hugetlbfs", mounts,
				  "numa_nodes", nodes, "gpus", gpus, "choice", choice,
				  "lockable_bytes", bytes_json(lockable), "lockable_why", why);
	}
	json_decref(mounts);
	json_decref(nodes);
	json_decref(gpus);
	json_decref(choice);
	free(folder);
	return found;
}

static json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static const char *bytes_of(const json_t *object, const char *key, char text[STAGE_BYTES_TEXT])
{
	return json_is_null(json_object_get(object, key))
		       ? "no limit"
		       : stage_bytes((uint64_t)number_of(object, key), text);
}

static void print_lists(const json_t *found)
{
	char a[STAGE_BYTES_TEXT], b[STAGE_BYTES_TEXT];
	const json_t *nodes = json_object_get(found, "numa_nodes"), *item;
	const json_t *gpus = json_object_get(found, "gpus");
	size_t i;

	json_array_foreach (nodes, i, item) {
		printf("NUMA node %-2d  %s, %s free\n", (int)number_of(item, "node"),
		       bytes_of(item, "total_bytes", a), bytes_of(item, "free_bytes", b));
	}
	if (json_array_size(nodes) == 0) {
		printf("NUMA nodes    not known to this build or this kernel\n");
	}
	json_array_foreach (gpus, i, item) {
		const bool known = !json_is_null(json_object_get(item, "numa_node"));

		printf("GPU           %s, NVIDIA %s, driver %s", cli_text_of(item, "address"),
		       cli_text_of(item, "device_id"),
		       *cli_text_of(item, "driver") ? cli_text_of(item, "driver") : "none");
		printf(known ? ", node %d\n" : ", node not known\n",
		       (int)number_of(item, "numa_node"));
	}
	if (json_array_size(gpus) == 0) {
		printf("GPU           none on the PCI bus\n");
	}
}

static void print_pages(const json_t *found)
{
	const json_t *huge = json_object_get(found, "huge_pages"), *item;
	const json_t *mounts = json_object_get(found, "hugetlbfs");
	char text[STAGE_BYTES_TEXT];
	size_t i;

	printf("page size     %s\n", bytes_of(found, "page_bytes", text));
	printf("huge pages    %s", bytes_of(huge, "page_bytes", text));
	printf(", %lld in all, %lld free\n", number_of(huge, "pages"),
	       number_of(huge, "free_pages"));
	json_array_foreach (mounts, i, item) {
		cli_print_line(stdout, "hugetlbfs     %s, %s, %lld free, %s",
			       cli_text_of(item, "path"), bytes_of(item, "page_bytes", text),
			       number_of(item, "free_pages"),
			       json_is_true(json_object_get(item, "writable")) ? "writable"
									       : "not writable");
	}
	if (json_array_size(mounts) == 0) {
		printf("hugetlbfs     not mounted\n");
	}
	printf("transparent   %s for files in the directory\n", cli_text_of(found, "transparent"));
}

static void print_text(const json_t *found)
{
	const json_t *folder = json_object_get(found, "directory");
	const json_t *choice = json_object_get(found, "choice");
	const json_t *node = json_object_get(choice, "numa_node");
	const bool limited = !json_is_null(json_object_get(folder, "free_bytes"));
	char a[STAGE_BYTES_TEXT], b[STAGE_BYTES_TEXT];

	cli_print_line(stdout, "directory     %s (%s, %s%s)", cli_text_of(folder, "path"),
		       cli_text_of(folder, "file_system"), bytes_of(folder, "free_bytes", a),
		       limited ? " free" : "");
	printf("processor     %s, %d usable\n", cli_text_of(found, "processor"),
	       (int)number_of(found, "cpus"));
	printf("memory        %s, %s available\n", bytes_of(found, "memory_bytes", a),
	       bytes_of(found, "memory_available_bytes", b));
	print_lists(found);
	print_pages(found);
	printf("\npages         %s: %s\n", cli_text_of(choice, "pages"),
	       cli_text_of(choice, "pages_why"));
	snprintf(a, sizeof(a), json_is_null(node) ? "none" : "%d", (int)json_integer_value(node));
	printf("node          %s: %s\n", a, cli_text_of(choice, "numa_node_why"));
	printf("lockable      %s: %s\n", bytes_of(found, "lockable_bytes", a),
	       cli_text_of(found, "lockable_why"));
	printf("sealing       none: files of a tmpfs cannot be sealed, so runners use positioned "
	       "reads\n");
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
		print_text(found);
	}
	stage_warn_of_directory(cli_text_of(json_object_get(found, "directory"), "path"));
	json_decref(found);
	return status;
}
