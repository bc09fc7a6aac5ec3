/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits what the process may open, by Landlock, with the rights that the kernel's version knows.
 * The C library has no functions for the system calls.
 */
#include "harden.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "runner/runner.h"

/* Later rights, which the build's headers may lack. */
#define LANDLOCK_REFER (1ULL << 13)
#define LANDLOCK_TRUNCATE (1ULL << 14)
#define LANDLOCK_IOCTL_DEV (1ULL << 15)

#define READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RUN (READ | LANDLOCK_ACCESS_FS_EXECUTE)
#define WRITE (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_TRUNCATE)
#define NAME (LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE)
#define DEVICE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_IOCTL_DEV)
/* The files of a platform's report come and go with a folder. */
#define MORE (READ | WRITE | NAME | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR)
/* For files other than folders. */
#define OF_FILES \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | WRITE | LANDLOCK_IOCTL_DEV)

/* Files of the system, by the first kind of process that opens them: what HARDEN_CPU may open, all
 * but HARDEN_SIGNER may. */
static const struct rule {
	enum harden_kind kind;
	const char *pattern;
	uint64_t rights;
} of_system[] = {
	/* Libraries, what they read about the machine, and any program's devices. A run can read
	 * keys there. */
	{ HARDEN_CPU, "/{usr,lib,lib32,lib64,libx32,proc/self/exe}", RUN },
	{ HARDEN_CPU, "/etc/{ld.so.*,localtime,ssl/openssl.cnf}", READ },
	{ HARDEN_CPU,
	  "/proc/{self,sys,driver,meminfo,cpuinfo,stat,filesystems,devices,version,modules}",
	  READ },
	{ HARDEN_CPU, "/sys/{devices,bus,class,module,kernel/mm,fs/cgroup}", READ },
	{ HARDEN_CPU, "/dev/{null,zero,full,random,urandom}", DEVICE },
	{ HARDEN_TPM_SIGNER, "/dev/tpm*", DEVICE },
	/* NVIDIA's driver. */
	{ HARDEN_GPU, "/{dev/nvidia*,run/nvidia-*}", DEVICE | READ },
	{ HARDEN_GPU, "/proc/self", READ | WRITE }, /* it names its threads */
	{ HARDEN_GPU, "/etc/nvidia*", READ },
	{ HARDEN_GPU, "/dev/dri/renderD*", DEVICE },
};

