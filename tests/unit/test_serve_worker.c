/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker of sgpu-serve with clients and a supervisor that lie. The worker is this program
 * once more, confined as it always is; both its sides are taken here. Whatever comes, it counts
 * each connection as ended once it has gone, and runs the batch of an honest client; what no
 * supervisor says ends it. SGPU_TEST_SEED=N test_serve_worker
 */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include "run_harness.h"

#include <sgpu/keys.h>

#include "remote/carrier.h"

#include "../../tools/common/cli.h"
#include "../../tools/sgpu-enclave/serving.h"
#include "../../tools/sgpu-serve/serve.h"
#include "lying.h"

enum { SUBMISSIONS = 8, HELD_MAX = 24, ROUNDS = 300, PATIENCE_MS = 60000, BATCH_BYTES = 1000 };

/* In the place of the C library's, which asks the file system of a file: how often that was. */
static atomic_int asked;

int fstatfs(int fd, struct statfs *about)
{
	asked++;
	return (int)syscall(SYS_fstatfs, fd, about);
}

static struct work {
	struct process process;
	struct world_random random;
	int held[HELD_MAX]; /* clients' ends of connections */
	unsigned at;
	int batch;
	char *key;
	bool logs; /* the next worker does */
} w;

/* ---- the supervisor's side ---- */
/* What the worker says: nothing but that its counters have changed. */
static void hear_notes(void)
{
	struct sgpu_greeting note;
	int rc = SGPU_OK;

	while (rc == SGPU_OK) {
		rc = wire_receive(w.process.control, WIRE_NOTE, &note, sizeof(note), NULL, 0, NULL);
	}
	CHECK(rc == SGPU_ETIMEOUT || rc == SGPU_ECANCELED);
	process_look(&w.process);
}

static bool is_idle(void)
{
	const struct process *p = &w.process;

	hear_notes();
	return process_in_flight(p) == 0 && process_requests(p) == 0 &&
	       p->said.ended == p->handed && p->said.requests_ended == p->requests;
}

static bool until_idle(void)
{
	for (int i = 0; i < PATIENCE_MS && !is_idle(); i++) {
		usleep(1000);
	}
	return is_idle();
}

/* Starts a worker, and returns whether it says that it is ready. */
static bool start_one(uint64_t seed, enum wire_sessions whose, bool modules)
{
	static char *arguments[] = { "worker", "-k", NULL, "--serve", "3", "-q", NULL, NULL };
	static struct server server;
	struct wire_ready ready = { .kid_count = 0 };

	memset(&w.process, 0, sizeof(w.process));
	world_seed(&w.random, seed);
	arguments[2] = w.key;
	arguments[5] = w.logs ? "-v" : "-q";
	arguments[6] = modules ? "--allow-modules" : NULL;
	server = (struct server){ .arguments = arguments,
				  .enclave_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC),
				  .leases = 1 << 20,
				  .submissions = SUBMISSIONS,
				  .whose = whose };
	for (int i = 0; i < HELD_MAX; i++) {
		w.held[i] = -1;
	}
	CHECK(process_start(&server, &w.process, &error) == SGPU_OK);
	close(server.enclave_fd);
	CHECK(poll(&(struct pollfd){ .fd = w.process.control, .events = POLLIN }, 1, PATIENCE_MS) ==
	      1);
	return wire_receive(w.process.control, WIRE_READY, &ready, sizeof(ready), NULL, 0, NULL) ==
	       SGPU_OK;
}

static void begin(uint64_t seed)
{
	const struct tenant_rule rule = { .sessions = TENANT_SESSIONS_MAX };

	CHECK(start_one(seed, WIRE_SESSIONS_ANY, false));
	CHECK(process_limit(&w.process, &rule));
}

