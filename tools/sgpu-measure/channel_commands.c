/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of a script: what each line says, made into a command and sent. sgpu-measure(1) has
 * the language.
 */
#include <string.h>

#include <sgpu/base.h>

#include "channel_script.h"

static struct sgpu_session *session_of(const struct script *script, uint64_t channel)
{
	return channel < SCRIPT_CHANNELS ? script->channels[channel].session : NULL;
}

/* What the owner makes of the answer. */
static int learn(struct script *script, const struct sgpu_command *c,
		 const struct script_owner *owner, struct sgpu_error *error)
{
	struct sgpu_session *session = session_of(script, c->channel);

	if (c->channel >= SCRIPT_CHANNELS) {
		return SGPU_OK;
	}
	if (c->op == SGPU_CH_DESTROY || (c->op == SGPU_CH_CREATE && owner)) {
		sgpu_session_close(&script->channels[c->channel].session);
	}
	if (c->op == SGPU_CH_CREATE && owner) {
		return sgpu_session_open(&owner->key, &script->reply.grant,
					 &script->channels[c->channel].session, error);
	}
	if (c->op == SGPU_CH_PTE && session) {
		return sgpu_session_summary(session, &script->reply.summary, error);
	}
	return c->op == SGPU_CH_MEASURE && session
		       ? sgpu_session_measurement(session, &script->reply.measurement, error)
		       : SGPU_OK;
}

/* Sends the command, and prints what it came to. owner: of a channel that is made, or NULL. */
static int carry_out(struct script *script, const struct sgpu_command *c,
		     const struct script_owner *owner, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	memset(&script->reply, 0, sizeof(script->reply));
	sgpu_processor_command(script->processor, c, &script->reply);
	script->has_reply = true;
	if (script->reply.refusal == SGPU_REFUSED_NOT) {
		rc = learn(script, c, owner, error);
	}
	script_print(script, c);
	return rc;
}

static int take_u32(struct script *script, const char *what, uint32_t *number,
		    struct sgpu_error *error)
{
	uint64_t value = 0;
	int rc = script_number(script, what, UINT32_MAX, &value, error);

	*number = (uint32_t)value;
	return rc;
}

/* "via CHANNEL", else the bootstrap channel 0. */
static int take_via(struct script *script, uint32_t *via, struct sgpu_error *error)
{
	*via = 0;
	return script_word(script, "via") ? take_u32(script, "channel", via, error) : SGPU_OK;
}

/* ---- owner NAME ---- */
/* Visible ASCII, since names are printed, in JSON too. */
static bool is_name(const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; i < length; i++) {
		if (name[i] < '!' || name[i] > '~') {
			return false;
		}
	}
	return length > 0 && length < SCRIPT_NAME;
}

static int do_owner(struct script *script, struct sgpu_error *error)
{
	struct script_owner *owner = &script->owners[script->owner_count];
	const char *name = script->at < script->count ? script->words[script->at++] : "";
	char shown[SCRIPT_SHOWN];
	int rc;

	if (!is_name(name)) {
		return script_fault(
			script, error,
			"an owner needs a name of at most %d visible characters of ASCII",
			SCRIPT_NAME - 1);
	}
	for (int i = 0; i < script->owner_count; i++) {
		if (strcmp(script->owners[i].name, name) == 0) {
			return script_fault(script, error, "there is an owner %s",
					    script_shown(name, shown));
		}
	}
	if (script->owner_count == SCRIPT_OWNERS) {
		return script_fault(script, error, "more than %d owners", SCRIPT_OWNERS);
	}
	rc = sgpu_key_generate(SGPU_KEY_X25519, &owner->key, error);
	if (rc == SGPU_OK) {
		snprintf(owner->name, sizeof(owner->name), "%s", name);
		script->owner_count++;
		script_print_text(script, "owner '%s' has a key: %s", name, owner->key.kid);
	}
	return rc;
}

static int find_owner(struct script *script, const struct script_owner **owner,
		      struct sgpu_error *error)
{
	const char *name = script->at < script->count ? script->words[script->at++] : "";
	char shown[SCRIPT_SHOWN];

