/* SPDX-License-Identifier: Apache-2.0
 *
 * How the doctor looks: at the kernel's files, and by asking the library, or the kernel by its
 * calls.
 */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <attest/collect/evidence.h>
#include <base/base.h>
#include <sgpu/attest.h>
#include <sgpu/base.h>
#include <sgpu/device.h>

#include "doctor.h"

enum { LINE = 96 };

void doctor_say(struct doctor_finding *finding, enum doctor_status status, const char *format, ...)
{
	va_list arguments;

	finding->status = status;
	va_start(arguments, format);
	sgpu_message_format(finding->found, sizeof(finding->found), format, &arguments);
	va_end(arguments);
}

/* ---- files: what these hold is untrusted, and may be no file of the kernel's at all ---- */
static const char *root(void)
{
	return sgpu_evidence_root("");
}

static bool has_word(const char *words, const char *word)
{
	char all[LINE + 3], one[LINE + 3];

	snprintf(all, sizeof(all), " %s ", words);
	snprintf(one, sizeof(one), " %s ", word);
	return words[0] == '*' ? strstr(word, words + 1) != NULL : strstr(all, one) != NULL;
}

/* An idle state has a file beside it that says whether it is turned off. */
static bool is_disabled(const char *path)
{
	char beside[PATH_MAX], line[LINE];

	snprintf(beside, sizeof(beside), "%.*sdisable", (int)(strrchr(path, '/') + 1 - path), path);
	return sgpu_peek_line(beside, line, LINE) && strcmp(line, "1") == 0;
}

/* Whether a file serves, and what there is to say about it. */
static bool serves(const struct doctor_check *check, const char *path, char line[LINE])
{
	const char *name = path + strlen(root());
	uint64_t number = 0;

	snprintf(line, LINE, "%s", name);
	if (check->access && access(path, R_OK | W_OK) != 0) {
		snprintf(line, LINE, "%s: %s", name, strerror(errno));
		return false;
	}
	if (!check->wanted && !check->least && !check->most) {
		return true;
	}
	if (!sgpu_peek_line(path, line, LINE)) {
		snprintf(line, LINE, "unknown: %s cannot be read", name);
		return false;
	}
	if (check->wanted) {
		return has_word(check->wanted, line);
	}
	return sgpu_parse_u64(line, name, check->least, UINT64_MAX, &number, NULL) == SGPU_OK &&
	       (!check->most || number <= check->most || is_disabled(path));
}

/* The finding quotes a file for which its status holds. */
void doctor_look(const struct doctor_check *check, struct doctor_finding *finding)
{
	char pattern[PATH_MAX], lines[2][LINE];
	size_t counts[2] = { 0 };
	glob_t found = { 0 };
	bool ok;

	snprintf(pattern, sizeof(pattern), "%s%s", root(), check->path);
	if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0) {
		doctor_say(finding, DOCTOR_MISSING, "there is no %s", check->path);
		globfree(&found);
		return;
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char line[LINE];
		const bool one = serves(check, found.gl_pathv[i], line);

		counts[one]++;
		memcpy(lines[one], line, LINE);
	}
	ok = counts[1] > 0 && (!check->every || counts[0] == 0);
	doctor_say(finding, ok ? DOCTOR_OK : DOCTOR_WRONG,
		   found.gl_pathc == 1 ? "%s" : "%s (as wanted in %zu of %zu places)", lines[ok],
		   counts[1], found.gl_pathc);
	globfree(&found);
}

/* Whether a device to swap to is memory with no disk behind it, or a mapping that dm-crypt made. */
static bool is_safe(const char *place)
{
	const char *name =
		strncmp(place, "/dev/", 5) == 0 && !strchr(place + 5, '/') ? place + 5 : "";
	const bool is_zram = strncmp(name, "zram", 4) == 0;
	char path[PATH_MAX], line[LINE];

	snprintf(path, sizeof(path), "%s/sys/block/%s/%s", root(), name,
		 is_zram ? "backing_dev" : "dm/uuid");
	if (sgpu_peek_line(path, line, LINE)) {
		return is_zram ? strcmp(line, "none") == 0
			       : strncmp(line, "CRYPT-LUKS", 10) == 0 ||
					 strncmp(line, "CRYPT-PLAIN-", 12) == 0;
	}
	*strrchr(path, '/') =
		'\0'; /* a kernel that puts no disk behind zram has the device, and no such file */
	return is_zram && errno == ENOENT && access(path, F_OK) == 0;
}

