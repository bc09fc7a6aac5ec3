/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest connected component of a mask, as cpu/components3d.c. Union-find without locks joins
 * voxels that touch: an atomic minimum gives a root a lower root as its parent, so that in the end
 * a set's root is its first voxel whatever the order (J. Jaiganesh and M. Burtscher, A
 * High-Performance Connected Components Implementation for GPUs, 2018). A warp takes 32 voxels of a
 * row as bits of a word, and joins only one voxel of a run.
 */
#include "ops/cuda/kernels/volume.cuh"

struct volume {
	uint8_t *mask;
	uint64_t planes, height, width, words; /* words: in a row */
	uint32_t *parent;		       /* of each voxel inside */
	uint32_t *size;			       /* of roots, in voxels */
	unsigned long long *best;	       /* size of the largest << 32 | ~root */
};

/* A warp's 32 voxels: this lane's, and a bit for each that is in the mask. */
struct word {
	uint64_t row, x, at;
	bool exists, inside;
	unsigned bits;
};

SGPU_DEVICE struct word word_at(const struct volume &v, uint64_t item)
{
	struct word w;
	uint64_t word;

	w.row = sgpu_cuda_split(item, v.words, &word);
	w.x = word * 32 + threadIdx.x % SGPU_CUDA_WARP;
	w.at = w.row * v.width + w.x;
	w.exists = w.x < v.width;
	w.inside = w.exists && v.mask[w.at];
	w.bits = __ballot_sync(0xffffffffu, w.inside);
	return w;
}

SGPU_DEVICE uint64_t first_item()
{
	return sgpu_cuda_self() / SGPU_CUDA_WARP;
}

SGPU_DEVICE uint64_t item_step()
{
	return (uint64_t)gridDim.x * (blockDim.x / SGPU_CUDA_WARP);
}

/* The bit at which a lane's run begins. */
SGPU_DEVICE unsigned run_start(unsigned bits, unsigned lane)
{
	unsigned gaps = ~bits & ((1u << lane) - 1);

	return 32 - (unsigned)__clz((int)gaps);
}

/* Other threads may change a parent meanwhile, but only to a node nearer to the root. */
SGPU_DEVICE uint32_t find_root(uint32_t *parent, uint32_t node)
{
	volatile uint32_t *p = parent;
	uint32_t next = p[node];

	while (next != node) {
		uint32_t over = p[next];

		if (over != next) {
			p[node] = over;
		}
		node = next;
		next = over;
	}
	return node;
}

/* The root, once all sets are joined. Shortens no path: a late write could lengthen the path of a
 * voxel that another thread has just pointed at its root. */
SGPU_DEVICE uint32_t final_root(const uint32_t *parent, uint32_t node)
{
	uint32_t next;

	while ((next = parent[node]) != node) {
		node = next;
	}
	return node;
}

SGPU_DEVICE void join(uint32_t *parent, uint32_t a, uint32_t b)
{
	while (true) {
		uint32_t high, low, old;

		a = find_root(parent, a);
		b = find_root(parent, b);
		if (a == b) {
			return;
		}
		high = a > b ? a : b;
		low = a > b ? b : a;
		old = atomicMin(parent + high, low);
		if (old == high) {
			return;
		}
		/* `high` is no longer a root; `old` is in the same set */
		a = old;
		b = low;
	}
}

/* Makes a set of each run within a word: its first voxel is the root. */
SGPU_KERNEL make_runs(struct volume v)
{
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;

	if (sgpu_cuda_self() == 0) {
		*v.best = 0; /* not that of the volume before */
	}
	for (uint64_t item = first_item(); item < v.planes * v.height * v.words;
	     item += item_step()) {
		struct word w = word_at(v, item);

		if (w.inside) {
			v.parent[w.at] = (uint32_t)(w.at - lane + run_start(w.bits, lane));
			v.size[w.at] = 0;
		}
	}
}

/* Joins this word's runs with those that they touch `back` voxels earlier, once per overlap, by its
 * first lane. */
