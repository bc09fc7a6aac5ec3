/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker of sgpu-serve with clients and a supervisor that lie. The worker is this program
 * once more, confined as it always is; both its sides are taken here. Whatever comes, it counts
 * each connection as ended once it has gone, and runs the batch of an honest client; what no
 * supervisor says ends it. SGPU_TEST_SEED=N test_serve_worker
 */
#include "serve_worker.h"

/* In the place of the C library's, which asks the file system of a file: how often that was. */
static atomic_int asked;

int fstatfs(int fd, struct statfs *about)
{
	asked++;
	return (int)syscall(SYS_fstatfs, fd, about);
}

/* ---- clients and supervisors that lie ---- */
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
		CHECK(wire_takes(fd, false) == (odd == ODD_UNSEALED));
		CHECK(wire_takes(fd, true) == (odd == ODD_UNSEALED));
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

static bool is_text_then_zeros(const char *field, size_t size, const char *text)
{
	const size_t length = strnlen(field, size);

	return strcmp(field, text) == 0 &&
	       sgpu_all_zero((const uint8_t *)field + length, size - length);
}

/* What was on a stack before may be behind the texts of an error. */
UNIT_TEST(an_answer_has_nothing_of_the_memory_behind_its_texts)
{
	static struct wire_answer given, got;
	struct sgpu_error dirty;
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	for (int refused = 0; refused < 2; refused++) {
		memset(&dirty, 0x5a, sizeof(dirty));
		sgpu_fail(&dirty, SGPU_ENOMEM, "no memory");
		sgpu_hint(&dirty, "buy some");
		memset(&given.error, 0x5a, sizeof(given.error));
		if (refused) {
			wire_refuse(ends[1], &dirty);
		} else {
			wire_answer(ends[1], &given, &dirty);
		}
		REQUIRE(wire_receive(ends[0], WIRE_ANSWER, &got, sizeof(got), NULL, 0, NULL) ==
			SGPU_OK);
		CHECK(got.error.code == SGPU_ENOMEM && got.error.retryable == 0);
		CHECK(is_text_then_zeros(got.error.text, sizeof(got.error.text), "no memory"));
		CHECK(is_text_then_zeros(got.error.hint, sizeof(got.error.hint), "buy some"));
	}
	close(ends[0]);
	close(ends[1]);
}

UNIT_TEST(a_text_comes_as_it_was_sent_in_the_message_or_beyond_96_kib_in_a_file)
{
	static const size_t sizes[] = { 0, 96 << 10, (96 << 10) + 1, WIRE_TEXT_MAX };
	static char sent[WIRE_TEXT_MAX];
	const unsigned before = count_open();
	int ends[2];

	for (size_t i = 0; i < sizeof(sent); i++) {
		sent[i] = (char)world_next(&w.random);
	}
	REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		const size_t in_message = sizes[i] <= 96 << 10 ? sizes[i] : 0;
		char *got = NULL;
		size_t size = SIZE_MAX;

		CHECK(wire_say_text(ends[1], WIRE_STATUS_IS, sent, sizes[i], &error) == SGPU_OK);
		CHECK(recv(ends[0], NULL, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT) ==
		      (ssize_t)(sizeof(struct sgpu_greeting) + in_message));
		REQUIRE(wire_hear_text(ends[0], WIRE_STATUS_IS, &got, &size, &error) == SGPU_OK);
		CHECK(size == sizes[i] && memcmp(got, sent, size) == 0 && got[size] == '\0');
		free(got);
	}
	close(ends[0]);
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(sizes); i++) {
		CHECK(wire_say_text(ends[1], WIRE_STATUS_IS, sent, sizes[i], &error) ==
		      SGPU_ESYSTEM);
	}
	close(ends[1]);
	CHECK(count_open() == before);
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

int main(int argc, char **argv)
{
	worker_main(argc, argv);
	UNIT_RUN(sessions_of_owners_need_owners_and_none_run_beside_modules);
	UNIT_RUN(a_message_that_no_client_begins_with_is_refused_and_disturbs_nobody);
	UNIT_RUN(a_descriptor_that_could_block_is_refused_without_asking_its_file_system);
	UNIT_RUN(a_message_whose_descriptors_do_not_all_come_is_refused);
	UNIT_RUN(clients_that_hang_up_at_any_time_leave_no_connection);
	UNIT_RUN(a_supervisor_that_changes_the_counters_lets_no_more_sessions_in);
	UNIT_RUN(what_no_supervisor_says_ends_the_worker);
	UNIT_RUN(a_worker_whose_supervisor_has_gone_ends_with_its_clients);
	UNIT_RUN(an_answer_whose_code_is_none_is_an_error_of_the_system);
	UNIT_RUN(an_answer_has_nothing_of_the_memory_behind_its_texts);
	UNIT_RUN(a_text_comes_as_it_was_sent_in_the_message_or_beyond_96_kib_in_a_file);
	UNIT_RUN(what_a_server_said_is_heard_though_it_closed_before_it_had_read_all);
	UNIT_RUN(the_page_has_each_message_with_its_length);
	UNIT_RUN(no_message_brings_more_descriptors_than_a_message_may);
	UNIT_RUN(liars_disturb_no_honest_client_for_the_fixed_seed);
	UNIT_RUN(liars_disturb_no_honest_client_for_a_fresh_seed);
	free(w.key);
	return unit_done();
}
