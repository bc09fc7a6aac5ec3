/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the other programs, which are beside this one, and never found by PATH.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "sgpu.h"
#include "runner/start.h"

enum {
	LOOK_MS = 20,
	PATIENCE_MS =
		500, /* for programs to end by a signal that they got from the terminal, too */
	NOT_STARTED = 3,
	BY_PIPE = 128 + SIGPIPE,
	NO_INPUT = 6,
	SSH_FAILED = 255,
	MESSAGES_MAX = 1 << 20,
};

bool programs_retryable;
uint64_t programs_deadline_ns;

void words_add(struct words *words, const char *word)
{
	if (words->count < WORDS_MAX) {
		words->list[words->count++] = word;
	} else {
		words->full = true;
	}
}

void words_add_all(struct words *words, ...)
{
	va_list rest;
	const char *word;

	va_start(rest, words);
	while ((word = va_arg(rest, const char *)) != NULL) {
		words_add(words, word);
	}
	va_end(rest);
}

void words_print(const struct words *words, const char *after)
{
	for (int i = 0; i < words->count; i++) {
		const char *word = words->list[i];
		const bool plain = *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyz"
							       "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
							       "0123456789_-+=:,./@%")];

		fputs(i ? " " : "", stdout);
		fputs(plain ? "" : "'", stdout);
		for (; *word; word++) {
			if (strncmp(word, NONCE_WORD, strlen(NONCE_WORD)) == 0) {
				fputs(plain ? "\"$nonce\"" : "'\"$nonce\"'", stdout);
				word += strlen(NONCE_WORD) - 1;
				continue;
			}
			fputs(!plain && *word == '\'' ? "'\\''" : (const char[]){ *word, '\0' },
			      stdout);
		}
		fputs(plain ? "" : "'", stdout);
	}
	fputs(after, stdout);
}

int memory_file(const char *name, int *fd, struct sgpu_error *error)
{
	*fd = memfd_create(name, MFD_CLOEXEC);
	return *fd < 0 || fchmod(*fd, 0600) != 0
		       ? sgpu_fail_errno(error, "cannot make a memory file")
		       : SGPU_OK;
}

int program_become(const char *name, char **argv, struct sgpu_error *error)
{
	char path[PATH_MAX], word[64];

	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz")] ||
	    snprintf(word, sizeof(word), "sgpu-%s", name) >= (int)sizeof(word)) {
		return sgpu_fail(error, SGPU_EUSAGE, "there is no program of that name");
	}
	char *const own = argv[0];

	argv[0] = word;
	execv(runner_beside(word, path), argv);
	argv[0] = own;
	return sgpu_fail_errno(error, "cannot execute '%s'", path);
}

static bool is_ssh(const struct program *program)
{
	return strcmp(program->words.list[0], "ssh") == 0;
}

static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");
	char file[PATH_MAX];
	size_t size;

	for (; path && *path; path += size + (path[size] == ':')) {
		size = strcspn(path, ":");
		if (snprintf(file, sizeof(file), "%.*s/%s", (int)size, path, name) <
			    (int)sizeof(file) &&
		    access(file, X_OK) == 0) {
			return true;
		}
	}
	return !path;
}

/* In the child: becomes the program, or ends. */
static _Noreturn void become(const struct program *program, int in, int out)
{
	char path[PATH_MAX];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	(void)fcntl(program->keep[0] > 0 ? program->keep[0] : STDIN_FILENO, F_SETFD, 0);
	(void)fcntl(program->keep[1] > 0 ? program->keep[1] : STDIN_FILENO, F_SETFD, 0);
	(void)fcntl(program->give > 0 ? program->give : STDIN_FILENO, F_SETFD, 0);
	if ((in >= 0 && dup2(in, STDIN_FILENO) < 0) || (out >= 0 && dup2(out, STDOUT_FILENO) < 0) ||
	    (program->messages >= 0 && dup2(program->messages, STDERR_FILENO) < 0)) {
		_exit(NOT_STARTED);
	}
	if (is_ssh(program)) {
		/* What the host sends to memory: a quote, messages, a response. */
		struct rlimit limit = { .rlim_max = RLIM_INFINITY };

		(void)getrlimit(RLIMIT_FSIZE, &limit);
		limit.rlim_cur = program->most ? program->most : MESSAGES_MAX;
		(void)setrlimit(RLIMIT_FSIZE, &limit);
		execvp("ssh", (char *const *)(uintptr_t)program->words.list);
	} else {
		execv(runner_beside(program->words.list[0], path),
		      (char *const *)(uintptr_t)program->words.list);
	}
	cli_fail(SGPU_EUNAVAILABLE, "there is no '%s', or it cannot be executed",
		 program->words.list[0]);
	_exit(NOT_STARTED);
}

int program_input(int fd)
{
	const int in = fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC)
			      : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return in < 0 ? -2 : in; /* as -1, it would be what this program itself reads: data */
}

/* Starts a program; `in` is what the one before gives. *next: what the one behind gets, or -1. */
static int start(struct program *program, int in, bool last, int *next, struct sgpu_error *error)
{
	int ends[2] = { -1, -1 }, rc = SGPU_OK;

	program->messages = -1;
	if (program->words.full) {
		return sgpu_fail(error, SGPU_EUSAGE, "more than %d arguments", WORDS_MAX);
	}
	if (program->in < -1) {
		return sgpu_fail(error, SGPU_ESYSTEM, "cannot open what '%s' is to read",
				 program->words.list[0]);
	}
	/* Else the child's message would be taken for the host's. */
	if (is_ssh(program) && !is_in_path("ssh")) {
		sgpu_fail(error, SGPU_EUNAVAILABLE, "there is no 'ssh' on this machine");
		return sgpu_hint(error, "install openssh-client");
	}
	if (!program->speaks) {
		program->messages = memfd_create("messages", MFD_CLOEXEC);
	}
	if (!last && pipe2(ends, O_CLOEXEC) != 0) {
		rc = sgpu_fail_errno(error, "cannot make a pipe");
	}
	program->pid = rc ? -1 : fork();
	if (program->pid == 0) {
		become(program, program->in >= 0 ? program->in : in,
		       program->out >= 0 ? program->out : ends[1]);
	}
	if (!rc && program->pid < 0) {
		rc = sgpu_fail_errno(error, "cannot start '%s'", program->words.list[0]);
	}
	sgpu_close(ends[1]);
	sgpu_close(program->in);
	sgpu_close(program->give > 0 ? program->give : -1);
	*next = ends[0];
	return rc;
}

