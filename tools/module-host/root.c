/* SPDX-License-Identifier: Apache-2.0
 *
 * Enters namespaces, makes a root with libraries alone, and drops capabilities. Steps that the
 * kernel refuses are left out and reported. */
#include "host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../sgpu-enclave/landlock_calls.h"

/* ---- namespaces ---- */
static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0) {
		close(fd);
	}
	return good;
}

/* Makes a user namespace that maps the user and the group to themselves. */
static bool make_user_namespace(void)
{
	const unsigned user = geteuid(), group = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER) != 0) {
		return false;
	}
	(void)write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", group, group);
	(void)write_text("/proc/self/gid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", user, user);
	(void)write_text("/proc/self/uid_map", map);
	return true;
}

/* A process can write the id maps of its namespace only while it is dumpable, which this process
 * never is. So a child that holds nothing secret makes the namespace, and this process enters
 * it. */
static bool enter_user_namespace(void)
{
	char byte = 0, path[32];
	bool good = false;
	int ends[2], fd;
	pid_t maker;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
		return false;
	}
	maker = fork();
	if (maker == 0) {
		close(SGPU_HOST_CONTROL);
		close(ends[0]);
		prctl(PR_SET_DUMPABLE, 1);
		byte = make_user_namespace();
		(void)!write(ends[1], &byte, 1);
		(void)!read(ends[1], &byte, 1); /* until the parent has entered the namespace */
		_exit(0);
	}
	close(ends[1]);
	if (maker > 0 && read(ends[0], &byte, 1) == 1 && byte) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)maker);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		good = fd >= 0 && setns(fd, CLONE_NEWUSER) == 0;
		if (fd >= 0) {
			close(fd);
		}
	}
	close(ends[0]);
	while (maker > 0 && waitpid(maker, NULL, 0) < 0 && errno == EINTR) {
	}
	return good;
}

/* Makes the started process only wait for its child, which does the work. */
static _Noreturn void wait_for(pid_t child)
{
	int status = 0;

	close(SGPU_HOST_CONTROL);
	(void)root_drop();
	while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void enter_pid_namespace(struct sgpu_module_confinement *confinement)
{
	pid_t child;
	int ends[2];
	char byte;

	if (unshare(CLONE_NEWPID) != 0 || pipe2(ends, O_CLOEXEC) != 0) {
		return;
	}
	child = fork();
	if (child < 0) {
		_exit(1); /* without a first process in the namespace, this one can start no other
			     children */
	}
	if (child > 0) {
		close(ends[0]);
		wait_for(child);
	}
	close(ends[1]);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The parent keeps the other end open while it lives, and never writes. */
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0 || read(ends[0], &byte, 1) == 0) {
		_exit(1);
	}
	close(ends[0]);
	confinement->pid = 1;
}

void root_enter(struct sgpu_module_confinement *confinement)
{
	const struct {
		int flag;
		uint8_t *done;
	} kinds[] = { { CLONE_NEWNS, &confinement->mount },
		      { CLONE_NEWNET, &confinement->net },
		      { CLONE_NEWIPC, &confinement->ipc },
		      { CLONE_NEWUTS, &confinement->uts } };

	confinement->process = 1;
	confinement->user = enter_user_namespace();
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		*kinds[i].done = unshare(kinds[i].flag) == 0;
	}
	enter_pid_namespace(confinement);
}

/* ---- root ---- */
static const char *const libraries[] = { "/lib",     "/lib64",	   "/lib32",	     "/libx32",
					 "/usr/lib", "/usr/lib64", "/usr/local/lib", NULL };

static bool allow(int ruleset, const char *path)
{
	const int fd = open(path, O_PATH | O_CLOEXEC);
	const bool good = fd < 0 || landlock_allow(ruleset, fd, LANDLOCK_ACCESS_FS_READ_FILE);

	if (fd >= 0) {
		close(fd);
	}
	return good; /* a path that does not exist needs no rule */
}

int root_landlock(const char *image)
{
	const int version = landlock_kernel();
	uint64_t known;
	const int ruleset = version < 1 ? -1 : landlock_ruleset(version, true, &known);
	bool good = ruleset >= 0;

	for (int i = 0; good && libraries[i]; i++) {
		good = allow(ruleset, libraries[i]);
	}
	good = good && allow(ruleset, "/etc/ld.so.cache") && (!image || allow(ruleset, image)) &&
	       syscall(LANDLOCK_RESTRICT, ruleset, 0) == 0;
	if (ruleset >= 0) {
		close(ruleset);
	}
	return good ? version : 0;
}

/* Makes `path` exist in the new root, the current directory: copies a symbolic link, bind-mounts a
 * directory or a file. */
static bool bring(const char *path)
{
	char here[256], target[256];
	struct stat status;
	ssize_t size;

	snprintf(here, sizeof(here), ".%s", path);
	if (lstat(path, &status) != 0) {
		return true;
	}
	if (S_ISLNK(status.st_mode)) {
		size = readlink(path, target, sizeof(target) - 1);
		target[size < 0 ? 0 : size] = '\0';
		return size > 0 && symlink(target, here) == 0;
	}
	if (S_ISREG(status.st_mode)) {
		int fd = open(here, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);

		if (fd < 0) {
			return false;
		}
		close(fd);
	} else if (mkdir(here, 0755) != 0) {
		return false;
	}
	return mount(path, here, NULL, MS_BIND | MS_REC, NULL) == 0;
}

static bool build_root(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0 ||
	    chdir("/tmp") != 0 || mkdir("usr", 0755) != 0 || mkdir("usr/local", 0755) != 0 ||
	    mkdir("etc", 0755) != 0) {
		return false;
	}
	for (int i = 0; libraries[i]; i++) {
		if (!bring(libraries[i])) {
			return false;
		}
	}
	/* The old root is mounted on the new one for a moment, then unmounted. */
	return bring("/etc/ld.so.cache") && syscall(SYS_pivot_root, ".", ".") == 0 &&
	       umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
}

void root_change(struct sgpu_module_confinement *confinement)
{
	confinement->root = confinement->mount && build_root();
}

bool root_drop(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];

	for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
		(void)prctl(PR_CAPBSET_DROP, capability);
	}
	memset(none, 0, sizeof(none));
	return syscall(SYS_capset, &header, none) == 0;
}

/* ---- images ---- */
static bool copy_image(int from, int to)
{
	off_t at = 0;
	struct stat status;

	if (fstat(from, &status) != 0) {
		return false;
	}
	while (at < status.st_size) {
		if (sendfile(to, from, &at, (size_t)(status.st_size - at)) <= 0) {
			return false;
		}
	}
	return true;
}

bool root_place(const struct sgpu_module_confinement *confinement, int fd, unsigned number,
		char path[HOST_IMAGE_PATH])
{
	bool good;
	int to;

	if (!confinement->root) {
		snprintf(path, HOST_IMAGE_PATH, "/proc/self/fd/%d", fd);
		return true;
	}
	snprintf(path, HOST_IMAGE_PATH, "/module.%u", number);
	to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	good = to >= 0 && copy_image(fd, to);
	if (to >= 0) {
		close(to);
	}
	return good;
}

void root_remove(const struct sgpu_module_confinement *confinement, const char *path)
{
	if (confinement->root && path[0]) {
		unlink(path);
	}
}
