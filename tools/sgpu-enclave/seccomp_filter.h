/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of system calls by the names of calls, for the programs that confine themselves.
 * Functions with `rc` keep the first failure, a negative errno, and do nothing after it. */
#ifndef SGPU_RUN_SECCOMP_FILTER_H
#define SGPU_RUN_SECCOMP_FILTER_H

#include <errno.h>
#include <seccomp.h>

/* A call, and the action for it when its argument compares as stated. */
struct seccomp_rule {
	uint32_t action;
	const char *name;
	struct scmp_arg_cmp argument;
};

#define BITS(index, mask, value)                       \
	{                                              \
		index, SCMP_CMP_MASKED_EQ, mask, value \
	}
#define EQUAL(index, value)                                  \
	{                                                    \
		index, SCMP_CMP_EQ, (scmp_datum_t)(value), 0 \
	}
#define OTHER(index, value)                                  \
	{                                                    \
		index, SCMP_CMP_NE, (scmp_datum_t)(value), 0 \
	}

/* Adds a rule. A call that this architecture lacks is left out. */
static inline void seccomp_add(scmp_filter_ctx filter, int *rc, uint32_t action, const char *name,
			       unsigned count, const struct scmp_arg_cmp *arguments)
{
	const int number = seccomp_syscall_resolve_name(name);

	if (*rc == 0 && number == __NR_SCMP_ERROR && action != SCMP_ACT_ALLOW) {
		*rc = -ENOSYS; /* this libseccomp does not know the call and cannot refuse it */
	}
	if (*rc == 0 && number >= 0) {
		*rc = seccomp_rule_add_array(filter, action, number, count, arguments);
	}
}

/* Adds a rule for each of `names`, which ends with NULL. */
static inline void seccomp_add_all(scmp_filter_ctx filter, int *rc, uint32_t action,
				   const char *const *names)
{
	for (; *names; names++) {
		seccomp_add(filter, rc, action, *names, 0, NULL);
	}
}

static inline void seccomp_add_rules(scmp_filter_ctx filter, int *rc,
				     const struct seccomp_rule *rules, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		seccomp_add(filter, rc, rules[i].action, rules[i].name, 1, &rules[i].argument);
	}
}

/* Installs the filter. foreign: the action for calls by the numbers of other architectures. */
static inline int seccomp_put_on(scmp_filter_ctx filter, int rc, uint32_t foreign)
{
	rc = rc ? rc : seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, foreign);
	if (rc == 0) {
		/* libseccomp before 2.5 lacks this */
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		rc = seccomp_load(filter);
	}
	return rc;
}

#endif
