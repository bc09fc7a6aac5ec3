/* SPDX-License-Identifier: Apache-2.0
 *
 * bandwidth: plain copies between host memory and the device, one direction or both at once. Pinned: memory of the
 * device's pool. Registered: the process's own, registered with the device. Pageable: the process's own as it is. Many
 * copies are enqueued back to back and timed by the device; "one by one" waits for each and is timed by the host.
 */
#include <string.h>

#include "cases.h"
#include "memory.h"

enum { COPIES_MAX = 64, SEED = 3 };
#define SIZE_LEAST ((uint64_t)4 << 10)
#define SIZE_LARGEST ((uint64_t)1 << 30)
/* A sample of large copies moves about as much as this. */
#define SAMPLE ((uint64_t)256 << 20)

enum direction { H2D, D2H, BOTH, DIRECTIONS };
static const char *const direction_names[] = { "h2d", "d2h", "both" };

/* Two memories of the host, one for each direction. */
struct memories {
	void *in, *out;
};

struct bandwidth {
	struct sgpu_bench *bench;
	struct sgpu_stream *streams[2];           /* H2D, D2H */
	sgpu_devptr to, from;                     /* on the device */
	struct memories pinned, registered, pageable;
	uint64_t room;                            /* bytes of each */
	bool is_registered;
};

/* A kind of memory and what is done with it. */
struct variant {
	struct bandwidth *b;
	const struct memories *memories;
	enum direction direction;
	uint64_t size;
	int copies;
	struct sgpu_task first[2], last[2];       /* of each direction; one copy: first is not used */
};

static bool goes(enum direction direction, int way)
{
	return direction == BOTH || (int)direction == way;
}

static int copy_one(struct variant *v, int way, int i, struct sgpu_task *task)
{
	uint64_t at = (uint64_t)i * v->size;

	if (way == H2D) {
		return sgpu_copy_in(v->b->streams[H2D], v->b->to + at, (const uint8_t *)v->memories->in + at, v->size,
				    task);
	}
	return sgpu_copy_out(v->b->streams[D2H], (uint8_t *)v->memories->out + at, v->b->from + at, v->size, task);
}

static int failed(int rc, struct sgpu_error *error)
{
	return rc == SGPU_OK ? rc : sgpu_fail(error, rc, "cannot copy: %s", sgpu_strerror(rc));
}

/* Of the copies between nobody wants to know the times: to take them takes time. */
static struct sgpu_task *task_of(struct variant *v, int way, int i)
{
	if (i + 1 == v->copies) {
		return &v->last[way];
	}
	return i == 0 ? &v->first[way] : NULL;
}

/* The directions in turns, so that both have something to do from the start. */
static int enqueue(void *argument, struct sgpu_error *error)
{
	struct variant *v = argument;
	int rc = SGPU_OK;

	memset(v->first, 0, sizeof(v->first));
	memset(v->last, 0, sizeof(v->last));
	for (int i = 0; rc == SGPU_OK && i < v->copies; i++) {
		for (int way = H2D; rc == SGPU_OK && way <= D2H; way++) {
			if (goes(v->direction, way)) {
				rc = copy_one(v, way, i, task_of(v, way, i));
			}
		}
	}
	return failed(rc, error);
}

static int run_enqueued(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct variant *v = argument;
	int from = v->direction == D2H ? D2H : H2D, count = v->direction == BOTH ? 2 : 1;
	uint64_t begin = UINT64_MAX, end = 0;
	int rc = sgpu_bench_enqueue(v->b->bench, &v->b->streams[from], count, enqueue, v, error);

	rc = rc ? rc : sgpu_bench_tasks(&v->first[from], count, error);
	rc = rc ? rc : sgpu_bench_tasks(&v->last[from], count, error);
	for (int way = from; way < from + count; way++) {
		uint64_t at = v->copies > 1 ? v->first[way].begin_ns : v->last[way].begin_ns;

		begin = at < begin ? at : begin;
		end = v->last[way].end_ns > end ? v->last[way].end_ns : end;
	}
	*ns = end - begin;
	return rc == SGPU_OK && end <= begin ?
		       sgpu_fail(error, SGPU_EUNAVAILABLE, "the device's timer told no time between two copies") : rc;
}

