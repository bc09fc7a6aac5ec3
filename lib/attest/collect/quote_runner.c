/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims about the program: which one it is, and who can look into it.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/version.h>

#include "base/io.h"
#include "attest/quote.h"

enum { PATH_SIZE = 4096, NOTES_MAX = 65536, BUILD_ID_MAX = 64, HEADERS_MAX = 256 };

const char *sgpu_debug_status(void)
{
	char line[128];
	bool traced = true;
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "TracerPid:", 10)) {
			traced = strtoul(line + 10, NULL, 10) != 0;
			break;
		}
	}
	if (file) {
		fclose(file);
	}
	return !traced && prctl(PR_GET_DUMPABLE) == 0 ? "disabled" : "enabled";
}

/* The note of type NT_GNU_BUILD_ID among notes in memory, as hexadecimal. */
static bool find_build_id(const uint8_t *notes, size_t size, size_t align, char *hex)
{
	size_t at = 0, step = align == 8 ? 8 : 4;

	while (size - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr header;
		memcpy(&header, notes + at, sizeof(header));
		at += sizeof(header);
		uint64_t name = ((uint64_t)header.n_namesz + step - 1) / step * step;
		uint64_t body = ((uint64_t)header.n_descsz + step - 1) / step * step;
		if (name > size - at || body > size - at - name) {
			return false;
		}
		if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 &&
		    !memcmp(notes + at, "GNU", 4) && header.n_descsz &&
		    header.n_descsz <= BUILD_ID_MAX) {
			sgpu_hex_encode(notes + at + name, header.n_descsz, hex);
			return true;
		}
		at += name + body;
	}
	return false;
}

static bool notes_of(int fd, const Elf64_Phdr *segment, char *hex)
{
	uint8_t *notes = segment->p_filesz <= NOTES_MAX ? malloc(segment->p_filesz + 1) : NULL;
	size_t got = 0;
	bool found =
		notes &&
		!sgpu_pread(fd, "notes", notes, segment->p_filesz, segment->p_offset, &got, NULL) &&
		got == segment->p_filesz && find_build_id(notes, got, segment->p_align, hex);

	free(notes);
	return found;
}

/* "" for a file that has none, or is no ELF file of 64 bits: a build id is a help to find sources,
 * no proof. */
static void build_id(const char *path, char hex[2 * BUILD_ID_MAX + 1])
{
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	size_t got = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	hex[0] = '\0';
	if (fd < 0) {
		return;
	}
	bool elf = !sgpu_pread(fd, path, &header, sizeof(header), 0, &got, NULL) &&
		   got == sizeof(header) && !memcmp(header.e_ident, ELFMAG, SELFMAG) &&
		   header.e_ident[EI_CLASS] == ELFCLASS64 &&
		   header.e_phentsize == sizeof(segment) && header.e_phnum <= HEADERS_MAX;
	for (unsigned i = 0; elf && i < header.e_phnum; i++) {
		if (sgpu_pread(fd, path, &segment, sizeof(segment),
			       header.e_phoff + i * sizeof(segment), &got, NULL) ||
		    got != sizeof(segment)) {
			break;
		}
		if (segment.p_type == PT_NOTE && notes_of(fd, &segment, hex)) {
			break;
		}
	}
	close(fd);
}

/* The last part of the path; of this process the path that it was started by. */
static void base_name(const char *path, char name[PATH_SIZE])
{
	static const char deleted[] = " (deleted)";
	char link[PATH_SIZE] = "";

	if (!path) {
		ssize_t length = readlink("/proc/self/exe", link, sizeof(link) - 1);
		path = length > 0 ? link : "unknown";
		/* The kernel's mark for a program whose file was replaced since. */
		if (length > (ssize_t)strlen(deleted) &&
		    !strcmp(link + length - strlen(deleted), deleted)) {
			link[length - (ssize_t)strlen(deleted)] = '\0';
		}
	}
	const char *slash = strrchr(path, '/');
	snprintf(name, PATH_SIZE, "%s", slash ? slash + 1 : path);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The owners whose batches are taken, sorted. */
static int add_owners(const struct sgpu_quote_subject *subject, json_t *own,
		      struct sgpu_error *error)
{
	const size_t count = (size_t)subject->owner_count;
	const char **sorted = calloc(count, sizeof(*sorted));
	json_t *list = json_array();
	int bad = !sorted || !list;

	for (size_t i = 0; i < count && !bad; i++) {
		sorted[i] = subject->owners[i];
	}
	if (!bad) {
		qsort(sorted, count, sizeof(*sorted), by_text);
	}
	for (size_t i = 0; i < count && !bad; i++) {
		bad = json_array_append_new(list, json_string(sorted[i]));
	}
	free(sorted);
	return bad | json_object_set_new(own, "owners", list) ? sgpu_fail_nomem(error) : 0;
}

int sgpu_claims_runner(const struct sgpu_quote_subject *subject, json_t **claims,
		       struct sgpu_error *error)
{
	const char *path = subject->runner_path ? subject->runner_path : "/proc/self/exe";
	const char *key = !subject->recipient		 ? "none"
			  : subject->recipient_ephemeral ? "ephemeral"
							 : "stored";
	/* Only this process's own state is known: the worst is claimed for another program. */
	const bool file = subject->runner_path != NULL;
	uint8_t digest[SGPU_KT128_SIZE] = { 0 };
	char name[PATH_SIZE], id[2 * BUILD_ID_MAX + 1];
	uint64_t size = 0;

	int code = sgpu_measure_file(path, digest, &size, error);
	if (code) {
		return code;
	}
	base_name(subject->runner_path, name);
	build_id(path, id);
	json_t *own = json_pack("{s:o, s:I, s:s, s:s*, s:b, s:b, s:s, s:s}", "digest",
				sgpu_json_from_bytes(digest, sizeof(digest)), "size",
				(json_int_t)size, "measured", file ? "file" : "process", "build_id",
				id[0] ? id : NULL, "modules", file || subject->allows_modules,
				"files", file || subject->files, "sessions",
				file || subject->sessions ? "any" : "none", "key", key);
	code = own ? 0 : sgpu_fail_nomem(error);
	if (!code && !file && subject->owner_count > 0) {
		code = add_owners(subject, own, error);
	}
	if (!code && !file && subject->confinement &&
	    json_object_set_new(own, "confinement", json_deep_copy(subject->confinement))) {
		code = sgpu_fail_nomem(error);
	}
	json_t *made = code ? NULL
			    : json_pack("{s:s, s:[s], s:s, s:O}", "swname", name, "swversion",
					SGPU_VERSION, "dbgstat",
					file ? "enabled" : sgpu_debug_status(), SGPU_OWN, own);
	json_decref(own);
	*claims = made;
	return code || made ? code
			    : sgpu_fail(error, SGPU_EINVALID,
					"the program's name is not UTF-8, or memory is out");
}
