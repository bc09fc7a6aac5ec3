/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: streams of chains and diamonds, and, by brute force on random graphs, that no buffer is
 * given away while anything may still touch its tenant.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include <sgpu/base.h>

#include "ops/ops.h"
#include "run/run.h"
#include "run/private.h"
#include "unit.h"

/* ---- manifests as text ---- */
struct text {
	char *data;
	size_t size, capacity;
};

static void SGPU_PRINTF(2, 3) add(struct text *text, const char *format, ...)
{
	va_list list;
	int wrote;

	if (text->capacity - text->size < 512) {
		text->capacity = text->capacity ? 2 * text->capacity : 4096;
		text->data = realloc(text->data, text->capacity);
	}
	va_start(list, format);
	wrote = vsnprintf(text->data + text->size, text->capacity - text->size, format, list);
	va_end(list);
	text->size += (size_t)wrote;
}

static void add_segment(struct text *text, const char *id, int number, const char *direction,
			const char *dtype, bool first)
{
	add(text, "%s{\"segment_id\":\"%s%d\",", first ? "" : ",", id, number);
	if (strcmp(direction, "INTERMEDIATE") != 0) {
		add(text, "\"data_location_client\":\"%s%d.bin\",", id, number);
	}
	add(text,
	    "\"sensitivity_level\":\"LOW\",\"direction\":\"%s\","
	    "\"data_type_info\":{\"dtype\":\"%s\",\"shape\":[8,8,16]}}",
	    direction, dtype);
}

static struct sgpu_manifest *load(struct text *text)
{
	struct sgpu_manifest *manifest = NULL;
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_error error = { 0 };

	if (sgpu_ops_load_manifest(text->data, text->size, "test", 0, &manifest, &diagnostics,
				   &error) != SGPU_OK) {
		printf("# %s\n", diagnostics.count ? diagnostics.list[0].text : error.text);
	}
	sgpu_diagnostics_clear(&diagnostics);
	free(text->data);
	*text = (struct text){ 0 };
	return manifest;
}

static struct text begin_segments(void)
{
	struct text text = { 0 };

	add(&text, "{\"version\":1,\"manifest_id\":\"m\",\"segments\":[");
	return text;
}

static void begin_operations(struct text *text)
{
	add(text, "],\"operations\":[");
}

/* An operation that copies one segment to another. */
static void add_copy(struct text *text, int number, const char *from, int from_number,
		     const char *to, int to_number)
{
	add(text,
	    "%s{\"gpu_operation_id\":\"O%d\",\"kernel\":\"copy\",\"arguments\":", number ? "," : "",
	    number);
	add(text, "{\"input\":\"%s%d\",\"output\":\"%s%d\"}}", from, from_number, to, to_number);
}

/* The end of the text, which is loaded and planned; NULL for either that cannot be. */
static struct sgpu_plan *planned(struct text *text, int devices,
				 const struct sgpu_plan_costs *costs,
				 struct sgpu_manifest **manifest)
{
	struct sgpu_plan *plan = NULL;
	struct sgpu_error error;

	add(text, "]}");
	*manifest = load(text);
	return *manifest && !sgpu_plan_create(*manifest, devices, costs, &plan, &error) ? plan
											: NULL;
}

/* ---- the brute force ---- */
struct touch {
	bool stays;
	int order;     /* of the operation that makes it, -1: arrives */
	int ops[4096]; /* whoever touches it */
	int count;
};

static bool *ancestors_of(const struct sgpu_manifest *m)
{
	size_t n = (size_t)m->operation_count;
	bool *before = calloc(n * n, 1);

	for (size_t i = 0; i < n; i++) {
		size_t op = (size_t)m->order[i];

		for (int k = 0; k < m->operations[op].before_count; k++) {
			size_t b = (size_t)m->operations[op].before[k];

			before[op * n + b] = true;
			for (size_t a = 0; a < n; a++) {
				before[op * n + a] |= before[b * n + a];
			}
		}
	}
	return before;
}