/* It has been told, or has told itself, to end. */
static void check_end(void)
{
	int status = -1;

	CHECK(waitpid(w.process.pid, &status, 0) == w.process.pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	process_bury(&w.process);
}

static void let_go(int *held)
{
	if (*held >= 0) {
		close(*held);
		*held = -1;
	}
}

static void let_all_go(void)
{
	for (int i = 0; i < HELD_MAX; i++) {
		let_go(&w.held[i]);
	}
}

static void end(void)
{
	let_all_go();
	CHECK(until_idle());
	close(w.process.control);
	w.process.control = -1;
	check_end();
}

/* One that is not a connection, too. It is closed here. */
static void hand_over(int connection, uint64_t uid, bool request)
{
	struct wire_take take = { .uid = uid,
				  .since_ns = drawn(&w.random, 8) ? sgpu_now_ns()
								  : world_next(&w.random),
				  .request = request };

	while (!sgpu_wire_send(w.process.control, WIRE_TAKE, &take, sizeof(take), &connection, 1)) {
		REQUIRE(poll(&(struct pollfd){ .fd = w.process.control, .events = POLLOUT }, 1,
			     PATIENCE_MS) == 1);
		hear_notes();
	}
	*(request ? &w.process.requests : &w.process.handed) += 1;
	close(connection);
}

/* ---- the clients' side ---- */
/* The client's end is held until so many others have come, or it is let go of; `far` is the
 * worker's. */
static int *connect_client(int *far)
{
	int *held = &w.held[w.at++ % HELD_MAX], ends[2] = { -1, -1 };

	let_go(held);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	*held = ends[0];
	*far = ends[1];
	return held;
}

/* With an offset of its own. */
static int open_batch(void)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", w.batch);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void send_submission(int client, int in, int out)
{
	static struct wire_submit message;

	(void)sgpu_wire_send(client, WIRE_SUBMIT, &message, sizeof(message),
			     (const int[]){ in, out, in }, 3);
}

/* A batch as it should be: it is answered, once, and has a response. */
static void submit_honestly(void)
{
	static union {
		struct sgpu_greeting header;
		struct wire_answer answer;
	} message;
	const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);
	int far, answers = 0, *client = connect_client(&far);

	send_submission(*client, in, out);
	hand_over(far, geteuid(), false);
	while (poll(&(struct pollfd){ .fd = *client, .events = POLLIN }, 1, PATIENCE_MS) == 1 &&
	       recv(*client, &message, sizeof(message), 0) > 0) {
		answers += message.header.kind == WIRE_ANSWER;
	}
	CHECK(answers == 1 && message.answer.error.code == SGPU_OK &&
	      lseek(out, 0, SEEK_END) > BATCH_BYTES);
	let_go(client);
	close(in);
	close(out);
}

/* What comes is no batch, or no place for a response, or the batch never comes to its end. */
static void submit_oddly(int client)
{
	const bool odd_in = drawn(&w.random, 2), odd_out = !odd_in || drawn(&w.random, 2);
	const int in = odd_in ? odd_descriptor(drawn(&w.random, ODDS)) : open_batch(),
		  out = odd_out ? odd_descriptor(drawn(&w.random, ODDS))
				: memfd_create("response", MFD_CLOEXEC);

	send_submission(client, in, out);
	close(in);
	close(out);
}

static void lie_as_client(void)
{
	int far, *client = connect_client(&far);
	const uint32_t way = drawn(&w.random, 4);

	if (way == 0) {
		submit_oddly(*client);
	} else if (way == 1) {
		const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);

		send_submission(*client, in, out);
		close(in);
		close(out);
	}
	for (uint32_t i = drawn(&w.random, 3); i > 0; i--) {
		lie(&w.random, *client, 1 + drawn(&w.random, WIRE_KINDS - 1));
	}
	hand_over(far, geteuid(), way > 2);
	for (uint32_t i = drawn(&w.random, 3); i > 0; i--) {
		lie(&w.random, *client, 1 + drawn(&w.random, WIRE_KINDS - 1));
	}
	if (drawn(&w.random, 2)) {
		let_go(client);
	}
}

