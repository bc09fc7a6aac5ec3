/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"
#include "device/device.h"
#include "cli.h"
#include "harden.h"

/* What runs as the host of modules: this very program, even if its file has been replaced. A
 * sanitizer has no room there, so a build with one names another. */
#ifndef SGPU_HOST_PATH
#define SGPU_HOST_PATH "/proc/self/exe"
#endif

enum { NAMESPACES_SIZE = 96 };

/* Lists the kinds of namespaces that modules lack; "": none. */
static const char *lacking(const struct sgpu_module_confinement *m, char list[NAMESPACES_SIZE])
{
	const struct {
		const char *name;
		bool there;
	} kinds[] = { { "user", m->user },   { "mount", m->mount }, { "process", m->pid },
		      { "network", m->net }, { "IPC", m->ipc },	    { "host name", m->uts } };
	size_t used = 0;

	list[0] = '\0';
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (!kinds[i].there) {
			used += (size_t)snprintf(list + used, NAMESPACES_SIZE - used, "%s%s",
						 used ? ", " : "", kinds[i].name);
		}
	}
	return list;
}

json_t *confinement_claim(bool filtered, bool confined,
			  const struct sgpu_module_confinement *modules)
{
	json_t *claim = json_pack("{s:b, s:b}", "seccomp", filtered, "landlock", confined);
	const struct sgpu_module_confinement *m = modules;
	json_t *own;

	if (!claim || !m) {
		return claim;
	}
	own = json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "process", m->process, "namespaces",
			m->user && m->mount && m->pid && m->net && m->ipc && m->uts, "root",
			m->root, "landlock", m->landlock != 0, "seccomp", m->seccomp,
			"no_capabilities", m->capabilities);
	if (!own || json_object_set_new(claim, "modules", own) != 0) {
		json_decref(claim);
		return NULL;
	}
	return claim;
}

/* ---- what a process has ---- */
static void note(struct harden_finding *finding, const char *name, const char *title, bool holds,
		 const char *text, const char *reason)
{
	*finding = (struct harden_finding){ .name = name, .title = title, .holds = holds };
	snprintf(finding->text, sizeof(finding->text), "%s%s%s", text, reason ? ": " : "",
		 reason ? reason : "");
}

static void find(const struct sgpu_module_confinement *m,
		 struct harden_finding findings[CONFINEMENT_FINDINGS])
{
	char list[NAMESPACES_SIZE];

	note(&findings[0], "process", "process", m->process,
	     "each in one of its own, without keys, of a program that is part of this one", NULL);
	lacking(m, list);
	note(&findings[1], "namespaces", "namespaces", !*list,
	     *list ? "none of its own of these kinds" : "its own of every kind",
	     *list ? list : NULL);
	note(&findings[2], "root", "root directory", m->root,
	     m->root ? "one with libraries in it, and nothing else" : "that of this machine", NULL);
	note(&findings[3], "landlock", "files", m->landlock != 0,
	     m->landlock ? "it reads libraries alone (Landlock)"
	     : m->root	 ? "only its root directory keeps files from it: this kernel has no "
			   "Landlock, or it is off"
		       : "while it is loaded it can read the files that this user can: this kernel "
			 "has no Landlock, or it is off",
	     NULL);
	note(&findings[4], "seccomp", "system calls", m->seccomp,
	     m->seccomp ? "those of computing code; another ends it and the run, by name"
			: "all are possible, in a build without libseccomp; or the kernel gives no "
			  "listener, and no module is run",
	     NULL);
	note(&findings[5], "no_capabilities", "capabilities", m->capabilities,
	     m->capabilities ? "none" : "those of this process", NULL);
}

int confinement_prepare(int devices, struct sgpu_error *error)
{
	return sgpu_device_prepare_modules(SGPU_HOST_PATH, devices, error);
}

int confinement_of_modules(struct sgpu_device *device, struct sgpu_module_confinement *modules,
			   struct sgpu_error *error)
{
	struct harden_finding findings[CONFINEMENT_FINDINGS];
	const int rc = sgpu_device_module_confinement(device, modules, error);

	if (rc != SGPU_OK || !modules->process) {
		return rc; /* a GPU's modules run on the GPU, not in a process */
	}
	find(modules, findings);
	for (int i = 0; i < CONFINEMENT_FINDINGS; i++) {
		if (!findings[i].holds) {
			cli_warning("modules are not confined in all: %s: %s", findings[i].title,
				    findings[i].text);
		}
	}
	return rc;
}

void confinement_try(struct harden_finding findings[CONFINEMENT_FINDINGS])
{
	struct sgpu_module_confinement m = { .process = 0 };
	struct sgpu_device *device = NULL;
	struct sgpu_error error = { 0 };
	bool runs = confinement_prepare(1, &error) == SGPU_OK &&
		    sgpu_device_open("cpu", NULL, &device, &error) == SGPU_OK &&
		    sgpu_device_module_confinement(device, &m, &error) == SGPU_OK;

	sgpu_device_close(&device);
	find(&m, findings);
	for (int i = 0; !runs && i < CONFINEMENT_FINDINGS; i++) {
		note(&findings[i], findings[i].name, findings[i].title, false,
		     i ? "no module is run" : error.text, NULL);
	}
}

void harden_look(struct harden_finding findings[HARDEN_FINDINGS])
{
	const char *off = cli_harden_off(), *kind = sgpu_secret_kind();
	const bool secret = strcmp(kind, "memfd_secret") == 0;
	struct rlimit core = { 1, 1 };
	const uint32_t trap = SECCOMP_RET_TRAP;
	bool closed, filters;

	if (!off) {
		cli_harden();
	}
	filters = harden_filters() && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &trap) == 0;
	(void)getrlimit(RLIMIT_CORE, &core);
	closed = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0;
	const struct {
		const char *name, *title;
		bool holds;
		const char *good, *bad;
	} rows[HARDEN_FINDINGS] = {
		{ "no_core", "core files", closed && core.rlim_max == 0,
		  "none is written, whatever core_pattern says",
		  "a crash may write one, with all that the runner held" },
		{ "no_attaching", "attaching", closed,
		  "other processes of the same user are refused; root is not",
		  "other processes of the same user can read and write the runner's memory" },
		{ "no_new_privileges", "gaining rights",
		  prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1,
		  "no set-user-ID program gives it more rights than it has",
		  "a program that it starts may have more rights than it has" },
		{ "filtered_system_calls", "system calls", filters,
		  "CPU device: those that it needs, no others; GPU: all but those that no runner "
		  "needs",
		  "all are possible" },
		{ "confined_files", "files", landlock_version() > 0,
		  "a run opens none but the system's, those of --files, regions and its outputs "
		  "(Landlock)",
		  "a run can open all that its user can: this kernel has no Landlock, or it is "
		  "off" },
		{ "secret_memory", "keys", secret || strcmp(kind, "mlock") == 0,
		  secret ? "in memory that the kernel itself does not map (memfd_secret)"
			 : "in locked memory (mlock), which root and the kernel can read",
		  "in ordinary memory, which may be swapped: RLIMIT_MEMLOCK leaves no room" },
	};

	for (int i = 0; i < HARDEN_FINDINGS; i++) {
		note(&findings[i], rows[i].name, rows[i].title, rows[i].holds,
		     rows[i].holds ? rows[i].good : rows[i].bad, rows[i].holds ? NULL : off);
	}
}
