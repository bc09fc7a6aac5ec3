/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine makes and frees its streams, workers and staging buffers.
 *
 * Why transfers never deadlock. A chunk run takes everything that it needs, one staging buffer at
 * most, before it begins, and no thread waits for a second one while it holds a first. A buffer in
 * use is given back without another being taken:
 *
 *   - while a worker fills it from a file or memory, or empties it there: that always ends;
 *   - while the device copies, opens or seals: streams complete their work;
 *   - while a pipe's peer fills or empties it, which may take for ever: each ordered transfer, a
 *     pipe's, raises the limit of its class of buffers by as many as it may hold meanwhile
 *     (staging.c: extra), so others do not lack them;
 *   - while a live copy uses it: the copy takes the free buffers, at least one, and waits for no
 *     more.
 *
 * The limit of a class is at least one, so some transfer goes on; and waiting transfers get buffers
 * in the order of their queue.
 */
#include "transfer/engine.h"

#include <stdlib.h>
#include <unistd.h>

enum { PAGE = 4096, SMALL_BUFFERS = 64, BUFFERS_MAX = 1024 };
#define MIB ((uint64_t)1 << 20)
/* The longest time that a worker looks for work before it sleeps: with a GPU, and with the CPU
 * device. */
#define SPIN_NS ((uint64_t)1000000)
#define SPIN_ON_CPU_NS ((uint64_t)20000)

/* Buffers of a live copy: enough that the data have left the cores' private caches when the bus
 * reads them; or, if workers demote sealed data to the shared cache, few enough to stay there. */
enum { LIVE_BUFFERS = 30, LIVE_BUFFERS_DEMOTED = 10 };

static uint64_t a_quarter_of_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);

	return pages > 0 && page > 0 ? (uint64_t)pages / 4 * (uint64_t)page : 0;
}

static uint64_t or_else(uint64_t wanted, uint64_t standard)
{
	return wanted ? wanted : standard;
}

/* The defaults were the best sizes on an H200 with 16 cores. */
static void configure(struct sgpu_engine *engine, const struct sgpu_engine_config *wanted)
{
	const struct sgpu_engine_config none = { .workers = 0 }, *w = wanted ? wanted : &none;

	engine->config = (struct sgpu_engine_config){
		.workers = w->workers ? w->workers : sgpu_cpu_count(),
		.pinned_max = or_else(w->pinned_max, 64 * MIB),
		.staged_run = or_else(w->staged_run, 2 * MIB),
		.direct_run = or_else(w->direct_run, 32 * MIB),
		.direct_count = w->direct_count ? w->direct_count : 3,
		.first_run = or_else(w->first_run, MIB / 2),
		.last_run = or_else(w->last_run, MIB),
		.kept_max = or_else(w->kept_max, a_quarter_of_memory()),
		.live_buffers = w->live_buffers	  ? w->live_buffers
				: engine->demotes ? LIVE_BUFFERS_DEMOTED
						  : LIVE_BUFFERS,
		.shared_files = w->shared_files,
	};
}

static uint64_t buffer_size(uint64_t chunks)
{
	return (chunks * SGPU_SEALED_CHUNK + PAGE - 1) / PAGE * PAGE;
}

static void setup_staging(struct sgpu_engine *engine)
{
	const struct sgpu_engine_config *config = &engine->config;
	uint64_t smallest = config->first_run > config->last_run ? config->first_run
								 : config->last_run,
		 count;
	struct sgpu_staging_pool *pools = engine->staging;

	smallest /= SGPU_CHUNK;
	pools[SGPU_STAGING_SMALL].size = buffer_size(SGPU_TRANSFER_SMALL / SGPU_CHUNK + 2);
	pools[SGPU_STAGING_SMALL].limit = SMALL_BUFFERS;
	pools[SGPU_STAGING_LARGE].size =
		buffer_size(sgpu_chunk_run_most(config->staged_run / SGPU_CHUNK, smallest));
	count = config->pinned_max / pools[SGPU_STAGING_LARGE].size;
	pools[SGPU_STAGING_LARGE].limit = count < 1		? 1
					  : count < BUFFERS_MAX ? (unsigned)count
								: BUFFERS_MAX;
	pools[SGPU_STAGING_DIRECT].size =
		buffer_size(sgpu_chunk_run_most(config->direct_run / SGPU_CHUNK, smallest));
	pools[SGPU_STAGING_DIRECT].limit = 2 * config->direct_count; /* in both directions */
}

int sgpu_engine_create(struct sgpu_device *device, const struct sgpu_engine_config *config,
		       struct sgpu_engine **engine, struct sgpu_error *error)
{
	struct sgpu_engine *new = calloc(1, sizeof(*new));
	struct sgpu_device_info info;
	unsigned threads;
	int rc;

	*engine = NULL;
	if (!new) {
		return sgpu_fail_nomem(error);
	}
	new->device = device;
	new->job = (struct sgpu_worker_job){ .step = sgpu_engine_work, .argument = new };
	new->demotes = sgpu_transfer_can_demote();
	pthread_mutex_init(&new->making, NULL);
	pthread_mutex_init(&new->mutex, NULL);
	pthread_mutex_init(&new->live_lock, NULL);
	pthread_mutex_init(&new->keeping, NULL);
	pthread_cond_init(&new->changed, NULL);
	configure(new, config);
	rc = sgpu_device_get_info(device, &info, error);
	if (rc == SGPU_OK) {
		new->pins = info.pins_host_memory;
		new->spreads = info.opens_on_device;
		atomic_store(&new->registers, info.registers);
		setup_staging(new);
		/* The thread that asks for a transfer works, too. */
		threads = new->config.workers > 1 ? new->config.workers - 1 : 1;
		rc = sgpu_workers_create(threads, info.opens_on_device ? SPIN_NS : SPIN_ON_CPU_NS,
					 &new->workers, error);
	}
	if (rc != SGPU_OK) {
		sgpu_engine_free(&new);
	}
	*engine = new;
	return rc;
}