/* What a supervisor may say at any time, though none would. */
static void lie_as_supervisor(void)
{
	struct tenant_rule rule = { .device_memory = world_next(&w.random),
				    .host_memory = 1 + world_next(&w.random) % 2,
				    .sessions = drawn(&w.random, 100) };
	struct sgpu_greeting press;
	int far, *client;

	switch (drawn(&w.random, 4)) {
	case 0: /* nobody is at the other end */
		client = connect_client(&far);
		let_go(client);
		hand_over(far, geteuid(), drawn(&w.random, 2));
		break;
	case 1:
		hand_over(odd_descriptor(drawn(&w.random, ODDS)), world_next(&w.random),
			  drawn(&w.random, 2));
		break;
	case 2:
		CHECK(sgpu_wire_send(w.process.control, WIRE_PRESS, &press, sizeof(press), NULL,
				     0));
		break;
	default: /* sizes as they come, and then as they were */
		CHECK(process_limit(&w.process, &rule));
		rule = (struct tenant_rule){ .sessions = TENANT_SESSIONS_MAX };
		CHECK(process_limit(&w.process, &rule));
	}
}

/* ---- clients that lie ---- */
static unsigned count_threads(void)
{
	char path[32];
	unsigned count = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)w.process.pid);
	tasks = opendir(path);
	while (tasks && readdir(tasks)) {
		count++;
	}
	closedir(tasks);
	return count;
}

UNIT_TEST(an_honest_client_is_answered)
{
	unsigned threads;

	begin(LYING_SEED);
	submit_honestly();
	threads = count_threads();
	for (int i = 0; i < 4 * SUBMISSIONS; i++) {
		submit_honestly();
	}
	CHECK(count_threads() < threads + SUBMISSIONS);
	end();
}

/* Submits a batch on a spool's connection, and receives the answer's code. far: the worker's end,
 * which is handed over with the first batch; or -1. */
static int submit_of_spool(int control, int client, int far, bool lease, uint64_t timeout_ns)
{
	static struct wire_submit message;
	struct wire_take take = { .uid = geteuid(), .since_ns = 1 };
	struct wire_answer answer = { .error.code = SGPU_OK };
	const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);

	message.timeout_ns = timeout_ns;
	message.lease = lease;
	CHECK(sgpu_wire_send(client, WIRE_SUBMIT, &message, sizeof(message),
			     (const int[]){ in, out, in }, 3));
	CHECK(far < 0 || sgpu_wire_send(control, WIRE_TAKE, &take, sizeof(take), &far, 1));
	CHECK(poll(&(struct pollfd){ .fd = client, .events = POLLIN }, 1, PATIENCE_MS) == 1);
	CHECK(wire_receive(client, WIRE_ANSWER, &answer, sizeof(answer), NULL, 0, NULL) == SGPU_OK);
	CHECK(answer.error.code != SGPU_OK || lseek(out, 0, SEEK_END) > BATCH_BYTES);
	close(in);
	close(out);
	return answer.error.code;
}

/* A batch that is refused is followed by others, and the time of each counts from its own
 * submission. Connections that rest are counted. */
UNIT_TEST(a_connection_of_a_spool_carries_batch_after_batch)
{
	static char *arguments[] = { "worker", "-k", NULL, "--serve", "3", "-q", NULL };
	const struct wire_begin spool = { .submissions = SUBMISSIONS, .spool = 1 };
	const struct serve_counters *counters;
	struct wire_ready ready;
	int ends[SUBMISSIONS + 1][2], control = -1, status = -1,
				      program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	pid_t pid;

	arguments[2] = w.key;
	REQUIRE(runner_spawn(program, arguments, &spool, -1, &pid, &control, &counters, &error) ==
		SGPU_OK);
	CHECK(poll(&(struct pollfd){ .fd = control, .events = POLLIN }, 1, PATIENCE_MS) == 1);
	CHECK(wire_receive(control, WIRE_READY, &ready, sizeof(ready), NULL, 0, NULL) == SGPU_OK);
	for (int i = 0; i <= SUBMISSIONS; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends[i]) == 0);
		CHECK(submit_of_spool(control, ends[i][0], ends[i][1], false, 0) ==
		      (i < SUBMISSIONS ? SGPU_OK : SGPU_ERETRY));
		close(ends[i][1]);
	}
	CHECK(submit_of_spool(control, ends[0][0], -1, true, 0) ==
	      SGPU_EUNAVAILABLE); /* no leases */
	CHECK(submit_of_spool(control, ends[0][0], -1, false, PATIENCE_MS * UINT64_C(1000000)) ==
	      SGPU_OK);
	for (int i = 0; i <= SUBMISSIONS; i++) {
		close(ends[i][0]);
	}
	close(program);
	close(control);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	munmap((void *)(uintptr_t)counters, sizeof(*counters));
}

