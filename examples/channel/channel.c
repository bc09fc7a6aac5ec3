/* SPDX-License-Identifier: Apache-2.0
 *
 * channel [DEVICE] < SCRIPT: carries out the commands of Graviton's channels, one from each line,
 * on a command processor over the device, and prints what became of each.
 *
 *   owner NAME                                          an owner, with a new key
 *   create CHANNEL directory FRAME owner NAME           CH_CREATE
 *   pde CHANNEL INDEX FRAME|none                        CH_PDE: a page table
 *   pte CHANNEL INDEX ENTRY FRAME...                    CH_PTE: pages, from that entry on
 *   pte CHANNEL INDEX ENTRY none... [mac [CHANNEL]]     CH_PTE: unmaps as many
 *   measure CHANNEL ADDRESS SIZE [keyed]                CH_MEASURE
 *   destroy CHANNEL [mac [CHANNEL]]                     CH_DESTROY
 *   submit CHANNEL [altered|cut|early|twice]            CH_SUBMIT: an empty group
 *   expect done|REFUSAL                                 what the last command has to come to
 *
 * A frame is a small page of the device. The owner of the channel, or of another one, authorises
 * what `mac` stands behind. Exit 1: the script has a fault, or a command came out otherwise than
 * expected.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>
#include "channel/channel.h"

enum { WORDS = 64, OWNERS = 16, NAME = 32, CHANNELS = 64, FRAMES = 1024 };

struct owner {
	char name[NAME];
	struct sgpu_key key;
};

struct script {
	unsigned line;
	char *words[WORDS];
	int count, at; /* words; the next one to be read */
	bool bad;      /* the line has a fault, which was told */
	struct sgpu_device *device;
	struct sgpu_pages_info pages;
	struct sgpu_processor *processor;
	struct owner owners[OWNERS];
	int owner_count;
	struct sgpu_session *sessions[CHANNELS]; /* what owners know of their channels */
	struct sgpu_reply reply;		 /* to the last command */
	bool has_reply;
	unsigned unexpected; /* lines on which `expect` was disappointed */
};

static const char *const operations[] = {
	[SGPU_CH_CREATE] = "create",   [SGPU_CH_PDE] = "pde",	      [SGPU_CH_PTE] = "pte",
	[SGPU_CH_MEASURE] = "measure", [SGPU_CH_DESTROY] = "destroy", [SGPU_CH_SUBMIT] = "submit",
};

static const char *const refusals[SGPU_REFUSALS] = {
	[SGPU_REFUSED_NOT] = "done",
	[SGPU_REFUSED_MALFORMED] = "malformed",
	[SGPU_REFUSED_NO_CHANNEL] = "no-channel",
	[SGPU_REFUSED_EXISTS] = "exists",
	[SGPU_REFUSED_RANGE] = "range",
	[SGPU_REFUSED_NOT_FREE] = "not-free",
	[SGPU_REFUSED_FOREIGN] = "foreign",
	[SGPU_REFUSED_LOCKED] = "locked",
	[SGPU_REFUSED_MAC] = "mac",
	[SGPU_REFUSED_ALIAS] = "alias",
	[SGPU_REFUSED_NO_TABLE] = "no-table",
	[SGPU_REFUSED_NOT_MAPPED] = "not-mapped",
	[SGPU_REFUSED_COUNTER] = "counter",
	[SGPU_REFUSED_SEAL] = "seal",
	[SGPU_REFUSED_LIMIT] = "limit",
	[SGPU_REFUSED_DEVICE] = "device",
};

/* The words themselves stay untold: what was given in place of a script may be a key. */
static void fault(struct script *s, const char *what)
{
	if (!s->bad) {
		fprintf(stderr, "channel: line %u, word %d: %s\n", s->line, s->at + 1, what);
	}
	s->bad = true;
}

/* What a device or an owner says. */
static void fail(struct script *s, const struct sgpu_error *error)
{
	if (!s->bad) {
		fprintf(stderr, "channel: line %u: %s\n", s->line, error->text);
	}
	s->bad = true;
}

