/* SPDX-License-Identifier: Apache-2.0
 *
 * A hostile allocator (channel_attack.h) against the command processor: random sequences of
 * commands, each judged by a model of the four invariants (hostile.h, channel_model.h). One seed is
 * fixed, one is new in every run and told, so that a failure can be repeated: SGPU_TEST_SEED=N
 * SGPU_TEST_SEQUENCES=N test_channel_hostile
 */
#include "channel_check.h"

#include <time.h>

#include "channel_model.h"
#include "unit.h"

enum { BURST = 5, CHECK_EVERY = 64, FIXED_SEED = 2018, MANY = 100000 };

static void send(struct attack *a, const struct sgpu_command *c)
{
	bool authorised = is_true(a, c);
	uint64_t changes = a->world.changes;
	struct sgpu_reply reply = { .refusal = SGPU_REFUSED_NOT };
	uint8_t items[SGPU_GROUP_MAX];
	size_t size;

	a->last = *c;
	permit(a, c, authorised);
	/* Now and then the device fails: at one step, or at two in a row, of which the second may
	 * be an undoing. */
	if (a->failing && often(a, 40)) {
		world_begin(&a->world, (int)below(a, 4), 1 + (int)below(a, 3));
	} else {
		world_begin(&a->world, -1, 0);
	}
	if (c->op == SGPU_CH_SUBMIT) {
		(void)sgpu_processor_open_group(a->processor, c, items, &size, &reply);
	} else {
		(void)sgpu_processor_command(a->processor, c, &reply);
	}
	a->world.until = -1;
	a->failures += a->world.failed > 0;
	a->sent++;
	judge(a, c, &reply, authorised, changes);
	if (a->world.broken) {
		wrong(a, a->world.broken);
	}
}

/* Something that was sent before, word for word. */
static void replay(struct attack *a)
{
	uint32_t i = below(a, 16);
	struct sgpu_command c = a->stale[i];

	if (c.op == 0) {
		return;
	}
	if (c.op == SGPU_CH_PTE) {
		if (!c.pte.has_mac) {
			return;
		}
		c.pte.pages = c.pte.pages ? a->stale_pages[i] : NULL;
	} else if (c.op == SGPU_CH_SUBMIT) {
		c.submit.group = a->stale_groups[i];
	} else if (c.op != SGPU_CH_DESTROY || !c.destroy.has_mac) {
		return;
	}
	send(a, &c);
}

static void keep(struct attack *a, const struct sgpu_command *c)
{
	uint32_t i = below(a, 16);

	if (c->op == SGPU_CH_PTE && c->pte.count <= 4 && c->pte.has_mac) {
		a->stale[i] = *c;
		memcpy(a->stale_pages[i], a->pages, c->pte.count * sizeof(uint32_t));
	} else if (c->op == SGPU_CH_SUBMIT && c->submit.size <= sizeof(a->stale_groups[i])) {
		a->stale[i] = *c;
		memcpy(a->stale_groups[i], c->submit.group, c->submit.size);
	} else if (c->op == SGPU_CH_DESTROY && c->destroy.has_mac) {
		a->stale[i] = *c;
	}
}

static void sequence(struct attack *a)
{
	struct sgpu_command c;

	for (int i = 0; i < BURST && !a->broken; i++) {
		make(a, &c);
		keep(a, &c);
		send(a, &c);
		if (often(a, 4)) {
			replay(a);
		}
	}
}

static void begin(struct attack *a, uint64_t seed)
{
	memset(a, 0, sizeof(*a));
	world_seed(&a->random, seed);
	for (int i = 0; i < OWNERS; i++) {
		REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &a->owners[i].key, NULL) == SGPU_OK);
	}
	REQUIRE(sgpu_processor_create(world_device(&a->world), world_config(), &a->processor,
				      NULL) == SGPU_OK);
}

/* A processor that ends may take everything away, and leaves nothing mapped and nobody's data in
 * protected memory. */
static void end(struct attack *a)
{
	bool empty = true;

	a->world.may_all = true;
	sgpu_processor_free(&a->processor);
	for (int i = 0; i < WORLD_FRAMES; i++) {
		empty = empty && !a->world.frames[i].space;
		for (int k = 0; k < WORLD_SMALL; k++) {
			empty = empty && a->world.memory[i][k] == 0;
		}
	}
	CHECK(empty);
	CHECK(!a->world.broken);
	for (int i = 0; i < CHANNELS; i++) {
		sgpu_aead_free(&a->channels[i].seal);
	}
	sgpu_wipe(a->owners, sizeof(a->owners));
}

static uint64_t number(const char *name, uint64_t standard)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : standard;
}

