/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a run: the device and stream of each operation, the buffer of each value and scratch
 * area, and the moves of segments between devices.
 *
 * A buffer's tenant is the value in it. The buffer gets a new tenant only if every operation that
 * touches the old one is an ancestor of the new one's writer, so they never overlap in time.
 * Outputs keep their buffers, since the copy to the host is outside the graph; inputs always get
 * new ones.
 *
 * The host starts a move when it has seen the writer end, and then enqueues readers on the other
 * device. So the source stays until they have ended; the target may be any buffer there that the
 * writer could have had.
 */
#include "run/run.h"
#include "run/private.h"

#include <stdlib.h>
#include <string.h>

/* A tenant ends with its readers or, if it has none, its writer. */
struct tenant {
	bool stays; /* until the run ends */
	const int *readers;
	int reader_count;
	int writer; /* or -1 */
};

/* When an operation can begin at the earliest. */
struct start {
	int input; /* the last one that it waits for; -1: none */
	int place; /* in the graph's order */
	int operation;
};

/* Without a matrix of ancestors, only so many of the newest buffers are searched. */
enum { LOOK_BACK = 64 };

struct planner {
	const struct sgpu_manifest *manifest;
	struct sgpu_plan *plan;
	const struct sgpu_plan_costs *costs;
	struct {
		unsigned on; /* the devices that have it, as bits */
		int home;    /* the first of them */
	} * segments;
	struct {
		double ended;	  /* when it would have ended */
		int chain, place; /* the first of its chain, and its place in it */
		int input;	  /* the last one that it waits for; -1: none */
	} * operations;
	double idle[SGPU_RUN_DEVICES_MAX]; /* by device: when its operations would have ended */
	uint64_t *ancestors;	/* bits, a row for each operation; NULL: too many operations */
	size_t words;		/* 64-bit words of a row */
	struct tenant *tenants; /* by buffer */
};

/* ---- devices ---- */
static double bytes_of(const struct planner *p, int segment)
{
	uint64_t bytes = 0;

	(void)sgpu_type_bytes(&p->manifest->segments[segment].type, &bytes);
	return (double)bytes;
}

/* When an operation would end on a device. */
static double end_on(const struct planner *p, const struct sgpu_operation *op, int device)
{
	double end = p->idle[device];

	for (int i = 0; i < op->before_count; i++) {
		end = end < p->operations[op->before[i]].ended ? p->operations[op->before[i]].ended
							       : end;
	}
	for (int i = 0; i <= op->arg_count; i++) {
		const int segment = sgpu_operation_reads(op, i);

		if (segment >= 0 && !(p->segments[segment].on >> device & 1)) {
			end += (double)p->costs->travel * bytes_of(p, segment);
			end += p->segments[segment].on ? (double)p->costs->move : 0;
		}
		if (i < op->arg_count && op->args[i].segment >= 0) {
			end += bytes_of(p, op->args[i].segment);
		}
	}
	return end;
}

static void choose_device(struct planner *p, int operation)
{
	const struct sgpu_operation *op = &p->manifest->operations[operation];
	const int image = op->module ? op->module->segment : -1;
	const bool fixed = image >= 0 && p->segments[image].on;
	int device = fixed ? p->segments[image].home : 0;

	for (int i = 1; !fixed && i < p->plan->device_count; i++) {
		device = end_on(p, op, i) < end_on(p, op, device) ? i : device;
	}
	p->plan->operations[operation].device = device;
	p->operations[operation].ended = p->idle[device] = end_on(p, op, device);
	for (int i = 0; i <= op->arg_count; i++) {
		const int written =
			i < op->arg_count && op->args[i].output ? op->args[i].segment : -1;
		const int segment = sgpu_operation_reads(op, i);

		if (segment >= 0) {
			if (!p->segments[segment].on) {
				p->segments[segment].home = device;
			}
			p->segments[segment].on |= 1u << device;
		}
		/* Of an INPUT_OUTPUT segment, operations never read the value that is written. */
		if (written >= 0 && !sgpu_segment_is_input(&p->manifest->segments[written])) {
			p->segments[written].on = 1u << device;
			p->segments[written].home = device;
		}
	}
}

