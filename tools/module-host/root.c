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
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_text(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);

	(void)!write(fd, text, strlen(text));
	close(fd);
}

/* Maps the user and the group to themselves. */
static bool make_user_namespace(void)
{
	const unsigned user = geteuid(), group = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER) != 0) {
		return false;
	}
	write_text("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", group, group);
	write_text("/proc/self/gid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", user, user);
	write_text("/proc/self/uid_map", map);
	return true;
}

/* Only a dumpable process can write its namespace's id maps, and this one never is. So a child that
 * holds nothing makes the namespace, and stops until this process has entered it. */
static bool enter_user_namespace(void)
{
	bool good = false;
	char path[32];
	int status, fd;
	const pid_t maker = fork();

	if (maker == 0) {
		close(SGPU_HOST_CONTROL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 1);
		if (make_user_namespace()) {
			raise(SIGSTOP);
		}
		_exit(0);
	}
	if (maker < 0 || waitpid(maker, &status, WUNTRACED) != maker || !WIFSTOPPED(status)) {
		return false;
	}
	snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)maker);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		good = setns(fd, CLONE_NEWUSER) == 0;
		close(fd);
	}
	kill(maker, SIGKILL);
	(void)waitpid(maker, &status, 0);
	return good;
}

static void drop_capabilities(struct sgpu_module_confinement *confinement)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
		(void)prctl(PR_CAPBSET_DROP, capability);
	}
	confinement->capabilities = syscall(SYS_capset, &header, none) == 0;
}

/* The calling process waits for its child, which returns and does the work. */
static void enter_pid_namespace(struct sgpu_module_confinement *confinement)
{
	int status = 0;
	pid_t child;

	if (unshare(CLONE_NEWPID) != 0) {
		return;
	}
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		confinement->pid = 1;
		return;
	}
	/* If that failed, this process could start no other children, either. */
	close(SGPU_HOST_CONTROL);
	drop_capabilities(confinement);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	_exit(child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

const char *const root_paths[] = { "/lib",	     "/lib64",		 "/lib32",
				   "/libx32",	     "/usr/lib",	 "/usr/lib64",
				   "/usr/local/lib", "/etc/ld.so.cache", NULL };

/* Makes `path` exist in the new root, the current directory. */
static bool bring(const char *path)
{
	char here[64];
	struct stat status;

	snprintf(here, sizeof(here), ".%s", path);
	if (stat(path, &status) != 0) {
		return true;
	}
	return (S_ISDIR(status.st_mode) ? mkdir(here, 0755) : mknod(here, S_IFREG | 0400, 0)) ==
		       0 &&
	       mount(path, here, NULL, MS_BIND | MS_REC, NULL) == 0;
}

static bool build_root(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") != 0 ||
	    chdir("/tmp") != 0 || mkdir("usr", 0755) != 0 || mkdir("usr/local", 0755) != 0 ||
	    mkdir("etc", 0755) != 0) {
		return false;
	}
	for (int i = 0; root_paths[i]; i++) {
		if (!bring(root_paths[i])) {
			return false;
		}
	}
	/* For a moment the old root is mounted on the new one. */
	return syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
	       chdir("/") == 0;
}

void root_enter(struct sgpu_module_confinement *confinement)
{
	confinement->process = 1;
	confinement->user = enter_user_namespace();
	confinement->mount = unshare(CLONE_NEWNS) == 0;
	confinement->net = unshare(CLONE_NEWNET) == 0;
	confinement->ipc = unshare(CLONE_NEWIPC) == 0;
	confinement->uts = unshare(CLONE_NEWUTS) == 0;
	enter_pid_namespace(confinement);
	confinement->root = confinement->mount && build_root();
	drop_capabilities(confinement);
}