	for (int i = 0; i < script->owner_count; i++) {
		if (strcmp(script->owners[i].name, name) == 0) {
			*owner = &script->owners[i];
			return SGPU_OK;
		}
	}
	return script_fault(script, error, "there is no owner %s", script_shown(name, shown));
}

/* ---- create CHANNEL directory FRAME [owner NAME] [via CHANNEL] ---- */
static int do_create(struct script *script, struct sgpu_error *error)
{
	struct sgpu_command c = { .op = SGPU_CH_CREATE };
	const struct script_owner *owner = NULL;
	int rc = take_u32(script, "channel", &c.channel, error);

	if (rc == SGPU_OK && !script_word(script, "directory")) {
		rc = script_fault(script, error,
				  "create CHANNEL directory FRAME [owner NAME] [via CHANNEL]");
	}
	rc = rc ? rc : script_frame(script, "frame", &c.create.directory, error);
	if (rc == SGPU_OK && script_word(script, "owner")) {
		rc = find_owner(script, &owner, error);
	}
	/* A bootstrap channel is made through itself. */
	c.via = c.channel;
	if (rc == SGPU_OK && (owner || c.create.directory >= script->config.unprotected)) {
		rc = take_via(script, &c.via, error);
	}
	if (rc == SGPU_OK && owner) {
		c.create.has_key = true;
		memcpy(c.create.owner_key, owner->key.public_half, sizeof(c.create.owner_key));
	}
	return rc ? rc : carry_out(script, &c, owner, error);
}

/* ---- pde CHANNEL INDEX FRAME|none [big] [via CHANNEL] ---- */
static int do_pde(struct script *script, struct sgpu_error *error)
{
	struct sgpu_command c = { .op = SGPU_CH_PDE };
	int rc = take_u32(script, "channel", &c.channel, error);

	rc = rc ? rc : take_u32(script, "index", &c.pde.index, error);
	rc = rc ? rc : script_frame(script, "frame", &c.pde.table, error);
	c.pde.big = script_word(script, "big");
	rc = rc ? rc : take_via(script, &c.via, error);
	return rc ? rc : carry_out(script, &c, NULL, error);
}

/* ---- pte CHANNEL DIRECTORY-INDEX TABLE-INDEX FRAME|none... [big] [mac [CHANNEL]] [via CHANNEL]
 * ---- */
static bool is_page(const struct script *script)
{
	const char *word = script->at < script->count ? script->words[script->at] : "";

	return strcmp(word, "none") == 0 || (*word >= '0' && *word <= '9');
}

/* The MAC of this channel's owner, or of another's, to see it refused. */
static int take_authority(struct script *script, uint32_t channel, struct sgpu_session **session,
			  struct sgpu_error *error)
{
	uint32_t whose = channel;
	int rc = is_page(script) ? take_u32(script, "channel", &whose, error) : SGPU_OK;

	*session = session_of(script, whose);
	if (rc == SGPU_OK && !*session) {
		rc = script_fault(script, error,
				  "channel %u has no owner who could authorise anything", whose);
	}
	return rc;
}

static int take_pages(struct script *script, struct sgpu_command *c, struct sgpu_error *error)
{
	int rc = SGPU_OK;

	while (rc == SGPU_OK && is_page(script)) {
		rc = script_frame(script, "frame", &script->pages[c->pte.count++], error);
	}
	c->pte.pages = script->pages;
	return rc == SGPU_OK && c->pte.count == 0 ? script_fault(script, error, "no page is named")
						  : rc;
}

static int authorise_pte(struct script *script, struct sgpu_command *c, struct sgpu_error *error)
{
	uint64_t small = script->pager.info.small,
		 page = c->pte.big ? script->pager.info.big : small, va, size;
	struct sgpu_session *session;
	int rc = take_authority(script, c->channel, &session, error);

	if (rc != SGPU_OK) {
		return rc;
	}
	if (!sgpu_mul_u64(c->pte.directory_index, SGPU_CHANNEL_ENTRIES * small, &va) ||
	    !sgpu_add_u64(va, c->pte.table_index * page, &va)) {
		return script_fault(script, error, "the indexes give no address");
	}
	size = c->pte.count * page;
	c->pte.has_mac = true;
	sgpu_session_unmap(session, va, size, &c->pte.mac_counter, c->pte.mac);
	return SGPU_OK;
}

