/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of softmax.c, which includes this file once for each element type, REAL.
 */

/* The largest element; a NaN is ignored here and makes the sum NaN. `count` is at least 1. */
SGPU_CLONES_ATTR static double NAME(top)(const REAL *input, uint64_t count)
{
	REAL tops[LANES], top;
	uint64_t whole = count - count % LANES;

	for (int l = 0; l < LANES; l++) {
		tops[l] = -(REAL)INFINITY;
	}
	for (uint64_t i = 0; i < whole; i += LANES) {
		for (int l = 0; l < LANES; l++) {
			tops[l] = input[i + l] > tops[l] ? input[i + l] : tops[l];
		}
	}
	for (uint64_t i = whole; i < count; i++) {
		tops[0] = input[i] > tops[0] ? input[i] : tops[0];
	}
	top = tops[0];
	for (int l = 1; l < LANES; l++) {
		top = tops[l] > top ? tops[l] : top;
	}
	return (double)top;
}

/* Below ROUNDS_TO_0 the result rounds to 0, and rounding subnormals would be slow. */
SGPU_INLINE double NAME(exponential)(REAL x, double top)
{
	double less = (double)x - top;

	return sgpu_math_exp(less) * (less < ROUNDS_TO_0 ? 0.0 : 1.0);
}

/* Writes exp(input - top) and returns the sum. */
SGPU_CLONES_ATTR static double NAME(exponentials)(const REAL *input, REAL *output, uint64_t count,
						  double top)
{
	double sums[LANES] = { 0 }, sum = 0;
	uint64_t whole = count - count % LANES;

	for (uint64_t i = 0; i < whole; i += LANES) {
		for (int l = 0; l < LANES; l++) {
			double e = NAME(exponential)(input[i + l], top);

			sums[l] += e;
			output[i + l] = (REAL)e;
		}
	}
	for (uint64_t i = whole; i < count; i++) {
		double e = NAME(exponential)(input[i], top);

		sums[i - whole] += e;
		output[i] = (REAL)e;
	}
	for (int l = 0; l < LANES; l++) {
		sum += sums[l];
	}
	return sum;
}

SGPU_CLONES_ATTR static void NAME(divide)(REAL *output, uint64_t count, double sum)
{
	for (uint64_t i = 0; i < count; i++) {
		output[i] = (REAL)((double)output[i] / sum);
	}
}

static void NAME(rows)(void *argument, uint64_t begin, uint64_t end)
{
	const struct sgpu_op_call *call = argument;
	uint64_t count = call->type[INPUT].shape[call->type[INPUT].rank - 1];

	for (uint64_t row = begin; row < end; row++) {
		const REAL *input = (const REAL *)call->data[INPUT] + row * count;
		REAL *output = (REAL *)call->data[OUTPUT] + row * count;
		double top = NAME(top)(input, count);

		NAME(divide)(output, count, NAME(exponentials)(input, output, count, top));
	}
}
