/* SPDX-License-Identifier: Apache-2.0
 *
 * Access control lists of key files. If a file has a list, the group bits of its mode are the
 * list's mask: 0440 may mean that only one user can read the file, which is how systemd hands over
 * credentials.
 */
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "crypto/key.h"

/* POSIX ACL tags, repeated here because programs cannot include linux/posix_acl.h. */
enum {
	USER_OBJ = 0x01,
	USER = 0x02,
	GROUP_OBJ = 0x04,
	GROUP = 0x08,
	MASK = 0x10,
	OTHER = 0x20,
	ENTRIES_MAX = 64
};

static uint32_t little(const uint8_t *bytes, int count)
{
	uint32_t value = 0;

	for (int i = 0; i < count; i++) {
		value |= (uint32_t)bytes[i] << (8 * i);
	}
	return value;
}

void sgpu_key_narrow_mode(int fd, struct stat *status)
{
	uint8_t list[4 + 8 * ENTRIES_MAX];
	ssize_t size = fgetxattr(fd, "system.posix_acl_access", list, sizeof(list));
	uint32_t others = 0;

	if (size < 4 || (size - 4) % 8 || little(list, 4) != POSIX_ACL_XATTR_VERSION) {
		return; /* no list, or one that is too long to be private */
	}
	for (const uint8_t *entry = list + 4; entry < list + size; entry += 8) {
		const uint32_t tag = little(entry, 2), permissions = little(entry + 2, 2),
			       id = little(entry + 4, 4);
		const bool ours = tag == USER_OBJ || tag == MASK ||
				  (tag == USER && (id == geteuid() || id == 0));

		others |= ours ? 0 : permissions;
	}
	if (others == 0) {
		status->st_mode &= ~(mode_t)S_IRWXG;
	}
}
