/* SPDX-License-Identifier: Apache-2.0
 *
 * The independent parts of a manifest's graph, and their shares of a given number of shards.
 */
#ifndef SGPU_MANIFEST_COMPONENTS_H
#define SGPU_MANIFEST_COMPONENTS_H

#include <sgpu/manifest.h>

struct components {
	int *shard; /* per operation: its shard */
	int shard_count;
	int part_count;	 /* independent parts that there are */
	uint64_t *bytes; /* per shard: of all its segments */
};

/* Parts are joined by every edge, and by what cannot be in two places: an INPUT_OUTPUT, standard
 * input, a segment that client variables are named for. `wanted`: shards, 0 for one a part; there
 * are never more than parts. False when out of memory; free in any case. */
bool components_find(const struct sgpu_manifest *manifest, uint64_t wanted,
		     struct components *components);
void components_free(struct components *components);

#endif
