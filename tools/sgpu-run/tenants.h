/* SPDX-License-Identifier: Apache-2.0
 *
 * What each user may have of a server: the file of sgpu-run serve --tenants. One user a line:
 *
 *   # name or uid, or * for all others     what differs from the default
 *   alice    weight=3 priority=high
 *   1001     in-flight=2 waiting=16 device-memory=8G
 *   *        waiting=8
 */
#ifndef SGPU_RUN_TENANTS_H
#define SGPU_RUN_TENANTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sgpu/error.h>

enum { TENANTS_NAMED_MAX = 1024, TENANT_BATCHES_MAX = 1024, TENANT_SESSIONS_MAX = 16 };
/* With less there would be no room to stage anything. */
enum { TENANT_HOST_MEMORY_MIN = 128 << 20 };

struct tenant_rule {
	unsigned weight;
	bool high;
	unsigned in_flight, waiting, sessions; /* at most */
	uint64_t device_memory, host_memory;   /* bytes, at most; 0: no limit */
};

struct tenant_rules {
	struct tenant_rule others;
	struct {
		uid_t uid;
		struct tenant_rule rule;
	} named[TENANTS_NAMED_MAX];
	unsigned count;
	bool any_high;
};

/* Without a file (path NULL) the default holds for everybody. Errors: SGPU_EINVALID with the line;
 * SGPU_EPOLICY: others may write to the file; what reading gives. Then *rules is as it was. again:
 * the file was read before; a user of whom it is certain that they are there no more is left out,
 * with a warning. */
SGPU_MUST_CHECK int tenant_rules_load(const char *path, bool again, struct tenant_rules *rules,
				      struct sgpu_error *error);

const struct tenant_rule *tenant_rules_find(const struct tenant_rules *rules, uid_t uid);

/* The user's name by /etc/passwd alone, "" where that has none: another source could take its time.
 */
void tenant_user_name(uid_t uid, char *name, size_t size);

#endif