void sgpu_engine_free(struct sgpu_engine **engine)
{
	struct sgpu_engine *e = engine ? *engine : NULL;

	if (!e) {
		return;
	}
	pthread_mutex_lock(&e->mutex);
	while (e->open > 0) { /* the thread that ended the last transfer may still use the engine */
		pthread_cond_wait(&e->changed, &e->mutex);
	}
	pthread_mutex_unlock(&e->mutex);
	if (e->started) {
		sgpu_workers_remove(e->workers, &e->job);
	}
	sgpu_workers_free(&e->workers);
	for (int i = 0; i < SGPU_ENGINE_STREAMS; i++) {
		struct sgpu_stream *stream = e->streams[i];

		sgpu_stream_free(&stream);
	}
	sgpu_staging_free(e);
	sgpu_kept_free(e);
	pthread_cond_destroy(&e->changed);
	pthread_mutex_destroy(&e->keeping);
	pthread_mutex_destroy(&e->live_lock);
	pthread_mutex_destroy(&e->mutex);
	pthread_mutex_destroy(&e->making);
	sgpu_free_wiped(engine, sizeof(*e));
}

/* ---- streams and workers, made on first use ---- */
int sgpu_engine_start_workers(struct sgpu_engine *engine, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	pthread_mutex_lock(&engine->making);
	if (!engine->started) {
		rc = sgpu_workers_add(engine->workers, &engine->job, error);
		engine->started = rc == SGPU_OK;
	}
	pthread_mutex_unlock(&engine->making);
	return rc;
}

int sgpu_engine_get_stream(struct sgpu_engine *engine, enum sgpu_engine_stream which,
			   struct sgpu_stream **stream, struct sgpu_error *error)
{
	struct sgpu_stream *_Atomic *place = &engine->streams[which];
	int rc = SGPU_OK;

	*stream = atomic_load(place);
	if (*stream) {
		return SGPU_OK;
	}
	pthread_mutex_lock(&engine->making);
	*stream = atomic_load(place);
	if (!*stream) {
		rc = sgpu_stream_create(engine->device, stream, error);
		atomic_store(place, rc == SGPU_OK ? *stream : NULL);
	}
	pthread_mutex_unlock(&engine->making);
	return rc;
}

int sgpu_transfer_get_stream(const struct sgpu_transfer *transfer, enum sgpu_engine_stream which,
			     struct sgpu_stream **stream, struct sgpu_error *error)
{
	if (transfer->small_stream) {
		which = transfer->small_stream;
	} else if (transfer->second && (which == SGPU_ENGINE_OPEN || which == SGPU_ENGINE_SEAL)) {
		which = which == SGPU_ENGINE_OPEN ? SGPU_ENGINE_OPEN_SECOND
						  : SGPU_ENGINE_SEAL_SECOND;
	}
	return sgpu_engine_get_stream(transfer->engine, which, stream, error);
}

int sgpu_engine_follow(struct sgpu_engine *engine, struct sgpu_stream *from, struct sgpu_stream *to,
		       struct sgpu_error *error)
{
	struct sgpu_event *event = NULL;
	int rc = sgpu_event_create(engine->device, &event, error);

	if (rc == SGPU_OK) {
		rc = sgpu_event_record(from, event);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_stream_wait(to, event);
	}
	sgpu_event_free(&event);
	return rc;
}

int sgpu_engine_enqueue(struct sgpu_stream *stream, const struct sgpu_work *work,
			struct sgpu_task *task, struct sgpu_error *error)
{
	static const char *const whats[] = {
		[SGPU_WORK_COPY_IN] = "copy to the device",
		[SGPU_WORK_COPY_OUT] = "copy from the device",
		[SGPU_WORK_DIGEST] = "digest on the device",
		[SGPU_WORK_OPEN] = "open on the device",
		[SGPU_WORK_SEAL] = "seal on the device",
		[SGPU_WORK_OPEN_FROM] = "open on the device",
		[SGPU_WORK_SEAL_TO] = "seal on the device",
	};
	struct sgpu_work tasked = *work;
	int rc;

	tasked.task = task;
	rc = sgpu_enqueue(stream, &tasked, 1);

	return rc == SGPU_OK
		       ? rc
		       : sgpu_fail(error, rc, "cannot %s: %s", whats[work->kind],
				   task->error.text[0] ? task->error.text : sgpu_strerror(rc));
}

const char *sgpu_engine_row_name(int row)
{
	static const char *const names[SGPU_ENGINE_ROWS] = {
		[SGPU_ENGINE_COPY_IN] = "copy in",
		[SGPU_ENGINE_OPEN] = "open",
		[SGPU_ENGINE_SEAL] = "seal",
		[SGPU_ENGINE_COPY_OUT] = "copy out",
	};

	return names[row];
}
