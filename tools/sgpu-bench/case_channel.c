/* SPDX-License-Identifier: Apache-2.0
 *
 * channel: the commands of secure channels, beside what plain memory of the same size costs.
 */
#include <string.h>

#include <sgpu/channel.h>

#include "cases.h"

/* Channels and frames: the first big page's frames are unprotected, those of the second hold directories and tables. The
 * standing channel has tables at two indexes of its directory; new ones are made beside it. */
enum { BOOT = 0, STANDING = 1, PASSING = 2, PAGES = 8, SMALL_INDEX = 0, BIG_INDEX = 1, FREE_INDEX = 2 };
enum { UNPROTECTED_PAGES = 1, TABLE_PAGES = 1, SMALL_PAGES = 1, BIG_PAGES = PAGES, END_PAGES = 1 };
enum { ALL_PAGES = UNPROTECTED_PAGES + TABLE_PAGES + SMALL_PAGES + BIG_PAGES + END_PAGES };

struct scene {
	struct sgpu_bench *bench;
	struct sgpu_pager pager;
	struct sgpu_processor *processor;
	struct sgpu_key owner;
	struct sgpu_session *session;   /* of the standing channel */
	struct sgpu_session *passing;   /* of the one that comes and goes */
	struct sgpu_reply reply;
	uint32_t per_big;               /* frames */
	void *space;                    /* of nobody's: for pages that are mapped without a channel */
};

/* Frame `number` of those for directories and tables. */
static uint32_t table_frame(const struct scene *s, uint32_t number)
{
	return UNPROTECTED_PAGES * s->per_big + number;
}

/* Carries a command out and adds its time. */
static int send(struct scene *s, const struct sgpu_command *command, uint64_t *ns, struct sgpu_error *error)
{
	uint64_t begin = sgpu_now_ns();

	(void)sgpu_processor_command(s->processor, command, &s->reply);
	if (ns) {
		*ns += sgpu_now_ns() - begin;
	}
	return s->reply.refusal == SGPU_REFUSED_NOT ? SGPU_OK :
	       sgpu_fail(error, SGPU_EDIFFERS, "a command was refused: %s", s->reply.error.text);
}

static int create(struct scene *s, uint32_t channel, uint32_t directory, uint64_t *ns, struct sgpu_error *error)
{
	struct sgpu_command command = { .op = SGPU_CH_CREATE, .via = BOOT, .channel = channel,
					.create = { .directory = directory, .has_key = channel != BOOT } };

	memcpy(command.create.owner_key, s->owner.public_half, sizeof(command.create.owner_key));
	return send(s, &command, ns, error);
}

static int pde(struct scene *s, uint32_t channel, uint32_t index, uint32_t table, bool big, uint64_t *ns,
	       struct sgpu_error *error)
{
	const struct sgpu_command command = { .op = SGPU_CH_PDE, .via = BOOT, .channel = channel,
					      .pde = { .index = index, .table = table, .big = big } };

	return send(s, &command, ns, error);
}

/* The pages of a size that are mapped, by their first frames. */
static void name_pages(const struct scene *s, bool big, uint32_t pages[PAGES])
{
	uint32_t first = (UNPROTECTED_PAGES + TABLE_PAGES + (big ? SMALL_PAGES : 0)) * s->per_big;

	for (uint32_t i = 0; i < PAGES; i++) {
		pages[i] = first + i * (big ? s->per_big : 1);
	}
}

/* Maps the pages of a size, or unmaps them with the owner's word, whose making is not timed. */
static int pte(struct scene *s, uint32_t channel, bool big, bool map, uint64_t *ns, struct sgpu_error *error)
{
	struct sgpu_command command = { .op = SGPU_CH_PTE, .via = BOOT, .channel = channel,
					.pte = { .directory_index = big ? BIG_INDEX : SMALL_INDEX, .big = big,
						 .has_mac = !map, .count = PAGES } };
	uint64_t page = big ? s->pager.info.big : s->pager.info.small;
	uint32_t pages[PAGES];

	name_pages(s, big, pages);
	for (uint32_t i = 0; i < PAGES && !map; i++) {
		pages[i] = SGPU_NO_FRAME;
	}
	command.pte.pages = pages;
	if (!map) {
		sgpu_session_unmap(channel == STANDING ? s->session : s->passing,
				   (uint64_t)command.pte.directory_index * SGPU_CHANNEL_ENTRIES * s->pager.info.small,
				   PAGES * page, &command.pte.mac_counter, command.pte.mac);
	}
	return send(s, &command, ns, error);
}

static int destroy(struct scene *s, uint64_t *ns, struct sgpu_error *error)
{
	struct sgpu_command command = { .op = SGPU_CH_DESTROY, .via = BOOT, .channel = PASSING,
					.destroy = { .has_mac = true } };

	sgpu_session_destroy(s->passing, &command.destroy.mac_counter, command.destroy.mac);
	sgpu_session_close(&s->passing);
	return send(s, &command, ns, error);
}

/* ---- what is timed ---- */
struct job {
	struct scene *scene;
	bool big, map;
	uint64_t size;       /* of plain memory */
};