/* Submits a batch on a spool's new connection that never arrives. */
static void submit_nothing(int control, const int ends[2], int batch)
{
	static struct wire_submit message;
	struct wire_take take = { .since_ns = 1 };
	const int out = memfd_create("response", MFD_CLOEXEC);

	CHECK(sgpu_wire_send(ends[0], WIRE_SUBMIT, &message, sizeof(message),
			     (const int[]){ batch, out, out }, 3));
	CHECK(sgpu_wire_send(control, WIRE_TAKE, &take, sizeof(take), &ends[1], 1));
	close(ends[1]);
	close(out);
}

/* A batch that never arrives, as only a spool's may, holds up no other. It is cancelled when its
 * client hangs up, and leaves its place. The end of the supervisor is that of connections that
 * rest. */
UNIT_TEST(a_batch_that_does_not_arrive_holds_up_nobody_and_ends_with_its_client)
{
	static char *arguments[] = { "worker", "-k", NULL, "--serve", "3", "-q", NULL };
	const struct wire_begin spool = { .submissions = SUBMISSIONS, .spool = 1 };
	const int program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	const struct serve_counters *counters;
	int ends[SUBMISSIONS][2], batch[2], control = -1, status = -1, code = SGPU_ERETRY;
	pid_t pid;

	arguments[2] = w.key;
	REQUIRE(runner_spawn(program, arguments, &spool, -1, &pid, &control, &counters, &error) ==
		SGPU_OK);
	CHECK(pipe2(batch, O_CLOEXEC) == 0);
	for (int i = 0; i < SUBMISSIONS; i++) {
		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends[i]) == 0);
	}
	submit_nothing(control, ends[0], batch[0]);
	for (int i = 2; i < SUBMISSIONS; i++) {
		CHECK(submit_of_spool(control, ends[i][0], ends[i][1], false, 0) == SGPU_OK);
	}
	submit_nothing(control, ends[1], batch[0]); /* by now threads rest that could lead */
	CHECK(submit_of_spool(control, ends[2][0], -1, false, 0) == SGPU_OK);
	close(batch[0]);
	close(ends[0][0]);
	close(ends[1][0]);
	CHECK(poll(&(struct pollfd){ .fd = batch[1] }, 1, PATIENCE_MS) == 1);
	for (int i = 0; i < 400 && code == SGPU_ERETRY; i++) { /* its place becomes free */
		int pair[2];

		usleep(i * 100);
		CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
		code = submit_of_spool(control, pair[0], pair[1], false, 0);
		close(pair[0]);
		close(pair[1]);
	}
	CHECK(code == SGPU_OK);
	close(control);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	for (int i = 2; i < SUBMISSIONS; i++) {
		close(ends[i][0]);
		close(ends[i][1]);
	}
	close(batch[1]);
	close(program);
	munmap((void *)(uintptr_t)counters, sizeof(*counters));
}

/* The socket of a connection that the worker has closed may live on, and the worker sleeps. */
UNIT_TEST(a_connection_that_the_supervisor_keeps_open_keeps_no_worker_busy)
{
	const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);
	struct timespec before = { 0 }, after = { 0 };
	int far, kept, *client;
	clockid_t clock;

	begin(LYING_SEED);
	client = connect_client(&far);
	kept = dup(far);
	send_submission(*client, in, out);
	hand_over(far, geteuid(), false);
	CHECK(until_idle());
	let_go(client);
	REQUIRE(clock_getcpuclockid(w.process.pid, &clock) == 0);
	CHECK(clock_gettime(clock, &before) == 0);
	usleep(300000);
	CHECK(clock_gettime(clock, &after) == 0);
	CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec <
	      5000000);
	close(kept);
	close(in);
	close(out);
	end();
}

