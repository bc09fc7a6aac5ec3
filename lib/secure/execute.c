/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out the items of a command group that the processor has opened: reads each from its bytes, asks the processor
 * whether every address lies in the channel's context, makes that context the one that kernels reach, and calls the
 * device. What is in a group comes from the context's owner; that it reaches no other context is checked all the same, and
 * by the processor's own account.
 */
#include <string.h>

#include <seal/opened.h>

#include "run/run.h"
#include "secure/secure.h"

struct work {
	struct sgpu_ground *ground;
	struct sgpu_lane *lane;
	uint32_t channel;
	struct sgpu_error *error;
};

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static int malformed(const struct work *w)
{
	return sgpu_fail(w->error, SGPU_EINVALID, "a command group is malformed");
}

/* A range of no bytes touches nothing. */
static int check(const struct work *w, sgpu_devptr address, uint64_t size)
{
	if (size == 0 || sgpu_processor_reaches(w->ground->processor, w->channel, address, size)) {
		return SGPU_OK;
	}
	return sgpu_fail(w->error, SGPU_EPOLICY, "%llu bytes at device address %#llx are not of this context",
			 (unsigned long long)size, (unsigned long long)address);
}

static int check_all(const struct work *w, const struct sgpu_device_range *ranges, uint64_t count)
{
	int rc = SGPU_OK;

	for (uint64_t i = 0; rc == SGPU_OK && i < count; i++) {
		rc = check(w, ranges[i].address, ranges[i].size);
	}
	return rc;
}

/* Where the device put its words about a failure. */
static int tell(const struct work *w, int rc, uint64_t task)
{
	const struct sgpu_task *t = pointer(task);

	if (rc != SGPU_OK) {
		sgpu_fail(w->error, rc, "%s", t && t->error.text[0] ? t->error.text : sgpu_strerror(rc));
	}
	return rc;
}

static int move(const struct work *w, const void *bytes, size_t size)
{
	struct sgpu_item_move m;
	int rc;

	if (size != sizeof(m)) {
		return malformed(w);
	}
	memcpy(&m, bytes, sizeof(m));
	rc = check(w, m.device, m.size);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (m.head.kind == SGPU_ITEM_COPY_IN) {
		rc = sgpu_copy_in(w->lane->inner, m.device, pointer(m.host), m.size, pointer(m.task));
	} else if (m.head.kind == SGPU_ITEM_COPY_OUT) {
		rc = sgpu_copy_out(w->lane->inner, pointer(m.host), m.device, m.size, pointer(m.task));
	} else {
		rc = sgpu_device_clear(w->lane->inner, m.device, m.size, pointer(m.task));
	}
	return tell(w, rc, m.task);
}

static int use_key(const struct work *w, const void *bytes, size_t size)
{
	struct sgpu_secure_key *key;
	struct sgpu_item_key k;
	int rc = SGPU_OK;

	if (size != sizeof(k)) {
		return malformed(w);
	}
	memcpy(&k, bytes, sizeof(k));
	key = pointer(k.key);
	if (key->context != w->lane->context) {
		rc = sgpu_fail(w->error, SGPU_EPOLICY, "the key is not of this context");
	} else if (k.head.kind == SGPU_ITEM_KEY_LOAD) {
		rc = sgpu_device_key_load(w->lane->inner, &k.keys, &key->inner, w->error);
	} else {
		sgpu_device_key_free(&key->inner);
	}
	sgpu_wipe(&k, sizeof(k));
	return rc;
}

static int chunks(const struct work *w, const void *bytes, size_t size)
{
	const struct sgpu_secure_key *key;
	struct sgpu_item_chunks c;
	uint64_t out;
	int rc;

	if (size != sizeof(c)) {
		return malformed(w);
	}
	memcpy(&c, bytes, sizeof(c));
	key = pointer(c.key);
	if (key->context != w->lane->context) {
		return sgpu_fail(w->error, SGPU_EPOLICY, "the key is not of this context");
	}
	out = c.head.kind == SGPU_ITEM_OPEN ? sgpu_opened_size(c.size) :
					      sgpu_piece_sealed(c.size, c.last != 0);
	rc = out < c.size && c.head.kind != SGPU_ITEM_OPEN ? malformed(w) : check(w, c.in, c.size);
	if (rc == SGPU_OK) {
		rc = check(w, c.out, out);
	}
	if (rc != SGPU_OK) {
		return rc;
	}
	if (c.head.kind == SGPU_ITEM_OPEN) {
		rc = sgpu_device_open_chunks(w->lane->inner, key->inner, c.first, c.last != 0, c.in, c.size, c.out,
					     pointer(c.task));
	} else {
		rc = sgpu_device_seal_chunks(w->lane->inner, key->inner, c.first, c.last != 0, c.in, c.size, c.out,
					     pointer(c.task));
	}
	return tell(w, rc, c.task);
}

