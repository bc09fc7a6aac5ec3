/* SPDX-License-Identifier: Apache-2.0
 *
 * Live copies, the device's side: the thread that asked for the copy gives groups to the threads and to the streams.
 * It works on parts itself until the threads are awake, or when there are few of them; else it is there for the bus.
 */
#include <string.h>

#include <transfer/transfer.h>

/* With fewer threads than this the caller's works on parts, too. */
enum { ALONE = 3 };

struct driver {
	struct sgpu_transfer_live *live;
	struct sgpu_transfer *transfer;
	struct sgpu_task *task;
	uint64_t planned;              /* chunks that are in groups */
	uint64_t offered, freed;       /* groups */
	uint64_t oldest;               /* group that this thread may work on */
	bool started;                  /* the threads */
	unsigned rounds;               /* of waiting */
	_Alignas(64) uint8_t scratch[SGPU_CHUNK];
};

static void thread_work(void *argument, unsigned thread)
{
	struct sgpu_transfer_live *live = argument;
	_Alignas(64) uint8_t scratch[SGPU_CHUNK];
	uint64_t oldest = 0;
	unsigned rounds = 0;

	for (;;) {
		/* In this order: what is offered before the end is worked on. */
		bool over = atomic_load(&live->over);

		if (sgpu_transfer_help(live, &oldest, thread, scratch)) {
			rounds = 0;
		} else if (over) {
			break;
		} else {
			sgpu_transfer_pause(&rounds);
		}
	}
	sgpu_wipe(scratch, sizeof(scratch));
}

static bool going_on(const struct driver *d)
{
	return d->task->code == SGPU_OK && !atomic_load_explicit(&d->live->failed, memory_order_relaxed);
}

/* The end of a round: when nothing was to be done, does something useful, or waits a moment. */
static void end_round(struct driver *d, bool progress)
{
	unsigned threads = sgpu_transfer_crew_size(d->transfer->crew);

	if (!d->started) {
		/* Only now, since it takes long: the streams have something to do already, and so have the first that
		 * wake. */
		sgpu_transfer_crew_start(d->transfer->crew, thread_work, d->live);
		d->started = true;
	}
	if (progress) {
		d->rounds = 0;
	} else if ((threads >= ALONE && sgpu_transfer_crew_is_there(d->transfer->crew)) ||
		   !sgpu_transfer_help(d->live, &d->oldest, threads, d->scratch)) {
		sgpu_transfer_pause(&d->rounds);
	}
}

static struct sgpu_transfer_run run_of(const struct sgpu_transfer_live *live, uint64_t number,
				       struct sgpu_transfer_group group)
{
	bool opens = live->stage == SGPU_TRANSFER_OPEN, stays = live->stage == SGPU_TRANSFER_AUTHENTICATE;

	return (struct sgpu_transfer_run){
		.key = opens ? live->key->on_device : NULL,
		.first = live->base + group.first,
		.last = group.first + group.count == live->plan.total,
		.device = stays ? 0 : live->device + group.first * SGPU_CHUNK,
		.size = sgpu_transfer_live_plain(live, group.first, group.count),
		.host = live->shares[number % live->share_count].memory,
		.sealed_size = sgpu_transfer_live_bytes(live, group.first, group.count),
	};
}

/* Sends the oldest group that the threads have finished. */
static bool send_finished(struct driver *d)
{
	struct sgpu_transfer *t = d->transfer;
	struct sgpu_error error = { .code = SGPU_OK };

	if (t->sent == d->offered || !sgpu_transfer_finished(d->live, t->sent)) {
		return false;
	}
	if (t->sent - t->drained == t->slot_count) {
		if (t->drained == d->freed) {
			return false;
		}
		sgpu_transfer_drain(t, d->task);
	}
	if (going_on(d)) {
		struct sgpu_transfer_group group = d->live->shares[t->sent % d->live->share_count].group;
		struct sgpu_transfer_run run = run_of(d->live, t->sent, group);

		sgpu_transfer_note(d->task, sgpu_transfer_send_in(t, &run, &error), &error);
	}
	return true;
}

