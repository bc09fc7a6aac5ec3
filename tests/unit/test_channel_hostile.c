/* SPDX-License-Identifier: Apache-2.0
 *
 * A hostile allocator against the command processor: random sequences of commands, most of them nearly right, judged
 * after each one by a model of the four invariants (hostile.h and what is below), which knows nothing of how the
 * processor works. One seed is fixed, one is new in every run and told, so that a failure can be repeated:
 *   SGPU_TEST_SEED=N SGPU_TEST_SEQUENCES=N test_channel_hostile
 */
#include <time.h>

#include <sgpu/channel.h>

#include "hostile.h"
#include "unit.h"

enum { CHANNELS = 10, OWNERS = 2, NOBODY = -1, BURST = 8 };
enum kind { ABSENT, BOOTSTRAP, PLAIN, SECURE };

struct owner {
	struct sgpu_key key;
	struct sgpu_channel_keys keys;
	bool has_keys;                 /* of the context that lives now */
	int channels;
	struct world_space *space;     /* seen when its first page was mapped */
};

struct channel {
	enum kind kind;
	int owner;                     /* SECURE */
	uint32_t serial;
	uint64_t authorised, submitted, reported; /* the last counters that were taken */
	struct sgpu_aead *seal;
};

struct attack {
	struct world world;
	struct world_random random;
	struct sgpu_processor *processor;
	struct owner owners[OWNERS];
	struct channel channels[CHANNELS];
	int frame_owner[WORLD_FRAMES];  /* whose data a mapped frame holds, by owner, or NOBODY */
	uint32_t pages[SGPU_CHANNEL_PAGES_MAX];
	uint8_t group[256];
	struct sgpu_command stale[16];  /* commands of before, to be sent again */
	uint32_t stale_pages[16][4];
	uint8_t stale_groups[16][64];
	struct sgpu_command last;
	uint64_t sent, accepted, by_refusal[SGPU_REFUSALS], by_op[8];
	const char *broken;
};

static uint32_t below(struct attack *a, uint32_t bound)
{
	return world_below(&a->random, bound);
}

static bool often(struct attack *a, uint32_t percent)
{
	return below(a, 100) < percent;
}

static void wrong(struct attack *a, const char *what)
{
	if (!a->broken) {
		a->broken = what;
	}
}

/* ---- making commands ---- */
static uint32_t some_frame(struct attack *a)
{
	uint32_t draw = below(a, 100);

	if (draw < 88) {
		return WORLD_UNPROTECTED + below(a, WORLD_FRAMES - WORLD_UNPROTECTED - WORLD_HIDDEN);
	}
	return draw < 98 ? below(a, WORLD_FRAMES) : draw == 98 ? WORLD_FRAMES + below(a, 4) : (uint32_t)world_next(&a->random);
}

static uint32_t some_channel(struct attack *a)
{
	return often(a, 98) ? below(a, CHANNELS) : (uint32_t)world_next(&a->random);
}

static uint32_t channel_of_kind(struct attack *a, enum kind kind)
{
	uint32_t start = below(a, CHANNELS);

	for (uint32_t i = 0; i < CHANNELS; i++) {
		if (a->channels[(start + i) % CHANNELS].kind == kind) {
			return (start + i) % CHANNELS;
		}
	}
	return some_channel(a);
}

static uint32_t some_index(struct attack *a)
{
	uint32_t draw = below(a, 100);

	return draw < 80 ? below(a, 3) : draw < 96 ? below(a, 24) : draw < 99 ? SGPU_CHANNEL_ENTRIES - 1 + below(a, 2) :
	       (uint32_t)world_next(&a->random);
}

static bool exists(const struct attack *a, enum kind kind)
{
	for (int i = 0; i < CHANNELS; i++) {
		if (a->channels[i].kind == kind) {
			return true;
		}
	}
	return false;
}