/* Waits for each copy. With pageable memory that is what happens anyway. */
static int run_one_by_one(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct variant *v = argument;
	int rc = SGPU_OK;

	(void)ns;
	for (int i = 0; rc == SGPU_OK && i < v->copies; i++) {
		for (int way = H2D; rc == SGPU_OK && way <= D2H; way++) {
			if (goes(v->direction, way)) {
				rc = failed(copy_one(v, way, i, NULL), error);
			}
		}
		for (int way = H2D; rc == SGPU_OK && way <= D2H; way++) {
			if (goes(v->direction, way)) {
				rc = sgpu_stream_sync(v->b->streams[way], error);
			}
		}
	}
	return rc;
}

static int prepare(void *argument, struct sgpu_error *error)
{
	struct variant *v = argument;
	uint64_t size = v->size * (uint64_t)v->copies;

	if (goes(v->direction, D2H)) {
		bench_spoil(v->memories->out, size);
	}
	return goes(v->direction, H2D) ? bench_clear(v->b->streams[H2D], v->b->to, size, error) : SGPU_OK;
}

static int verify(void *argument, struct sgpu_error *error)
{
	struct variant *v = argument;
	uint64_t size = v->size * (uint64_t)v->copies;
	int rc = goes(v->direction, D2H) ? bench_verify(v->memories->out, size, SEED, error) : SGPU_OK;

	if (rc == SGPU_OK && goes(v->direction, H2D)) {
		rc = bench_from_device(v->b->streams[D2H], v->b->pinned.out, v->b->to, size, error);
		rc = rc ? rc : bench_verify(v->b->pinned.out, size, SEED, error);
	}
	return rc;
}

/* As many as fit in the memory, up to a number that is enough to tell the rate. */
static int copies_of(const struct bandwidth *b, uint64_t size)
{
	uint64_t copies = SAMPLE / size, most = b->room / size;

	copies = copies < 1 ? 1 : copies > COPIES_MAX ? COPIES_MAX : copies;
	return (int)(copies < most ? copies : most);
}

/* What is not to be had is told with the first point. */
static int measure(struct bandwidth *b, enum direction direction, uint64_t size, bool first, struct sgpu_error *error)
{
	int copies = copies_of(b, size), count = 0;
	const struct sgpu_bench_point point = {
		.parameters = { { "direction", direction_names[direction], 0 }, { "size_bytes", NULL, size } },
		.bytes = size * (uint64_t)copies * (direction == BOTH ? 2 : 1),
		.operations = (uint64_t)copies * (direction == BOTH ? 2 : 1),
		.bytes_formula = direction == BOTH ? "operations * size_bytes, both directions" : "operations * size_bytes",
	};
	const struct {
		const char *name;
		const struct memories *memories;
		int (*run)(void *argument, uint64_t *ns, struct sgpu_error *error);
		bool there;
	} kinds[] = {
		{ "pinned", &b->pinned, run_enqueued, b->bench->info.pins_host_memory },
		{ "pinned, one by one", &b->pinned, run_one_by_one, b->bench->info.pins_host_memory },
		{ "registered", &b->registered, run_enqueued, b->is_registered },
		{ "pageable", &b->pageable, run_one_by_one, true },
	};
	struct variant arguments[SGPU_ARRAY_LENGTH(kinds)];
	struct sgpu_bench_variant variants[SGPU_ARRAY_LENGTH(kinds)];

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(kinds); i++) {
		if (kinds[i].there) {
			arguments[count] = (struct variant){ .b = b, .memories = kinds[i].memories, .size = size,
							     .direction = direction, .copies = copies };
			variants[count] = (struct sgpu_bench_variant){ .name = kinds[i].name, .prepare = prepare,
								       .run = kinds[i].run, .verify = verify,
								       .argument = &arguments[count] };
			count++;
		} else if (first) {
			sgpu_bench_waive(b->bench, NULL, kinds[i].name, "not to be had with device '%s'",
					 b->bench->info.selector);
		}
	}
	return sgpu_bench_measure(b->bench, &point, variants, count, error);
}