/* What moves into a buffer when the operation `order` has ended, or when it has arrived, and is
 * read there. */
static int moved_tenants(const struct sgpu_manifest *m, const struct sgpu_plan *p, int segment,
			 int buffer, int order, struct touch *list)
{
	const struct sgpu_segment *s = &m->segments[segment];
	int count = 0;

	for (int i = p->segments[segment].first_move;
	     i >= 0 && sgpu_segment_is_input(s) == (order < 0); i = p->moves[i].next) {
		if (p->moves[i].to_buffer != buffer) {
			continue;
		}
		list[count] = (struct touch){ .order = order };
		for (int k = 0; k < s->reader_count; k++) {
			if (p->operations[s->readers[k]].device == p->moves[i].to) {
				list[count].ops[list[count].count++] = s->readers[k];
			}
		}
		count++;
	}
	return count;
}

/* Everything that lives in a buffer, in the order in which it moves in. */
static int tenants_of(const struct sgpu_manifest *m, const struct sgpu_plan *p, int buffer,
		      struct touch *list)
{
	int count = 0;

	for (int s = 0; s < m->segment_count; s++) {
		if (p->segments[s].in_buffer == buffer) {
			struct touch *t = &list[count++];

			*t = (struct touch){ .order = -1,
					     .stays = m->segments[s].reader_count == 0 };
			for (int k = 0; k < m->segments[s].reader_count; k++) {
				t->ops[t->count++] = m->segments[s].readers[k];
			}
		}
		count += moved_tenants(m, p, s, buffer, -1, &list[count]);
	}
	for (int i = 0; i < m->operation_count; i++) {
		int op = m->order[i];

		for (int s = 0; s < m->segment_count; s++) {
			if (m->segments[s].writer == op && p->segments[s].out_buffer == buffer) {
				struct touch *t = &list[count++];

				*t = (struct touch){ .order = op,
						     .stays = sgpu_segment_is_output(
							     &m->segments[s]) };
				t->ops[t->count++] = op;
				for (int k = 0; k < m->segments[s].reader_count; k++) {
					t->ops[t->count++] = m->segments[s].readers[k];
				}
			}
			if (m->segments[s].writer == op) {
				count += moved_tenants(m, p, s, buffer, op, &list[count]);
			}
		}
		if (p->operations[op].scratch == buffer) {
			list[count] = (struct touch){ .order = op };
			list[count].ops[list[count].count++] = op;
			count++;
		}
	}
	return count;
}

static bool plan_is_legal(const struct sgpu_manifest *m, const struct sgpu_plan *p, int *shared)
{
	static struct touch list[600];
	bool *before = ancestors_of(m), legal = true;
	size_t n = (size_t)m->operation_count;

	for (int b = 0; b < p->buffer_count; b++) {
		int count = tenants_of(m, p, b, list);

		for (int later = 1; later < count; later++) {
			for (int earlier = 0; earlier < later; earlier++) {
				legal = legal && !list[earlier].stays && list[later].order >= 0;
				for (int k = 0; k < list[earlier].count && legal; k++) {
					legal = before[(size_t)list[later].order * n +
						       (size_t)list[earlier].ops[k]];
				}
			}
		}
		*shared += count > 1;
	}
	free(before);
	return legal;
}