UNIT_TEST(sessions_of_owners_need_owners_and_none_run_beside_modules)
{
	for (int i = 0; i < 2; i++) {
		int status = -1;

		CHECK(!start_one(1, i ? WIRE_SESSIONS_ANY : WIRE_SESSIONS_OWNERS, i));
		close(w.process.control);
		w.process.control = -1;
		CHECK(waitpid(w.process.pid, &status, 0) == w.process.pid);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
		process_bury(&w.process);
	}
}

UNIT_TEST(a_message_that_no_client_begins_with_is_refused_and_disturbs_nobody)
{
	begin(LYING_SEED);
	for (int kind = 1; kind < WIRE_KINDS; kind++) {
		for (int request = 0; request < 2; request++) {
			static uint8_t bytes[MESSAGE_MAX];
			const struct sgpu_greeting header = { .magic = 0x53475055,
							      .version = SGPU_GREETING_VERSION,
							      .kind = (uint16_t)kind,
							      .size = (uint32_t)message_size(
								      kind) };
			int far, *client = connect_client(&far);

			memcpy(bytes, &header, sizeof(header));
			send_bytes(*client, bytes, header.size, &w.batch, kind % 2);
			hand_over(far, geteuid(), request);
		}
	}
	submit_honestly();
	end();
}

UNIT_TEST(a_descriptor_that_could_block_is_refused_without_asking_its_file_system)
{
	asked = 0;
	for (enum odd odd = 0; odd < ODDS; odd++) {
		const int fd = odd_descriptor(odd);

		CHECK(fd >= 0);
		CHECK(wire_takes_batch(fd) == (odd == ODD_UNSEALED));
		CHECK(wire_takes_response(fd) == (odd == ODD_UNSEALED));
		close(fd);
	}
	CHECK(asked == 0);
}

/* With room for two descriptors the kernel gives two of three: it is no message with two. */
UNIT_TEST(a_message_whose_descriptors_do_not_all_come_is_refused)
{
	enum { HIGHEST = 200 };
	struct rlimit before, less;
	struct sgpu_greeting message;
	int ends[2], fds[2], fd = -1, taken[HIGHEST], count = 0;

	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK(sgpu_wire_send(ends[0], WIRE_PROGRESS, &message, sizeof(message),
			     (const int[]){ w.batch, w.batch, w.batch }, 3));
	while (fd < HIGHEST && count < HIGHEST) {
		fd = taken[count++] = dup(w.batch);
	}
	close(fd);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
	less = before;
	less.rlim_cur = (rlim_t)fd + 2;
	CHECK(setrlimit(RLIMIT_NOFILE, &less) == 0);
	CHECK(wire_receive(ends[1], WIRE_PROGRESS, &message, sizeof(message), fds, 2, &error) ==
	      SGPU_EINVALID);
	CHECK(strstr(error.text, "another number of descriptors"));
	CHECK(dup(w.batch) == fd); /* none is left open */
	CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
	while (count > 0) {
		close(taken[--count]);
	}
	close(ends[0]);
	close(ends[1]);
}

/* A worker at its limit of descriptors loses the connection that it is given, and nothing else. */
UNIT_TEST(a_connection_for_which_there_is_no_descriptor_disturbs_nobody)
{
	struct rlimit none = { .rlim_cur = 0 }, before;
	struct sgpu_greeting message;

	begin(LYING_SEED);
	REQUIRE(prlimit(w.process.pid, RLIMIT_NOFILE, NULL, &before) == 0);
	none.rlim_max = before.rlim_max;
	for (int request = 0; request < 2; request++) {
		int far, *client = connect_client(&far);

		CHECK(prlimit(w.process.pid, RLIMIT_NOFILE, &none, NULL) == 0);
		hand_over(far, geteuid(), request);
		CHECK(until_idle());
		CHECK(recv(*client, &message, sizeof(message), 0) == 0);
		CHECK(prlimit(w.process.pid, RLIMIT_NOFILE, &before, NULL) == 0);
		submit_honestly();
	}
	end();
}