static int run_create(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct job *job = argument;
	struct scene *s = job->scene;
	int rc = create(s, PASSING, table_frame(s, 3), ns, error);

	if (rc == SGPU_OK) {
		/* The grant is its owner's. */
		rc = sgpu_session_open(&s->owner, &s->reply.grant, &s->passing, error);
	}
	return rc == SGPU_OK ? destroy(s, NULL, error) : rc;
}

static int run_pde(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct job *job = argument;
	int rc = pde(job->scene, STANDING, FREE_INDEX, table_frame(job->scene, 4), job->big, ns, error);

	return rc == SGPU_OK ? pde(job->scene, STANDING, FREE_INDEX, SGPU_NO_FRAME, job->big, NULL, error) : rc;
}

static int run_pte(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct job *job = argument;
	struct scene *s = job->scene;
	int rc = pte(s, STANDING, job->big, true, job->map ? ns : NULL, error);

	rc = rc ? rc : sgpu_session_summary(s->session, &s->reply.summary, error);
	if (rc == SGPU_OK && (s->reply.summary.pages != PAGES || s->reply.summary.protected_pages != PAGES)) {
		rc = sgpu_fail(error, SGPU_EDIFFERS, "%u pages are mapped, %u of them protected, in place of %d",
			       s->reply.summary.pages, s->reply.summary.protected_pages, PAGES);
	}
	return rc == SGPU_OK ? pte(s, STANDING, job->big, false, job->map ? NULL : ns, error) : rc;
}

/* What the device does for it, without a channel. */
static int run_mapping(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	const struct job *job = argument;
	const struct scene *s = job->scene;
	const struct sgpu_pager *pager = &s->pager;
	uint64_t page = job->big ? pager->info.big : pager->info.small, begin, between;
	uint32_t pages[PAGES];
	int rc, ended;

	name_pages(s, job->big, pages);
	begin = sgpu_now_ns();
	rc = pager->map(pager->device, s->space, 0, pages, PAGES, page, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	between = sgpu_now_ns();
	rc = pager->clear(pager->device, s->space, 0, PAGES * page, error);
	ended = pager->unmap(pager->device, s->space, 0, PAGES * page, rc == SGPU_OK ? error : NULL);
	*ns = job->map ? between - begin : sgpu_now_ns() - between;
	return rc == SGPU_OK ? ended : rc;
}

static int run_plain(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct job *job = argument;
	struct sgpu_device *device = job->scene->bench->device;
	uint64_t begin = sgpu_now_ns(), between;
	sgpu_devptr memory = 0;
	int rc = sgpu_device_alloc(device, job->size, &memory, error);

	between = sgpu_now_ns();
	sgpu_device_free(device, &memory, job->size);
	*ns = job->map ? between - begin : sgpu_now_ns() - between;
	return rc;
}

/* A channel of the same owner would share what is mapped; so this one's is another. */
static int prepare_destroy(void *argument, struct sgpu_error *error)
{
	struct job *job = argument;
	struct scene *s = job->scene;
	struct sgpu_key standing = s->owner;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &s->owner, error);

	rc = rc == SGPU_OK ? create(s, PASSING, table_frame(s, 3), NULL, error) : rc;
	rc = rc ? rc : sgpu_session_open(&s->owner, &s->reply.grant, &s->passing, error);
	rc = rc == SGPU_OK ? pde(s, PASSING, SMALL_INDEX, table_frame(s, 4), false, NULL, error) : rc;
	rc = rc == SGPU_OK ? pde(s, PASSING, BIG_INDEX, table_frame(s, 5), true, NULL, error) : rc;
	rc = rc == SGPU_OK ? pte(s, PASSING, false, true, NULL, error) : rc;
	rc = rc == SGPU_OK ? pte(s, PASSING, true, true, NULL, error) : rc;
	sgpu_key_clear(&s->owner);
	s->owner = standing;
	sgpu_wipe(&standing, sizeof(standing));
	return rc;
}

static int run_destroy(void *argument, uint64_t *ns, struct sgpu_error *error)
{
	struct job *job = argument;

	return destroy(job->scene, ns, error);
}

/* ---- points ---- */
static int measure_alone(struct scene *s, const char *command, struct job *job,
			 int (*prepare)(void *, struct sgpu_error *), int (*run)(void *, uint64_t *, struct sgpu_error *),
			 struct sgpu_error *error)
{
	const struct sgpu_bench_variant variant = { .name = "channel", .prepare = prepare, .run = run, .argument = job };
	const struct sgpu_bench_point point = { .parameters = { { "command", command, 0 } } };

	return sgpu_bench_measure(s->bench, &point, &variant, 1, error);
}

