/* SPDX-License-Identifier: Apache-2.0
 *
 * The model: open addressing, linear probing. It is filled once, and then no key comes or goes.
 */
#include <math.h>
#include <stdlib.h>

#include "parameters.h"

/* The finalizer of splitmix64, a permutation: no two features have the same key. */
uint64_t parameters_key(uint64_t feature)
{
	uint64_t key = (feature + 1) * 0x9e3779b97f4a7c15u;

	key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9u;
	key = (key ^ (key >> 27)) * 0x94d049bb133111ebu;
	return key ^ (key >> 31);
}

/* The slot that has the key, or the free one where it would be. Half of the slots are free, so that
 * the search ends. Keys are chosen by clients, but only those of features are ever stored. */
static struct parameters_slot *find(struct parameters_model *model, uint64_t key)
{
	size_t i = key % PARAMETERS_SLOTS;

	while (model->slots[i].key && model->slots[i].key != key) {
		i = (i + 1) % PARAMETERS_SLOTS;
	}
	return &model->slots[i];
}

struct parameters_model *parameters_model_create(void)
{
	struct parameters_model *model = calloc(1, sizeof(*model));

	for (uint64_t i = 0; model && i < PARAMETERS_FEATURES; i++) {
		const uint64_t key = parameters_key(i);

		find(model, key)->key = key;
	}
	return model;
}

double parameters_update(struct parameters_model *model, uint64_t key, double change)
{
	struct parameters_slot *slot = find(model, key);

	if (!key || slot->key != key) {
		return NAN;
	}
	slot->weight += change;
	return slot->weight;
}

double parameters_sum(const struct parameters_model *model)
{
	double sum = 0;

	for (size_t i = 0; i < PARAMETERS_SLOTS; i++) {
		sum += model->slots[i].weight;
	}
	return sum;
}
