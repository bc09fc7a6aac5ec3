/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine of secure copies: what it is made of, and its keys.
 */
#include <stdlib.h>
#include <string.h>

#include <transfer/transfer.h>

enum { PAGE = 4096, LIVE_SLOTS_ON_DEVICE = 8 };
#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define GROUP_MAX (1024 * MIB)

/* What was found to be best on an H200 behind 16 cores: a ring that is so deep that what the bus reads has left the
 * cores' own caches, or one that stays in the cache that they share when what was sealed is moved there at once. */
static const struct sgpu_transfer_config standard = {
	.sealed_group = 32 * MIB, .sealed_slots = 3, .in_group = 8 * MIB, .in_slots = 8, .out_group = 8 * MIB,
	.out_slots = 8, .first_group = 512 * KIB, .last_group = MIB,
};
#define DEMOTED_GROUP (2 * MIB)
enum { DEMOTED_SLOTS = 8 };

uint64_t sgpu_transfer_slot_size(const struct sgpu_transfer *transfer, uint64_t group)
{
	const struct sgpu_transfer_config *c = &transfer->config;
	uint64_t smallest = c->first_group > c->last_group ? c->first_group : c->last_group;
	/* A group and the little rest that may go with it. */
	uint64_t size = (group / SGPU_CHUNK + smallest / SGPU_CHUNK / 2 + 2) * SGPU_SEALED_CHUNK;

	return (size + PAGE - 1) / PAGE * PAGE;
}

static int configure(struct sgpu_transfer_config *config, const struct sgpu_transfer_config *wanted, bool demotes,
		     struct sgpu_error *error)
{
	uint64_t *groups[] = { &config->sealed_group, &config->in_group, &config->out_group, &config->first_group,
			       &config->last_group };
	const uint64_t standard_groups[] = { standard.sealed_group, demotes ? DEMOTED_GROUP : standard.in_group,
					     standard.out_group, standard.first_group, standard.last_group };
	unsigned *slots[] = { &config->sealed_slots, &config->in_slots, &config->out_slots };
	const unsigned standard_slots[] = { standard.sealed_slots, demotes ? DEMOTED_SLOTS : standard.in_slots,
					    standard.out_slots };

	memset(config, 0, sizeof(*config));
	if (wanted) {
		*config = *wanted;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(groups); i++) {
		*groups[i] = *groups[i] ? *groups[i] / SGPU_CHUNK * SGPU_CHUNK : standard_groups[i];
		if (*groups[i] == 0 || *groups[i] > GROUP_MAX) {
			return sgpu_fail(error, SGPU_EUSAGE, "groups of a transfer have %d bytes to 1 GiB", SGPU_CHUNK);
		}
	}
	config->jobs = config->jobs ? config->jobs : sgpu_cpu_count();
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(slots); i++) {
		*slots[i] = *slots[i] ? *slots[i] : standard_slots[i];
		if (config->jobs > SGPU_POOL_JOBS_MAX || *slots[i] > SGPU_TRANSFER_SLOTS_MAX) {
			return sgpu_fail(error, SGPU_EUSAGE, "a transfer has at most %d jobs and %d slots",
					 SGPU_POOL_JOBS_MAX, SGPU_TRANSFER_SLOTS_MAX);
		}
	}
	return SGPU_OK;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static int allocate(struct sgpu_transfer *t, struct sgpu_error *error)
{
	const struct sgpu_transfer_config *c = &t->config;
	uint64_t sealed = c->sealed_slots * sgpu_transfer_slot_size(t, c->sealed_group);
	uint64_t in = sgpu_transfer_slot_size(t, c->in_group), out = sgpu_transfer_slot_size(t, c->out_group);
	void *ring = NULL;
	int code;

	t->staging_size = max_u64(sealed, LIVE_SLOTS_ON_DEVICE * max_u64(in, out));
	t->ring_size = max_u64(c->in_slots * in, c->out_slots * out);
	code = sgpu_device_alloc(t->device, t->staging_size, &t->staging, error);
	if (code == SGPU_OK) {
		code = sgpu_host_alloc(t->device, t->ring_size, &ring, error);
		t->ring = ring;
	}
	return code;
}

int sgpu_transfer_create(struct sgpu_device *device, const struct sgpu_transfer_config *config,
			 struct sgpu_transfer **transfer, struct sgpu_error *error)
{
	struct sgpu_transfer *t = calloc(1, sizeof(*t));
	int code;

	*transfer = NULL;
	if (!t) {
		return sgpu_fail_nomem(error);
	}
	t->device = device;
	pthread_mutex_init(&t->lock, NULL);
	t->demotes = sgpu_transfer_can_demote();
	code = configure(&t->config, config, t->demotes, error);
	code = code ? code : sgpu_stream_create(device, &t->copy_in, error);
	code = code ? code : sgpu_stream_create(device, &t->copy_out, error);
	code = code ? code : sgpu_stream_create(device, &t->compute, error);
	code = code ? code : allocate(t, error);
	code = code ? code : sgpu_transfer_crew_create(t->config.jobs - 1, &t->crew, error);
	if (code != SGPU_OK) {
		sgpu_transfer_free(&t);
	}
	*transfer = t;
	return code;
}

void sgpu_transfer_free(struct sgpu_transfer **transfer)
{
	struct sgpu_transfer *t = transfer ? *transfer : NULL;
	void *ring;

	if (!t) {
		return;
	}
	sgpu_transfer_crew_free(&t->crew);
	sgpu_stream_free(&t->copy_in);
	sgpu_stream_free(&t->copy_out);
	sgpu_stream_free(&t->compute);
	ring = t->ring;
	sgpu_host_free(t->device, &ring, t->ring_size);
	sgpu_device_free(t->device, &t->staging, t->staging_size);
	pthread_mutex_destroy(&t->lock);
	sgpu_free_wiped(transfer, sizeof(*t));
}

int sgpu_transfer_key_load(struct sgpu_transfer *transfer, const struct sgpu_sealed_keys *keys,
			   struct sgpu_transfer_key **key, struct sgpu_error *error)
{
	unsigned count = sgpu_transfer_crew_size(transfer->crew) + 1;
	struct sgpu_transfer_key *new = calloc(1, sizeof(*new) + count * sizeof(new->aeads[0]));
	int code;

	*key = NULL;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->transfer = transfer;
	new->keys = *keys;
	new->aead_count = count;
	code = sgpu_aead_create(NULL, keys->key, &new->aeads[0], error);
	for (unsigned i = 1; code == SGPU_OK && i < count; i++) {
		code = sgpu_aead_copy(new->aeads[0], &new->aeads[i], error);
	}
	if (code == SGPU_OK) {
		code = sgpu_device_key_load(transfer->compute, keys, &new->on_device, error);
	}
	if (code != SGPU_OK) {
		sgpu_transfer_key_free(&new);
	}
	*key = new;
	return code;
}

void sgpu_transfer_key_free(struct sgpu_transfer_key **key)
{
	struct sgpu_transfer_key *k = key ? *key : NULL;

	if (!k) {
		return;
	}
	for (unsigned i = 0; i < k->aead_count; i++) {
		sgpu_aead_free(&k->aeads[i]);
	}
	sgpu_device_key_free(&k->on_device);
	sgpu_free_wiped(key, sizeof(*k) + k->aead_count * sizeof(k->aeads[0]));
}
