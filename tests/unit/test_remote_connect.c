/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions with a server: what a program makes of servers that are none. With arguments it is the
 * program that tests/bats/serve-session.bats has sessions for; it becomes user SERVE_UID before it
 * connects. SERVE_RUNNER: the file of the runner's public key. SERVE_OWNER: that of the key to sign
 * with.
 *
 *   run ROUNDS     one session, which works
 *   piped ROUNDS   the same with a worker on standard input and output; what becomes of it is
 *                  said on standard error
 *   hold COUNT     so many, which work; says "held", reads a line, works again, and says what
 *                  became of each
 *   patient        one session; says "held", reads a line, works with the patience of a moment
 *                  and says what became of it
 *   large SIZE     one session, which allocates so many bytes
 *   keep SIZE      the same; says so, and ends when a line or the end of its input comes
 *   hostile        files and messages that are none; says what is answered
 */
#include "base/io.h"
#include "remote_harness.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "remote/greeting.h"

/* ---- servers that are none ---- */
enum {
	HANGS_UP,
	SAYS_NOTHING_OF_USE,
	SAYS_TOO_LITTLE,
	ANOTHER_KIND,
	REFUSES,
	REFUSES_BY_NO_CODE,
	TAKES_AND_GOES,
	SERVERS
};

/* A forked process that takes one connection. */
static pid_t start_server(int listening, int how)
{
	struct sgpu_refusal_of_session answer = { .greeting = { .magic = SGPU_GREETING_MAGIC,
								.version = SGPU_GREETING_VERSION,
								.kind = SGPU_GREETING_REFUSED } };
	size_t size = sizeof(answer);
	char asked[4096];
	pid_t pid;
	int fd;

	fflush(stdout);
	pid = fork();
	if (pid != 0) {
		return pid;
	}
	fd = accept(listening, NULL, NULL);
	if (fd < 0 || read(fd, asked, sizeof(asked)) != sizeof(struct sgpu_greeting)) {
		_exit(1);
	}
	answer.error.code = how == REFUSES ? SGPU_ERETRY : 12345;
	memset(answer.error.text, 0x1b, sizeof(answer.error.text)); /* without an end */
	switch (how) {
	case HANGS_UP:
		_exit(0);
	case SAYS_NOTHING_OF_USE:
		memset(&answer, 7, sizeof(answer));
		break;
	case SAYS_TOO_LITTLE:
		size = sizeof(answer.greeting) + 1;
		break;
	case ANOTHER_KIND:
		answer.greeting.kind = 4;
		break;
	case TAKES_AND_GOES:
		answer.greeting.kind = SGPU_GREETING_TAKEN;
		size = sizeof(answer.greeting);
		break;
	default:
		break;
	}
	_exit(send(fd, &answer, size, 0) == (ssize_t)size ? 0 : 1);
}