/* The devices, as bits, that read a segment, without its home. */
static unsigned moved_to(const struct planner *p, int segment)
{
	return p->segments[segment].on & ~(1u << p->segments[segment].home);
}

/* ---- streams ---- */
static int by_start(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	return x->input != y->input ? x->input - y->input : x->place - y->place;
}

static int max_int(int a, int b)
{
	return a > b ? a : b;
}

/* Orders the operations by the last input that they, or those before them, read: inputs arrive in
 * the manifest's order. Among equals the graph's order stays. */
static void order_starts(const struct planner *p, struct start *starts)
{
	const struct sgpu_manifest *m = p->manifest;

	for (int i = 0; i < m->operation_count; i++) {
		const struct sgpu_operation *op = &m->operations[m->order[i]];
		int input = -1;

		for (int k = 0; k <= op->arg_count; k++) {
			const int read = sgpu_operation_reads(op, k);

			input = read >= 0 && sgpu_segment_is_input(&m->segments[read])
					? max_int(input, read)
					: input;
		}
		for (int k = 0; k < op->before_count; k++) {
			input = max_int(input, p->operations[op->before[k]].input);
		}
		p->operations[m->order[i]].input = input;
		starts[i] = (struct start){ input, i, m->order[i] };
	}
	qsort(starts, (size_t)m->operation_count, sizeof(*starts), by_start);
}

/* The predecessor whose stream the operation continues, or -1. */
static int find_followed(const struct sgpu_plan *plan, const int *tail,
			 const struct sgpu_operation *op, int device)
{
	for (int i = 0; i < op->before_count; i++) {
		const int before = op->before[i];

		if (plan->operations[before].device == device &&
		    tail[plan->operations[before].stream] == before) {
			return before;
		}
	}
	return -1;
}

/* Whether an operation takes less time than a stream of its own costs. */
static bool is_small(const struct planner *p, const struct sgpu_operation *op)
{
	double bytes = 0;

	for (int i = 0; i < op->arg_count; i++) {
		bytes += op->args[i].segment >= 0 ? bytes_of(p, op->args[i].segment) : 0;
	}
	return !op->module && bytes <= (double)p->costs->small;
}

/* Streams of a device. */
struct given {
	int count;
	int shared; /* that of small operations, plus 1; 0: none */
};

/* Returns the stream of an operation, whose numbers alternate between the devices. */
static int give_stream(const struct planner *p, int operation, int follows, struct given *given)
{
	const struct sgpu_operation *op = &p->manifest->operations[operation];
	const int devices = p->plan->device_count;
	const int most = p->costs->streams < SGPU_PLAN_STREAMS_MAX / devices
				 ? p->costs->streams
				 : SGPU_PLAN_STREAMS_MAX / devices;
	const bool small = is_small(p, op), shares = small && op->before_count == 0;
	int stream = follows < 0 ? -1 : p->plan->operations[follows].stream;

	if (stream < 0 && shares && given->shared > 0) {
		stream = given->shared - 1;
	} else if (stream < 0) {
		stream = given->count++ % most * devices + p->plan->operations[operation].device;
		given->shared = shares && given->count <= most ? stream + 1 : given->shared;
	}
	if (!small && given->shared == stream + 1) {
		given->shared = 0; /* others would wait for this one */
	}
	return stream;
}

