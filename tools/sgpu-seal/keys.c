/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys and options that several verbs take.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "cli.h"
#include "parts.h"

int seal_keys_load(struct seal_keys *keys, const char *path, struct sgpu_error *error)
{
	if (keys->count >= SGPU_RECIPIENTS_MAX) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d keys", SGPU_RECIPIENTS_MAX);
	}
	if (!keys->list) {
		/* Once: growing would leave copies of secrets behind. */
		keys->list = calloc(SGPU_RECIPIENTS_MAX, sizeof(*keys->list));
		if (!keys->list) {
			return sgpu_fail_nomem(error);
		}
	}
	keys->standard_input = keys->standard_input || !strcmp(path, "-");
	cli_remember_input(path);
	const int code = sgpu_key_load(path, &keys->list[keys->count], error);
	if (!code) {
		keys->count++;
	}
	return code;
}

void seal_keys_clear(struct seal_keys *keys)
{
	sgpu_free_wiped(&keys->list, SGPU_RECIPIENTS_MAX * sizeof(*keys->list));
	keys->count = 0;
}

bool seal_parse_jobs(const char *text, unsigned *jobs)
{
	struct sgpu_error error = { 0 };
	uint64_t value = 0;
	if (sgpu_parse_u64(text, "number of jobs", 1, SGPU_POOL_JOBS_MAX, &value, &error)) {
		cli_usage("%s", error.text);
		return false;
	}
	*jobs = (unsigned)value;
	return true;
}

int seal_input(const struct seal_keys *keys, const char *path, const char **name, int *status)
{
	const bool standard = !path || !strcmp(path, "-");
	if (standard && keys->standard_input) {
		*status = cli_usage("a key and the data cannot both come from standard input");
		return -1;
	}
	*status = standard ? 2 : 3;
	return cli_input(path, name);
}