static bool plan_is_complete(const struct sgpu_manifest *m, const struct sgpu_plan *p)
{
	uint64_t sum = 0;
	bool complete = true;
	int listed = 0;

	for (int s = 0; s < p->stream_count; s++) {
		for (int i = p->first[s]; i >= 0; i = p->operations[i].next) {
			complete = complete && p->operations[i].stream == s &&
				   listed++ < m->operation_count;
		}
	}
	complete = complete && listed == m->operation_count;
	for (int s = 0; s < m->segment_count; s++) {
		uint64_t size = 0;
		int in = p->segments[s].in_buffer, out = p->segments[s].out_buffer;

		complete = complete && sgpu_type_bytes(&m->segments[s].type, &size);
		complete = complete && (in >= 0) == sgpu_segment_is_input(&m->segments[s]) &&
			   in < p->buffer_count;
		complete = complete && (out >= 0) == (m->segments[s].writer >= 0) &&
			   out < p->buffer_count;
		complete = complete && (in < 0 || p->buffers[in].size >= size) &&
			   (in < 0 || in != out);
		complete = complete && (out < 0 || p->buffers[out].size >= size);
	}
	for (int b = 0; b < p->buffer_count; b++) {
		sum += p->buffers[b].size;
	}
	for (int i = 0; i < m->operation_count; i++) {
		complete = complete && p->operations[i].stream >= 0 &&
			   p->operations[i].stream < p->stream_count;
	}
	return complete && sum == p->bytes && p->bytes <= p->bytes_unshared &&
	       p->stream_count <= SGPU_PLAN_STREAMS_MAX;
}

static int buffer_device(const struct sgpu_plan *p, int buffer)
{
	return buffer < 0 || buffer >= p->buffer_count ? -1 : p->buffers[buffer].device;
}

/* Each operation has all of its buffers on its own device, and what it reads from another one is
 * moved there once. */
static bool devices_are_right(const struct sgpu_manifest *m, const struct sgpu_plan *p)
{
	bool right = true;

	for (int i = 0; i < m->operation_count; i++) {
		const struct sgpu_operation *op = &m->operations[i];
		const int device = p->operations[i].device;

		right = right && device >= 0 && device < p->device_count &&
			p->operations[i].stream % p->device_count == device;
		right = right && (p->operations[i].scratch < 0 ||
				  buffer_device(p, p->operations[i].scratch) == device);
		for (int k = 0; k < op->arg_count; k++) {
			int segment = op->args[k].segment;
			int buffer = op->args[k].output ? p->segments[segment].out_buffer
							: sgpu_plan_read_buffer(p, segment, device);

			right = right && buffer_device(p, buffer) == device;
		}
	}
	for (int i = 0; i < p->move_count; i++) {
		const struct sgpu_plan_move *move = &p->moves[i];
		const struct sgpu_segment *s = &m->segments[move->segment];
		bool read = false;

		right = right && move->from != move->to &&
			buffer_device(p, move->from_buffer) == move->from &&
			buffer_device(p, move->to_buffer) == move->to;
		right = right &&
			move->from_buffer == (sgpu_segment_is_input(s)
						      ? p->segments[move->segment].in_buffer
						      : p->segments[move->segment].out_buffer);
		for (int k = 0; k < s->reader_count; k++) {
			read = read || p->operations[s->readers[k]].device == move->to;
		}
		for (int k = 0; k < i; k++) {
			right = right && (p->moves[k].segment != move->segment ||
					  p->moves[k].to != move->to);
		}
		right = right && read;
	}
	return right;
}

/* ---- tests ---- */
/* in0 -> O0 -> t0 -> O1 -> t1 ... -> out */
static struct sgpu_plan *chain(int length, int devices, struct sgpu_manifest **manifest)
{
	struct text text = begin_segments();

	add_segment(&text, "in", 0, "INPUT", "f32", true);
	for (int i = 0; i < length - 1; i++) {
		add_segment(&text, "t", i, "INTERMEDIATE", "f32", false);
	}
	add_segment(&text, "out", 0, "OUTPUT", "f32", false);
	begin_operations(&text);
	for (int i = 0; i < length; i++) {
		add_copy(&text, i, i ? "t" : "in", i ? i - 1 : 0, i < length - 1 ? "t" : "out",
			 i < length - 1 ? i : 0);
	}
	return planned(&text, devices, &SGPU_PLAN_COSTS, manifest);
}

