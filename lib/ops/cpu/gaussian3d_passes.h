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

/* Smooths along rows: copies a tile with its neighbourhood, repeating voxels at borders, and sums
 * the copies. */
SGPU_CLONES_ATTR static void NAME(along_rows)(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t width = job->shape[2], radius = (uint64_t)job->radius;
	REAL padded[TILE + 2 * RADIUS_MAX], *centre = padded + radius;

	for (uint64_t place = begin * width, x = 0, count; place < end * width; place += count) {
		const REAL *row = (const REAL *)job->in + place - x;
		REAL *out = (REAL *)job->out + place;

		count = sgpu_ops_min(width - x, TILE);
		for (uint64_t i = 0; i < count + 2 * radius; i++) {
			uint64_t from = x + i < radius ? 0 : x + i - radius;

			padded[i] = row[sgpu_ops_min(from, width - 1)];
		}
		NAME(start)(out, centre, WEIGHT(job)[0], count);
		for (uint64_t k = 1; k <= radius; k++) {
			NAME(add_pair)(out, centre - k, centre + k, WEIGHT(job)[k], count);
		}
		x = x + count < width ? x + count : 0;
	}
	sgpu_wipe(padded, sizeof(padded));
}

/* Smooths along another axis by adding whole rows. */
SGPU_CLONES_ATTR static void NAME(across_rows)(void *argument, uint64_t begin, uint64_t end)
{
	const struct job *job = argument;
	uint64_t width = job->shape[2];

	for (uint64_t place = begin * width, x = 0, count; place < end * width; place += count) {
		const REAL *in = (const REAL *)job->in + place;
		REAL *out = (REAL *)job->out + place;
		uint64_t at = place / job->step % job->along, left = job->along - 1 - at;

		count = sgpu_ops_min(width - x, TILE);
		NAME(start)(out, in, WEIGHT(job)[0], count);
		for (uint64_t k = 1; k <= (uint64_t)job->radius; k++) {
			NAME(add_pair)
			(out, in - sgpu_ops_min(at, k) * job->step,
			 in + sgpu_ops_min(left, k) * job->step, WEIGHT(job)[k], count);
		}
		x = x + count < width ? x + count : 0;
	}
}