/* ---- words: each takes the next one ---- */
static bool word_is(struct script *s, const char *word)
{
	bool is = s->at < s->count && strcmp(s->words[s->at], word) == 0;

	s->at += is;
	return is;
}

static bool is_number(const struct script *s)
{
	return s->at < s->count && *s->words[s->at] >= '0' && *s->words[s->at] <= '9';
}

static uint64_t number(struct script *s, uint64_t max)
{
	char *end = NULL;
	uint64_t value = 0;

	errno = 0;
	if (is_number(s)) {
		value = strtoull(s->words[s->at], &end, 0);
	}
	if (!end || *end || errno || value > max) {
		fault(s, "a number is expected here");
		return 0;
	}
	s->at++;
	return value;
}

static uint32_t frame(struct script *s)
{
	return word_is(s, "none") ? SGPU_NO_FRAME : (uint32_t)number(s, SGPU_NO_FRAME - 1);
}

static struct owner *find_owner(struct script *s)
{
	for (int i = 0; i < s->owner_count; i++) {
		if (word_is(s, s->owners[i].name)) {
			return &s->owners[i];
		}
	}
	return NULL;
}

static struct sgpu_session *session_of(const struct script *s, uint32_t channel)
{
	return channel < CHANNELS ? s->sessions[channel] : NULL;
}

/* [mac [CHANNEL]]: the session that authorises, or NULL. */
static struct sgpu_session *authority(struct script *s, uint32_t channel)
{
	struct sgpu_session *session;

	if (!word_is(s, "mac")) {
		return NULL;
	}
	session = session_of(s, is_number(s) ? (uint32_t)number(s, UINT32_MAX) : channel);
	if (!session) {
		fault(s, "a channel without an owner authorises nothing");
	}
	return session;
}

/* ---- commands ---- */
static void print_bytes(const char *name, const uint8_t bytes[32])
{
	char text[65];

	sgpu_hex_encode(bytes, 32, text);
	printf("    %-8s %s\n", name, text);
}

static void print(const struct script *s, const struct sgpu_command *c)
{
	const struct sgpu_report *summary = &s->reply.report;
	const struct sgpu_report *m = &s->reply.report;

	printf("%u: %s %u: ", s->line, operations[c->op], c->channel);
	if (s->reply.refusal != SGPU_REFUSED_NOT) {
		printf("refused (%s): %s\n", refusals[s->reply.refusal], s->reply.error.text);
		return;
	}
	printf("done\n");
	if (c->op == SGPU_CH_CREATE) {
		printf("    serial   %u\n", s->reply.grant.serial);
		print_bytes("owner", s->reply.grant.owner_hash);
	} else if (c->op == SGPU_CH_PTE && session_of(s, c->channel)) {
		printf("    summary  number %" PRIu64 ": va %#" PRIx64 ", %" PRIu64
		       " bytes, %u pages mapped\n",
		       summary->counter, summary->va, summary->size, summary->pages);
		print_bytes("hash", summary->digest);
		print_bytes("mac", summary->mac);
	} else if (c->op == SGPU_CH_MEASURE) {
		printf("    range    va %#" PRIx64 ", %" PRIu64 " bytes%s\n", m->va, m->size,
		       m->keyed ? ", keyed" : "");
		print_bytes("digest", m->digest);
	}
}

/* What the owner makes of the answer. */
static void learn(struct script *s, const struct sgpu_command *c, const struct owner *owner)
{
	struct sgpu_session *session = session_of(s, c->channel);
	struct sgpu_error error = { 0 };
	int rc = SGPU_OK;

	if (c->op == SGPU_CH_DESTROY && session) {
		sgpu_session_close(&s->sessions[c->channel]);
	} else if (c->op == SGPU_CH_CREATE && owner && c->channel < CHANNELS) {
		rc = sgpu_session_open(&owner->key, &s->reply.grant, &s->sessions[c->channel],
				       &error);
	} else if (c->op == SGPU_CH_PTE && session) {
		rc = sgpu_session_report(session, SGPU_CH_PTE, &s->reply.report, &error);
	} else if (c->op == SGPU_CH_MEASURE && session) {
		rc = sgpu_session_report(session, SGPU_CH_MEASURE, &s->reply.report, &error);
	}
	if (rc != SGPU_OK) {
		fail(s, &error);
	}
}