static uint64_t sequences(void)
{
	return number("SGPU_TEST_SEQUENCES", getenv("SGPU_TEST_SMALL") ? 8000 : 400000);
}

static void attack(uint64_t seed)
{
	static struct attack a;
	struct sgpu_error error = { 0 };
	uint64_t i, count = sequences();

	begin(&a, seed);
	for (i = 0; i < count && !a.broken; i++) {
		sequence(&a);
		if (i % CHECK_EVERY == 0 && sgpu_processor_check(a.processor, &error) < 0) {
			wrong(&a, error.text);
		}
	}
	printf("# seed %llu: %llu sequences, %llu commands, %llu carried out (create %llu, PDE "
	       "%llu, PTE %llu, measure %llu, "
	       "destroy %llu, submit %llu)\n",
	       (unsigned long long)seed, (unsigned long long)i, (unsigned long long)a.sent,
	       (unsigned long long)a.accepted, (unsigned long long)a.by_op[SGPU_CH_CREATE],
	       (unsigned long long)a.by_op[SGPU_CH_PDE], (unsigned long long)a.by_op[SGPU_CH_PTE],
	       (unsigned long long)a.by_op[SGPU_CH_MEASURE],
	       (unsigned long long)a.by_op[SGPU_CH_DESTROY],
	       (unsigned long long)a.by_op[SGPU_CH_SUBMIT]);
	for (int k = 1; k < SGPU_REFUSALS; k++) {
		if (a.by_refusal[k]) {
			printf("#   refused %d: %llu\n", k, (unsigned long long)a.by_refusal[k]);
		}
	}
	if (a.broken) {
		printf("# in sequence %llu: %s: op %d, channel %u (kind %d)\n",
		       (unsigned long long)i, a.broken, (int)a.last.op, a.last.channel,
		       a.last.channel < CHANNELS ? (int)a.channels[a.last.channel].kind : -1);
	}
	CHECK(!a.broken);
	/* An attack in which nothing ever succeeds attacks nothing. */
	for (int op = SGPU_CH_CREATE; op <= SGPU_CH_SUBMIT; op++) {
		CHECK(a.by_op[op] > count / 2000);
	}
	for (int k = SGPU_REFUSED_NO_CHANNEL; k < SGPU_REFUSED_LIMIT; k++) {
		/* A short attack does not meet each reason. */
		const bool is_reason = k != 5 && k != 13 && k != 14;

		CHECK(!is_reason || a.by_refusal[k] > 0 || (seed != FIXED_SEED && count < MANY));
	}
	end(&a);
}

/* Pages that a device does not give back are lost, so a world in which it fails does not last. */
UNIT_TEST(the_invariants_hold_when_the_device_fails_and_fails_again)
{
	enum { ROUND = 100 };
	static struct attack a;
	struct sgpu_error error = { 0 };
	const uint64_t seed = number("SGPU_TEST_SEED", 1 + (uint64_t)time(NULL)),
		       rounds = sequences() / 2 / ROUND;
	uint64_t failures = 0, accepted = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		begin(&a, seed + round);
		a.failing = true;
		for (int i = 0; i < ROUND && !a.broken; i++) {
			sequence(&a);
			if (i % 8 == 0 && sgpu_processor_check(a.processor, &error) < 0) {
				wrong(&a, error.text);
			}
		}
		failures += a.failures;
		accepted += a.accepted;
		if (a.broken) {
			printf("# SGPU_TEST_SEED=%llu, command %llu: %s: op %d, channel %u\n",
			       (unsigned long long)(seed + round), (unsigned long long)a.sent,
			       a.broken, (int)a.last.op, a.last.channel);
			CHECK(!a.broken);
			return;
		}
		end(&a);
	}
	printf("# seeds from %llu: %llu worlds, %llu commands carried out, %llu met a device that "
	       "failed\n",
	       (unsigned long long)seed, (unsigned long long)rounds, (unsigned long long)accepted,
	       (unsigned long long)failures);
	CHECK(failures > rounds && accepted > 10 * rounds);
}

UNIT_TEST(the_invariants_hold_for_the_fixed_seed)
{
	attack(number("SGPU_TEST_SEED", FIXED_SEED));
}

UNIT_TEST(the_invariants_hold_for_a_fresh_seed)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	attack(number("SGPU_TEST_SEED",
		      (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec));
}

int main(void)
{
	UNIT_RUN(the_invariants_hold_when_the_device_fails_and_fails_again);
	UNIT_RUN(the_invariants_hold_for_the_fixed_seed);
	UNIT_RUN(the_invariants_hold_for_a_fresh_seed);
	return unit_done();
}