UNIT_TEST(servers_that_are_none_are_told)
{
	static const int expected[SERVERS] = {
		[HANGS_UP] = SGPU_ESYSTEM,	  [SAYS_NOTHING_OF_USE] = SGPU_ESYSTEM,
		[SAYS_TOO_LITTLE] = SGPU_ESYSTEM, [ANOTHER_KIND] = SGPU_ESYSTEM,
		[REFUSES] = SGPU_ERETRY,	  [REFUSES_BY_NO_CODE] = SGPU_ESYSTEM,
		[TAKES_AND_GOES] = SGPU_ESYSTEM,
	};
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/sgpu-connect.XXXXXX";
	int listening, status;

	REQUIRE(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
	listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(bind(listening, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		listen(listening, 1) == 0);
	for (int how = 0; how < SERVERS; how++) {
		const pid_t server = start_server(listening, how);
		struct sgpu_remote *remote = NULL;

		CHECK(sgpu_remote_connect(address.sun_path, NULL, &runner_key, &remote, &error) ==
			      expected[how] &&
		      !remote);
		for (const char *c = error.text; *c; c++) {
			CHECK(*c >= ' ' && *c <= '~');
		}
		CHECK(waitpid(server, &status, 0) == server && status == 0);
	}
	close(listening);
	unlink(address.sun_path);
	rmdir(folder);
}

static void interrupt(int number)
{
	(void)number;
	sgpu_io_interrupt();
}

/* The kernel takes the connections of a server that then does nothing, as many as it queues. A
 * process stays interrupted, so another one is. */
UNIT_TEST(waiting_for_a_mute_server_can_be_interrupted)
{
	const struct sigaction action = { .sa_handler = interrupt };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/sgpu-connect.XXXXXX";
	int listening, status, queued = 0;
	pid_t pid;

	REQUIRE(mkdtemp(folder));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
	listening = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	REQUIRE(bind(listening, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		listen(listening, 1) == 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct sgpu_remote *remote = NULL;
		const uint64_t begin = sgpu_now_ns();

		sigaction(SIGALRM, &action, NULL);
		alarm(1);
		_exit(sgpu_remote_connect(address.sun_path, NULL, &runner_key, &remote, &error) ==
					      SGPU_ECANCELED &&
				      sgpu_now_ns() - begin < UINT64_C(30000000000)
			      ? 0
			      : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	alarm(60);
	while (queued < 8 && sgpu_service_reach(address.sun_path) >= 0) {
		queued++;
	}
	CHECK(queued < 8 && errno == EAGAIN);
	alarm(0);
	close(listening);
	unlink(address.sun_path);
	rmdir(folder);
}

UNIT_TEST(where_there_is_no_server_the_program_hears_it)
{
	struct sgpu_remote *remote = NULL;
	char name[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];

	CHECK(sgpu_remote_connect("/tmp/there/is/none", NULL, &runner_key, &remote, &error) ==
		      SGPU_EUNAVAILABLE &&
	      !remote);
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(sgpu_remote_connect(name, NULL, &runner_key, &remote, &error) == SGPU_EUSAGE &&
	      !remote);
	unsetenv("SGPU_SOCKET");
	setenv("XDG_RUNTIME_DIR", "/tmp/there/is/none", 1);
	CHECK(sgpu_remote_connect(NULL, NULL, &runner_key, &remote, &error) == SGPU_EUNAVAILABLE &&
	      !remote);
	setenv("SGPU_SOCKET", "/dev/null", 1);
	CHECK(sgpu_remote_connect(NULL, NULL, &runner_key, &remote, &error) == SGPU_ESYSTEM &&
	      !remote);
}

/* ---- the program of the other tests ---- */
enum { HELD_MAX = 64 };

static struct sgpu_key_set owner;
static const struct sgpu_key *signs; /* or NULL */

static struct held {
	struct sgpu_remote *remote;
	struct adding a;
} held[HELD_MAX];

static bool work(struct held *h, int round)
{
	return add_once(h->remote, &h->a, round) == SGPU_OK && is_added(&h->a, round);
}

static bool open_session(struct held *h, bool piped)
{
	const struct sgpu_remote_config config = {
		.in = STDIN_FILENO, .out = STDOUT_FILENO, .owner = signs, .runner = &runner_key
	};

	return (piped ? sgpu_remote_open(&config, &h->remote, &error)
		      : sgpu_remote_connect(NULL, signs, &runner_key, &h->remote, &error)) ==
		       SGPU_OK &&
	       load_adding(h->remote, &h->a) == SGPU_OK && work(h, 7);
}

static int run_rounds(int rounds, bool piped)
{
	FILE *to = piped ? stderr : stdout;
	bool good = open_session(&held[0], piped);

	for (int i = 0; good && i < rounds; i++) {
		good = work(&held[0], i);
	}
	fprintf(to, "%s\n", good ? "done" : error.text);
	if (!good && error.hint[0]) {
		fprintf(to, "hint: %s\n", error.hint);
	}
	sgpu_remote_close(&held[0].remote);
	return good ? 0 : error.code == SGPU_EAUTH || error.code == SGPU_EPOLICY ? 4 : 1;
}

static int hold(int count)
{
	int bad = 0;

	for (int i = 0; i < count; i++) {
		if (!open_session(&held[i], false)) {
			printf("%s\n", error.text);
			return 1;
		}
	}
	printf("held\n");
	fflush(stdout);
	while (getchar() != '\n' && !feof(stdin)) {
	}
	for (int i = 0; i < count; i++) {
		const bool good = work(&held[i], i);

		printf("%s\n", good ? "done" : error.text);
		bad += !good;
		sgpu_remote_close(&held[i].remote);
	}
	return bad != 0;
}

static int be_patient(void)
{
	if (!open_session(&held[0], false)) {
		printf("%s\n", error.text);
		return 1;
	}
	printf("held\n");
	fflush(stdout);
	while (getchar() != '\n' && !feof(stdin)) {
	}
	held[0].remote->carrier->patience_ns = 100000000;
	printf("%s\n", work(&held[0], 1) ? "done" : error.text);
	sgpu_remote_close(&held[0].remote);
	return 0;
}

static int take_memory(uint64_t size, bool keep)
{
	uint32_t buffer = 0;
	int rc = sgpu_remote_connect(NULL, signs, &runner_key, &held[0].remote, &error);

	rc = rc == SGPU_OK ? sgpu_remote_alloc(held[0].remote, size, &buffer, &error) : rc;
	printf("%s\n", rc == SGPU_OK ? "done" : error.text);
	fflush(stdout);
	while (keep && rc == SGPU_OK && getchar() != '\n' && !feof(stdin)) {
	}
	sgpu_remote_close(&held[0].remote);
	return rc != SGPU_OK;
}

/* Asks for a session with these files, `count` of them. The connection, which is open when the
 * session was taken. */
static int ask(const int *files, int count)
{
	struct sgpu_greeting greeting = { .magic = SGPU_GREETING_MAGIC,
					  .version = SGPU_GREETING_VERSION,
					  .kind = SGPU_GREETING_SESSION,
					  .size = sizeof(greeting) };
	struct sgpu_refusal_of_session answer = { .greeting = { .kind = 0 } };
	union {
		struct cmsghdr header;
		char data[CMSG_SPACE(4 * sizeof(int))];
	} control = { .data = { 0 } };
	struct iovec part = { &greeting, sizeof(greeting) };
	struct msghdr packet = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.data,
				 .msg_controllen = CMSG_SPACE((size_t)count * sizeof(int)) };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", getenv("SGPU_SOCKET"));
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
	memcpy(CMSG_DATA(&control.header), files, (size_t)count * sizeof(int));
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    sendmsg(fd, &packet, MSG_NOSIGNAL) != sizeof(greeting) ||
	    recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer.greeting)) {
		printf("gone\n");
		close(fd);
		return -1;
	}
	if (answer.greeting.kind == SGPU_GREETING_TAKEN) {
		printf("taken\n");
		return fd;
	}
	printf("%.500s\n", answer.error.text);
	close(fd);
	return -1;
}

static int memory_file(size_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd >= 0 && ftruncate(fd, (off_t)size) == 0 &&
			       (!seals || fcntl(fd, F_ADD_SEALS, seals) == 0)
		       ? fd
		       : -1;
}

/* A session that was taken, and then is given nonsense; and one that is left at once. */
static void talk_nonsense(int memory, int area)
{
	const struct sgpu_ring_descriptor descriptor = { .opcode = LINK_MESSAGE, .length = 100 };
	const int files[] = { memory, area }, fd = ask(files, 2);
	const struct sgpu_ring_config config = { .doorbell = fd };
	struct sgpu_ring *ring = NULL;
	struct sgpu_ring_result results[LINK_ENTRIES];
	uint8_t *shared = NULL, byte;
	size_t count;

	if (sgpu_ring_open(memory, &config, &ring, &error) == SGPU_OK &&
	    sgpu_link_map(area, &shared, &error) == SGPU_OK) {
		for (int i = 0; i < 1000; i++) {
			fill(shared + SGPU_AREA_SIZE, 100, (unsigned)i);
			(void)!sgpu_ring_submit(ring, &descriptor, &error);
			(void)!sgpu_ring_reap(ring, results, LINK_ENTRIES, &count, &error);
		}
		/* The memory of the ring itself: the worker finds a fault, and hangs up. */
		sgpu_ring_close(&ring);
		uint8_t *raw = mmap(NULL, 4096 * 2, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

		memset(raw, 0xff, 4096 * 2);
		(void)send(fd, "", 1, MSG_NOSIGNAL);
		while (recv(fd, &byte, 1, 0) > 0) {
		}
		munmap(raw, 4096 * 2);
	}
	sgpu_link_unmap(&shared);
	sgpu_ring_close(&ring);
	close(fd);
}

static int be_hostile(void)
{
	enum { SIZE = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };
	int memory = -1, area = -1, pipes[2] = { -1, -1 };
	bool good = pipe(pipes) == 0 && sgpu_link_create(&memory, &area, &error) == SGPU_OK;
	const int bad[] = { pipes[0],
			    open("/dev/zero", O_RDWR | O_CLOEXEC),
			    memory_file(LINK_SIZE, 0),
			    memory_file(LINK_SIZE, SIZE | F_SEAL_WRITE),
			    memory_file(4096, SIZE),
			    area };

	for (size_t i = 0; good && i < SGPU_ARRAY_LENGTH(bad); i++) {
		(void)ask((const int[]){ bad[i], area }, 2);
		(void)ask((const int[]){ memory, bad[i] == area ? memory : bad[i] }, 2);
	}
	(void)ask(&memory, 1);
	(void)ask((const int[]){ memory, area, area }, 3);
	if (good) {
		talk_nonsense(memory, area);
	}
	return !good;
}

int main(int argc, char **argv)
{
	const char *user = getenv("SERVE_UID"), *runner = getenv("SERVE_RUNNER"),
		   *signing = getenv("SERVE_OWNER");
	int rc = -1;

	signal(SIGPIPE, SIG_IGN);
	signs = signing ? &owner.signing : NULL;
	if (!make_keys() || (runner && sgpu_key_load(runner, &runner_key, &error) != SGPU_OK) ||
	    (signing && sgpu_key_set_load(signing, &owner, &error) != SGPU_OK)) {
		printf("Bail out! %s\n", error.text);
		return 1;
	}
	if (user && setuid((uid_t)atoi(user)) != 0) {
		return 3;
	}
	if (argc == 3 && strcmp(argv[1], "run") == 0) {
		rc = run_rounds(atoi(argv[2]), false);
	} else if (argc == 3 && strcmp(argv[1], "piped") == 0) {
		rc = run_rounds(atoi(argv[2]), true);
	} else if (argc == 3 && strcmp(argv[1], "hold") == 0 && atoi(argv[2]) <= HELD_MAX) {
		rc = hold(atoi(argv[2]));
	} else if (argc == 3 && (strcmp(argv[1], "large") == 0 || strcmp(argv[1], "keep") == 0)) {
		rc = take_memory(strtoull(argv[2], NULL, 10), argv[1][0] == 'k');
	} else if (argc == 2 && strcmp(argv[1], "patient") == 0) {
		rc = be_patient();
	} else if (argc == 2 && strcmp(argv[1], "hostile") == 0) {
		rc = be_hostile();
	}
	if (rc >= 0 || argc > 1) {
		return rc < 0 ? 2 : rc;
	}
	UNIT_RUN(servers_that_are_none_are_told);
	UNIT_RUN(waiting_for_a_mute_server_can_be_interrupted);
	UNIT_RUN(where_there_is_no_server_the_program_hears_it);
	return unit_done();
}