/* ---- the case ---- */
/* What cannot be registered is waived. */
static bool has_registered(struct bandwidth *b)
{
	struct sgpu_bench *bench = b->bench;

	return sgpu_bench_register(bench, b->registered.in, b->room, NULL) == SGPU_OK &&
	       sgpu_bench_register(bench, b->registered.out, b->room, NULL) == SGPU_OK;
}

static int allocate(struct bandwidth *b, struct sgpu_error *error)
{
	struct sgpu_bench *bench = b->bench;
	struct memories *const mapped[] = { &b->pageable, &b->registered };
	int rc = sgpu_bench_new_device_memory(bench, b->room, &b->to, error);

	rc = rc ? rc : sgpu_bench_new_device_memory(bench, b->room, &b->from, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, b->room, &b->pinned.in, error);
	rc = rc ? rc : sgpu_bench_new_pinned(bench, b->room, &b->pinned.out, error);
	for (int i = 0; rc == SGPU_OK && i < (bench->info.registers ? 2 : 1); i++) {
		rc = bench_new_pages(bench, b->room, BENCH_PAGES_ANY, -1, &mapped[i]->in, error);
		rc = rc ? rc : bench_new_pages(bench, b->room, BENCH_PAGES_ANY, -1, &mapped[i]->out, error);
		if (rc == SGPU_OK) {
			sgpu_bench_fill(mapped[i]->in, b->room, SEED);
		}
	}
	b->is_registered = rc == SGPU_OK && bench->info.registers && has_registered(b);
	return rc;
}

static int open_bandwidth(struct bandwidth *b, struct sgpu_error *error)
{
	struct sgpu_bench *bench = b->bench;
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, SIZE_LEAST, SIZE_LARGEST, sizes), rc;

	while (count > 0 && sgpu_bench_fits(bench, 6 * sizes[count - 1], 2 * sizes[count - 1], error) != SGPU_OK) {
		count--;
	}
	if (count == 0) {
		return SGPU_OK;
	}
	b->room = sizes[count - 1];
	if (b->room < SAMPLE && sgpu_bench_fits(bench, 6 * SAMPLE, 2 * SAMPLE, error) == SGPU_OK) {
		b->room = SAMPLE;
	}
	rc = sgpu_bench_new_stream(bench, bench->device, &b->streams[H2D], error);
	rc = rc ? rc : sgpu_bench_new_stream(bench, bench->device, &b->streams[D2H], error);
	rc = rc ? rc : allocate(b, error);
	if (rc == SGPU_OK) {
		sgpu_bench_fill(b->pinned.in, b->room, SEED);
		rc = bench_to_device(b->streams[H2D], b->from, b->pinned.in, b->room, error);
	}
	return rc;
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct bandwidth b = { .bench = bench };
	uint64_t sizes[SGPU_BENCH_SIZES_MAX];
	int count = sgpu_bench_sizes(bench, SIZE_LEAST, SIZE_LARGEST, sizes), rc = open_bandwidth(&b, error);

	for (int direction = H2D; direction < DIRECTIONS; direction++) {
		for (int i = 0; rc == SGPU_OK && i < count; i++) {
			const struct sgpu_bench_point point = {
				.parameters = { { "direction", direction_names[direction], 0 },
						{ "size_bytes", NULL, sizes[i] } },
			};

			if (sizes[i] > b.room) {
				sgpu_bench_waive(bench, &point, NULL, "not enough memory");
			} else {
				rc = measure(&b, (enum direction)direction, sizes[i], direction == H2D && i == 0, error);
			}
		}
	}
	return rc;
}

const struct sgpu_bench_case case_bandwidth = {
	.name = "bandwidth",
	.help = "plain copies: pinned, registered, pageable; to the device, from it, both at once",
	.unit = SGPU_BENCH_BYTES_PER_SECOND,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