UNIT_TEST(chains_share_one_stream_and_three_buffers)
{
	struct sgpu_manifest *m;
	struct sgpu_plan *p = chain(20, 1, &m);
	int shared = 0;

	REQUIRE(p != NULL);
	CHECK(p->stream_count == 1);
	/* The input's buffer and one more take turns: O1 may write over the input, which O0 has
	 * read. */
	CHECK(p->buffer_count <= 3);
	CHECK(p->bytes_unshared == 21 * 4096);
	CHECK(p->bytes <= 3 * 4096);
	CHECK(plan_is_complete(m, p) && plan_is_legal(m, p, &shared) && shared > 0);
	sgpu_plan_free(&p);
	CHECK(p == NULL);
	sgpu_manifest_free(&m);
}

UNIT_TEST(a_diamond_has_two_streams_and_keeps_what_both_sides_read)
{
	struct text text = begin_segments();
	struct sgpu_manifest *m;
	struct sgpu_plan *p;
	int shared = 0;

	add_segment(&text, "in", 0, "INPUT", "f32", true);
	for (int i = 0; i < 3; i++) {
		add_segment(&text, "t", i, "INTERMEDIATE", "f32", false);
	}
	add_segment(&text, "out", 0, "OUTPUT", "f32", false);
	begin_operations(&text);
	add_copy(&text, 0, "in", 0, "t", 0);
	add_copy(&text, 1, "t", 0, "t", 1);
	add_copy(&text, 2, "t", 0, "t", 2);
	add(&text, ",{\"gpu_operation_id\":\"JOIN\",\"kernel\":\"vector_add\",\"arguments\":"
		   "{\"a\":\"t1\",\"b\":\"t2\",\"output\":\"out0\"}}");
	p = planned(&text, 1, &SGPU_PLAN_COSTS, &m);
	REQUIRE(p != NULL);
	CHECK(p->stream_count == 2);
	CHECK(p->operations[1].stream != p->operations[2].stream);
	CHECK(p->operations[0].stream == p->operations[1].stream ||
	      p->operations[0].stream == p->operations[2].stream);
	CHECK(p->segments[1].out_buffer != p->segments[2].out_buffer &&
	      p->segments[1].out_buffer != p->segments[3].out_buffer &&
	      p->segments[2].out_buffer != p->segments[3].out_buffer);
	CHECK(plan_is_complete(m, p) && plan_is_legal(m, p, &shared));
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

static uint32_t random_state = 1;
static int random_below(int limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (int)((random_state >> 8) % (uint32_t)limit);
}

/* Operations over values of two types: casts turn one into the other, sums read two alike. */
static struct sgpu_manifest *random_graph(int operations, int window)
{
	struct text text, ops = { 0 };
	int values = 2 + random_below(3), arrived = values, wide[600] = { 0 };
	bool read[600] = { false };

	for (int i = 0; i < values; i++) {
		wide[i] = random_below(2);
	}
	for (int i = 0; i < operations; i++) {
		int from = values > window ? values - window : 0,
		    a = from + random_below(values - from), b = a;

		read[a] = true;
		add(&ops, "%s{\"gpu_operation_id\":\"O%d\",\"kernel\":", i ? "," : "", i);
		for (int tries = 0; tries < 8 && (b == a || wide[b] != wide[a]); tries++) {
			b = from + random_below(values - from);
		}
		if (b == a || wide[b] != wide[a]) {
			wide[values] = !wide[a];
			add(&ops,
			    "\"cast\",\"params\":{\"dtype\":\"%s\"},\"arguments\":{\"input\":\"v%"
			    "d\",",
			    wide[a] ? "f32" : "f64", a);
		} else if (!wide[a] && random_below(3) == 0) { /* needs scratch memory */
			wide[values] = wide[a];
			add(&ops,
			    "\"gaussian3d\",\"params\":{\"sigma\":1},\"arguments\":{\"input\":\"v%"
			    "d\",",
			    a);
		} else {
			read[b] = true;
			wide[values] = wide[a];
			add(&ops, "\"vector_add\",\"arguments\":{\"a\":\"v%d\",\"b\":\"v%d\",", a,
			    b);
		}
		add(&ops, "\"output\":\"v%d\"}}", values++);
	}
	text = begin_segments();
	for (int i = 0, first = 1; i < values; i++) {
		bool leaves = !read[i] || random_below(5) == 0;

		if (i >= arrived || read[i]) {
			add_segment(&text, "v", i,
				    i < arrived ? "INPUT"
				    : leaves	? "OUTPUT"
						: "INTERMEDIATE",
				    wide[i] ? "f64" : "f32", first);
			first = 0;
		}
	}
	begin_operations(&text);
	for (size_t at = 0; at < ops.size; at += 256) {
		add(&text, "%.*s", (int)(ops.size - at < 256 ? ops.size - at : 256), ops.data + at);
	}
	add(&text, "]}");
	free(ops.data);
	return load(&text);
}

UNIT_TEST(everything_is_where_it_is_read_and_no_buffer_is_reused_while_it_may_be_touched)
{
	const int rounds = getenv("SGPU_TEST_SMALL") ? 100 : 300;
	/* by_chains: the same as if there were too many to look at the whole graph. */
	const struct sgpu_plan_costs nothing = { .matrix_max = 4096, .streams = 64 },
				     by_chains = { .streams = 64 };
	const struct sgpu_plan_costs *const costs[] = { &SGPU_PLAN_COSTS, &by_chains,
							&SGPU_PLAN_COSTS, &nothing, &by_chains };
	int shared[5] = { 0 }, moves = 0;

	for (int round = 0; round < rounds; round++) {
		struct sgpu_manifest *m = random_graph(1 + random_below(60), 2 + random_below(30));
		struct sgpu_plan *p = NULL;
		struct sgpu_error error;

		REQUIRE(m != NULL);
		for (int i = 0; i < 5; i++) { /* the first two on one device */
			REQUIRE(sgpu_plan_create(m, i < 2 ? 1 : 2 + random_below(4), costs[i], &p,
						 &error) == SGPU_OK);
			CHECK(plan_is_complete(m, p) && devices_are_right(m, p) &&
			      plan_is_legal(m, p, &shared[i]));
			moves += p->move_count;
			sgpu_plan_free(&p);
		}
		sgpu_manifest_free(&m);
		if (unit_bad) {
			printf("# round %d\n", round);
			return;
		}
	}
	for (int i = 0; i < 5; i++) {
		CHECK(shared[i] > rounds / 3);
	}
	CHECK(moves > 3 * rounds);
}

UNIT_TEST(devices_are_one_to_sixteen)
{
	struct sgpu_manifest *m;
	struct sgpu_plan *p = chain(3, SGPU_RUN_DEVICES_MAX, &m);
	struct sgpu_error error;

	REQUIRE(p != NULL);
	CHECK(p->move_count == 0 && devices_are_right(m, p));
	sgpu_plan_free(&p);
	CHECK(sgpu_plan_create(m, 0, &SGPU_PLAN_COSTS, &p, &error) == SGPU_EUSAGE && p == NULL);
	CHECK(sgpu_plan_create(m, SGPU_RUN_DEVICES_MAX + 1, &SGPU_PLAN_COSTS, &p, &error) ==
		      SGPU_EUSAGE &&
	      p == NULL);
	sgpu_manifest_free(&m);
}

UNIT_TEST(a_chain_of_ten_thousand_operations_needs_three_buffers)
{
	struct sgpu_manifest *m;
	struct sgpu_plan *p = chain(10000, 1, &m);

	REQUIRE(p != NULL);
	CHECK(p->stream_count == 1);
	CHECK(p->buffer_count <= 4);
	CHECK(p->bytes < p->bytes_unshared / 1000);
	CHECK(plan_is_complete(m, p));
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

UNIT_TEST(an_input_that_nothing_reads_keeps_its_buffer)
{
	struct text text = begin_segments();
	struct sgpu_manifest *m;
	struct sgpu_plan *p;
	int unread;

	/* It arrives whenever it likes: whatever shared its buffer would be overwritten. */
	add_segment(&text, "in", 0, "INPUT", "f32", true);
	for (int i = 0; i < 6; i++) {
		add_segment(&text, "t", i, i < 5 ? "INTERMEDIATE" : "INPUT_OUTPUT", "f32", false);
	}
	begin_operations(&text);
	for (int i = 0; i < 6; i++) {
		add_copy(&text, i, i ? "t" : "in", i ? i - 1 : 0, "t", i);
	}
	p = planned(&text, 1, &SGPU_PLAN_COSTS, &m);
	REQUIRE(p != NULL);
	unread = sgpu_manifest_segment(m, "t5"); /* written, and what arrives of it is not read */
	REQUIRE(unread >= 0 && p->segments[unread].in_buffer >= 0);
	for (int s = 0; s < m->segment_count; s++) {
		CHECK(p->segments[s].out_buffer != p->segments[unread].in_buffer);
		CHECK(s == unread || p->segments[s].in_buffer != p->segments[unread].in_buffer);
	}
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

/* Plans copies that follow none; the arguments of each have 8192 bytes. */
static void plan_copies(const struct sgpu_plan_costs *costs, int streams)
{
	struct text text = begin_segments();
	struct sgpu_manifest *m;
	struct sgpu_plan *p;

	add_segment(&text, "in", 0, "INPUT", "f32", true);
	for (int i = 0; i < 200; i++) {
		add_segment(&text, "out", i, "OUTPUT", "f32", false);
	}
	begin_operations(&text);
	for (int i = 0; i < 200; i++) {
		add_copy(&text, i, "in", 0, "out", i);
	}
	p = planned(&text, 1, costs, &m);
	REQUIRE(p != NULL);
	CHECK(p->stream_count == streams);
	CHECK((p->operations[0].stream != p->operations[1].stream) == (streams > 1));
	CHECK(plan_is_complete(m, p));
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

UNIT_TEST(streams_are_bounded)
{
	struct sgpu_plan_costs costs = SGPU_PLAN_COSTS;

	costs.small = 8192;
	plan_copies(&costs, 1);
	costs.small = 8191;
	plan_copies(&costs, costs.streams);
	costs.streams = 1000;
	plan_copies(&costs, SGPU_PLAN_STREAMS_MAX);
}

/* Small operations that come when all streams are in use get these in turn. */
UNIT_TEST(small_operations_share_no_stream_of_a_large_one)
{
	enum { LARGE = 3, SMALL = 5 };
	struct sgpu_plan_costs costs = SGPU_PLAN_COSTS;
	struct text text = begin_segments();
	struct sgpu_manifest *m;
	struct sgpu_plan *p;

	add_segment(&text, "in", 0, "INPUT", "f32", true);
	for (int i = 0; i < LARGE + SMALL; i++) {
		add_segment(&text, "out", i, "OUTPUT", "f32", false);
	}
	begin_operations(&text);
	for (int i = 0; i < LARGE; i++) {
		add(&text,
		    "%s{\"gpu_operation_id\":\"L%d\",\"kernel\":\"vector_add\",\"arguments\":",
		    i ? "," : "", i);
		add(&text, "{\"a\":\"in0\",\"b\":\"in0\",\"output\":\"out%d\"}}", i);
	}
	for (int i = LARGE; i < LARGE + SMALL; i++) {
		add_copy(&text, i, "in", 0, "out", i);
	}
	costs.small = 8192;
	costs.streams = LARGE;
	p = planned(&text, 1, &costs, &m);
	REQUIRE(p != NULL);
	for (int i = 0; i < LARGE + SMALL; i++) {
		CHECK(p->operations[i].stream == i % LARGE);
	}
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

/* What follows a small operation may be large, and holds up no small ones after that. */
UNIT_TEST(a_large_operation_shares_its_stream_with_none)
{
	struct sgpu_plan_costs costs = SGPU_PLAN_COSTS;
	struct text text = begin_segments();
	struct sgpu_manifest *m;
	struct sgpu_plan *p;

	add_segment(&text, "in", 0, "INPUT", "f32", true);
	add_segment(&text, "t", 0, "INTERMEDIATE", "f32", false);
	for (int i = 1; i < 5; i++) {
		add_segment(&text, "out", i, "OUTPUT", "f32", false);
	}
	begin_operations(&text);
	add_copy(&text, 0, "in", 0, "t", 0);
	add(&text, ",{\"gpu_operation_id\":\"LARGE\",\"kernel\":\"vector_add\",\"arguments\":"
		   "{\"a\":\"t0\",\"b\":\"in0\",\"output\":\"out1\"}}");
	for (int i = 2; i < 5; i++) {
		add_copy(&text, i, "in", 0, "out", i);
	}
	costs.small = 8192;
	p = planned(&text, 1, &costs, &m);
	REQUIRE(p != NULL);
	CHECK(p->stream_count == 2);
	CHECK(p->operations[0].stream == 0 && p->operations[1].stream == 0);
	for (int i = 2; i < 5; i++) {
		CHECK(p->operations[i].stream == 1);
	}
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

/* Of two chains that are listed in turn, the first runs while the second's input arrives. */
UNIT_TEST(a_stream_runs_operations_in_the_order_in_which_what_they_read_arrives)
{
	static const char *const ids[] = { "in", "t", "out" }, *const directions[] = {
		"INPUT", "INTERMEDIATE", "OUTPUT"
	};
	static const int order[] = { 0, 2, 1, 3 };
	struct sgpu_plan_costs costs = SGPU_PLAN_COSTS;
	struct text text = begin_segments();
	struct sgpu_manifest *m;
	struct sgpu_plan *p;

	costs.streams = 1;
	for (int i = 0; i < 6; i++) {
		add_segment(&text, ids[i / 2], i % 2, directions[i / 2], "f32", i == 0);
	}
	begin_operations(&text);
	for (int i = 0; i < 4; i++) {
		add_copy(&text, i, ids[i / 2], i % 2, ids[i / 2 + 1], i % 2);
	}
	p = planned(&text, 1, &costs, &m);
	REQUIRE(p != NULL);
	CHECK(p->stream_count == 1 && plan_is_complete(m, p));
	for (int i = 0, operation = p->first[0]; i < 4; i++) {
		CHECK(operation == order[i]);
		operation = p->operations[operation].next;
	}
	sgpu_plan_free(&p);
	sgpu_manifest_free(&m);
}

int main(void)
{
	UNIT_RUN(chains_share_one_stream_and_three_buffers);
	UNIT_RUN(a_diamond_has_two_streams_and_keeps_what_both_sides_read);
	UNIT_RUN(everything_is_where_it_is_read_and_no_buffer_is_reused_while_it_may_be_touched);
	UNIT_RUN(devices_are_one_to_sixteen);
	UNIT_RUN(a_chain_of_ten_thousand_operations_needs_three_buffers);
	UNIT_RUN(an_input_that_nothing_reads_keeps_its_buffer);
	UNIT_RUN(streams_are_bounded);
	UNIT_RUN(a_large_operation_shares_its_stream_with_none);
	UNIT_RUN(small_operations_share_no_stream_of_a_large_one);
	UNIT_RUN(a_stream_runs_operations_in_the_order_in_which_what_they_read_arrives);
	return unit_done();
}