static void make_create(struct attack *a, struct sgpu_command *c)
{
	bool through_itself = !exists(a, BOOTSTRAP) && often(a, 80);

	c->op = SGPU_CH_CREATE;
	c->create.has_key = !through_itself && often(a, 85);
	c->create.directory = through_itself || often(a, 10) ? below(a, WORLD_UNPROTECTED) : some_frame(a);
	c->via = through_itself ? c->channel : c->via;
	if (c->create.has_key) {
		memcpy(c->create.owner_key, a->owners[below(a, OWNERS)].key.public_half, 32);
		if (often(a, 2)) {
			memset(c->create.owner_key, 0, 32);
		}
	}
}

static void authorise(struct attack *a, const struct sgpu_command *c, uint64_t va, uint64_t size, uint64_t *counter,
		      uint8_t mac[SGPU_CHANNEL_MAC_SIZE])
{
	const struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;

	if (!channel || channel->kind != SECURE) {
		memset(mac, 0x5a, SGPU_CHANNEL_MAC_SIZE);
		*counter = 1;
		return;
	}
	*counter = channel->authorised + 1;
	if (c->op == SGPU_CH_DESTROY) {
		sgpu_mac_destroy(&a->owners[channel->owner].keys, channel->serial, *counter, mac);
	} else {
		sgpu_mac_unmap(&a->owners[channel->owner].keys, channel->serial, *counter, va, size, mac);
	}
	switch (below(a, 8)) { /* five of eight are right */
	case 0:
		mac[below(a, SGPU_CHANNEL_MAC_SIZE)] ^= (uint8_t)(1 << below(a, 8));
		break;
	case 1:
		*counter += 1 + below(a, 3);
		break;
	case 2:
		*counter -= 1;
		break;
	default:
		break;
	}
}

static uint64_t pte_va(const struct sgpu_command *c)
{
	uint64_t small = (uint64_t)c->pte.table_index * (c->pte.big ? WORLD_RATIO : 1);

	return ((uint64_t)c->pte.directory_index * SGPU_CHANNEL_ENTRIES + small) * WORLD_SMALL;
}

static uint64_t pte_size(const struct sgpu_command *c)
{
	return (uint64_t)c->pte.count * WORLD_SMALL * (c->pte.big ? WORLD_RATIO : 1);
}

static void make_pte(struct attack *a, struct sgpu_command *c)
{
	bool unmaps = often(a, 40);

	c->op = SGPU_CH_PTE;
	c->pte.big = often(a, 25);
	c->pte.directory_index = some_index(a);
	c->pte.table_index = some_index(a);
	c->pte.count = often(a, 98) ? 1 + below(a, 4) : below(a, SGPU_CHANNEL_PAGES_MAX + 2);
	for (uint32_t i = 0; i < c->pte.count && i < SGPU_CHANNEL_PAGES_MAX; i++) {
		a->pages[i] = unmaps ? SGPU_NO_FRAME : some_frame(a);
		if (!unmaps && c->pte.big && often(a, 90)) {
			a->pages[i] -= a->pages[i] % WORLD_RATIO;
		}
		if (often(a, 5)) {
			a->pages[i] = SGPU_NO_FRAME;
		}
	}
	c->pte.pages = a->pages;
	c->pte.has_mac = often(a, unmaps ? 75 : 15);
	if (c->pte.has_mac) {
		authorise(a, c, pte_va(c), pte_size(c), &c->pte.mac_counter, c->pte.mac);
	}
}