static int digest(const struct work *w, const void *bytes, size_t size)
{
	struct sgpu_item_digest d;
	int rc;

	if (size != sizeof(d)) {
		return malformed(w);
	}
	memcpy(&d, bytes, sizeof(d));
	rc = d.custom_size <= sizeof(d.custom) ? check(w, d.memory, d.size) : malformed(w);
	if (rc == SGPU_OK) {
		rc = tell(w, sgpu_device_digest(w->lane->inner, d.memory, d.size, d.custom, (size_t)d.custom_size,
						pointer(d.digest), pointer(d.task)), d.task);
	}
	return rc;
}

static int launch(const struct work *w, const void *bytes, size_t size)
{
	struct sgpu_device_range ranges[SGPU_GROUP_RANGES_MAX];
	struct sgpu_item_launch l;
	sgpu_launch_fn function;
	int rc;

	if (size < sizeof(l)) {
		return malformed(w);
	}
	memcpy(&l, bytes, sizeof(l));
	if (l.range_count > SGPU_GROUP_RANGES_MAX || size != sizeof(l) + l.range_count * sizeof(*ranges)) {
		return malformed(w);
	}
	memcpy(ranges, (const uint8_t *)bytes + sizeof(l), (size_t)l.range_count * sizeof(*ranges));
	memcpy(&function, &l.function, sizeof(function));
	rc = check_all(w, ranges, l.range_count);
	return rc == SGPU_OK ? tell(w, sgpu_device_launch_on(w->lane->inner, function, pointer(l.argument), ranges,
							     (int)l.range_count, pointer(l.task)), l.task) : rc;
}

/* ---- modules ---- */
static int module(const struct work *w, const void *bytes, size_t size)
{
	struct sgpu_secure_module *m;
	struct sgpu_item_module i;

	if (size != sizeof(i)) {
		return malformed(w);
	}
	memcpy(&i, bytes, sizeof(i));
	m = pointer(i.module);
	if (m->context != w->lane->context) {
		return sgpu_fail(w->error, SGPU_EPOLICY, "the module is not of this context");
	}
	if (i.head.kind == SGPU_ITEM_MODULE_LOAD) {
		return sgpu_device_module_load(w->ground->device, pointer(i.image), (size_t)i.size, &m->inner, w->error);
	}
	sgpu_device_module_free(&m->inner);
	return SGPU_OK;
}

/* The values stand in the item, each at a multiple of 8 bytes; the device copies them. */
static int launch_module(const struct work *w, const struct sgpu_item_module_launch *l,
			 const struct sgpu_device_range *ranges, const uint8_t *at, const uint8_t *end)
{
	const struct sgpu_secure_module *m = pointer(l->module);
	int target[SGPU_MODULE_ARGUMENTS_MAX];
	const struct sgpu_module_memory memory = { ranges, (int)l->range_count, l->written, target };
	void *args[SGPU_MODULE_ARGUMENTS_MAX];
	size_t sizes[SGPU_MODULE_ARGUMENTS_MAX];

	for (uint32_t i = 0; i < l->arg_count; i++, at += 8) {
		uint64_t size;

		memcpy(&size, at, sizeof(size));
		sizes[i] = (size_t)(uint32_t)size;
		if (size >> 32 > l->range_count) {
			return malformed(w);
		}
		target[i] = (int)(size >> 32) - 1;
	}
	for (uint32_t i = 0; i < l->arg_count; i++) {
		if (sizes[i] > (size_t)(end - at) || sgpu_group_round(sizes[i]) > (size_t)(end - at)) {
			return malformed(w);
		}
		args[i] = (void *)(uintptr_t)at;
		at += sgpu_group_round(sizes[i]);
	}
	if (at != end) {
		return malformed(w);
	}
	return tell(w, sgpu_device_module_launch_on(w->lane->inner, m->inner, pointer(l->function), &l->shape, args, sizes,
						    (int)l->arg_count, &memory, pointer(l->task)), l->task);
}