/* In a text that is cut a disk could be missing. */
void doctor_look_swap(const struct doctor_check *check, struct doctor_finding *finding)
{
	char text[4096], path[PATH_MAX], *rest = NULL, *line;

	snprintf(path, sizeof(path), "%s%s", root(), check->path);
	if (!sgpu_peek(path, text, sizeof(text)) || strlen(text) == sizeof(text) - 1 ||
	    strncmp(text, "Filename", 8) != 0 || text[strlen(text) - 1] != '\n') {
		doctor_say(finding, DOCTOR_MISSING,
			   "unknown: %s cannot be read to its end, or has no headings",
			   check->path);
		return;
	}
	doctor_say(finding, DOCTOR_OK, "none");
	(void)strtok_r(text, "\n", &rest); /* the headings */
	while (finding->status == DOCTOR_OK && (line = strtok_r(NULL, "\n", &rest))) {
		char place[LINE] = "", type[LINE] = "";
		const bool safe = sscanf(line, "%95s %95s", place, type) == 2 &&
				  strcmp(type, "partition") == 0 && is_safe(place);

		doctor_say(finding, safe ? DOCTOR_OK : DOCTOR_WRONG, "%s%s", place,
			   safe ? ", encrypted or in memory" : ", of which no encryption is seen");
	}
}

/* ---- asking: what answers is this machine, whatever the root ---- */
void doctor_ask_platform(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_platform platform;

	sgpu_platform_detect(&platform);
	doctor_say(finding,
		   strstr(check->wanted, sgpu_platform_word(platform.kind)) ? DOCTOR_OK
									    : DOCTOR_MISSING,
		   "%s%s (%s)", sgpu_platform_name(platform.kind),
		   platform.virtual_machine ? ", virtual" : "", platform.seen);
}

/* The GPU that "cuda" means, and with `wanted` its mode. */
void doctor_ask_gpu(const struct doctor_check *check, struct doctor_finding *finding)
{
	struct sgpu_platform platform;
	struct sgpu_device_info info;
	struct sgpu_error error = { 0 };
	struct sgpu_device *device = NULL;
	const bool opens = sgpu_device_open("cuda", NULL, &device, &error) == SGPU_OK &&
			   sgpu_device_get_info(device, &info, &error) == SGPU_OK;

	sgpu_device_close(&device);
	sgpu_platform_detect(&platform);
	if (check->wanted) {
		const char *state = opens ? info.confidential : "unknown: no GPU could be opened";

		doctor_say(finding,
			   strcmp(state, check->wanted) == 0 ? DOCTOR_OK
			   : strcmp(state, "devtools") == 0  ? DOCTOR_WRONG
							     : DOCTOR_MISSING,
			   "%s", state);
	} else if (opens) {
		doctor_say(finding, DOCTOR_OK, "%s, %s", info.name, info.driver);
	} else {
		doctor_say(finding, platform.gpu ? DOCTOR_WRONG : DOCTOR_MISSING, "%s", error.text);
	}
}

/* How many bytes may be locked; UINT64_MAX: no limit. */
static uint64_t lock_limit(void)
{
	struct rlimit limit;
	uint64_t effective = 0;
	FILE *file;
	char line[128];

	/* CAP_IPC_LOCK, bit 14, lifts the limit. */
	file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "CapEff: %" SCNx64, &effective) == 1) {
			break;
		}
	}
	if (file) {
		fclose(file);
	}
	if (effective >> 14 & 1 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
	    limit.rlim_cur == RLIM_INFINITY) {
		return UINT64_MAX;
	}
	return limit.rlim_cur;
}

void doctor_ask_lock_limit(const struct doctor_check *check, struct doctor_finding *finding)
{
	const uint64_t limit = lock_limit();

	doctor_say(finding, limit >= check->least ? DOCTOR_OK : DOCTOR_WRONG,
		   limit == UINT64_MAX ? "no limit" : "%" PRIu64 " KiB", limit >> 10);
}

/* The calls change nothing: landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), and
 * memfd_secret(0), which takes no second argument and no third. */
void doctor_ask_call(const struct doctor_check *check, struct doctor_finding *finding)
{
	const long got = syscall((long)check->least, NULL, (size_t)0, 1u);

	if (got < 0) {
		doctor_say(finding, errno == ENOSYS ? DOCTOR_MISSING : DOCTOR_WRONG, "%s",
			   strerror(errno));
		return;
	}
	if (!check->wanted) {
		close((int)got);
	}
	doctor_say(finding, DOCTOR_OK, check->wanted ? "version %ld" : "the kernel has it", got);
}
