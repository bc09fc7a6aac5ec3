/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of Python that people would write in place of this project, as a process that stays.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/wait.h>

#include "base/base.h"
#include "base/io.h"
#include "sizes.h"
#include "verbs.h"

BENCH_EMBED(naive_program, "tests/bench/naive.py");

struct naive {
	pid_t pid;
	int talk;
};

static void end_naive(struct sgpu_bench *bench, uintptr_t what, uint64_t size)
{
	struct naive *n = (struct naive *)what;

	(void)bench, (void)size;
	sgpu_close(n->talk); /* which ends it */
	if (n->pid > 0) {
		(void)waitpid(n->pid, NULL, 0);
	}
}

/* Returns the member `name` of the next object, or NULL. */
static json_t *hear(const struct naive *n, const char *name)
{
	json_t *object = json_loadfd(n->talk, JSON_DISABLE_EOF_CHECK, NULL);
	json_t *member = json_incref(json_object_get(object, name));

	json_decref(object);
	return member;
}

int naive_new(struct sgpu_bench *bench, struct naive **naive, struct sgpu_error *error)
{
	const bool is_gpu = strcmp(bench->info.selector, "cpu") != 0;
	struct naive *n = *naive = sgpu_bench_new(bench, sizeof(*n), end_naive, error);
	json_t *missing;
	int rc;

	if (!n) {
		return SGPU_ENOMEM;
	}
	rc = program_start(WORDS("python3", "-c", naive_program, is_gpu ? "cuda" : "cpu"), NULL,
			   &n->talk, &n->pid, error);
	missing = hear(n, "missing");
	if (rc == SGPU_OK && (!missing || json_string_length(missing))) {
		rc = sgpu_fail(error, SGPU_EUNAVAILABLE, "python3 does not run it: %s",
			       missing ? SGPU_EXCERPT(json_string_value(missing)) : "no answer");
	}
	json_decref(missing);
	return rc;
}

int naive_run(const struct naive *n, uint64_t count, int row, uint64_t *ns,
	      struct sgpu_error *error)
{
	json_t *member = NULL;

	if (dprintf(n->talk, "%" PRIu64 " %d\n", count, row) > 0) {
		member = hear(n, "median_ns");
	}
	*ns = (uint64_t)json_integer_value(member);
	json_decref(member);
	return *ns ? SGPU_OK : sgpu_fail(error, SGPU_EDEVICE, "the page of Python has failed");
}