/* 0: there is no Landlock. */
static int kernel_version(void)
{
	const long version =
		syscall(__NR_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	return version < 1 ? 0 : (int)version;
}

int landlock_version(void)
{
	return cli_harden_off() ? 0 : kernel_version();
}

struct ruleset {
	int fd;
	uint64_t known;
	int failure; /* errno of a rule that failed, or 0 */
};

/* Makes rules that refuse every access to files and TCP that `version` knows and, if `scoped`,
 * signals and abstract sockets to processes outside. */
static struct ruleset make_ruleset(int version, bool scoped)
{
	/* The kernel's structure, which later versions extend. Earlier ones take it if what they do
	 * not know is zero. */
	struct {
		uint64_t files, net, scoped;
	} attributes = { .files = (1ULL << 13) - 1 };
	struct ruleset rules = { .fd = -1 };

	attributes.files |= version >= 2 ? LANDLOCK_REFER : 0;
	attributes.files |= version >= 3 ? LANDLOCK_TRUNCATE : 0;
	attributes.files |= version >= 5 ? LANDLOCK_IOCTL_DEV : 0;
	attributes.net = version >= 4 ? 3 : 0;
	attributes.scoped = scoped && version >= 6 ? 3 : 0;
	rules.known = attributes.files;
	rules.fd = (int)syscall(__NR_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
	rules.failure = rules.fd < 0 ? errno : 0;
	return rules;
}

/* Confines the calling thread, unless a rule failed, and closes the rules. False, with errno: it is
 * not confined. */
static bool put_under(struct ruleset *rules)
{
	if (rules->failure == 0 && syscall(__NR_landlock_restrict_self, rules->fd, 0) != 0) {
		rules->failure = errno;
	}
	if (rules->fd >= 0) {
		close(rules->fd);
	}
	errno = rules->failure;
	return rules->failure == 0;
}

/* Also allows all beneath a directory. */
static void allow_descriptor(struct ruleset *rules, int fd, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = { .parent_fd = fd };
	struct stat status;

	rights &= rules->known;
	if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode)) {
		rights &= OF_FILES;
	}
	rule.allowed_access = rights;
	if (rights &&
	    syscall(__NR_landlock_add_rule, rules->fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
		rules->failure = errno;
	}
}

/* A path that does not exist needs no rule. */
static void allow(struct ruleset *rules, const char *path, uint64_t rights)
{
	int fd = path ? open(path, O_PATH | O_CLOEXEC) : -1;

	if (fd >= 0) {
		allow_descriptor(rules, fd, rights);
		close(fd);
	} else if (path && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) {
		rules->failure = errno;
	}
}

static void allow_system(struct ruleset *rules, enum harden_kind kind)
{
	for (const struct rule *rule = of_system; rule < of_system + SGPU_ARRAY_LENGTH(of_system);
	     rule++) {
		glob_t found;

		if ((rule->kind == HARDEN_CPU || rule->kind == kind) &&
		    glob(rule->pattern, GLOB_BRACE, NULL, &found) == 0) {
			for (size_t k = 0; k < found.gl_pathc; k++) {
				allow(rules, found.gl_pathv[k], rule->rights);
			}
			globfree(&found);
		}
	}
}

/* Makes their directory, since regions may be staged while the run waits for its batch. */
static void allow_regions(struct ruleset *rules)
{
	char *regions = NULL;

	if (sgpu_stage_directory(&regions, NULL) == SGPU_OK) { /* else there are no regions */
		allow(rules, regions, READ | WRITE | LANDLOCK_ACCESS_FS_REMOVE_FILE);
	}
	free(regions);
}

/* Allows the directory where the loader finds NVIDIA's driver library, which opens others beside it
 * and stays loaded. */
static void allow_driver(struct ruleset *rules)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	char path[PATH_MAX];

	if (library && dlinfo(library, RTLD_DI_ORIGIN, path) == 0) {
		allow(rules, path, RUN);
	}
}

static void allow_all(struct ruleset *rules, const struct landlock_needs *needs)
{
	const struct sgpu_output *output;
	char path[PATH_MAX];
	const char *name;

	if (needs->kind == HARDEN_GPU) {
		allow_driver(rules);
	}
	if (needs->kind != HARDEN_SIGNER) {
		allow_system(rules, needs->kind);
		/* For libraries that are loaded later. */
		allow(rules, runner_beside("../lib/sgpu", path), RUN);
		allow_regions(rules);
	}
	allow(rules, needs->state, READ | WRITE | NAME);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(needs->more); i++) {
		allow(rules, needs->more[i], MORE);
	}
	for (int i = 0; i < sgpu_files_count(needs->files); i++) {
		allow_descriptor(rules, sgpu_files_directory(needs->files, i, &name), READ);
	}
	for (size_t i = 0; needs->kind <= HARDEN_GPU && (output = cli_output_prepared(i)); i++) {
		/* To give the output its name, and to remove folders made for it if the run
		 * fails. */
		if (output->directory >= 0) {
			allow_descriptor(rules, output->directory, NAME);
		}
		for (int k = 0; k < output->made.count; k++) {
			allow_descriptor(rules, output->made.list[k].directory,
					 LANDLOCK_ACCESS_FS_REMOVE_DIR);
		}
	}
}

int landlock_confine(const struct landlock_needs *needs, struct sgpu_error *error)
{
	struct ruleset rules = make_ruleset(kernel_version(), false);

	if (rules.failure == 0) {
		allow_all(&rules, needs);
	}
	return put_under(&rules) ? SGPU_OK : sgpu_fail_errno(error, "files are not confined");
}

int landlock_read_only(const char *const *paths, const char *more)
{
	const int version = kernel_version();
	struct ruleset rules = make_ruleset(version, true);

	for (; rules.failure == 0 && *paths; paths++) {
		allow(&rules, *paths, LANDLOCK_ACCESS_FS_READ_FILE);
	}
	allow(&rules, more, LANDLOCK_ACCESS_FS_READ_FILE);
	return put_under(&rules) ? version : 0;
}
