/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys from files. A file with a secret that others can read is refused. The descriptor that is
 * checked is the one read.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "base/io.h"
#include "crypto/key.h"

/* Whether `path` is a key: its text, or only its secret member, 32 bytes in base64url or
 * hexadecimal. */
static bool is_content(const char *path)
{
	static const char base64url[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	const size_t size = strlen(path);

	return sgpu_looks_secret(path, size) || (size == 43 && strspn(path, base64url) == size) ||
	       (size == 64 && strspn(path, "0123456789abcdefABCDEF") == size);
}

/* Reports a key in place of its file's name, and shows none of it. */
static int refuse_content(struct sgpu_error *error)
{
	sgpu_fail(error, SGPU_EUSAGE, "a key itself was given where the name of its file belongs");
	return sgpu_hint(
		error,
		"arguments are seen by other users: name the file, or give it as '-' or 'fd:N'");
}

/* Links are followed, since containers mount secrets as links; their target is judged. */
static int open_key(const char *path, int *fd, const char **name, struct sgpu_error *error)
{
	uint64_t number;
	int source = STDIN_FILENO;

	*name = path;
	if (!strcmp(path, "-")) {
		*name = "standard input";
	} else if (!strncmp(path, "fd:", 3)) {
		int rc = sgpu_parse_u64(path + 3, "descriptor", 0, INT_MAX, &number, error);
		if (rc) {
			return rc;
		}
		source = (int)number;
	} else {
		*fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (*fd < 0 && is_content(path)) {
			return refuse_content(error);
		}
		return *fd < 0 ? sgpu_fail_errno(error, "cannot open key '%s'", path) : 0;
	}
	*fd = fcntl(source, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? sgpu_fail_errno(error, "cannot use key '%s'", path) : 0;
}

/* POSIX ACL tags: programs cannot include linux/posix_acl.h. */
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

/* Clears the group's bits in status->st_mode when they are the mask of an access control list that
 * admits only the file's owner, this process's user, and root: systemd hands over credentials with
 * 0440 that only one user can read. */
static void narrow_mode(int fd, struct stat *status)
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

static int check_secret(const char *name, const struct stat *status, struct sgpu_error *error)
{
	if (!S_ISREG(status->st_mode) && !S_ISFIFO(status->st_mode)) {
		return sgpu_fail(error, SGPU_EPOLICY,
				 "secret key '%s' is neither a regular file nor a pipe", name);
	}
	if (status->st_uid != geteuid() && status->st_uid != 0) {
		(void)sgpu_fail(error, SGPU_EPOLICY,
				"secret key '%s' belongs to another user (%lu)", name,
				(unsigned long)status->st_uid);
		(void)sgpu_hint(error, "use a copy of your own, with mode 0600");
		return SGPU_EPOLICY;
	}
	if (status->st_mode & (S_IRWXG | S_IRWXO)) {
		(void)sgpu_fail(error, SGPU_EPOLICY,
				"secret key '%s' is open to other users (mode %04o)", name,
				(unsigned)status->st_mode & 07777u);
		(void)sgpu_hint(error, "chmod 600 '%s'", name);
		return SGPU_EPOLICY;
	}
	return 0;
}

static int read_key(const char *path, size_t limit, const char **name, struct stat *status,
		    char **text, size_t *size, struct sgpu_error *error)
{
	int fd = -1;
	int rc = open_key(path, &fd, name, error);

	if (rc) {
		return rc;
	}
	if (fstat(fd, status)) {
		rc = sgpu_fail_errno(error, "cannot use key '%s'", *name);
	} else if (S_ISDIR(status->st_mode)) {
		rc = sgpu_fail(error, SGPU_ESYSTEM, "key '%s' is a directory", *name);
	} else {
		narrow_mode(fd, status);
		rc = sgpu_read_fd(fd, *name, limit, text, size, error);
		rc = rc || *size ? rc : sgpu_fail_sniffed(error, fd, *name, "", 0, "a key");
	}
	close(fd);
	return rc;
}

int (*sgpu_key_unlock)(const char *name, char **text, size_t *size, struct sgpu_error *error);

int sgpu_key_set_load(const char *path, struct sgpu_key_set *set, struct sgpu_error *error)
{
	struct stat status = { 0 };
	const char *name;
	char *text = NULL;
	size_t size = 0;

	memset(set, 0, sizeof(*set));
	int rc = read_key(path, SGPU_KEY_TEXT_MAX, &name, &status, &text, &size, error);
	/* No key has this member of a JWE. */
	const bool locked = !rc && memmem(text, size, "\"encrypted_key\"", 15);
	if (locked) {
		rc = check_secret(name, &status, error);
		rc = rc		       ? rc
		     : sgpu_key_unlock ? sgpu_key_unlock(name, &text, &size, error)
				       : sgpu_fail(error, SGPU_EPOLICY,
						   "'%s' is protected by a passphrase, and this "
						   "program asks for none",
						   name);
	}
	rc = rc ? rc : sgpu_key_set_parse(text, size, name, set, error);
	if (!rc && sgpu_key_set_secret(set)) {
		rc = check_secret(name, &status, error);
	}
	set->locked = locked;
	set->others_write = !sgpu_is_trusted(&status);
	if (rc) {
		sgpu_key_set_clear(set);
	}
	sgpu_free_wiped(&text, size);
	return rc;
}

int sgpu_key_load(const char *path, struct sgpu_key *key, struct sgpu_error *error)
{
	struct sgpu_key_set set;

	memset(key, 0, sizeof(*key));
	int rc = sgpu_key_set_load(path, &set, error);
	if (!rc && set.key.kind == SGPU_KEY_NONE) {
		(void)sgpu_fail(error, SGPU_EINVALID,
				"key '%s' signs, and there is none to encrypt with beside it",
				path);
		rc = sgpu_hint(error, "'sgpu-seal keygen' makes files with both");
	}
	if (!rc) {
		*key = set.key;
	}
	sgpu_key_set_clear(&set);
	return rc;
}

int sgpu_key_load_private(const char *path, struct sgpu_key *key, struct sgpu_error *error)
{
	int rc = sgpu_key_load(path, key, error);

	if (!rc && !key->secret_known) {
		(void)sgpu_fail(error, SGPU_EKEY,
				"key '%s' is the public half of '%s', which opens nothing", path,
				key->kid);
		(void)sgpu_hint(error,
				"give the file with both halves, which 'sgpu-seal keygen' wrote");
		sgpu_key_clear(key);
		rc = SGPU_EKEY;
	}
	return rc;
}

int sgpu_secret_load(const char *path, size_t limit, const char **name, char **text, size_t *size,
		     struct sgpu_error *error)
{
	struct stat status;

	*text = NULL;
	*size = 0;
	int rc = read_key(path, limit, name, &status, text, size, error);
	rc = rc ? rc : check_secret(*name, &status, error);
	if (rc) {
		sgpu_free_wiped(text, *size);
		*size = 0;
	}
	return rc;
}