static void make_submit(struct attack *a, struct sgpu_command *c)
{
	struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;
	uint8_t nonce[SGPU_NONCE_SIZE], items[32] = { 0 };
	bool right = channel && channel->kind == SECURE;

	c->op = SGPU_CH_SUBMIT;
	c->via = c->channel;
	c->submit.group = a->group;
	c->submit.size = sizeof(items) + SGPU_TAG_SIZE;
	c->submit.counter = right ? channel->submitted + 1 : 1;
	memset(a->group, 0, sizeof(a->group));
	if (right) {
		sgpu_group_nonce(channel->serial, c->submit.counter, nonce);
		if (sgpu_aead_seal(channel->seal, nonce, items, sizeof(items), a->group, a->group + sizeof(items)) < 0) {
			wrong(a, "the test cannot seal");
		}
	}
	switch (below(a, 8)) {
	case 0:
		a->group[below(a, c->submit.size)] ^= (uint8_t)(1 << below(a, 8));
		break;
	case 1:
		c->submit.counter += 1 + below(a, 2);
		break;
	case 2:
		c->submit.counter -= 1;
		break;
	case 3:
		c->submit.size -= 1 + below(a, 20);
		break;
	default:
		break;
	}
}

static void make(struct attack *a, struct sgpu_command *c)
{
	uint32_t draw = below(a, 1024);

	memset(c, 0, sizeof(*c));
	c->via = often(a, 90) ? channel_of_kind(a, BOOTSTRAP) : some_channel(a);
	c->channel = often(a, 80) ? channel_of_kind(a, SECURE) : some_channel(a);
	if (draw < 4 || (draw < 500 && (!exists(a, BOOTSTRAP) || !exists(a, SECURE)))) {
		c->channel = often(a, 85) ? channel_of_kind(a, ABSENT) : some_channel(a);
		make_create(a, c);
	} else if (draw < 200) {
		c->op = SGPU_CH_PDE;
		c->pde.index = some_index(a);
		c->pde.table = often(a, 75) ? some_frame(a) : SGPU_NO_FRAME;
		c->pde.big = often(a, 40);
	} else if (draw < 880) {
		make_pte(a, c);
	} else if (draw < 930) {
		c->op = SGPU_CH_MEASURE;
		c->measure.va = (uint64_t)some_index(a) * SGPU_CHANNEL_ENTRIES * WORLD_SMALL +
				(uint64_t)below(a, 6) * WORLD_SMALL + (often(a, 10) ? below(a, WORLD_SMALL) : 0);
		c->measure.size = often(a, 97) ? below(a, 4 * WORLD_SMALL) : world_next(&a->random);
		c->measure.keyed = often(a, 50);
	} else if (draw < 1020) {
		make_submit(a, c);
	} else {
		c->op = SGPU_CH_DESTROY;
		c->channel = often(a, 60) ? c->channel : channel_of_kind(a, PLAIN);
		c->destroy.has_mac = often(a, 70);
		if (c->destroy.has_mac) {
			authorise(a, c, 0, 0, &c->destroy.mac_counter, c->destroy.mac);
		}
	}
}

/* ---- the model ---- */
static struct owner *owner_of(struct attack *a, const struct sgpu_command *c)
{
	return c->channel < CHANNELS && a->channels[c->channel].kind == SECURE ?
		       &a->owners[a->channels[c->channel].owner] : NULL;
}

/* Whether the owner's word goes along, as it is now: of an old command, too. */
static bool is_true(struct attack *a, const struct sgpu_command *c)
{
	const struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE], nonce[SGPU_NONCE_SIZE], group[32 + SGPU_TAG_SIZE] = { 0 };

	if (!channel || channel->kind != SECURE) {
		return false;
	}
	if (c->op == SGPU_CH_PTE && c->pte.has_mac) {
		sgpu_mac_unmap(&a->owners[channel->owner].keys, channel->serial, c->pte.mac_counter, pte_va(c), pte_size(c),
			       mac);
		return c->pte.mac_counter == channel->authorised + 1 && memcmp(mac, c->pte.mac, sizeof(mac)) == 0;
	}
	if (c->op == SGPU_CH_DESTROY && c->destroy.has_mac) {
		sgpu_mac_destroy(&a->owners[channel->owner].keys, channel->serial, c->destroy.mac_counter, mac);
		return c->destroy.mac_counter == channel->authorised + 1 && memcmp(mac, c->destroy.mac, sizeof(mac)) == 0;
	}
	if (c->op != SGPU_CH_SUBMIT || c->submit.size != sizeof(group) || c->via != c->channel) {
		return false;
	}
	sgpu_group_nonce(channel->serial, c->submit.counter, nonce);
	return c->submit.counter == channel->submitted + 1 &&
	       sgpu_aead_seal(channel->seal, nonce, group, 32, group, group + 32) == SGPU_OK &&
	       memcmp(group, c->submit.group, sizeof(group)) == 0;
}