static int plan_streams(struct planner *p, struct sgpu_error *error)
{
	const int count = p->manifest->operation_count;
	struct start *starts = malloc(((size_t)count + 1) * sizeof(*starts));
	struct given given[SGPU_RUN_DEVICES_MAX] = { 0 };
	int tail[SGPU_PLAN_STREAMS_MAX];

	if (!starts) {
		return sgpu_fail_nomem(error);
	}
	order_starts(p, starts);
	memset(tail, -1, sizeof(tail));
	memset(p->plan->first, -1, sizeof(p->plan->first));
	for (int i = 0; i < count; i++) {
		const int operation = starts[i].operation,
			  device = p->plan->operations[operation].device;
		const int follows =
			find_followed(p->plan, tail, &p->manifest->operations[operation], device);
		const int stream = give_stream(p, operation, follows, &given[device]);

		p->operations[operation].chain =
			follows < 0 ? operation : p->operations[follows].chain;
		p->operations[operation].place = follows < 0 ? 0 : p->operations[follows].place + 1;
		*(tail[stream] < 0 ? &p->plan->first[stream]
				   : &p->plan->operations[tail[stream]].next) = operation;
		tail[stream] = operation;
		p->plan->operations[operation].stream = stream;
		p->plan->operations[operation].next = -1;
		p->plan->stream_count = max_int(p->plan->stream_count, stream + 1);
	}
	free(starts);
	return SGPU_OK;
}

/* ---- ancestors ---- */
/* In graph order: ancestors are the predecessors and their ancestors. */
static int find_ancestors(struct planner *p, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = p->manifest;

	p->words = ((size_t)m->operation_count + 63) / 64;
	p->ancestors = calloc((size_t)m->operation_count * p->words + 1, sizeof(*p->ancestors));
	if (!p->ancestors) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < m->operation_count; i++) {
		const struct sgpu_operation *op = &m->operations[m->order[i]];
		uint64_t *row = p->ancestors + (size_t)m->order[i] * p->words;

		for (int k = 0; k < op->before_count; k++) {
			const size_t before = (size_t)op->before[k];

			for (size_t word = 0; word < p->words; word++) {
				row[word] |= p->ancestors[before * p->words + word];
			}
			row[before / 64] |= (uint64_t)1 << (before % 64);
		}
	}
	return SGPU_OK;
}

/* Whether `earlier` is an ancestor of `later`; without a matrix, known only within a chain. */
static bool comes_before(const struct planner *p, int earlier, int later)
{
	if (!p->ancestors) {
		return p->operations[earlier].chain == p->operations[later].chain &&
		       p->operations[earlier].place < p->operations[later].place;
	}
	return (p->ancestors[(size_t)later * p->words + (size_t)earlier / 64] >> (earlier % 64)) &
	       1;
}

/* ---- buffers ---- */
static bool tenant_ended(const struct planner *p, const struct tenant *tenant, int operation)
{
	if (tenant->stays) {
		return false;
	}
	for (int i = 0; i < tenant->reader_count; i++) {
		if (!comes_before(p, tenant->readers[i], operation)) {
			return false;
		}
	}
	return tenant->writer < 0 || comes_before(p, tenant->writer, operation);
}

/* Of buffers whose tenant has ended, the smallest that holds `size`, else the largest; or -1. */
static int find_buffer(const struct planner *p, int device, int operation, uint64_t size)
{
	const int first = p->ancestors || p->plan->buffer_count < LOOK_BACK
				  ? 0
				  : p->plan->buffer_count - LOOK_BACK;
	int best = -1;

	for (int i = first; i < p->plan->buffer_count; i++) {
		uint64_t have = p->plan->buffers[i].size;
		uint64_t best_size = best < 0 ? 0 : p->plan->buffers[best].size;
		bool better = best < 0 || (have >= size ? best_size < size || have < best_size
							: have > best_size);

		if (better && p->plan->buffers[i].device == device &&
		    tenant_ended(p, &p->tenants[i], operation)) {
			best = i;
		}
	}
	return best;
}

