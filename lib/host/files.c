/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of the kernel, and where this program lies.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "host/host.h"

/* The path may lead to a named pipe, which would wait for a writer, or a device, which may have no
 * end. */
bool sgpu_peek(const char *path, char *text, size_t room)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t used = 0;
	ssize_t got = -1;

	while (fd >= 0 && used < room - 1) {
		got = read(fd, text + used, room - 1 - used);
		if (got <= 0) {
			break;
		}
		used += (size_t)got;
	}
	sgpu_close(fd);
	text[got < 0 ? 0 : used] = '\0';
	return got >= 0;
}

bool sgpu_peek_line(const char *path, char *line, size_t room)
{
	const bool got = sgpu_peek(path, line, room);
	char *begin, *end = line;

	while (*end >= ' ' && *end <= '~') {
		end++;
	}
	*end = '\0';
	begin = strchr(line, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (end) {
		*end = '\0';
		memmove(line, begin + 1, (size_t)(end - begin));
	}
	return got;
}

bool sgpu_host_folder(char folder[PATH_MAX])
{
	const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
	char *slash;

	folder[length > 0 ? length : 0] = '\0';
	slash = strrchr(folder, '/');
	if (slash) {
		*slash = '\0';
	}
	return slash;
}