/* What a command that is about to be sent may take away. */
static void permit(struct attack *a, const struct sgpu_command *c, bool authorised)
{
	const struct owner *owner = owner_of(a, c);

	a->world.may_unmap = NULL;
	a->world.may_all = false;
	if (c->op == SGPU_CH_PTE && owner && authorised) {
		a->world.may_unmap = owner->space;
		a->world.may_begin = pte_va(c);
		a->world.may_end = pte_va(c) + pte_size(c);
	} else if (c->op == SGPU_CH_DESTROY && owner) {
		a->world.may_unmap = owner->space;
		a->world.may_begin = 0;
		a->world.may_end = UINT64_MAX;
	} else if ((c->op == SGPU_CH_PTE || c->op == SGPU_CH_DESTROY) && c->channel < CHANNELS &&
		   a->channels[c->channel].kind == PLAIN) {
		/* Pages of a channel without key are not locked. */
		a->world.may_all = true;
		for (uint32_t i = 0; i < WORLD_FRAMES; i++) {
			struct sgpu_frame frame;

			a->world.locked[i] = sgpu_processor_frame(a->processor, i, &frame) < 0 || frame.locked;
		}
	}
}

static void learn_create(struct attack *a, const struct sgpu_command *c, const struct sgpu_grant *grant)
{
	struct channel *channel = &a->channels[c->channel];
	uint8_t cek[SGPU_KEY_SIZE], bind[SGPU_GRANT_BIND_SIZE];
	struct owner *owner;

	memset(channel, 0, sizeof(*channel));
	if (!c->create.has_key) {
		channel->kind = c->create.directory < WORLD_UNPROTECTED ? BOOTSTRAP : PLAIN;
		return;
	}
	channel->kind = SECURE;
	channel->owner = memcmp(c->create.owner_key, a->owners[0].key.public_half, 32) == 0 ? 0 : 1;
	channel->serial = grant->serial;
	owner = &a->owners[channel->owner];
	sgpu_grant_bind(grant, bind);
	if (sgpu_hpke_open(owner->key.secret, grant->enc, "sgpu channel v1", 15, bind, sizeof(bind), grant->sealed_cek,
			   sizeof(grant->sealed_cek), cek, NULL) < 0) {
		wrong(a, "the owner cannot open the grant");
		return;
	}
	struct sgpu_channel_keys keys;

	if (sgpu_channel_derive(cek, grant->processor, &keys, NULL) < 0 ||
	    sgpu_aead_create(NULL, keys.group, &channel->seal, NULL) < 0) {
		wrong(a, "the test cannot derive keys");
	}
	if (owner->channels > 0 && memcmp(&keys, &owner->keys, sizeof(keys)) != 0) {
		wrong(a, "channels of one context have different keys");
	}
	if (owner->channels == 0 && owner->has_keys && memcmp(&keys, &owner->keys, sizeof(keys)) == 0) {
		wrong(a, "a new context has the key of one that is gone");
	}
	owner->keys = keys;
	owner->has_keys = true;
	owner->channels++;
}