static int give_buffer(struct planner *p, int device, uint64_t size, const struct tenant *tenant,
		       int *given, struct sgpu_error *error)
{
	struct sgpu_plan *plan = p->plan;
	int buffer = tenant->writer < 0 ? -1 : find_buffer(p, device, tenant->writer, size);

	if (!sgpu_add_u64(plan->bytes_unshared, size, &plan->bytes_unshared)) {
		return sgpu_fail(error, SGPU_ENOMEM,
				 "the batch needs more device memory than can be counted");
	}
	if (buffer < 0) {
		buffer = plan->buffer_count++;
		plan->buffers[buffer].device = device;
	} else {
		plan->buffers[buffer].shared = true;
	}
	if (plan->buffers[buffer].size < size) {
		plan->buffers[buffer].size = size;
	}
	p->tenants[buffer] = *tenant;
	*given = buffer;
	return SGPU_OK;
}

/* ---- moves ---- */
static int plan_moves(struct planner *p, int segment, int from_buffer, uint64_t size,
		      struct sgpu_error *error)
{
	struct sgpu_plan *plan = p->plan;
	const struct sgpu_segment *s = &p->manifest->segments[segment];
	const struct tenant tenant = { .readers = s->readers,
				       .reader_count = s->reader_count,
				       .writer = sgpu_segment_is_input(s) ? -1 : s->writer };
	const unsigned devices = moved_to(p, segment);
	int rc = SGPU_OK;

	for (int to = 0; rc == SGPU_OK && to < plan->device_count; to++) {
		struct sgpu_plan_move *move = &plan->moves[plan->move_count];

		if (devices >> to & 1) {
			*move = (struct sgpu_plan_move){
				.segment = segment,
				.from = p->segments[segment].home,
				.to = to,
				.from_buffer = from_buffer,
				.next = plan->segments[segment].first_move
			};
			plan->segments[segment].first_move = plan->move_count++;
			rc = give_buffer(p, to, size, &tenant, &move->to_buffer, error);
		}
	}
	return rc;
}

/* ---- values and operations ---- */
/* Plans the value of a segment that `writer` writes or, if -1, the one that arrives. Of an
 * INPUT_OUTPUT, operations read the one that arrives. */
static int plan_value(struct planner *p, int segment, int writer, struct sgpu_error *error)
{
	const struct sgpu_segment *s = &p->manifest->segments[segment];
	const bool arrives = writer < 0, is_read = arrives || !sgpu_segment_is_input(s);
	const struct tenant tenant = {
		.stays = arrives ? s->reader_count == 0 : sgpu_segment_is_output(s),
		.readers = s->readers,
		.reader_count = is_read ? s->reader_count : 0,
		.writer = writer,
	};
	struct sgpu_plan_segment *at = &p->plan->segments[segment];
	int *buffer = arrives ? &at->in_buffer : &at->out_buffer, rc;
	uint64_t size = 0;

	if (s->type.dtype == SGPU_NONE || !sgpu_type_bytes(&s->type, &size)) {
		return sgpu_fail(error, SGPU_EINVALID, "the size of segment '%s' is not known",
				 s->id);
	}
	rc = give_buffer(p,
			 arrives ? p->segments[segment].home : p->plan->operations[writer].device,
			 size, &tenant, buffer, error);
	return rc == SGPU_OK && is_read ? plan_moves(p, segment, *buffer, size, error) : rc;
}

static int plan_buffers(struct planner *p, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	for (int i = 0; rc == SGPU_OK && i < p->manifest->segment_count; i++) {
		if (sgpu_segment_is_input(&p->manifest->segments[i])) {
			rc = plan_value(p, i, -1, error);
		}
	}
	for (int i = 0; rc == SGPU_OK && i < p->manifest->operation_count; i++) {
		const int operation = p->manifest->order[i];
		const struct sgpu_operation *op = &p->manifest->operations[operation];
		const struct tenant scratch = { .writer = operation };
		struct sgpu_op_call call;
		uint64_t size;

		for (int k = 0; rc == SGPU_OK && k < op->arg_count; k++) {
			if (op->args[k].output && op->args[k].segment >= 0) {
				rc = plan_value(p, op->args[k].segment, operation, error);
			}
		}
		rc = rc ? rc : sgpu_ops_prepare(p->manifest, operation, &call, error);
		if (rc == SGPU_OK && call.op->at_most && call.op->at_most(&call)) {
			p->plan->unknown_sizes = true;
		}
		size = rc == SGPU_OK && call.op->scratch ? call.op->scratch(&call) : 0;
		if (size > 0) {
			rc = give_buffer(p, p->plan->operations[operation].device, size, &scratch,
					 &p->plan->operations[operation].scratch, error);
		}
	}
	for (int i = 0; rc == SGPU_OK && i < p->plan->buffer_count; i++) {
		p->plan->bytes += p->plan->buffers[i].size; /* fits: at most bytes_unshared */
	}
	return rc;
}

