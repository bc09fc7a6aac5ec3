/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes of gaussian3d.c, which includes this file once for each element type, REAL.
 */

SGPU_INLINE void NAME(start)(REAL *restrict out, const REAL *centre, REAL weight, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		out[i] = centre[i] * weight;
	}
}

SGPU_INLINE void NAME(add_pair)(REAL *restrict out, const REAL *left, const REAL *right,
				REAL weight, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		out[i] += (left[i] + right[i]) * weight;
	}
}

/* Smooths along the rows: copies a tile with its neighbourhood, repeating the voxels at the
 * borders, and sums the copies. */
SGPU_CLONES_ATTR static void NAME(row_tile)(const struct job *job, const REAL *row, uint64_t begin,
					    uint64_t count, REAL *padded, REAL *out)
{
	uint64_t last = job->shape[2] - 1, radius = (uint64_t)job->radius;
	const REAL *centre = padded + radius;

	for (uint64_t i = 0; i < count + 2 * radius; i++) {
		uint64_t x = begin + i < radius ? 0 : begin + i - radius;

		padded[i] = row[sgpu_ops_min(x, last)];
	}
	NAME(start)(out, centre, WEIGHT(job)[0], count);
	for (uint64_t k = 1; k <= radius; k++) {
		NAME(add_pair)(out, centre - k, centre + k, WEIGHT(job)[k], count);
	}
}

static void NAME(along_rows)(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t width = job->shape[2];
	REAL padded[TILE + 2 * RADIUS_MAX];

	for (uint64_t row = begin; row < end; row++) {
		const REAL *in = (const REAL *)job->in + row * width;
		REAL *out = (REAL *)job->out + row * width;

		for (uint64_t x = 0; x < width; x += TILE) {
			NAME(row_tile)
			(job, in, x, sgpu_ops_min(width - x, TILE), padded, out + x);
		}
	}
	sgpu_wipe(padded, sizeof(padded));
}

/* Smooths along another axis by adding whole rows. `at`: the row's position on that axis. */
SGPU_CLONES_ATTR static void NAME(across_tile)(const struct job *job, const REAL *in, uint64_t at,
					       uint64_t count, REAL *out)
{
	uint64_t last = job->along - 1;

	NAME(start)(out, in, WEIGHT(job)[0], count);
	for (uint64_t k = 1; k <= (uint64_t)job->radius; k++) {
		uint64_t before = sgpu_ops_min(at, k), after = sgpu_ops_min(last - at, k);

		NAME(add_pair)
		(out, in - before * job->step, in + after * job->step, WEIGHT(job)[k], count);
	}
}

static void NAME(across_rows)(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t width = job->shape[2];

	for (uint64_t row = begin; row < end; row++) {
		uint64_t at = row * width / job->step % job->along;

		for (uint64_t x = 0; x < width; x += TILE) {
			NAME(across_tile)
			(job, (const REAL *)job->in + row * width + x, at,
			 sgpu_ops_min(width - x, TILE), (REAL *)job->out + row * width + x);
		}
	}
}