static int do_pte(struct script *script, struct sgpu_error *error)
{
	struct sgpu_command c = { .op = SGPU_CH_PTE };
	int rc = take_u32(script, "channel", &c.channel, error);

	rc = rc ? rc : take_u32(script, "directory index", &c.pte.directory_index, error);
	rc = rc ? rc : take_u32(script, "table index", &c.pte.table_index, error);
	rc = rc ? rc : take_pages(script, &c, error);
	c.pte.big = script_word(script, "big");
	if (rc == SGPU_OK && script_word(script, "mac")) {
		rc = authorise_pte(script, &c, error);
	}
	rc = rc ? rc : take_via(script, &c.via, error);
	return rc ? rc : carry_out(script, &c, NULL, error);
}

/* ---- measure CHANNEL VA SIZE [keyed] [via CHANNEL] ---- */
static int do_measure(struct script *script, struct sgpu_error *error)
{
	struct sgpu_command c = { .op = SGPU_CH_MEASURE };
	int rc = take_u32(script, "channel", &c.channel, error);

	rc = rc ? rc : script_number(script, "address", UINT64_MAX, &c.measure.va, error);
	rc = rc ? rc : script_number(script, "size", UINT64_MAX, &c.measure.size, error);
	c.measure.keyed = script_word(script, "keyed");
	rc = rc ? rc : take_via(script, &c.via, error);
	return rc ? rc : carry_out(script, &c, NULL, error);
}

/* ---- destroy CHANNEL [mac [CHANNEL]] [via CHANNEL] ---- */
static int do_destroy(struct script *script, struct sgpu_error *error)
{
	struct sgpu_command c = { .op = SGPU_CH_DESTROY };
	struct sgpu_session *session;
	int rc = take_u32(script, "channel", &c.channel, error);

	if (rc == SGPU_OK && script_word(script, "mac")) {
		rc = take_authority(script, c.channel, &session, error);
		if (rc == SGPU_OK) {
			c.destroy.has_mac = true;
			sgpu_session_destroy(session, &c.destroy.mac_counter, c.destroy.mac);
		}
	}
	rc = rc ? rc : take_via(script, &c.via, error);
	return rc ? rc : carry_out(script, &c, NULL, error);
}

/* ---- submit CHANNEL [altered|cut|early|twice] ---- an empty command group ---- */
static int do_submit(struct script *script, struct sgpu_error *error)
{
	struct sgpu_command c = { .op = SGPU_CH_SUBMIT };
	uint8_t group[SGPU_TAG_SIZE] = { 0 };
	struct sgpu_session *session;
	int rc = take_u32(script, "channel", &c.channel, error);

	session = session_of(script, c.channel);
	c.via = c.channel;
	c.submit.counter = 1;
	if (rc == SGPU_OK && session) {
		rc = sgpu_session_seal(session, NULL, 0, group, &c.submit.counter, error);
	}
	c.submit.group = group;
	c.submit.size = sizeof(group);
	if (script_word(script, "altered")) {
		group[0] ^= 1;
	} else if (script_word(script, "cut")) {
		c.submit.size--;
	} else if (script_word(script, "early")) {
		c.submit.counter++;
	} else if (rc == SGPU_OK && script_word(script, "twice")) {
		rc = carry_out(script, &c, NULL, error);
	}
	return rc ? rc : carry_out(script, &c, NULL, error);
}

/* ---- host PHYSICAL SIZE ---- reads through the host's window ---- */
static int do_host(struct script *script, struct sgpu_error *error)
{
	static uint8_t data[1 << 16];
	struct sgpu_error refusal = { 0 };
	uint64_t physical, size;
	int rc = script_number(script, "physical address", UINT64_MAX, &physical, error);

	rc = rc ? rc : script_number(script, "size", sizeof(data), &size, error);
	if (rc != SGPU_OK) {
		return rc;
	}
	if (sgpu_processor_host_read(script->processor, physical, data, size, &refusal) < 0) {
		script_print_text(script, "host: refused: %s", refusal.text);
		return refusal.code == SGPU_EPOLICY
			       ? SGPU_OK
			       : sgpu_fail(error, refusal.code, "%s", refusal.text);
	}
	script_print_text(script, "host: read %llu bytes", (unsigned long long)size);
	return SGPU_OK;
}

