/* SPDX-License-Identifier: Apache-2.0 */
#include "confinement.h"

#include <stdio.h>

#include "cli.h"

static void warn_of_namespaces(const struct sgpu_module_confinement *m)
{
	const struct {
		const char *name;
		bool there;
	} kinds[] = { { "user", m->user }, { "mount", m->mount }, { "process", m->pid }, { "network", m->net },
		      { "IPC", m->ipc }, { "host name", m->uts } };
	char list[96] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (!kinds[i].there) {
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", kinds[i].name);
		}
	}
	if (used) {
		cli_warning("modules run without a namespace of their own of these kinds: %s", list);
	}
	if (m->mount && !m->root) {
		cli_warning("modules run without a root directory of their own");
	}
}

int confinement_of_modules(struct sgpu_device *device, struct sgpu_module_confinement *modules, struct sgpu_error *error)
{
	int code = sgpu_device_module_confinement(device, modules, error);

	if (code != SGPU_OK || !modules->process) {
		return code; /* on a GPU they run there */
	}
	warn_of_namespaces(modules);
	if (!modules->landlock) {
		cli_warning("modules run without Landlock: %s", modules->root ? "only their root directory keeps files from them" :
			    "while one is loaded it can read the files that this user can");
	}
	if (!modules->seccomp) {
		cli_warning("modules run without a filter of system calls: %s",
#ifdef SGPU_SECCOMP
			    "the kernel has no seccomp, or forbids it"
#else
			    "this build has no libseccomp"
#endif
		);
	} else if (!modules->named) {
		cli_warning("a system call that is refused to a module is not named: the kernel gives no listener");
	}
	if (!modules->capabilities) {
		cli_warning("modules keep the capabilities of this process");
	}
	return code;
}

json_t *confinement_claim(bool filtered, bool confined, const struct sgpu_module_confinement *modules)
{
	json_t *claim = json_pack("{s:b, s:b}", "seccomp", filtered, "landlock", confined);
	const struct sgpu_module_confinement *m = modules;
	json_t *own;

	if (!claim || !m) {
		return claim;
	}
	own = json_pack("{s:b, s:b, s:b, s:b, s:b, s:b}", "process", m->process, "namespaces",
			m->user && m->mount && m->pid && m->net && m->ipc && m->uts, "root", m->root, "landlock",
			m->landlock != 0, "seccomp", m->seccomp, "no_capabilities", m->capabilities);
	if (!own || json_object_set_new(claim, "modules", own) != 0) {
		json_decref(claim);
		return NULL;
	}
	return claim;
}
