/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the CPU device outside of pages. Each block has its own mapping, on huge pages where
 * the kernel has them. Blocks in use are in a tree, by which addresses are checked and all are
 * freed in the end. No block is dumped with a core or inherited by a child.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <device/arena.h>
#include <device/cpu/cpu.h>

#define HUGE_PAGE ((uint64_t)2 << 20)
#define LARGE_REQUEST ((uint64_t)64 << 20)
/* How long a reading of the available memory stays valid. */
#define LOOK_NS ((uint64_t)1000000000)

static struct sgpu_cpu_block *find_block(struct sgpu_cpu_memory *memory, uint64_t address)
{
	return (struct sgpu_cpu_block *)(void *)sgpu_ranges_find(&memory->live, address);
}

static uint64_t round_up(uint64_t size, uint64_t multiple)
{
	return (size + multiple - 1) / multiple * multiple;
}

/* Pages that are not in memory were never used, or are in swap, from which they are dropped. */
static void clear_pages(uint64_t address, uint64_t size)
{
	unsigned char present[256];
	uint64_t page, run, count, done;

	for (done = 0; done < size; done += count * SGPU_CPU_PAGE) {
		count = sgpu_min_u64((size - done) / SGPU_CPU_PAGE, sizeof(present));
		if (mincore(sgpu_cpu_pointer(address + done), count * SGPU_CPU_PAGE, present) !=
		    0) {
			memset(present, 1, sizeof(present));
		}
		for (page = 0; page < count; page += run) {
			void *at = sgpu_cpu_pointer(address + done + page * SGPU_CPU_PAGE);

			for (run = 1;
			     page + run < count && (present[page + run] & 1) == (present[page] & 1);
			     run++) {
			}
			if ((present[page] & 1) ||
			    madvise(at, run * SGPU_CPU_PAGE, MADV_DONTNEED) != 0) {
				sgpu_wipe(at, run * SGPU_CPU_PAGE);
			}
		}
	}
}

void sgpu_cpu_clear(uint64_t address, uint64_t size)
{
	const uint64_t head = sgpu_min_u64(round_up(address, SGPU_CPU_PAGE) - address, size),
		       whole = (size - head) / SGPU_CPU_PAGE * SGPU_CPU_PAGE;

	sgpu_wipe(sgpu_cpu_pointer(address), head);
	clear_pages(address + head, whole);
	sgpu_wipe(sgpu_cpu_pointer(address + head + whole), size - head - whole);
}

static void clear_block(const struct sgpu_cpu_block *block)
{
	/* Other code may map these addresses next, and must find them unpoisoned. */
	SGPU_UNPOISON(block->range.address + block->size, block->range.extent - block->size);
	sgpu_cpu_clear(block->range.address, round_up(block->size, SGPU_CPU_PAGE));
}

