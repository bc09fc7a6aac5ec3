/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded exhaustive search: two contexts, four pages, every sequence of commands from an
 * alphabet up to a depth. States that were seen before are not gone through again; each state is
 * reached by carrying out its path anew, and then gets every command of the alphabet. hostile.h
 * judges what was done to memory, sgpu_processor_check what stands in the tables.
 */
#include "channel_check.h"
#include "channel/channel.h"

#include "hostile.h"
#include "channel_scene.h"
#include "unit.h"

enum {
	PAGES = 4,
	PLACES = 2,
	DEPTH = 6,
	STATES_MAX = 1 << 20,
	TABLE = 1 << 21,
	COMMANDS_MAX = 128
};

enum letter_kind { MAP, UNMAP, TABLE_MAP, TABLE_UNMAP, TABLE_SHARE, DESTROY, JOIN, MEASURE };

struct letter {
	enum letter_kind kind;
	uint32_t channel, page, place;
	int authority; /* channel whose MAC goes along, or -1 */
};

struct state {
	uint32_t parent;
	uint8_t letter, depth;
};

struct search {
	struct world world;
	struct scene scene;
	struct world_space *spaces[SCENE_CHANNELS]; /* of each channel, once seen */
	struct letter letters[COMMANDS_MAX];
	int letter_count;
	struct state *states;
	uint32_t state_count;
	uint64_t *seen;
	uint64_t transitions, accepted, beginning;
	const char *broken;
};

static void add_letter(struct search *s, enum letter_kind kind, uint32_t channel, uint32_t page,
		       uint32_t place, int authority)
{
	s->letters[s->letter_count++] = (struct letter){ kind, channel, page, place, authority };
}

static void make_alphabet(struct search *s)
{
	for (uint32_t channel = ALICE; channel <= BOB; channel++) {
		uint32_t other = channel == ALICE ? BOB : ALICE;

		for (uint32_t place = 0; place < PLACES; place++) {
			for (uint32_t page = 0; page < PAGES; page++) {
				add_letter(s, MAP, channel, page, place, -1);
				add_letter(s, MAP, channel, page, place, (int)channel);
			}
			add_letter(s, UNMAP, channel, 0, place, -1);
			add_letter(s, UNMAP, channel, 0, place, (int)channel);
			add_letter(s, UNMAP, channel, 0, place, (int)other);
			add_letter(s, MEASURE, channel, 0, place, -1);
		}
		for (uint32_t page = 0; page < PAGES; page++) {
			add_letter(s, TABLE_MAP, channel, page, 0, -1);
		}
		add_letter(s, TABLE_UNMAP, channel, 0, 0, -1);
		add_letter(s, TABLE_UNMAP, channel, 0, 1, -1);
		add_letter(s, TABLE_SHARE, channel, 0, 0, -1);
		add_letter(s, DESTROY, channel, 0, 0, -1);
		add_letter(s, DESTROY, channel, 0, 0, (int)channel);
		add_letter(s, DESTROY, channel, 0, 0, (int)other);
	}
	/* A second channel of Alice, with its directory in a page that data would like. */
	for (uint32_t page = 0; page < PAGES; page++) {
		add_letter(s, JOIN, ALICE_2, page, 0, -1);
		add_letter(s, MAP, ALICE_2, page, 0, -1);
	}
	add_letter(s, TABLE_SHARE, ALICE_2, 0, 0, -1);
	add_letter(s, UNMAP, ALICE_2, 0, 0, ALICE_2);
	add_letter(s, DESTROY, ALICE_2, 0, 0, -1);
}

static uint32_t page_frame(uint32_t page)
{
	return SCENE_DATA + page;
}