static void learn_destroy(struct attack *a, const struct sgpu_command *c)
{
	struct channel *channel = &a->channels[c->channel];
	struct owner *owner = owner_of(a, c);

	sgpu_aead_free(&channel->seal);
	memset(channel, 0, sizeof(*channel));
	if (!owner || --owner->channels > 0) {
		return;
	}
	for (int i = 0; i < WORLD_FRAMES; i++) {
		if (owner->space && a->world.frames[i].space == owner->space) {
			wrong(a, "pages of a context that is gone are still mapped");
		}
	}
	owner->space = NULL;
}

/* The summary has to tell the truth, since an owner believes it. */
static void judge_summary(struct attack *a, const struct sgpu_command *c, const struct sgpu_summary *summary)
{
	struct channel *channel = &a->channels[c->channel];
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE], hash[SGPU_CHANNEL_DIGEST_SIZE], frames[4 * 64];
	uint32_t mapped = 0, inside = 0;

	for (uint32_t i = 0; i < c->pte.count && inside < 64; i++) {
		uint32_t frame = c->pte.pages[i];

		if (frame == SGPU_NO_FRAME) {
			continue;
		}
		mapped++;
		if (frame >= WORLD_UNPROTECTED) {
			for (int k = 0; k < 4; k++) {
				frames[4 * inside + (uint32_t)k] = (uint8_t)(frame >> 8 * k);
			}
			inside++;
		}
	}
	sgpu_kt128(frames, 4 * (size_t)inside, NULL, 0, hash, sizeof(hash));
	sgpu_mac_summary(&a->owners[channel->owner].keys, summary, mac);
	if (memcmp(mac, summary->mac, sizeof(mac)) != 0) {
		wrong(a, "the MAC of a summary does not verify");
	}
	if (summary->va != pte_va(c) || summary->size != pte_size(c) || summary->pages != mapped ||
	    summary->protected_pages != inside || summary->channel != c->channel || summary->serial != channel->serial ||
	    memcmp(hash, summary->hash, sizeof(hash)) != 0) {
		wrong(a, "a summary says something else than was mapped");
	}
	if (summary->counter != channel->reported + 1) {
		wrong(a, "the counter of the reports did not go up by one");
	}
	channel->reported = summary->counter;
}

/* Every page stands where its owner's command put it, in no other's space, and nobody's page became another's. */
static void judge_map(struct attack *a, const struct sgpu_command *c)
{
	struct owner *owner = owner_of(a, c);
	int who = owner ? (int)(owner - a->owners) : NOBODY;
	uint32_t per_page = c->pte.big ? WORLD_RATIO : 1;

	for (uint32_t i = 0; i < c->pte.count; i++) {
		for (uint32_t k = 0; k < per_page && c->pte.pages[i] != SGPU_NO_FRAME; k++) {
			uint32_t frame = c->pte.pages[i] + k;
			const struct world_frame *where = &a->world.frames[frame];

			if (!where->space || where->at != pte_va(c) + ((uint64_t)i * per_page + k) * WORLD_SMALL) {
				wrong(a, "a page that was mapped stands elsewhere");
				return;
			}
			if (owner && !owner->space) {
				owner->space = where->space;
			}
			if (owner ? where->space != owner->space :
				    where->space == a->owners[0].space || where->space == a->owners[1].space) {
				wrong(a, "a page was mapped into another's context");
			}
			a->frame_owner[frame] = who;
		}
	}
}

static void judge_measure(struct attack *a, const struct sgpu_command *c, const struct sgpu_measurement *m)
{
	struct channel *channel = &a->channels[c->channel];
	struct owner *owner = owner_of(a, c);
	uint8_t mac[SGPU_CHANNEL_MAC_SIZE];

	if (!owner) {
		return;
	}
	sgpu_mac_measurement(&owner->keys, m, mac);
	if (memcmp(mac, m->mac, sizeof(mac)) != 0 || m->counter != channel->reported + 1 ||
	    m->va != c->measure.va || m->size != c->measure.size || m->serial != channel->serial) {
		wrong(a, "a measurement is not what was asked for");
	}
	channel->reported = m->counter;
	for (uint64_t at = c->measure.va; at < c->measure.va + c->measure.size; at++) {
		if (world_frame_at(&a->world, owner->space, at) < 0) {
			wrong(a, "memory was measured that is not mapped");
			return;
		}
	}
}