/* Waits for a program. When this one was interrupted, those that do not end by themselves are told
 * to. */
static void await(struct program *program)
{
	int status = 0, waited = 0;
	bool late = false;

	while (waitpid(program->pid, &status,
		       sgpu_io_interrupted() || programs_deadline_ns ? WNOHANG : 0) <= 0) {
		if (errno == ECHILD) {
			break;
		}
		late = programs_deadline_ns && sgpu_now_ns() > programs_deadline_ns;
		if (sgpu_io_interrupted() || late || programs_deadline_ns) {
			(void)poll(NULL, 0, LOOK_MS);
			waited += sgpu_io_interrupted() || late ? LOOK_MS : 0;
			if (waited == PATIENCE_MS) {
				(void)kill(program->pid, SIGTERM);
			}
		}
	}
	program->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	/* A host may choose any status; those of ssh itself, and signals, are none of the table. */
	if (is_ssh(program) && program->status > NO_INPUT && program->status != BY_PIPE) {
		program->retryable = program->status == SSH_FAILED || late;
		program->status = NOT_STARTED;
	}
}

/* Shows a record of --json as this program says such things, unless it is kept; any other line as
 * it is. */
static void show_line(struct program *program, const char *line)
{
	const char *said = is_ssh(program) && !program->keeps ? "the host says: " : "";
	struct sgpu_error *error = &program->error;
	json_t *record = cli_json && !*said && !program->keeps ? NULL : json_loads(line, 0, NULL);
	const json_t *failure = json_object_get(record, "error"),
		     *warning = json_object_get(record, "warning");

	if (failure) {
		sgpu_fail(error, sgpu_error_by_name(cli_text_of(failure, "code")), "%s%s", said,
			  cli_text_of(failure, "text"));
		if (*cli_text_of(failure, "hint")) {
			(void)sgpu_hint(error, "%s", cli_text_of(failure, "hint"));
		}
		error->retryable = json_is_true(json_object_get(failure, "retryable"));
		program->retryable = error->retryable;
		program->told = true;
	}
	if (program->keeps) {
		json_decref(record);
		return;
	}
	if (failure) {
		(void)cli_error(error);
	} else if (warning) {
		cli_warning("%s%s", said, cli_text_of(warning, "text"));
	} else if (!record && *said) {
		cli_warning("%s%s", said, line);
	} else if (!record) {
		program->told = true;
		dprintf(cli_error_fd, "%s\n", line);
	}
	json_decref(record);
}

static void show_messages(struct program *program)
{
	char *text = NULL;
	size_t size = 0;
	struct sgpu_error error = { 0 };
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", program->messages);
	if (program->messages < 0 ||
	    sgpu_read_file(name, NULL, MESSAGES_MAX, &text, &size, &error) != SGPU_OK) {
		return;
	}
	for (char *rest = text, *line; (line = strsep(&rest, "\r\n")) != NULL;) {
		if (*line) {
			show_line(program, line);
		}
	}
	free(text);
}

/* Returns the number of the program that failed by itself, `count` if none did. One whose reader
 * has gone, or for which nothing came, failed by another. */
static int cause(const struct program *list, int count)
{
	int by_other = count;

	/* The last one opens what came, if that is authentic, and alone says whether it is. */
	if (list[count - 1].status == 0) {
		return count;
	}
	for (int i = 0; i < count; i++) {
		if (list[i].status && list[i].status != BY_PIPE && list[i].status != NO_INPUT) {
			return i;
		}
		by_other = list[i].status && by_other == count ? i : by_other;
	}
	return by_other;
}

int programs_run(struct program *list, int count)
{
	struct sgpu_error error = { 0 };
	int in = -1, rc = SGPU_OK, started = 0, first;

	for (; started < count && !rc; started++) {
		int next = -1;

		rc = start(&list[started], in, started + 1 == count, &next, &error);
		sgpu_close(in);
		in = next;
	}
	sgpu_close(in);
	for (int i = 0; i < started; i++) {
		if (list[i].pid > 0) {
			await(&list[i]);
		}
	}
	first = rc ? 0 : cause(list, count);
	for (int i = 0; i < started; i++) {
		if (i == first || !list[i].status) {
			show_messages(&list[i]);
		}
		sgpu_close(list[i].messages);
	}
	programs_retryable = first < started && list[first].retryable;
	if (!rc && first < count && !list[first].told && !list[first].speaks &&
	    !list[first].keeps && !sgpu_io_interrupted()) {
		cli_fail(SGPU_ESYSTEM, "'%s' has ended with status %d", list[first].words.list[0],
			 list[first].status);
	}
	return rc ? cli_error(&error) : first < count ? list[first].status : 0;
}

int program_read(struct program *program, const char *name, int *out)
{
	struct sgpu_error error = { 0 };
	int status = memory_file(name, out, &error) ? cli_error(&error) : 0;

	program->out = *out;
	status = status ? status : programs_run(program, 1);
	(void)lseek(*out, 0, SEEK_SET);
	return status;
}