/* owner: of a channel that is made, or NULL. */
static void carry_out(struct script *s, const struct sgpu_command *c, const struct owner *owner)
{
	uint8_t items[SGPU_GROUP_MAX];
	size_t size;

	if (s->bad) {
		return;
	}
	memset(&s->reply, 0, sizeof(s->reply));
	if (c->op == SGPU_CH_SUBMIT) {
		(void)sgpu_processor_open_group(s->processor, c, items, &size, &s->reply);
	} else {
		(void)sgpu_processor_command(s->processor, c, &s->reply);
	}
	s->has_reply = true;
	if (s->reply.refusal == SGPU_REFUSED_NOT) {
		learn(s, c, owner);
	}
	print(s, c);
}

static struct sgpu_command command(struct script *s, enum sgpu_channel_op op)
{
	return (struct sgpu_command){ .op = op, .channel = (uint32_t)number(s, UINT32_MAX) };
}

static void do_owner(struct script *s)
{
	const size_t length = s->at < s->count ? strlen(s->words[s->at]) : 0;
	struct owner *owner = &s->owners[s->owner_count];
	struct sgpu_error error = { 0 };

	if (!length || length >= NAME || s->owner_count == OWNERS || find_owner(s)) {
		fault(s, "a new name is expected here, of a few characters");
		return;
	}
	memcpy(owner->name, s->words[s->at++], length + 1);
	if (sgpu_key_generate(SGPU_KEY_X25519, &owner->key, &error) != SGPU_OK) {
		fail(s, &error);
		return;
	}
	s->owner_count++;
}

static void do_create(struct script *s)
{
	struct sgpu_command c = command(s, SGPU_CH_CREATE);
	const struct owner *owner = NULL;

	if (!word_is(s, "directory")) {
		fault(s, "'directory' is expected here");
	}
	c.create.directory = frame(s);
	if (!word_is(s, "owner") || !(owner = find_owner(s))) {
		fault(s, "an owner is expected here");
	} else {
		memcpy(c.create.owner_key, owner->key.public_half, sizeof(c.create.owner_key));
	}
	carry_out(s, &c, owner);
}

static void do_pde(struct script *s)
{
	struct sgpu_command c = command(s, SGPU_CH_PDE);

	c.pde.index = (uint32_t)number(s, UINT32_MAX);
	c.pde.table = frame(s);
	carry_out(s, &c, NULL);
}

static void do_pte(struct script *s)
{
	const uint64_t small = s->pages.small;
	struct sgpu_command c = command(s, SGPU_CH_PTE);
	struct sgpu_session *session;
	uint32_t pages[WORDS];

	c.pte.directory_index = (uint32_t)number(s, UINT32_MAX);
	c.pte.table_index = (uint32_t)number(s, UINT32_MAX);
	do {
		pages[c.pte.count++] = frame(s);
	} while (!s->bad && (is_number(s) || (s->at < s->count && *s->words[s->at] == 'n')));
	c.pte.pages = pages[0] == SGPU_NO_FRAME ? NULL : pages;
	session = authority(s, c.channel);
	if (session) {
		c.pte.has_mac = true;
		sgpu_session_authorise(session,
				       (const uint64_t[]){ (c.pte.directory_index *
								    (uint64_t)SGPU_CHANNEL_ENTRIES +
							    c.pte.table_index) *
								   small,
							   c.pte.count * small },
				       &c.pte.mac_counter, c.pte.mac);
	}
	carry_out(s, &c, NULL);
}

static void do_measure(struct script *s)
{
	struct sgpu_command c = command(s, SGPU_CH_MEASURE);

	c.measure.va = number(s, UINT64_MAX);
	c.measure.size = number(s, UINT64_MAX);
	c.measure.keyed = word_is(s, "keyed");
	carry_out(s, &c, NULL);
}

static void do_destroy(struct script *s)
{
	struct sgpu_command c = command(s, SGPU_CH_DESTROY);
	struct sgpu_session *session = authority(s, c.channel);

	if (session) {
		c.destroy.has_mac = true;
		sgpu_session_authorise(session, NULL, &c.destroy.mac_counter, c.destroy.mac);
	}
	carry_out(s, &c, NULL);
}