/* Waits for its line to be read while a batch still has its place, so that no more threads wait
 * than may run batches. */
UNIT_TEST(a_log_that_nobody_reads_holds_up_no_more_batches_than_may_run)
{
	enum { PIPE_BYTES = 4096 };
	static char page[PIPE_BYTES];
	int ends[2], own = dup(STDERR_FILENO), clients[SUBMISSIONS];

	REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
	CHECK(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) == PIPE_BYTES);
	dup2(ends[1], STDERR_FILENO);
	w.logs = true;
	begin(LYING_SEED);
	w.logs = false;
	dup2(own, STDERR_FILENO);
	close(own);
	while (write(ends[1], page, 1) > 0) {
	}
	CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
	for (int i = 0; i < SUBMISSIONS; i++) {
		const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);
		int far, *client = connect_client(&far);

		send_submission(*client, in, out);
		hand_over(far, geteuid(), false);
		clients[i] = *client;
		close(in);
		close(out);
	}
	usleep(300000);
	hear_notes();
	CHECK(w.process.said.ended == 0);
	close(ends[1]);
	while (!is_idle()) {
		(void)!read(ends[0], page, sizeof(page));
	}
	for (int i = 0; i < SUBMISSIONS; i++) {
		CHECK(recv(clients[i], page, sizeof(page), 0) == sizeof(struct sgpu_greeting));
		CHECK(recv(clients[i], page, sizeof(page), 0) == sizeof(struct wire_answer));
	}
	end();
	close(ends[0]);
}

UNIT_TEST(clients_that_hang_up_at_any_time_leave_no_connection)
{
	begin(LYING_SEED);
	for (int i = 0; i < 10 * HELD_MAX; i++) {
		const int in = open_batch(), out = memfd_create("response", MFD_CLOEXEC);
		int far, *client = connect_client(&far);

		send_submission(*client, in, out);
		hand_over(far, geteuid(), false);
		if (i % 3) {
			usleep(drawn(&w.random, 300));
			let_go(client);
		}
		close(in);
		close(out);
	}
	let_all_go();
	CHECK(until_idle());
	submit_honestly();
	end();
}

/* ---- a supervisor that lies ---- */
/* The counters are in the supervisor's memory, and the worker has a table of its sessions. */
UNIT_TEST(a_supervisor_that_changes_the_counters_lets_no_more_sessions_in)
{
	struct serve_counters *counters;

	begin(LYING_SEED);
	counters = (struct serve_counters *)(uintptr_t)w.process.counters;
	REQUIRE(mprotect(counters, sizeof(*counters), PROT_READ | PROT_WRITE) == 0);
	for (int i = 0; i < HELD_MAX; i++) {
		struct sgpu_greeting message = { .magic = 0 };
		int files[2], far, *client = connect_client(&far);

		REQUIRE(sgpu_link_create(&files[0], &files[1], &error) == SGPU_OK);
		CHECK(sgpu_wire_send(*client, WIRE_SESSION, &message, sizeof(message), files, 2));
		hand_over(far, geteuid(), true);
		close(files[0]);
		close(files[1]);
		CHECK(recv(*client, &message, sizeof(message), 0) > 0 &&
		      (message.kind == WIRE_TAKEN) == (i < TENANT_SESSIONS_MAX));
		atomic_store(&counters->sessions, 0);
	}
	end();
}

