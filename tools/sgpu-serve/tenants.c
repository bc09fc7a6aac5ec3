/* SPDX-License-Identifier: Apache-2.0
 *
 * See serve.h. The parser is strict: text that it does not understand is an error, lest a limit be
 * ignored. */
#include "base/io.h"

#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include "supervisor.h"

enum { FILE_MAX = 1 << 18 };

static const struct tenant_rule default_rule = { .weight = 1,
						 .in_flight = TENANT_BATCHES_MAX,
						 .waiting = 64,
						 .sessions = TENANT_SESSIONS_MAX };

static int read_uid(const char *word, uid_t *uid, struct sgpu_error *error)
{
	const struct passwd *user;
	uint64_t number;

	if (word[strspn(word, "0123456789")] == '\0') {
		if (sgpu_parse_u64(word, "a user id", 0, UINT32_MAX - 1, &number, NULL) !=
		    SGPU_OK) {
			return sgpu_fail(error, SGPU_EINVALID, "'%s' is no user id", word);
		}
		*uid = (uid_t)number;
		return SGPU_OK;
	}
	user = getpwnam(word);
	*uid = user ? user->pw_uid : 0;
	return user ? SGPU_OK : sgpu_fail(error, SGPU_EINVALID, "there is no user '%s'", word);
}

/* One word "name=value"; `given` has a bit for each name that the line has had. */
static int read_setting(char *word, struct tenant_rule *rule, unsigned *given,
			struct sgpu_error *error)
{
	const struct {
		const char *name;
		unsigned *number, most;
		uint64_t *size;
		unsigned least;
	} settings[] = {
		{ "weight", &rule->weight, SHARE_WEIGHT_MAX, NULL, 1 },
		{ "in-flight", &rule->in_flight, TENANT_BATCHES_MAX, NULL, 1 },
		{ "waiting", &rule->waiting, TENANT_BATCHES_MAX, NULL, 1 },
		{ "sessions", &rule->sessions, TENANT_SESSIONS_MAX, NULL, 0 },
		{ "priority", NULL, 0, NULL, 0 },
		{ "device-memory", NULL, 0, &rule->device_memory, 1 },
		{ "host-memory", NULL, 0, &rule->host_memory, TENANT_HOST_MEMORY_MIN },
	};
	char *value = strchr(word, '=');
	uint64_t number;
	size_t i = 0;

	if (value) {
		*value++ = '\0';
	}
	while (i < SGPU_ARRAY_LENGTH(settings) && strcmp(word, settings[i].name) != 0) {
		i++;
	}
	if (!value || i == SGPU_ARRAY_LENGTH(settings)) {
		sgpu_fail(error, SGPU_EINVALID, "'%s' is no setting", word);
		return sgpu_hint(
			error,
			"weight=N, priority=high or normal, in-flight=N, waiting=N, sessions=N, "
			"device-memory=SIZE, host-memory=SIZE");
	}
	if (*given & 1u << i) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is set twice", word);
	}
	*given |= 1u << i;
	if (settings[i].size) {
		return sgpu_parse_size(value, word, settings[i].least, INT64_MAX, settings[i].size,
				       NULL) == SGPU_OK
			       ? SGPU_OK
			       : sgpu_fail(error, SGPU_EINVALID,
					   "%s is a size from %u bytes on, such as 512M, not '%s'",
					   word, settings[i].least, value);
	}
	if (!settings[i].number) {
		rule->high = strcmp(value, "high") == 0;
		return rule->high || strcmp(value, "normal") == 0
			       ? SGPU_OK
			       : sgpu_fail(error, SGPU_EINVALID,
					   "a priority is high or normal, not '%s'", value);
	}
	if (sgpu_parse_u64(value, word, settings[i].least, settings[i].most, &number, NULL) !=
	    SGPU_OK) {
		return sgpu_fail(error, SGPU_EINVALID, "%s is a number from %u to %u, not '%s'",
				 word, settings[i].least, settings[i].most, value);
	}
	*settings[i].number = (unsigned)number;
	return SGPU_OK;
}