static void judge(struct attack *a, const struct sgpu_command *c, const struct sgpu_reply *reply, bool authorised,
		  uint64_t changes)
{
	struct channel *channel = c->channel < CHANNELS ? &a->channels[c->channel] : NULL;

	a->by_refusal[reply->refusal]++;
	if (reply->refusal != SGPU_REFUSED_NOT) {
		if (a->world.changes != changes) {
			wrong(a, "a refused command changed something");
		}
		if (reply->code == SGPU_OK || !reply->error.text[0]) {
			wrong(a, "a refusal without a code or a text");
		}
		if (c->op == SGPU_CH_SUBMIT && authorised) {
			wrong(a, "a true group was refused");
		}
		return;
	}
	a->accepted++;
	a->by_op[c->op]++;
	if (reply->code != SGPU_OK || !channel) {
		wrong(a, "a command was carried out that cannot be");
		return;
	}
	switch (c->op) {
	case SGPU_CH_CREATE:
		learn_create(a, c, &reply->grant);
		break;
	case SGPU_CH_PTE:
		if (c->pte.has_mac && authorised && channel->kind == SECURE) {
			channel->authorised = c->pte.mac_counter;
		}
		judge_map(a, c);
		if (channel->kind == SECURE) {
			judge_summary(a, c, &reply->summary);
		}
		break;
	case SGPU_CH_MEASURE:
		judge_measure(a, c, &reply->measurement);
		break;
	case SGPU_CH_DESTROY:
		if (c->destroy.has_mac && !authorised && channel->kind == SECURE) {
			wrong(a, "a destruction with a false MAC was carried out");
		}
		learn_destroy(a, c);
		break;
	case SGPU_CH_SUBMIT:
		if (!authorised) {
			wrong(a, "a false group was carried out");
		}
		channel->submitted = c->submit.counter;
		break;
	default:
		break;
	}
}

static void send(struct attack *a, const struct sgpu_command *c)
{
	bool authorised = is_true(a, c);
	uint64_t changes = a->world.changes;
	struct sgpu_reply reply = { .refusal = SGPU_REFUSED_NOT };

	a->last = *c;
	permit(a, c, authorised);
	sgpu_processor_command(a->processor, c, &reply);
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
		c.pte.pages = a->stale_pages[i];
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
		memcpy(a->stale_pages[i], c->pte.pages, c->pte.count * sizeof(uint32_t));
	} else if (c->op == SGPU_CH_SUBMIT && c->submit.size <= sizeof(a->stale_groups[i])) {
		a->stale[i] = *c;
		memcpy(a->stale_groups[i], c->submit.group, c->submit.size);
	} else if (c->op == SGPU_CH_DESTROY && c->destroy.has_mac) {
		a->stale[i] = *c;
	}
}

/* The host looks and writes through its window. */
static void peek(struct attack *a)
{
	uint64_t physical = world_next(&a->random) % (WORLD_FRAMES * WORLD_SMALL), size = 1 + below(a, 2 * WORLD_SMALL);
	bool outside = physical + size > WORLD_UNPROTECTED * WORLD_SMALL;
	uint8_t data[2 * WORLD_SMALL] = { 0 };
	int code;

	a->world.host = true;
	code = often(a, 50) ? sgpu_processor_host_read(a->processor, physical, data, size, NULL) :
			      sgpu_processor_host_write(a->processor, physical, data, size, NULL);
	a->world.host = false;
	if (outside ? code != SGPU_EPOLICY : code != SGPU_OK) {
		wrong(a, outside ? "the host was let at protected memory" : "the host was kept from its own memory");
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
	if (often(a, 3)) {
		peek(a);
	}
}

static void begin(struct attack *a, uint64_t seed)
{
	memset(a, 0, sizeof(*a));
	world_seed(&a->random, seed);
	for (int i = 0; i < OWNERS; i++) {
		REQUIRE(sgpu_key_generate(SGPU_KEY_X25519, &a->owners[i].key, NULL) == SGPU_OK);
	}
	struct sgpu_pager *pager = malloc(sizeof(*pager));

	REQUIRE(pager);
	*pager = world_pager(&a->world);
	REQUIRE(sgpu_processor_create(pager, world_config(), &a->processor, NULL) == SGPU_OK);
}

static uint64_t number(const char *name, uint64_t standard)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : standard;
}