void *sgpu_cpu_map(uint64_t size, uint64_t alignment, int protection)
{
	char *memory = mmap(NULL, size + alignment, protection,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t head;

	if (memory == MAP_FAILED) {
		return NULL;
	}
	head = round_up((uintptr_t)memory, alignment) - (uintptr_t)memory;
	if (head > 0) {
		munmap(memory, head);
	}
	if (head < alignment) {
		munmap(memory + head + size, alignment - head);
	}
	return memory + head;
}

static void look(struct sgpu_cpu_memory *memory, bool now)
{
	const uint64_t time_ns = sgpu_now_ns();

	if (now || time_ns - memory->looked_ns > LOOK_NS) {
		sgpu_host_memory(&memory->total, &memory->available);
		memory->looked_ns = time_ns;
		memory->budget = memory->used == 0 ? memory->available : memory->budget;
	}
}

void sgpu_cpu_memory_open(struct sgpu_cpu_memory *memory, uint64_t limit)
{
	pthread_mutex_init(&memory->lock, NULL);
	memory->limit = limit ? limit : UINT64_MAX;
	look(memory, true);
}

static int out_of_memory(uint64_t size, uint64_t left, struct sgpu_error *error)
{
	return sgpu_fail(error, SGPU_ENOMEM,
			 "out of device memory: %llu bytes asked for, %llu available",
			 (unsigned long long)size, (unsigned long long)left);
}

/* Bytes that can be allocated in all, and those not in use. The lock is held. */
static uint64_t most_of(const struct sgpu_cpu_memory *memory)
{
	return sgpu_min_u64(memory->limit, memory->budget);
}

static uint64_t left_of(const struct sgpu_cpu_memory *memory)
{
	return most_of(memory) - sgpu_min_u64(memory->used, most_of(memory));
}

/* The kernel promises memory freely, and kills the process if too little is left when it is
 * touched. So the sum of all allocations is compared with the memory available before the first,
 * and a large request also with that available now. */
static int admit(struct sgpu_cpu_memory *memory, uint64_t size, struct sgpu_error *error)
{
	uint64_t left;

	if (size >= LARGE_REQUEST || memory->used == 0) {
		look(memory, size >= LARGE_REQUEST);
	}
	if (size >= LARGE_REQUEST && size > memory->available) {
		return out_of_memory(size, memory->available, error);
	}
	left = left_of(memory);
	return size > left ? out_of_memory(size, left, error) : SGPU_OK;
}

static void set_limit(struct sgpu_device *device, uint64_t bytes)
{
	pthread_mutex_lock(&device->memory.lock);
	device->memory.limit = bytes ? bytes : UINT64_MAX;
	pthread_mutex_unlock(&device->memory.lock);
}

int sgpu_cpu_memory_promise(struct sgpu_cpu_memory *memory, uint64_t size, struct sgpu_error *error)
{
	int rc;

	pthread_mutex_lock(&memory->lock);
	rc = admit(memory, size, error);
	memory->used += rc == SGPU_OK ? size : 0;
	pthread_mutex_unlock(&memory->lock);
	return rc;
}

void sgpu_cpu_memory_return(struct sgpu_cpu_memory *memory, uint64_t size)
{
	pthread_mutex_lock(&memory->lock);
	memory->used -= size;
	pthread_mutex_unlock(&memory->lock);
}

uint64_t sgpu_cpu_memory_most(struct sgpu_cpu_memory *memory)
{
	uint64_t most;

	pthread_mutex_lock(&memory->lock);
	most = most_of(memory);
	pthread_mutex_unlock(&memory->lock);
	return most;
}

static struct sgpu_cpu_block *map_block(uint64_t size)
{
	const uint64_t page = size >= HUGE_PAGE ? HUGE_PAGE : SGPU_CPU_PAGE;
	struct sgpu_cpu_block *block = calloc(1, sizeof(*block));
	void *mapped;

	if (!block) {
		return NULL;
	}
	block->range.extent = round_up(size, page);
	mapped = sgpu_cpu_map(block->range.extent, page, PROT_READ | PROT_WRITE);
	if (!mapped) {
		free(block);
		return NULL;
	}
	if (page == HUGE_PAGE) {
		(void)madvise(mapped, block->range.extent, MADV_HUGEPAGE);
	}
	(void)madvise(mapped, block->range.extent, MADV_DONTDUMP);
	(void)madvise(mapped, block->range.extent, MADV_DONTFORK);
	block->range.address = (uintptr_t)mapped;
	return block;
}

static void unmap_block(struct sgpu_cpu_block *block)
{
	munmap(sgpu_cpu_pointer(block->range.address), block->range.extent);
	free(block);
}

static int alloc_block(struct sgpu_device *device, uint64_t size, sgpu_devptr *address,
		       struct sgpu_error *error)
{
	struct sgpu_cpu_memory *memory = &device->memory;
	struct sgpu_cpu_block *block = NULL;
	uint64_t pages;
	int rc;

	if (size > INT64_MAX) {
		return out_of_memory(size, memory->budget, error);
	}
	pages = round_up(size ? size : 1, SGPU_CPU_PAGE);
	pthread_mutex_lock(&memory->lock);
	rc = admit(memory, pages, error);
	if (rc == SGPU_OK) {
		block = map_block(pages);
		if (block && !sgpu_ranges_insert(&memory->live, &block->range)) {
			unmap_block(block);
			block = NULL;
		}
		rc = block ? SGPU_OK : out_of_memory(size, 0, error);
	}
	if (rc == SGPU_OK) {
		memory->used += pages;
		block->size = size;
		*address = block->range.address;
		SGPU_POISON(block->range.address + size, block->range.extent - size);
	}
	pthread_mutex_unlock(&memory->lock);
	return rc;
}

static void free_block(struct sgpu_device *device, sgpu_devptr address, uint64_t size)
{
	struct sgpu_cpu_memory *memory = &device->memory;
	struct sgpu_cpu_block *block;

	(void)size; /* the block's record has the size */
	pthread_mutex_lock(&memory->lock);
	block = find_block(memory, address);
	if (!block || block->range.address != address) {
		pthread_mutex_unlock(&memory->lock);
		return;
	}
	sgpu_ranges_remove(&memory->live, &block->range);
	memory->used -= round_up(block->size ? block->size : 1, SGPU_CPU_PAGE);
	memory->looked_ns = block->size < LARGE_REQUEST ? memory->looked_ns : 0;
	pthread_mutex_unlock(&memory->lock);
	clear_block(block);
	unmap_block(block);
}

/* ---- memory that two devices reach ---- */
static int shared_alloc(struct sgpu_device *device, struct sgpu_device *peer, uint64_t size,
			sgpu_devptr *address, struct sgpu_error *error)
{
	struct sgpu_range *range = calloc(1, sizeof(*range));
	bool entered;
	int rc = range ? alloc_block(device, size, address, error) : sgpu_fail_nomem(error);

	if (rc < 0) {
		free(range);
		return rc;
	}
	*range = (struct sgpu_range){ .address = *address, .extent = size ? size : 1 };
	pthread_mutex_lock(&peer->memory.lock);
	entered = sgpu_ranges_insert(&peer->memory.shared, range);
	pthread_mutex_unlock(&peer->memory.lock);
	if (!entered) {
		free_block(device, *address, size);
		*address = 0;
		free(range);
		return sgpu_fail_nomem(error);
	}
	return SGPU_OK;
}

static void shared_free(struct sgpu_device *device, struct sgpu_device *peer, sgpu_devptr address)
{
	struct sgpu_range *range;

	pthread_mutex_lock(&peer->memory.lock);
	range = sgpu_ranges_find(&peer->memory.shared, address);
	if (range) {
		sgpu_ranges_remove(&peer->memory.shared, range);
	}
	pthread_mutex_unlock(&peer->memory.lock);
	free(range);
	free_block(device, address, 0);
}

static bool is_allocated(struct sgpu_cpu_memory *memory, sgpu_devptr address, uint64_t size)
{
	const struct sgpu_cpu_block *block;
	const struct sgpu_range *shared;
	uint64_t offset;
	bool inside;

	pthread_mutex_lock(&memory->lock);
	block = find_block(memory, address);
	offset = block ? address - block->range.address : 0;
	inside = block && offset <= block->size && size <= block->size - offset;
	shared = inside ? NULL : sgpu_ranges_find(&memory->shared, address);
	inside = inside || (shared && size <= shared->extent - (address - shared->address));
	pthread_mutex_unlock(&memory->lock);
	return inside;
}

static int check_range(struct sgpu_device *device, sgpu_devptr address, uint64_t size,
		       struct sgpu_task *task)
{
	return is_allocated(&device->memory, address, size) ||
			       sgpu_frames_reach(&device->frames, address, size)
		       ? SGPU_OK
		       : sgpu_task_refuse_range(task, address, size);
}

void sgpu_cpu_memory_figures(struct sgpu_cpu_memory *memory, uint64_t *total, uint64_t *available)
{
	pthread_mutex_lock(&memory->lock);
	look(memory, false);
	*total = sgpu_min_u64(memory->total, memory->limit);
	*available = sgpu_min_u64(memory->available, left_of(memory));
	pthread_mutex_unlock(&memory->lock);
}

void sgpu_cpu_memory_close(struct sgpu_cpu_memory *memory)
{
	struct sgpu_cpu_block *block;

	while ((block = (struct sgpu_cpu_block *)(void *)sgpu_ranges_any(&memory->live))) {
		sgpu_ranges_remove(&memory->live, &block->range);
		clear_block(block);
		unmap_block(block);
	}
	pthread_mutex_destroy(&memory->lock);
}

/* ---- host memory ---- */
static int host_alloc(struct sgpu_device *device, uint64_t size, void **memory,
		      struct sgpu_error *error)
{
	(void)device;
	if (size > SIZE_MAX - SGPU_CPU_PAGE) {
		return sgpu_fail_nomem(error);
	}
	*memory = aligned_alloc(SGPU_CPU_PAGE, (size / SGPU_CPU_PAGE + 1) * SGPU_CPU_PAGE);
	return *memory ? SGPU_OK : sgpu_fail_nomem(error);
}

static void host_free(struct sgpu_device *device, void *memory, uint64_t size)
{
	(void)device;
	sgpu_wipe(memory, size);
	free(memory);
}

const struct sgpu_device_memory_calls sgpu_cpu_memory_calls = {
	.alloc = alloc_block,
	.free = free_block,
	.host_alloc = host_alloc,
	.host_free = host_free,
	.limit = set_limit,
	.check = check_range,
	.shared_alloc = shared_alloc,
	.shared_free = shared_free,
};
