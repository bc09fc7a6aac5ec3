/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine, as far as it matters to staging. Of GPUs only what sysfs says: nothing of NVIDIA is
 * needed.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <device/device.h>

#include "machine.h"

#define PCI "/sys/bus/pci/devices"

/* The first word of a file below a PCI device; "" when it is not there. */
static void pci_word(const char *address, const char *file, char *word, size_t size)
{
	char path[512], line[64] = "";
	FILE *stream;

	word[0] = '\0';
	snprintf(path, sizeof(path), PCI "/%s/%s", address, file);
	stream = fopen(path, "re");
	if (stream) {
		if (fgets(line, sizeof(line), stream)) {
			line[strcspn(line, " \n")] = '\0';
			snprintf(word, size, "%s", line);
		}
		fclose(stream);
	}
}

static void pci_driver(const char *address, char driver[32])
{
	char path[512], target[256];
	const char *name;
	ssize_t length;

	snprintf(path, sizeof(path), PCI "/%s/driver", address);
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	name = strrchr(target, '/');
	snprintf(driver, 32, "%.31s", name ? name + 1 : "");
}

/* Vendor NVIDIA, class 3D controller or VGA. */
static bool is_gpu(const char *address)
{
	char vendor[16], class[16];

	pci_word(address, "vendor", vendor, sizeof(vendor));
	pci_word(address, "class", class, sizeof(class));
	return strcmp(vendor, "0x10de") == 0 &&
	       (strncmp(class, "0x0302", 6) == 0 || strncmp(class, "0x0300", 6) == 0);
}

static int by_address(const void *a, const void *b)
{
	return strcmp(((const struct machine_gpu *)a)->address,
		      ((const struct machine_gpu *)b)->address);
}

static void look_for_gpus(struct machine *machine)
{
	DIR *folder = opendir(PCI);
	struct dirent *entry;
	struct machine_gpu *gpu;
	char node[16];

	while (folder && machine->gpu_count < MACHINE_GPUS_MAX && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.' || !is_gpu(entry->d_name)) {
			continue;
		}
		gpu = &machine->gpus[machine->gpu_count++];
		snprintf(gpu->address, sizeof(gpu->address), "%.31s", entry->d_name);
		pci_word(gpu->address, "device", gpu->device, sizeof(gpu->device));
		pci_word(gpu->address, "numa_node", node, sizeof(node));
		gpu->numa_node = node[0] ? (int)strtol(node, NULL, 10) : -1;
		pci_driver(gpu->address, gpu->driver);
	}
	if (folder) {
		closedir(folder);
	}
	qsort(machine->gpus, (size_t)machine->gpu_count, sizeof(machine->gpus[0]), by_address);
}

static void look_at_huge_pages(struct machine *machine)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t value;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "HugePages_Total: %" SCNu64, &value) == 1) {
			machine->huge_total = value;
		} else if (sscanf(line, "HugePages_Free: %" SCNu64, &value) == 1) {
			machine->huge_free = value;
		} else if (sscanf(line, "Hugepagesize: %" SCNu64, &value) == 1) {
			machine->huge_page_size = value * 1024;
		}
	}
	if (file) {
		fclose(file);
	}
}

int machine_look(struct machine *machine, struct sgpu_error *error)
{
	int code;

	memset(machine, 0, sizeof(*machine));
	machine->file_system = "unknown";
	machine->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	machine->cpus = sgpu_cpu_count();
	sgpu_host_memory(&machine->memory_total, &machine->memory_available);
	sgpu_host_processor(machine->processor, sizeof(machine->processor));
	look_at_huge_pages(machine);
	look_for_gpus(machine);
	code = sgpu_stage_directory(&machine->folder, error);
	if (code == SGPU_OK) {
		code = sgpu_stage_file_system(machine->folder, &machine->file_system,
					      &machine->in_memory, &machine->room, error);
	}
	if (code == SGPU_OK) {
		machine->transparent =
			sgpu_shmem_huge(machine->folder, machine->transparent_setting);
		code = sgpu_huge_mounts(&machine->mounts, &machine->mount_count, error);
	}
	code = code ? code : sgpu_numa_nodes(&machine->nodes, &machine->node_count, error);
	if (code < 0) {
		machine_clear(machine);
	}
	return code;
}

void machine_clear(struct machine *machine)
{
	sgpu_huge_mounts_free(&machine->mounts, machine->mount_count);
	free(machine->nodes);
	machine->nodes = NULL;
	free(machine->folder);
	machine->folder = NULL;
}

enum sgpu_page_kind machine_pages(const struct machine *machine, const char **why)
{
	bool mounted = false, writable = false;
	int i;

	for (i = 0; i < machine->mount_count; i++) {
		mounted = true;
		writable = writable || machine->mounts[i].writable;
		if (machine->mounts[i].writable && machine->mounts[i].free > 0 &&
		    machine->mounts[i].page_size == (uint64_t)2 << 20) {
			*why = "a hugetlbfs is writable and has free pages; a region that does not "
			       "fit there, or that is "
			       "written by the runner, gets others";
			return SGPU_PAGES_HUGE;
		}
	}
	if (machine->transparent && machine->in_memory) {
		*why = !mounted ? "no hugetlbfs is mounted; the directory's tmpfs gives huge pages "
				  "on request"
		       : writable ? "no hugetlbfs has free pages; the directory's tmpfs gives huge "
				    "pages on request"
				  : "no hugetlbfs is writable; the directory's tmpfs gives huge "
				    "pages on request";
		return SGPU_PAGES_TRANSPARENT;
	}
	*why = machine->in_memory ? "no hugetlbfs has free pages, and the directory's tmpfs is "
				    "mounted without huge=advise"
				  : "the directory is not in memory";
	return SGPU_PAGES_NORMAL;
}

int machine_node(const struct machine *machine, const char **why)
{
	int i, node = -1;

	if (machine->node_count <= 1) {
		*why = machine->node_count == 1 ? "there is one node"
						: "this build or this kernel knows no NUMA nodes";
		return -1;
	}
	for (i = 0; i < machine->gpu_count; i++) {
		if (machine->gpus[i].numa_node < 0 ||
		    (node >= 0 && machine->gpus[i].numa_node != node)) {
			*why = "the GPUs are on several nodes, or the kernel does not say where";
			return -1;
		}
		node = machine->gpus[i].numa_node;
	}
	*why = node >= 0 ? "the GPU is there: load --node puts regions near to it"
			 : "there is no GPU to be near to";
	return node;
}