/* A place in the ring is free again when its copy has ended. */
static bool free_copied(struct driver *d)
{
	struct sgpu_transfer_slot *slot = &d->transfer->slots[d->freed % d->transfer->slot_count];

	if (d->freed == d->transfer->sent ||
	    !sgpu_transfer_reached(slot->middle ? slot->middle : slot->end, d->task)) {
		return false;
	}
	d->freed++;
	return true;
}

static void drive_in(struct driver *d)
{
	struct sgpu_transfer_live *live = d->live;

	while (going_on(d) && (d->planned < live->plan.total || d->transfer->sent < d->offered)) {
		bool progress = false;

		if (d->planned < live->plan.total && d->offered - d->freed < live->share_count) {
			struct sgpu_transfer_group group = sgpu_transfer_group_at(&live->plan, d->planned);

			sgpu_transfer_offer(live, d->offered++, group);
			d->planned += group.count;
			progress = true;
		}
		progress |= send_finished(d);
		progress |= going_on(d) && free_copied(d);
		end_round(d, progress);
	}
}

/* Seals the next group on the device and has it copied to the ring. */
static bool send_next(struct driver *d)
{
	struct sgpu_transfer *t = d->transfer;
	struct sgpu_transfer_live *live = d->live;
	struct sgpu_error error = { .code = SGPU_OK };

	if (d->planned == live->plan.total || t->sent - d->freed == live->share_count ||
	    t->sent - t->drained == t->slot_count) {
		return false;
	}
	struct sgpu_transfer_group group = sgpu_transfer_group_at(&live->plan, d->planned);
	struct sgpu_transfer_run run = run_of(live, t->sent, group);
	live->shares[t->sent % live->share_count].group = group;
	d->planned += group.count;
	sgpu_transfer_note(d->task, sgpu_transfer_send_out(t, &run, &error), &error);
	return true;
}

/* Gives the oldest group that has arrived to the threads. */
static bool offer_arrived(struct driver *d)
{
	struct sgpu_transfer *t = d->transfer;

	if (d->offered == t->sent || !sgpu_transfer_reached(t->slots[d->offered % t->slot_count].end, d->task)) {
		return false;
	}
	sgpu_transfer_drain(t, d->task);
	if (d->task->code == SGPU_OK) {
		sgpu_transfer_offer(d->live, d->offered, d->live->shares[d->offered % d->live->share_count].group);
		d->offered++;
	}
	return true;
}

static void drive_out(struct driver *d)
{
	struct sgpu_transfer_live *live = d->live;

	while (going_on(d) && (d->planned < live->plan.total || d->freed < d->transfer->sent)) {
		bool progress = send_next(d);

		progress |= going_on(d) && offer_arrived(d);
		if (d->freed < d->offered && sgpu_transfer_finished(live, d->freed)) {
			d->freed++;
			progress = true;
		}
		end_round(d, progress);
	}
}

static void note_failure(struct sgpu_transfer_live *live, struct sgpu_task *task)
{
	struct sgpu_error error = { .code = SGPU_OK };

	if (task->code == SGPU_OK && live->code != SGPU_OK) {
		task->bad_chunk = live->base + live->bad_chunk;
		(void)sgpu_fail(&error, live->code, "AES-256-GCM failed");
		sgpu_transfer_note(task, live->code, &error);
	}
	if (task->code == SGPU_EAUTH) {
		task->bad_chunk -= live->base;
		(void)sgpu_fail(&task->error, task->code, "what crossed the bus does not verify at chunk %llu of it",
				(unsigned long long)task->bad_chunk);
	}
}