UNIT_TEST(what_no_supervisor_says_ends_the_worker)
{
	for (int kind = 1; kind < WIRE_KINDS; kind++) {
		static uint8_t bytes[MESSAGE_MAX];
		const bool known = kind == WIRE_TAKE || kind == WIRE_DRAIN || kind == WIRE_PRESS ||
				   kind == WIRE_LIMITS;
		struct sgpu_greeting header = { .magic = 0x53475055,
						.version = SGPU_GREETING_VERSION,
						.kind = (uint16_t)kind,
						.size = (uint32_t)message_size(kind) };

		begin(LYING_SEED);
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &header, sizeof(header));
		send_bytes(w.process.control, bytes, header.size, (const int[]){ w.batch, w.batch },
			   known ? 2 : 0);
		check_end();
	}
}

UNIT_TEST(a_worker_whose_supervisor_has_gone_ends_with_its_clients)
{
	int far, *client, in, out;
	char byte;

	begin(LYING_SEED);
	in = open_batch();
	out = memfd_create("response", MFD_CLOEXEC);
	client = connect_client(&far);
	send_submission(*client, in, out);
	hand_over(far, geteuid(), false);
	submit_honestly();
	close(w.process.control);
	w.process.control = -1;
	while (recv(*client, &byte, 1, 0) > 0) {
	}
	close(in);
	close(out);
	check_end();
	let_all_go();
}

/* ---- anything, in any order ---- */
static void attack(uint64_t seed)
{
	begin(seed);
	for (int i = 0; i < ROUNDS; i++) {
		if (drawn(&w.random, 3)) {
			lie_as_client();
		} else {
			lie_as_supervisor();
		}
		if (i % 32 == 0) {
			let_all_go();
			CHECK(until_idle());
			submit_honestly();
		}
	}
	end();
}

/* ---- what a client makes of an answer ---- */
UNIT_TEST(an_answer_whose_code_is_none_is_an_error_of_the_system)
{
	static const int codes[] = { INT_MIN,	    SGPU_ETAKEN - 1, SGPU_ETAKEN, SGPU_EMANIFEST,
				     SGPU_EINVALID, SGPU_OK,	     1,		  INT_MAX };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(codes); i++) {
		static struct wire_answer answer;

		answer.error.code = codes[i];
		wire_clean(&answer);
		CHECK(answer.error.code == (i < 2 || i > 5 ? SGPU_ESYSTEM : codes[i]));
	}
}

/* As one that refuses a connection at once. */
UNIT_TEST(what_a_server_said_is_heard_though_it_closed_before_it_had_read_all)
{
	static struct wire_answer answer;
	struct sgpu_greeting question;
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	CHECK(sgpu_wire_send(ends[0], WIRE_STATUS, &question, sizeof(question), NULL, 0));
	sgpu_fail(&error, SGPU_ERETRY, "no place");
	wire_refuse(ends[1], &error);
	close(ends[1]);
	CHECK(wire_receive(ends[0], WIRE_ANSWER, &answer, sizeof(answer), NULL, 0, NULL) ==
	      SGPU_OK);
	CHECK(answer.error.code == SGPU_ERETRY);
	CHECK(wire_receive(ends[0], WIRE_ANSWER, &answer, sizeof(answer), NULL, 0, NULL) ==
	      SGPU_ECANCELED);
	close(ends[0]);
}

UNIT_TEST(liars_disturb_no_honest_client_for_the_fixed_seed)
{
	attack(LYING_SEED);
}

UNIT_TEST(liars_disturb_no_honest_client_for_a_fresh_seed)
{
	attack(fresh_seed());
}

/* ---- sgpu-serve(5) ---- */
UNIT_TEST(the_page_has_each_message_with_its_length)
{
	FILE *page = fopen("man/sgpu-serve.5", "re");
	char line[256], name[32];
	int next = 1, kind, fds;
	size_t size;

	if (!page) {
		SKIP("man/sgpu-serve.5: not run in the source tree");
	}
	while (fgets(line, sizeof(line), page)) {
		if (sscanf(line, "%2d %31[A-Z_] %zu %d", &kind, name, &size, &fds) == 4) {
			CHECK(kind == next++ && size == message_size((enum wire_kind)kind));
			if (size != message_size((enum wire_kind)kind)) {
				printf("# %s: %zu\n", name, message_size((enum wire_kind)kind));
			}
		}
	}
	CHECK(next == WIRE_KINDS);
	fclose(page);
}