static void permit(struct search *s, const struct letter *l)
{
	const struct scene_channel *channel = &s->scene.channels[l->channel];

	s->world.may_unmap = NULL;
	if (!channel->exists) {
		return;
	}
	if (l->kind == DESTROY) {
		s->world.may_unmap = s->spaces[l->channel];
		s->world.may_begin = 0;
		s->world.may_end = UINT64_MAX;
	} else if ((l->kind == MAP || l->kind == UNMAP) && l->authority == (int)l->channel) {
		s->world.may_unmap = s->spaces[l->channel];
		s->world.may_begin = (uint64_t)l->place * WORLD_SMALL;
		s->world.may_end = s->world.may_begin + WORLD_SMALL;
	}
}

static enum sgpu_refusal carry_out(struct search *s, const struct letter *l)
{
	struct scene *scene = &s->scene;
	uint32_t shared = l->channel == BOB ? SCENE_ALICE_TABLE : SCENE_BOB_TABLE;

	switch (l->kind) {
	case MAP: {
		uint32_t page = page_frame(l->page);

		return scene_pte(scene, l->channel, l->place, &page, 1, false, l->authority);
	}
	case UNMAP:
		return scene_unmap(scene, l->channel, l->place, l->authority);
	case TABLE_MAP:
		return scene_pde(scene, l->channel, 1, page_frame(l->page), false);
	case TABLE_UNMAP:
		return scene_pde(scene, l->channel, l->place, SGPU_NO_FRAME, false);
	case TABLE_SHARE:
		/* Of another channel. */
		return scene_pde(scene, l->channel, 0,
				 l->channel == ALICE_2 ? SCENE_ALICE_TABLE : shared, false);
	case DESTROY:
		return scene_destroy(scene, l->channel, l->authority);
	case JOIN:
		return scene_create(scene, l->channel, 0, page_frame(l->page));
	default:
		return scene_measure(scene, l->channel, (uint64_t)l->place * WORLD_SMALL,
				     WORLD_SMALL);
	}
}

static void learn_spaces(struct search *s)
{
	for (uint32_t i = 0; i < WORLD_FRAMES - WORLD_HIDDEN; i++) {
		struct sgpu_frame frame;

		if (s->world.frames[i].space &&
		    sgpu_processor_frame(s->scene.processor, i, &frame) == SGPU_OK &&
		    frame.owner < SCENE_CHANNELS && s->scene.channels[frame.owner].exists) {
			s->spaces[frame.owner] = s->world.frames[i].space;
		}
	}
}

/* The device fails twice after `until` steps; never when that is negative. */
static enum sgpu_refusal step_failing(struct search *s, const struct letter *l, int until)
{
	uint64_t changes = s->world.changes;
	struct sgpu_error error = { 0 };
	enum sgpu_refusal refusal;

	/* Whose MAC it is that does not exist any more: nobody's. */
	if (l->authority >= 0 && !s->scene.channels[l->authority].exists) {
		return SGPU_REFUSED_MAC;
	}
	permit(s, l);
	world_begin(&s->world, until, until < 0 ? 0 : 2);
	refusal = carry_out(s, l);
	s->world.until = -1;
	if (refusal != SGPU_REFUSED_NOT && s->world.changes != changes) {
		s->broken = "a refused command changed something";
	}
	if (s->world.broken) {
		s->broken = s->world.broken;
	}
	if ((refusal == SGPU_REFUSED_NOT || s->world.failed) &&
	    sgpu_processor_check(s->scene.processor, &error) < 0) {
		printf("# %s\n", error.text);
		s->broken = "the tables are not consistent";
	}
	if (refusal == SGPU_REFUSED_NOT && l->kind == DESTROY) {
		s->spaces[l->channel] = NULL;
	}
	learn_spaces(s);
	return refusal;
}

static enum sgpu_refusal step(struct search *s, const struct letter *l)
{
	return step_failing(s, l, -1);
}