/* ---- frame NUMBER ---- */
static int do_frame(struct script *script, struct sgpu_error *error)
{
	struct sgpu_frame frame;
	uint64_t number = 0;
	int rc = script_number(script, "frame", script->config.frames - 1, &number, error);

	rc = rc ? rc : sgpu_processor_frame(script->processor, (uint32_t)number, &frame);
	if (rc == SGPU_OK) {
		script_print_frame(script, (uint32_t)number, &frame);
	}
	return rc;
}

/* ---- expect done|REFUSAL ---- of the last command ---- */
static int do_expect(struct script *script, struct sgpu_error *error)
{
	const char *word = script->at < script->count ? script->words[script->at++] : "", *is;
	char shown[SCRIPT_SHOWN];
	bool known = strcmp(word, "done") == 0;

	for (int i = SGPU_REFUSED_NOT + 1; i < SGPU_REFUSALS; i++) {
		known = known || strcmp(word, sgpu_refusal_name((enum sgpu_refusal)i)) == 0;
	}
	if (!known) {
		return script_fault(script, error, "%s is neither 'done' nor the name of a refusal",
				    script_shown(word, shown));
	}
	if (!script->has_reply) {
		return script_fault(script, error, "no command came before");
	}
	is = script->reply.refusal == SGPU_REFUSED_NOT ? "done"
						       : sgpu_refusal_name(script->reply.refusal);
	if (strcmp(is, word) != 0) {
		script_print_text(script, "not as expected: it is '%s', not '%s'", is, word);
		script->unexpected++;
	}
	return SGPU_OK;
}

static int do_check(struct script *script, struct sgpu_error *error)
{
	int rc = sgpu_processor_check(script->processor, error);

	if (rc == SGPU_OK) {
		script_print_text(script, "check: tables, pages and mappings agree");
	}
	return rc;
}

static const struct {
	const char *name;
	int (*run)(struct script *script, struct sgpu_error *error);
} commands[] = {
	{ "owner", do_owner },	 { "create", do_create },   { "pde", do_pde },
	{ "pte", do_pte },	 { "measure", do_measure }, { "destroy", do_destroy },
	{ "submit", do_submit }, { "host", do_host },	    { "frame", do_frame },
	{ "expect", do_expect }, { "check", do_check },
};

int script_line(struct script *script, char *line, struct sgpu_error *error)
{
	char shown[SCRIPT_SHOWN], *rest = NULL;
	int rc;

	script->count = 0;
	script->at = 1;
	line[strcspn(line, "#")] = '\0';
	for (char *word = strtok_r(line, " \t\r\n", &rest); word;
	     word = strtok_r(NULL, " \t\r\n", &rest)) {
		if (script->count == SCRIPT_WORDS) {
			return script_fault(script, error, "more than %d words", SCRIPT_WORDS);
		}
		script->words[script->count++] = word;
	}
	if (script->count == 0) {
		return SGPU_OK;
	}
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(commands); i++) {
		if (strcmp(commands[i].name, script->words[0]) == 0) {
			rc = commands[i].run(script, error);
			return rc == SGPU_OK && script->at < script->count
				       ? script_fault(
						 script, error, "%s is too much",
						 script_shown(script->words[script->at], shown))
				       : rc;
		}
	}
	return script_fault(script, error, "%s is no command",
			    script_shown(script->words[0], shown));
}

void script_end(struct script *script)
{
	for (int i = 0; i < SCRIPT_CHANNELS; i++) {
		sgpu_session_close(&script->channels[i].session);
	}
	for (int i = 0; i < script->owner_count; i++) {
		sgpu_key_clear(&script->owners[i].key);
	}
	sgpu_processor_free(&script->processor);
	sgpu_pager_close(&script->pager);
	sgpu_device_close(&script->device);
}