/* ---- the whole plan ---- */
static int allocate(struct planner *p, struct sgpu_error *error)
{
	const struct sgpu_manifest *m = p->manifest;
	const size_t segments = (size_t)m->segment_count, operations = (size_t)m->operation_count;
	size_t moves = 0, most;

	p->segments = calloc(segments + 1, sizeof(*p->segments));
	p->operations = calloc(operations + 1, sizeof(*p->operations));
	p->plan->segments = calloc(segments + 1, sizeof(*p->plan->segments));
	p->plan->operations = calloc(operations + 1, sizeof(*p->plan->operations));
	if (!p->segments || !p->operations || !p->plan->segments || !p->plan->operations) {
		return sgpu_fail_nomem(error);
	}
	for (int i = 0; i < m->operation_count; i++) {
		choose_device(p, m->order[i]);
		p->plan->operations[m->order[i]].scratch = -1;
	}
	for (int i = 0; i < m->segment_count; i++) {
		p->plan->segments[i] = (struct sgpu_plan_segment){ -1, -1, -1 };
		moves += (size_t)__builtin_popcount(moved_to(p, i));
	}
	/* Two values a segment, one scratch area an operation, one copy a move. */
	most = 2 * segments + operations + moves + 1;
	p->tenants = calloc(most, sizeof(*p->tenants));
	p->plan->buffers = calloc(most, sizeof(*p->plan->buffers));
	p->plan->moves = calloc(moves + 1, sizeof(*p->plan->moves));
	return p->tenants && p->plan->buffers && p->plan->moves ? SGPU_OK : sgpu_fail_nomem(error);
}

int sgpu_plan_create(const struct sgpu_manifest *manifest, int devices,
		     const struct sgpu_plan_costs *costs, struct sgpu_plan **plan,
		     struct sgpu_error *error)
{
	struct planner p = { .manifest = manifest, .costs = costs };
	int rc;

	*plan = NULL;
	if (devices < 1 || devices > SGPU_RUN_DEVICES_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "a graph runs on 1 to %d devices",
				 SGPU_RUN_DEVICES_MAX);
	}
	if (!manifest->order) {
		return sgpu_fail(error, SGPU_EINVALID,
				 "the operations have no order: their graph has a cycle");
	}
	p.plan = calloc(1, sizeof(*p.plan));
	if (!p.plan) {
		return sgpu_fail_nomem(error);
	}
	p.plan->device_count = devices;
	rc = allocate(&p, error);
	rc = rc ? rc : plan_streams(&p, error);
	if (rc == SGPU_OK && manifest->operation_count <= costs->matrix_max) {
		rc = find_ancestors(&p, error);
	}
	rc = rc ? rc : plan_buffers(&p, error);
	free(p.ancestors);
	free(p.segments);
	free(p.operations);
	free(p.tenants);
	if (rc < 0) {
		sgpu_plan_free(&p.plan);
	}
	*plan = p.plan;
	return rc;
}

void sgpu_plan_free(struct sgpu_plan **plan)
{
	if (!*plan) {
		return;
	}
	free((*plan)->operations);
	free((*plan)->segments);
	free((*plan)->buffers);
	free((*plan)->moves);
	free(*plan);
	*plan = NULL;
}