static void do_submit(struct script *s)
{
	struct sgpu_command c = command(s, SGPU_CH_SUBMIT);
	struct sgpu_session *session = session_of(s, c.channel);
	uint8_t group[SGPU_TAG_SIZE] = { 0 };
	struct sgpu_error error = { 0 };

	c.submit.counter = 1;
	c.submit.group = group;
	c.submit.size = sizeof(group);
	if (session &&
	    sgpu_session_seal(session, NULL, 0, group, &c.submit.counter, &error) != SGPU_OK) {
		fail(s, &error);
	} else if (word_is(s, "altered")) {
		group[0] ^= 1;
	} else if (word_is(s, "cut")) {
		c.submit.size--;
	} else if (word_is(s, "early")) {
		c.submit.counter++;
	} else if (word_is(s, "twice")) {
		carry_out(s, &c, NULL);
	}
	carry_out(s, &c, NULL);
}

static void do_expect(struct script *s)
{
	int i = 0;

	while (i < SGPU_REFUSALS && (!refusals[i] || !word_is(s, refusals[i]))) {
		i++;
	}
	if (i == SGPU_REFUSALS || !s->has_reply) {
		fault(s, "'done' or a refusal is expected here, behind a command");
	} else if (i != (int)s->reply.refusal) {
		printf("%u: not as expected: it is '%s', not '%s'\n", s->line,
		       refusals[s->reply.refusal], refusals[i]);
		s->unexpected++;
	}
}

static void do_line(struct script *s, char *line)
{
	static const struct {
		const char *name;
		void (*run)(struct script *s);
	} commands[] = {
		{ "owner", do_owner },	 { "create", do_create },   { "pde", do_pde },
		{ "pte", do_pte },	 { "measure", do_measure }, { "destroy", do_destroy },
		{ "submit", do_submit }, { "expect", do_expect },
	};
	char *rest = NULL;

	s->count = s->at = 0;
	line[strcspn(line, "#")] = '\0';
	for (char *word = strtok_r(line, " \t\r\n", &rest); word && s->count < WORDS;
	     word = strtok_r(NULL, " \t\r\n", &rest)) {
		s->words[s->count++] = word;
	}
	if (s->count == 0) {
		return;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(commands); i++) {
		if (word_is(s, commands[i].name)) {
			commands[i].run(s);
			break;
		}
	}
	if (s->at == 0) {
		fault(s, "there is no such command");
	} else if (s->at < s->count || s->count == WORDS) {
		fault(s, "that is too much");
	}
}

int main(int argc, char **argv)
{
	const struct sgpu_processor_config config = { .frames = FRAMES };
	static struct script s;
	struct sgpu_error error = { 0 };
	size_t room = 0;
	char *line = NULL;
	int rc = sgpu_device_open(argc > 1 ? argv[1] : "cpu", NULL, &s.device, &error);

	if (rc == SGPU_OK) {
		rc = sgpu_device_pages(s.device, &s.pages, &error);
	}
	if (rc == SGPU_OK) {
		rc = sgpu_processor_create(s.device, &config, &s.processor, &error);
	}
	while (rc == SGPU_OK && !s.bad && getline(&line, &room, stdin) >= 0) {
		s.line++;
		do_line(&s, line);
	}
	if (rc == SGPU_OK && (ferror(stdin) || fflush(stdout) != 0)) {
		rc = sgpu_fail_errno(&error, "cannot read the script, or print");
	}
	free(line);
	for (int i = 0; i < CHANNELS; i++) {
		sgpu_session_close(&s.sessions[i]);
	}
	for (int i = 0; i < s.owner_count; i++) {
		sgpu_key_clear(&s.owners[i].key);
	}
	sgpu_processor_free(&s.processor);
	sgpu_device_close(&s.device);
	if (rc != SGPU_OK) {
		fprintf(stderr, "channel: %s\n", error.text);
		return 3;
	}
	return s.bad || s.unexpected ? 1 : 0;
}