static int measure_pages(struct scene *s, bool big, bool map, struct sgpu_error *error)
{
	uint64_t page = big ? s->pager.info.big : s->pager.info.small;
	struct job job = { .scene = s, .big = big, .map = map, .size = PAGES * page };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = run_plain, .argument = &job },
		{ .name = "channel", .run = run_pte, .argument = &job },
		{ .name = "mapping alone", .run = run_mapping, .argument = &job },
	};
	const struct sgpu_bench_point point = { .parameters = { { "command", map ? "CH_PTE" : "CH_PTE-unmap", 0 },
								{ "pages", big ? "big-8" : "small-8", 0 },
								{ "size_bytes", NULL, PAGES * page } } };

	return sgpu_bench_measure(s->bench, &point, variants, 3, error);
}

static int measure_destroy(struct scene *s, struct sgpu_error *error)
{
	uint64_t size = PAGES * (s->pager.info.small + s->pager.info.big);
	struct job job = { .scene = s, .map = false, .size = size };
	const struct sgpu_bench_variant variants[] = {
		{ .name = "plain", .run = run_plain, .argument = &job },
		{ .name = "channel", .prepare = prepare_destroy, .run = run_destroy, .argument = &job },
	};
	const struct sgpu_bench_point point = { .parameters = { { "command", "CH_DESTROY", 0 },
								{ "size_bytes", NULL, size } } };

	return sgpu_bench_measure(s->bench, &point, variants, 2, error);
}

static int measure_commands(struct scene *s, struct sgpu_error *error)
{
	struct job small = { .scene = s }, big = { .scene = s, .big = true };
	int rc = measure_alone(s, "CH_CREATE", &small, NULL, run_create, error);

	rc = rc == SGPU_OK ? measure_alone(s, "CH_PDE-small", &small, NULL, run_pde, error) : rc;
	rc = rc == SGPU_OK ? measure_alone(s, "CH_PDE-big", &big, NULL, run_pde, error) : rc;
	rc = rc == SGPU_OK ? measure_pages(s, false, true, error) : rc;
	rc = rc == SGPU_OK ? measure_pages(s, false, false, error) : rc;
	rc = rc == SGPU_OK ? measure_pages(s, true, true, error) : rc;
	rc = rc == SGPU_OK ? measure_pages(s, true, false, error) : rc;
	return rc == SGPU_OK ? measure_destroy(s, error) : rc;
}

/* ---- the scene ---- */
static int set_scene(struct scene *s, struct sgpu_error *error)
{
	const struct sgpu_processor_config config = {
		.frames = ALL_PAGES * s->per_big,
		.unprotected = UNPROTECTED_PAGES * s->per_big,
		.hidden = 1,
		.space_size = 4 * SGPU_CHANNEL_ENTRIES * s->pager.info.small,
	};
	sgpu_devptr base;
	int rc;

	if (s->pager.info.total < ALL_PAGES * s->pager.info.big) {
		return sgpu_fail(error, SGPU_ENOMEM, "the device has no memory for %d pages of %llu bytes", ALL_PAGES,
				 (unsigned long long)s->pager.info.big);
	}
	rc = sgpu_processor_create(&s->pager, &config, &s->processor, error);
	rc = rc == SGPU_OK ? sgpu_key_generate(SGPU_KEY_X25519, &s->owner, error) : rc;
	rc = rc == SGPU_OK ? create(s, BOOT, 0, NULL, error) : rc;
	rc = rc == SGPU_OK ? create(s, STANDING, table_frame(s, 0), NULL, error) : rc;
	rc = rc == SGPU_OK ? sgpu_session_open(&s->owner, &s->reply.grant, &s->session, error) : rc;
	rc = rc == SGPU_OK ? pde(s, STANDING, SMALL_INDEX, table_frame(s, 1), false, NULL, error) : rc;
	rc = rc == SGPU_OK ? pde(s, STANDING, BIG_INDEX, table_frame(s, 2), true, NULL, error) : rc;
	if (rc == SGPU_OK) {
		rc = s->pager.space_create(s->pager.device, PAGES * s->pager.info.big, &s->space, &base, error);
	}
	return rc == SGPU_OK ? s->pager.access(s->pager.device, s->space, true, error) : rc;
}

static void strike_scene(struct scene *s)
{
	sgpu_session_close(&s->passing);
	sgpu_session_close(&s->session);
	if (s->space) {
		s->pager.space_free(s->pager.device, s->space);
	}
	sgpu_processor_free(&s->processor);
	sgpu_key_clear(&s->owner);
}

static int run(struct sgpu_bench *bench, struct sgpu_error *error)
{
	struct scene s = { .bench = bench };
	int rc = sgpu_pager_of(bench->device, &s.pager, error);

	if (rc < 0) {
		return rc;
	}
	s.per_big = (uint32_t)(s.pager.info.big / s.pager.info.small);
	rc = set_scene(&s, error);
	rc = rc == SGPU_OK ? measure_commands(&s, error) : rc;
	strike_scene(&s);
	rc = rc == SGPU_OK ? bench_measure_channel(bench, &s.pager, error) : rc;
	sgpu_pager_close(&s.pager);
	return rc;
}

const struct sgpu_bench_case case_channel = {
	.name = "channel",
	.help = "commands of secure channels, beside plain memory",
	.unit = SGPU_BENCH_NS,
	.requires = SGPU_BENCH_DEVICE,
	.run = run,
};