/* `line` is cut up. others: whether there was a line for "*". */
static int read_line(char *line, struct tenant_rules *rules, bool *others, struct sgpu_error *error)
{
	struct tenant_rule rule = default_rule;
	char *rest = NULL, *user, *word;
	unsigned given = 0;
	uid_t uid = 0;
	int rc = SGPU_OK;

	line[strcspn(line, "#")] = '\0';
	user = strtok_r(line, " \t", &rest);
	if (!user) {
		return SGPU_OK;
	}
	while (rc == SGPU_OK && (word = strtok_r(NULL, " \t", &rest))) {
		rc = read_setting(word, &rule, &given, error);
	}
	if (rc < 0) {
		return rc;
	}
	if (strcmp(user, "*") == 0) {
		if (*others) {
			return sgpu_fail(error, SGPU_EINVALID, "there are two lines for '*'");
		}
		*others = true;
		rules->any_high = rules->any_high || rule.high;
		rules->others = rule;
		return SGPU_OK;
	}
	rc = read_uid(user, &uid, error);
	if (rc < 0) {
		return rc;
	}
	for (unsigned i = 0; i < rules->count; i++) {
		if (rules->named[i].uid == uid) {
			return sgpu_fail(error, SGPU_EINVALID, "there are two lines for user %lu",
					 (unsigned long)uid);
		}
	}
	if (rules->count == TENANTS_NAMED_MAX) {
		return sgpu_fail(error, SGPU_EINVALID, "there are more than %d users",
				 TENANTS_NAMED_MAX);
	}
	rules->any_high = rules->any_high || rule.high;
	rules->named[rules->count].uid = uid;
	rules->named[rules->count++].rule = rule;
	return SGPU_OK;
}

int tenant_rules_load(const char *path, struct tenant_rules *rules, struct sgpu_error *error)
{
	struct tenant_rules *read = calloc(1, sizeof(*read));
	struct sgpu_error fault = { 0 };
	char *text = NULL, *line;
	bool others = false;
	size_t size = 0;
	int number = 0, rc = read ? SGPU_OK : sgpu_fail_nomem(error);

	if (rc < 0) {
		return rc;
	}
	read->others = default_rule;
	if (path) {
		rc = sgpu_read_file(path, "says what users get", FILE_MAX, &text, &size, error);
	}
	if (!rc && text && strlen(text) != size) {
		rc = sgpu_fail(error, SGPU_EINVALID, "'%s' is no text", path);
	}
	for (char *rest = text; rc == SGPU_OK && (line = strsep(&rest, "\n"));) {
		number++;
		rc = read_line(line, read, &others, &fault);
		if (rc < 0) {
			sgpu_fail(error, rc, "'%s', line %d: %s", path, number, fault.text);
			(void)sgpu_hint(error, "%s", fault.hint);
		}
	}
	if (rc == SGPU_OK) {
		*rules = *read;
	}
	sgpu_free_wiped(&text, size); /* it may be a key, given by mistake */
	free(read);
	return rc;
}

const struct tenant_rule *tenant_rules_find(const struct tenant_rules *rules, uid_t uid)
{
	for (unsigned i = 0; i < rules->count; i++) {
		if (rules->named[i].uid == uid) {
			return &rules->named[i].rule;
		}
	}
	return &rules->others;
}

void tenant_user_name(uid_t uid, char *name, size_t size)
{
	FILE *file = fopen("/etc/passwd", "re");
	const struct passwd *user = NULL;

	name[0] = '\0';
	while (file && (user = fgetpwent(file)) && user->pw_uid != uid) {
	}
	if (user) {
		snprintf(name, size, "%s", user->pw_name);
	}
	if (file) {
		fclose(file);
	}
}
