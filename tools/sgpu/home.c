/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's directory: $XDG_CONFIG_HOME/sgpu, else ~/.config/sgpu. Whoever can write there decides
 * to whom data are sealed, so that it has to be the user's alone.
 */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/keys.h>

#include "base/io.h"
#include "crypto/key.h"
#include "sgpu.h"

enum { ROOM = 32 }; /* bytes that are left for a name beside or below a path */
static const char owner_name[] = "owner.jwk";

int home_check(const char *path, mode_t kind, struct sgpu_error *error)
{
	struct stat status;

	if (lstat(path, &status) != 0) {
		return sgpu_fail_errno(error, "cannot look at '%s'", path);
	}
	if ((status.st_mode & S_IFMT) != kind) {
		return sgpu_fail(error, SGPU_EPOLICY, "'%s' is not a %s", path,
				 kind == S_IFDIR ? "directory" : "regular file");
	}
	if (status.st_uid != geteuid() || (status.st_mode & (kind == S_IFDIR ? 0077 : 0022))) {
		sgpu_fail(error, SGPU_EPOLICY, "'%s' is not yours alone: it says whom you trust",
			  path);
		return sgpu_hint(error, "its mode has to be %s, and you its owner",
				 kind == S_IFDIR ? "0700" : "0600");
	}
	return SGPU_OK;
}

int home_path(const char *name, char path[PATH_MAX], struct sgpu_error *error)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	struct sgpu_output_directory directory = SGPU_OUTPUT_DIRECTORY_INIT;
	const struct passwd *user;
	int length, rc;

	if (!config || *config != '/') {
		user = home && *home == '/' ? NULL : getpwuid(geteuid());
		home = user ? user->pw_dir : home;
		config = NULL;
	}
	if (!config && (!home || *home != '/')) {
		return sgpu_fail(error, SGPU_EUSAGE,
				 "neither HOME nor XDG_CONFIG_HOME says where your keys are");
	}
	length = snprintf(path, PATH_MAX, "%s%s/sgpu", config ? config : home,
			  config ? "" : "/.config");
	if (length >= PATH_MAX - (int)strlen(name) - ROOM) {
		return sgpu_fail(error, SGPU_EUSAGE, "the path of your keys is too long");
	}
	rc = sgpu_output_directory_open(&directory, path, 0700, error);
	sgpu_output_directory_close(&directory, true);
	rc = rc ? rc : home_check(path, S_IFDIR, error);
	snprintf(path + length, (size_t)(PATH_MAX - length), "/%s", name);
	return rc;
}

static int make_owner(const char *path, struct sgpu_error *error)
{
	struct sgpu_key_set keys = { .key.kind = SGPU_KEY_NONE };
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_key_generate(SGPU_KEY_X25519, &keys.key, error);

	rc = rc ? rc : sgpu_key_generate(SGPU_KEY_ED25519, &keys.signing, error);
	rc = rc ? rc : sgpu_key_set_text(&keys, &text, &size, error);
	rc = rc ? rc : cli_write_secret(path, text, size, error);
	sgpu_free_wiped(&text, size);
	sgpu_key_set_clear(&keys);
	if (!rc) {
		cli_note("made '%s', your key; keep a copy: without it nothing that was sealed to "
			 "you opens",
			 path);
	}
	return rc;
}

int key_file(const struct sgpu_key_set *keys, int *fd, struct sgpu_error *error)
{
	char *text = NULL;
	size_t size = 0;
	int rc = sgpu_key_set_text(keys, &text, &size, error);

	rc = rc ? rc : memory_file("key", fd, error);
	rc = rc ? rc : sgpu_write(*fd, "memory", text, size, error);
	(void)lseek(*fd, 0, SEEK_SET);
	sgpu_free_wiped(&text, size);
	return rc;
}

int home_owner(char path[PATH_MAX], struct sgpu_error *error)
{
	int rc = home_path(owner_name, path, error);

	if (!rc && access(path, F_OK) != 0) {
		rc = make_owner(path, error);
		/* Another call may have made it meanwhile. */
		rc = rc && access(path, F_OK) == 0 ? SGPU_OK : rc;
	}
	return rc ? rc : home_check(path, S_IFREG, error);
}
