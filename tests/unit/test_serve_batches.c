/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches of a worker of sgpu-serve: one after another, several at once, those that never arrive,
 * and a worker that lacks descriptors or a reader of its log.
 */
#include "serve_worker.h"

UNIT_TEST(an_honest_client_is_answered)
{
	unsigned threads;

	begin(LYING_SEED);
	submit_honestly();
	threads = count_threads(w.process.pid);
	for (int i = 0; i < 4 * SUBMISSIONS; i++) {
		submit_honestly();
	}
	CHECK(count_threads(w.process.pid) < threads + SUBMISSIONS);
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
	struct wire_progress progress;
	int ends[SUBMISSIONS][2], batch[2], control = -1, status = -1, code = SGPU_ERETRY,
					    asked = 0;
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
	submit_nothing(control, ends[1], batch[0]); /* by now threads wait */
	CHECK(submit_of_spool(control, ends[2][0], -1, false, 0) == SGPU_OK);
	/* One for each batch, as many as processors beside, and one that watches. */
	CHECK(UNIT_SANITIZED || count_threads(pid) <= 2 + sgpu_cpu_count() + 1);
	while (asked < ROUNDS && wire_say(ends[1][0], WIRE_PROGRESS) &&
	       poll(&(struct pollfd){ .fd = ends[1][0], .events = POLLIN }, 1, PATIENCE_MS) == 1 &&
	       wire_receive(ends[1][0], WIRE_PROGRESS_IS, &progress, sizeof(progress), NULL, 0,
			    NULL) == SGPU_OK) {
		asked++;
	}
	CHECK(asked == ROUNDS); /* one of the threads that wait hears each */
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

int main(int argc, char **argv)
{
	worker_main(argc, argv);
	UNIT_RUN(an_honest_client_is_answered);
	UNIT_RUN(a_connection_of_a_spool_carries_batch_after_batch);
	UNIT_RUN(a_batch_that_does_not_arrive_holds_up_nobody_and_ends_with_its_client);
	UNIT_RUN(a_connection_that_the_supervisor_keeps_open_keeps_no_worker_busy);
	UNIT_RUN(a_connection_for_which_there_is_no_descriptor_disturbs_nobody);
	UNIT_RUN(a_log_that_nobody_reads_holds_up_no_more_batches_than_may_run);
	free(w.key);
	return unit_done();
}