SGPU_DEVICE void join_before(const struct volume &v, const struct word &w, uint64_t back)
{
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;
	unsigned both = __ballot_sync(0xffffffffu, w.inside && v.mask[w.at - back]);

	if ((both & ~(both << 1)) >> lane & 1) {
		join(v.parent, (uint32_t)w.at, (uint32_t)(w.at - back));
	}
	__syncwarp();
}

SGPU_KERNEL join_words(struct volume v)
{
	for (uint64_t item = first_item(); item < v.planes * v.height * v.words;
	     item += item_step()) {
		struct word w = word_at(v, item);
		uint64_t y, z = sgpu_cuda_split(w.row, v.height, &y);

		if (y > 0) {
			join_before(v, w, v.width);
		}
		if (z > 0) {
			join_before(v, w, v.height * v.width);
		}
		if (threadIdx.x % SGPU_CUDA_WARP == 0 && w.x > 0 && w.inside && v.mask[w.at - 1]) {
			join(v.parent, (uint32_t)w.at, (uint32_t)(w.at - 1));
		}
		__syncwarp();
	}
}

/* Points every voxel at its root, and adds up the sets' sizes. */
SGPU_KERNEL measure_sets(struct volume v)
{
	unsigned lane = threadIdx.x % SGPU_CUDA_WARP;

	for (uint64_t item = first_item(); item < v.planes * v.height * v.words;
	     item += item_step()) {
		struct word w = word_at(v, item);
		unsigned start = w.inside ? run_start(w.bits, lane) : lane, beyond;
		uint32_t root = 0;

		beyond = ~(w.bits >> lane); /* the lowest bit is where the run ends */
		if (w.inside && lane == start) {
			root = final_root(v.parent, (uint32_t)w.at);
			atomicAdd(v.size + root,
				  beyond ? (unsigned)__ffs((int)beyond) - 1 : SGPU_CUDA_WARP);
		}
		root = __shfl_sync(0xffffffffu, root, (int)start);
		if (w.inside) {
			v.parent[w.at] = root;
		}
	}
}

SGPU_KERNEL find_largest(struct volume v)
{
	__shared__ unsigned long long shared[SGPU_CUDA_WARP];
	uint64_t count = v.planes * v.height * v.width;
	unsigned long long most = 0;

	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		if (v.mask[i] && v.parent[i] == (uint32_t)i) {
			most = sgpu_cuda_larger()(most, (unsigned long long)v.size[i] << 32 |
								(uint32_t) ~(uint32_t)i);
		}
	}
	most = sgpu_cuda_block_reduce(most, sgpu_cuda_larger(), shared);
	if (threadIdx.x == 0 && most) {
		atomicMax(v.best, most);
	}
}

SGPU_KERNEL clear_others(struct volume v)
{
	uint64_t count = v.planes * v.height * v.width;
	uint32_t root = ~(uint32_t)*v.best;

	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		if (v.mask[i] && v.parent[i] != root) {
			v.mask[i] = 0;
		}
	}
}

int sgpu_cuda_keep_largest(uint8_t *mask, const uint64_t shape[3], void *scratch,
			   struct sgpu_launch *launch)
{
	uint64_t count = shape[0] * shape[1] * shape[2];
	struct volume v = { mask,
			    shape[0],
			    shape[1],
			    shape[2],
			    (shape[2] + 31) / 32,
			    (uint32_t *)scratch,
			    (uint32_t *)scratch + count,
			    (unsigned long long *)launch->counters };
	uint64_t items = shape[0] * shape[1] * v.words;
	unsigned warps = SGPU_CUDA_BLOCK / SGPU_CUDA_WARP;
	const struct {
		void (*kernel)(struct volume);
		uint64_t items, per_block;
	} steps[] = {
		{ make_runs, items, warps },
		{ join_words, items, warps },
		{ measure_sets, items, warps },
		{ find_largest, count, SGPU_CUDA_BLOCK * 4 },
		{ clear_others, count, SGPU_CUDA_BLOCK * 4 },
	};
	int rc = 0;

	for (size_t i = 0; !rc && i < SGPU_ARRAY_LENGTH(steps); i++) {
		rc = sgpu_cuda_run(launch, steps[i].kernel,
				   sgpu_cuda_grid(steps[i].items, steps[i].per_block), v);
	}
	return rc;
}