static uint64_t sequences(void)
{
	return number("SGPU_TEST_SEQUENCES", getenv("SGPU_TEST_SMALL") ? 20000 : 500000);
}

static void attack(uint64_t seed)
{
	static struct attack a;
	struct sgpu_error error = { 0 };
	uint64_t i, count = sequences();

	begin(&a, seed);
	for (i = 0; i < count && !a.broken; i++) {
		sequence(&a);
		if (i % 16 == 0 && sgpu_processor_check(a.processor, &error) < 0) {
			wrong(&a, error.text);
		}
	}
	printf("# seed %llu: %llu sequences, %llu commands, %llu carried out (create %llu, PDE %llu, PTE %llu, measure %llu, "
	       "destroy %llu, submit %llu)\n", (unsigned long long)seed, (unsigned long long)i,
	       (unsigned long long)a.sent, (unsigned long long)a.accepted, (unsigned long long)a.by_op[SGPU_CH_CREATE],
	       (unsigned long long)a.by_op[SGPU_CH_PDE], (unsigned long long)a.by_op[SGPU_CH_PTE],
	       (unsigned long long)a.by_op[SGPU_CH_MEASURE], (unsigned long long)a.by_op[SGPU_CH_DESTROY],
	       (unsigned long long)a.by_op[SGPU_CH_SUBMIT]);
	for (int k = 1; k < SGPU_REFUSALS; k++) {
		if (a.by_refusal[k]) {
			printf("#   refused %s: %llu\n", sgpu_refusal_name((enum sgpu_refusal)k),
			       (unsigned long long)a.by_refusal[k]);
		}
	}
	if (a.broken) {
		printf("# in sequence %llu: %s: op %d, channel %u (kind %d)\n", (unsigned long long)i, a.broken,
		       (int)a.last.op, a.last.channel,
		       a.last.channel < CHANNELS ? (int)a.channels[a.last.channel].kind : -1);
	}
	CHECK(!a.broken);
	/* An attack in which nothing ever succeeds attacks nothing. */
	for (int op = SGPU_CH_CREATE; op <= SGPU_CH_SUBMIT; op++) {
		CHECK(a.by_op[op] > count / 2000);
	}
	for (int k = SGPU_REFUSED_NO_CHANNEL; k < SGPU_REFUSALS; k++) {
		CHECK(a.by_refusal[k] > 0 || k == SGPU_REFUSED_DEVICE || k == SGPU_REFUSED_LIMIT || k == SGPU_REFUSED_GROUP);
	}
	a.world.may_unmap = NULL;
	for (int k = 0; k < CHANNELS; k++) {
		sgpu_aead_free(&a.channels[k].seal);
	}
}

UNIT_TEST(the_invariants_hold_for_the_fixed_seed)
{
	attack(number("SGPU_TEST_SEED", 2018));
}

UNIT_TEST(the_invariants_hold_for_a_fresh_seed)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	attack(number("SGPU_TEST_SEED", (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec));
}

int main(void)
{
	UNIT_RUN(the_invariants_hold_for_the_fixed_seed);
	UNIT_RUN(the_invariants_hold_for_a_fresh_seed);
	return unit_done();
}