UNIT_TEST(no_message_brings_more_descriptors_than_a_message_may)
{
	const int fds[] = { 0, 0, 0, 0, 0 };
	struct sgpu_greeting message;
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	errno = 0;
	CHECK(!sgpu_wire_send(ends[0], WIRE_SESSION, &message, sizeof(message), fds, 5));
	CHECK(errno == EINVAL);
	CHECK(sgpu_wire_send(ends[0], WIRE_SESSION, &message, sizeof(message), fds, 4));
	close(ends[0]);
	close(ends[1]);
}

static void prepare(void)
{
	char x[2 * SGPU_KEY_SIZE], d[2 * SGPU_KEY_SIZE];
	struct job job;
	FILE *file;

	CHECK(sgpu_key_generate(SGPU_KEY_X25519, &owner, &error) == SGPU_OK);
	sgpu_base64url_encode(owner.public_half, sizeof(owner.public_half), x);
	sgpu_base64url_encode(owner.secret, sizeof(owner.secret), d);
	file = fdopen(new_file(&w.key), "w");
	CHECK(file &&
	      fprintf(file, "{\"kty\":\"OKP\",\"crv\":\"X25519\",\"x\":\"%s\",\"d\":\"%s\"}", x,
		      d) > 0 &&
	      fclose(file) == 0);
	make_job(&job, BATCH_BYTES);
	w.batch = sign_and_write(&job);
	free_job(&job);
}

static int be_worker(int argc, char **argv)
{
	static struct run_request request;
	static struct enclave enclave;
	char **none;
	int status = cli_read(argc, argv, &request, &none);

	enclave.options = request.runner;
	return enclave_end(&enclave, status ? status : serve(&enclave, &request));
}

int main(int argc, char **argv)
{
	static const struct cli_verb verbs[] = { { "", "", "a worker", run_options, be_worker },
						 { .name = NULL } };
	static const struct cli_tool tool = { .name = "worker",
					      .summary = "a worker",
					      .verbs = verbs };

	if (argc > 1) {
		return cli_main(&tool, argc, argv);
	}
	prepare();
	UNIT_RUN(an_honest_client_is_answered);
	UNIT_RUN(a_connection_of_a_spool_carries_batch_after_batch);
	UNIT_RUN(a_batch_that_does_not_arrive_holds_up_nobody_and_ends_with_its_client);
	UNIT_RUN(a_connection_that_the_supervisor_keeps_open_keeps_no_worker_busy);
	UNIT_RUN(sessions_of_owners_need_owners_and_none_run_beside_modules);
	UNIT_RUN(a_message_that_no_client_begins_with_is_refused_and_disturbs_nobody);
	UNIT_RUN(a_descriptor_that_could_block_is_refused_without_asking_its_file_system);
	UNIT_RUN(a_message_whose_descriptors_do_not_all_come_is_refused);
	UNIT_RUN(a_connection_for_which_there_is_no_descriptor_disturbs_nobody);
	UNIT_RUN(a_log_that_nobody_reads_holds_up_no_more_batches_than_may_run);
	UNIT_RUN(clients_that_hang_up_at_any_time_leave_no_connection);
	UNIT_RUN(a_supervisor_that_changes_the_counters_lets_no_more_sessions_in);
	UNIT_RUN(what_no_supervisor_says_ends_the_worker);
	UNIT_RUN(a_worker_whose_supervisor_has_gone_ends_with_its_clients);
	UNIT_RUN(an_answer_whose_code_is_none_is_an_error_of_the_system);
	UNIT_RUN(what_a_server_said_is_heard_though_it_closed_before_it_had_read_all);
	UNIT_RUN(the_page_has_each_message_with_its_length);
	UNIT_RUN(no_message_brings_more_descriptors_than_a_message_may);
	UNIT_RUN(liars_disturb_no_honest_client_for_the_fixed_seed);
	UNIT_RUN(liars_disturb_no_honest_client_for_a_fresh_seed);
	free(w.key);
	return unit_done();
}