static void prepare(struct sgpu_transfer_live *live, bool open)
{
	const struct sgpu_transfer_config *config = &live->transfer->config;
	bool sealed = live->stage == SGPU_TRANSFER_AUTHENTICATE || live->stage == SGPU_TRANSFER_OPEN;
	uint64_t group = open ? config->out_group : config->in_group;
	uint64_t slot = sgpu_transfer_slot_size(live->transfer, group);
	uint64_t chunks = live->size / SGPU_CHUNK + (sealed || live->size % SGPU_CHUNK != 0);

	live->stride = sealed ? SGPU_SEALED_CHUNK : SGPU_CHUNK;
	live->plan = (struct sgpu_transfer_plan){ .total = chunks, .largest = group / SGPU_CHUNK,
						  .at_begin = config->first_group / SGPU_CHUNK,
						  .at_end = config->last_group / SGPU_CHUNK };
	live->work = open ? sgpu_transfer_live_open : sealed ? sgpu_transfer_live_seal :
		     live->stage == SGPU_TRANSFER_ENCRYPT ? sgpu_transfer_live_encrypt : sgpu_transfer_live_copy;
	live->workers = sgpu_transfer_crew_size(live->transfer->crew);
	live->workers += live->workers < ALONE;
	live->demote = !open && live->transfer->demotes;
	live->share_count = open ? config->out_slots : config->in_slots;
	for (unsigned i = 0; i < live->share_count; i++) {
		live->shares[i].memory = live->transfer->ring + i * slot;
	}
	live->base = live->key->next;
	live->key->next += chunks; /* never again, whatever becomes of this copy */
	sgpu_transfer_begin(live->transfer, slot, SGPU_TRANSFER_SLOTS_MAX);
}

static int copy(struct sgpu_transfer_live *live, bool out, struct sgpu_task *task)
{
	struct sgpu_transfer *transfer = live->transfer;
	struct driver driver = { .live = live, .transfer = transfer, .task = task };
	int code;

	memset(task, 0, sizeof(*task));
	if (live->key->transfer != transfer) {
		task->code = sgpu_fail(&task->error, SGPU_EUSAGE, "the key of a live copy is another engine's");
		return task->code;
	}
	pthread_mutex_lock(&transfer->lock);
	task->begin_ns = sgpu_now_ns();
	prepare(live, out);
	pthread_mutex_init(&live->lock, NULL);
	if (out) {
		drive_out(&driver);
	} else {
		drive_in(&driver);
	}
	while (task->code == SGPU_OK && transfer->drained < transfer->sent) {
		sgpu_transfer_drain(transfer, task);
	}
	atomic_store(&live->over, true);
	sgpu_transfer_crew_join(transfer->crew);
	note_failure(live, task);
	code = sgpu_transfer_end(transfer, out ? 0 : live->device, out ? live->plaintext : NULL, live->size, task);
	sgpu_wipe(driver.scratch, sizeof(driver.scratch));
	task->end_ns = sgpu_now_ns();
	pthread_mutex_destroy(&live->lock);
	pthread_mutex_unlock(&transfer->lock);
	return code;
}

int sgpu_transfer_in_stages(struct sgpu_transfer *transfer, struct sgpu_transfer_key *key,
			    enum sgpu_transfer_stage stage, const void *plaintext, uint64_t size, sgpu_devptr to,
			    struct sgpu_task *task)
{
	struct sgpu_transfer_live live = { .transfer = transfer, .key = key, .stage = stage, .device = to, .size = size,
					   .plaintext = (uint8_t *)(uintptr_t)plaintext };
	struct sgpu_task local;

	return copy(&live, false, task ? task : &local);
}

int sgpu_transfer_in_live(struct sgpu_transfer *transfer, struct sgpu_transfer_key *key, const void *plaintext,
			  uint64_t size, sgpu_devptr to, struct sgpu_task *task)
{
	return sgpu_transfer_in_stages(transfer, key, SGPU_TRANSFER_OPEN, plaintext, size, to, task);
}

int sgpu_transfer_out_live(struct sgpu_transfer *transfer, struct sgpu_transfer_key *key, sgpu_devptr from,
			   uint64_t size, void *plaintext, struct sgpu_task *task)
{
	struct sgpu_transfer_live live = { .transfer = transfer, .key = key, .stage = SGPU_TRANSFER_OPEN,
					   .device = from, .size = size, .plaintext = plaintext };
	struct sgpu_task local;

	return copy(&live, true, task ? task : &local);
}