static bool begin(struct search *s)
{
	struct sgpu_key owners[2] = { s->scene.owners[0], s->scene.owners[1] };

	s->world.may_unmap = NULL;
	if (s->scene.processor) {
		/* What it unmaps now it may. */
		for (int i = 0; i < WORLD_FRAMES; i++) {
			s->world.frames[i].space = NULL;
		}
		sgpu_processor_free(&s->scene.processor);
	}
	memset(&s->world, 0, sizeof(s->world));
	memset(&s->scene, 0, sizeof(s->scene));
	memset(s->spaces, 0, sizeof(s->spaces));
	memcpy(s->scene.owners, owners, sizeof(owners));
	s->scene.device = world_device(&s->world);
	return scene_begin(&s->scene, world_config());
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

static uint64_t frame_hash(struct search *s, uint32_t number)
{
	struct sgpu_frame f = { 0 };

	if (sgpu_processor_frame(s->scene.processor, number, &f) < 0) {
		s->broken = "a frame cannot be asked about";
	}
	return mix(mix(1, (uint64_t)f.mapped | (uint64_t)f.big << 2 | (uint64_t)f.use << 3 |
				  (uint64_t)f.owner << 8 | (uint64_t)f.entries << 40),
		   f.va);
}

/* All that decides what commands do from here on. The four pages are alike and the alphabet says
 * the same of each, so states that differ in which of them is which are one: their hashes are
 * added. */
static uint64_t signature(struct search *s)
{
	uint64_t hash = 1, pages = 0;

	for (uint32_t i = 0; i < WORLD_FRAMES - WORLD_HIDDEN; i++) {
		if (i >= page_frame(0) && i < page_frame(PAGES)) {
			pages += frame_hash(s, i);
		} else {
			hash = mix(hash, frame_hash(s, i));
		}
	}
	for (int i = 0; i < SCENE_CHANNELS; i++) {
		hash = mix(hash, s->scene.channels[i].exists);
	}
	hash = mix(hash, pages);
	return hash ? hash : 1;
}

/* Back to the beginning by what the owners may do, which is quicker than making everything anew. */
static bool reset(struct search *s)
{
	static const uint32_t directories[] = {
		[ALICE] = SCENE_ALICE_DIRECTORY, [BOB] = SCENE_BOB_DIRECTORY
	};
	static const uint32_t tables[] = { [ALICE] = SCENE_ALICE_TABLE, [BOB] = SCENE_BOB_TABLE };
	struct scene *scene = &s->scene;

	s->world.may_all = true;
	if (scene->channels[ALICE_2].exists) {
		scene_destroy(scene, ALICE_2, ALICE_2);
	}
	for (uint32_t channel = ALICE; channel <= BOB; channel++) {
		if (!scene->channels[channel].exists) {
			scene_create(scene, channel, (int)(channel - ALICE), directories[channel]);
		}
		for (uint32_t place = 0; place < PLACES; place++) {
			scene_unmap(scene, channel, place, (int)channel);
		}
		scene_pde(scene, channel, 1, SGPU_NO_FRAME, false);
		scene_pde(scene, channel, 0, tables[channel], false);
	}
	s->world.may_all = false;
	return !s->world.broken && signature(s) == s->beginning;
}

static bool is_new(struct search *s, uint64_t hash)
{
	uint64_t slot = hash % TABLE;

	while (s->seen[slot] && s->seen[slot] != hash) {
		slot = (slot + 1) % TABLE;
	}
	if (s->seen[slot] == hash) {
		return false;
	}
	s->seen[slot] = hash;
	return true;
}

static bool reach(struct search *s, uint32_t state)
{
	uint8_t path[DEPTH];
	int length = s->states[state].depth;

	for (int i = length; i > 0; i--) {
		path[i - 1] = s->states[state].letter;
		state = s->states[state].parent;
	}
	if (!reset(s) && !begin(s)) {
		printf("# %s\n", s->scene.reply.error.text);
		s->broken = "the scene cannot be set";
		return false;
	}
	for (int i = 0; i < length && !s->broken; i++) {
		step(s, &s->letters[path[i]]);
	}
	return !s->broken;
}

static void tell_path(const struct search *s, uint32_t state, int letter)
{
	printf("# commands, last first:");
	for (; letter >= 0; letter = s->states[state].depth ? s->states[state].letter : -1) {
		const struct letter *l = &s->letters[letter];

		printf(" (kind %d channel %u page %u place %u authority %d)", l->kind, l->channel,
		       l->page, l->place, l->authority);
		if (!s->states[state].depth) {
			break;
		}
		state = s->states[state].depth && letter == s->states[state].letter
				? s->states[state].parent
				: state;
	}
	printf("\n");
}

/* Every command from one state. A refused one leaves the state as it was, so that the next can
 * follow. */
static void expand(struct search *s, uint32_t state)
{
	bool there = reach(s, state);

	for (int i = 0; i < s->letter_count && there; i++) {
		enum sgpu_refusal refusal = step(s, &s->letters[i]);

		s->transitions++;
		if (s->broken) {
			tell_path(s, state, i);
			return;
		}
		if (refusal != SGPU_REFUSED_NOT) {
			continue;
		}
		s->accepted++;
		if (is_new(s, signature(s)) && s->state_count < STATES_MAX) {
			s->states[s->state_count++] =
				(struct state){ state, (uint8_t)i,
						(uint8_t)(s->states[state].depth + 1) };
		}
		there = s->letters[i].kind == MEASURE || reach(s, state);
	}
}

/* Every command from one state, on a device that fails at each of its steps and again at the next;
 * after that every command once more, on what is left. */
static void fail_in(struct search *s, uint32_t state, uint64_t *failures)
{
	for (int i = 0; i < s->letter_count && !s->broken; i++) {
		for (int until = 0; !s->broken && reach(s, state); until++) {
			step_failing(s, &s->letters[i], until);
			if (!s->world.failed) {
				break; /* it has no more steps */
			}
			++*failures;
			for (int k = 0; k < s->letter_count && !s->broken; k++) {
				step(s, &s->letters[k]);
			}
			if (s->broken) {
				tell_path(s, state, i);
				printf("# after %d steps\n", until);
			} else if (!begin(s)) {
				s->broken = "the scene cannot be set";
			}
		}
	}
}

UNIT_TEST(no_sequence_of_commands_breaks_an_invariant)
{
	static struct search s;
	int depth = getenv("SGPU_TEST_SMALL") ? 4 : DEPTH;
	uint32_t at = 0;
	uint64_t failures = 0;

	s.states = calloc(STATES_MAX, sizeof(*s.states));
	s.seen = calloc(TABLE, sizeof(*s.seen));
	REQUIRE(s.states && s.seen);
	make_alphabet(&s);
	REQUIRE(begin(&s));
	s.state_count = 1;
	s.beginning = signature(&s);
	CHECK(is_new(&s, s.beginning));
	for (at = 0; at < s.state_count && s.states[at].depth < depth && !s.broken; at++) {
		expand(&s, at);
	}
	for (at = 0; at < s.state_count && s.states[at].depth < 3 && !s.broken; at++) {
		fail_in(&s, at, &failures);
	}
	printf("# %llu times the device failed twice\n", (unsigned long long)failures);
	printf("# alphabet of %d commands, depth %d: %u states, %llu commands in them, %llu "
	       "carried out\n",
	       s.letter_count, depth, s.state_count, (unsigned long long)s.transitions,
	       (unsigned long long)s.accepted);
	if (s.broken) {
		printf("# %s\n", s.broken);
	}
	CHECK(!s.broken && failures > 100);
	CHECK(s.state_count > 100 && s.state_count < STATES_MAX && s.accepted > 1000);
	for (int i = 0; i < WORLD_FRAMES; i++) {
		s.world.frames[i].space = NULL;
	}
	sgpu_processor_free(&s.scene.processor);
	free(s.states);
	free(s.seen);
}

int main(void)
{
	UNIT_RUN(no_sequence_of_commands_breaks_an_invariant);
	return unit_done();
}
