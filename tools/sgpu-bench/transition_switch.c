/* SPDX-License-Identifier: Apache-2.0
 *
 * Round trips to another process, which does nothing but answer: over what the kernel has, and over
 * shared memory.
 */
#include "base/cores.h"
#include "made.h"
#include "pair.h"
#include "transition.h"

static int go_there_and_back(void *argument, uint64_t count, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (uint64_t i = 0; rc == SGPU_OK && i < count; i++) {
		rc = pair_trip(argument, error);
	}
	return rc;
}

static void answer(struct pair *pair)
{
	while (pair->way->await(pair, PAIR_THERE) && pair->way->send(pair, PAIR_BACK)) {
	}
}

static int measure(struct sgpu_bench *bench, const struct sgpu_bench_point *point,
		   const struct pair_way *way, const int *cpus, struct sgpu_error *error)
{
	struct pair pair;
	const struct crossing trip = { way->name, .cross = go_there_and_back, .argument = &pair };
	int rc = pair_start(&pair, way, cpus, answer, error);

	rc = rc == SGPU_OK ? bench_cross(bench, *point, &trip, error)
			   : bench_or_waive(bench, point, way->name, rc, error);
	pair_end(&pair);
	return rc;
}

/* On one processor, who spins waits for the end of its time slice: that is no figure of a crossing.
 */
int bench_transition_switch(struct sgpu_bench *bench, struct sgpu_error *error)
{
	enum { ONE_CORE, TWO_CORES, ANYWHERE, PLACES };
	static const char *const places[PLACES] = { "one core", "two cores", "anywhere" };
	int cores[2] = { 0, 0 }, count = sgpu_find_cores(cores), rc = SGPU_OK;
	const int *const cpus[PLACES] = { (const int[]){ cores[0], cores[0] }, cores, NULL };

	for (int place = 0; rc == SGPU_OK && place < PLACES; place++) {
		for (int w = 0; rc == SGPU_OK && w < PAIR_WAYS; w++) {
			const struct sgpu_bench_point point = {
				.parameters = { { "what", "round trip", 0 },
						{ "placement", places[place], 0 } }
			};
			if (pair_ways[w].spins && place != TWO_CORES) {
				continue;
			}
			if (place == TWO_CORES && count < 2) {
				sgpu_bench_waive(bench, &point, pair_ways[w].name,
						 "one processor only");
				continue;
			}
			rc = measure(bench, &point, &pair_ways[w], cpus[place], error);
		}
	}
	return rc;
}