static int module_launch(const struct work *w, const uint8_t *bytes, size_t size)
{
	struct sgpu_device_range ranges[SGPU_MODULE_RANGES_MAX];
	struct sgpu_item_module_launch l;
	const struct sgpu_secure_module *m;
	size_t before;
	int rc;

	if (size < sizeof(l)) {
		return malformed(w);
	}
	memcpy(&l, bytes, sizeof(l));
	before = sizeof(l) + (size_t)l.range_count * sizeof(*ranges);
	if (l.range_count > SGPU_MODULE_RANGES_MAX || l.arg_count > SGPU_MODULE_ARGUMENTS_MAX ||
	    size < before + (size_t)l.arg_count * 8) {
		return malformed(w);
	}
	m = pointer(l.module);
	if (m->context != w->lane->context) {
		return sgpu_fail(w->error, SGPU_EPOLICY, "the module is not of this context");
	}
	memcpy(ranges, bytes + sizeof(l), (size_t)l.range_count * sizeof(*ranges));
	rc = check_all(w, ranges, l.range_count);
	return rc == SGPU_OK ? launch_module(w, &l, ranges, bytes + before, bytes + size) : rc;
}

/* ---- groups ---- */
static int item(const struct work *w, uint32_t kind, const uint8_t *bytes, size_t size)
{
	switch (kind) {
	case SGPU_ITEM_COPY_IN:
	case SGPU_ITEM_COPY_OUT:
	case SGPU_ITEM_CLEAR:
		return move(w, bytes, size);
	case SGPU_ITEM_KEY_LOAD:
	case SGPU_ITEM_KEY_FREE:
		return use_key(w, bytes, size);
	case SGPU_ITEM_OPEN:
	case SGPU_ITEM_SEAL:
		return chunks(w, bytes, size);
	case SGPU_ITEM_DIGEST:
		return digest(w, bytes, size);
	case SGPU_ITEM_LAUNCH:
		return launch(w, bytes, size);
	case SGPU_ITEM_MODULE_LOAD:
	case SGPU_ITEM_MODULE_FREE:
		return module(w, bytes, size);
	case SGPU_ITEM_MODULE_LAUNCH:
		return module_launch(w, bytes, size);
	default:
		return malformed(w);
	}
}

/* Whether the items fill the group; nothing is carried out of one that is cut or has a rest. */
static bool is_whole(const uint8_t *items, size_t size, uint64_t count)
{
	struct sgpu_item head;

	for (; count > 0; count--) {
		if (size < sizeof(head)) {
			return false;
		}
		memcpy(&head, items, sizeof(head));
		if (head.size < sizeof(head) || head.size > size || head.size % 8 != 0) {
			return false;
		}
		items += head.size;
		size -= head.size;
	}
	return size == 0;
}

static int all_items(const struct work *w, const uint8_t *items, size_t size, uint64_t count)
{
	int rc = is_whole(items, size, count) ? sgpu_processor_activate(w->ground->processor, w->channel, w->error) :
						malformed(w);

	for (; rc == SGPU_OK && count > 0; count--) {
		struct sgpu_item head;

		memcpy(&head, items, sizeof(head));
		rc = item(w, head.kind, items, head.size);
		items += head.size;
	}
	return rc;
}

/* A group whose sender has given up is refused before anything in it is looked at. */
int sgpu_secure_execute(void *executor, uint32_t channel, const uint8_t *items, size_t size, struct sgpu_error *error)
{
	struct work w = { .ground = executor, .channel = channel, .error = error };
	struct sgpu_error unheard = { 0 };
	struct sgpu_group group;
	uint64_t expected;
	int rc;

	w.lane = channel < SGPU_CHANNEL_MAX ? atomic_load(&w.ground->lanes[channel]) : NULL;
	if (!w.lane || size < sizeof(group)) {
		return malformed(&w);
	}
	memcpy(&group, items, sizeof(group));
	expected = group.ticket;
	if (expected == 0 || !atomic_compare_exchange_strong(&w.lane->ticket, &expected, 0)) {
		return sgpu_fail(error, SGPU_EPOLICY, "nobody waits for this command group any more");
	}
	/* What went wrong the sender hears. The reply goes through the hands of whoever carries the commands, and does not say
	 * what stood in the group. */
	w.error = w.lane->error ? w.lane->error : &unheard;
	rc = w.lane->code = all_items(&w, items + sizeof(group), size - sizeof(group), group.count);
	atomic_store(&w.lane->ended, true); /* from here on the lane is its sender's again */
	return rc;
}
