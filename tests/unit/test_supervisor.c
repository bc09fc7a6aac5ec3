/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor of sgpu-serve with workers and clients that lie. Honest users beside liars
 * must get turns and answers. SGPU_TEST_SEED=N test_supervisor
 */
#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include "supervision.h"

static struct tenant *tenant_of(uid_t uid)
{
	struct tenant *t = w.s.tenants;

	while (!t->used || t->uid != uid) {
		t++;
	}
	return t;
}

static bool liar_has_lost_it(void)
{
	return !tenant_of(LIAR)->process;
}

/* ---- workers that lie ---- */
UNIT_TEST(an_honest_worker_is_believed)
{
	begin(LYING_SEED, 64);
	for (int i = 0; i < 40; i++) {
		CHECK(submit_as(i % 2 ? HONEST : LIAR));
	}
	CHECK(until(all_are_answered) && w.came == 20);
	check_status();
	end();
}

UNIT_TEST(a_worker_cannot_take_its_counters_away)
{
	struct puppet *p = begin_lying(1);
	const int whole = (int)sizeof(*p->counters);

	CHECK(ftruncate(p->counters_fd, 0) != 0 && ftruncate(p->counters_fd, whole - 1) != 0 &&
	      ftruncate(p->counters_fd, whole + 1) != 0);
	CHECK(fcntl(p->counters_fd, F_ADD_SEALS, F_SEAL_WRITE) != 0);
	CHECK(submit_as(HONEST) && until(all_are_answered));
	check_status();
	end();
}

UNIT_TEST(a_worker_that_says_it_has_ended_more_than_it_got_keeps_nobody_from_turns)
{
	struct puppet *p = begin_lying(1);

	p->deaf = true;
	for (int i = 0; i < 20; i++) {
		CHECK(submit_as(LIAR));
		set_counters(p, false, UINT64_MAX);
		note(p);
		step();
		step();
	}
	CHECK(process_requests(tenant_of(LIAR)->process) == 0);
	set_counters(p, false, 0);
	step();
	check_status();
	CHECK(submit_as(HONEST) && until(all_are_answered));
	check_status();
	end();
}

static atomic_bool flips;

static void *flip(void *argument)
{
	struct puppet *p = argument;
	struct world_random random;
	_Atomic uint64_t *words = (void *)p->counters;

	world_seed(&random, LYING_SEED);
	while (flips) {
		words[drawn(&random, 4)] = world_next(&random) % 4;
	}
	return NULL;
}

/* What is read twice differs. */
UNIT_TEST(a_worker_that_changes_its_counters_all_the_time_disturbs_nobody)
{
	struct puppet *p = begin_lying(1);
	pthread_t thread;

	flips = true;
	p->deaf = true;
	REQUIRE(pthread_create(&thread, NULL, flip, p) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		(void)submit_as(LIAR);
		if (w.came - w.answered <
		    32) { /* on a busy machine more would wait than one user may have */
			(void)submit_as(HONEST);
		}
		step();
	}
	CHECK(until(all_are_answered));
	check_status();
	flips = false;
	pthread_join(thread, NULL);
	end();
}

UNIT_TEST(a_worker_that_says_what_none_says_ends_and_nobody_else)
{
	for (int kind = 1; kind < WIRE_KINDS; kind++) {
		for (int count = 0; count < 2; count++) {
			static uint8_t bytes[MESSAGE_MAX];
			struct puppet *p = begin_lying(1);
			const struct sgpu_greeting header = { .magic = 0x53475055,
							      .version = SGPU_GREETING_VERSION,
							      .kind = (uint16_t)kind,
							      .size = (uint32_t)message_size(
								      kind) };

			memcpy(bytes, &header, sizeof(header));
			send_bytes(p->control, bytes, header.size, &w.batch, count);
			p->deaf = true; /* it does not go by itself */
			CHECK(submit_as(HONEST) && until(all_are_answered));
			CHECK(kind == WIRE_NOTE && count == 0 ? liar_has_a_worker()
							      : until(liar_has_none));
			end();
		}
	}
}

UNIT_TEST(a_worker_that_reads_nothing_keeps_nobody_waiting)
{
	struct puppet *p = begin_lying(1024);

	p->deaf = true;
	set_counters(p, false, UINT64_MAX);
	for (int i = 0; i < 2 * ROUNDS && w.refused == 0; i++) {
		(void)submit_as(LIAR);
		note(p);
		step();
	}
	CHECK(w.refused > 0);
	CHECK(submit_as(HONEST) && until(all_are_answered));
	end();
}

/* That tenant's next one comes late, however many die; who comes now waits for none of that. */
UNIT_TEST(a_worker_that_dies_at_its_start_delays_its_own_tenant_alone)
{
	begin(LYING_SEED, 1);
	for (int i = 0; i < 4; i++) {
		REQUIRE(submit_as(LIAR) && until(liar_has_a_worker));
		forget_puppet(puppet_of(LIAR));
		CHECK(until(liar_has_lost_it)); /* or the next one goes to a worker that is about to
						   end */
	}
	CHECK(submit_as(LIAR) && submit_as(HONEST) && until(all_are_answered));
	CHECK(!liar_has_a_worker() && !w.delayed);
	end();
}

UNIT_TEST(a_worker_that_cannot_start_is_an_error)
{
	struct rlimit kept, none;
	struct sgpu_error error;
	struct process p;
	int rc;

	begin(LYING_SEED, 1);
	CHECK(getrlimit(RLIMIT_NOFILE, &kept) == 0);
	none = (struct rlimit){ .rlim_cur = 0, .rlim_max = kept.rlim_max };
	CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
	rc = process_start(&w.server, &p, &error);
	CHECK(setrlimit(RLIMIT_NOFILE, &kept) == 0);
	CHECK(rc == SGPU_ESYSTEM && p.pid == 0 && p.control < 0);
	end();
}

UNIT_TEST(a_worker_that_is_to_end_gets_no_more_time)
{
	struct process p = { .control = -1, .draining = true, .deadline_ns = 5 };

	process_drain(&p, 9);
	CHECK(p.deadline_ns == 5);
	process_drain(&p, 3);
	CHECK(p.deadline_ns == 3);
}

UNIT_TEST(a_worker_that_does_not_end_is_killed)
{
	struct puppet *p = begin_lying(1);

	p->deaf = true;
	process_drain(tenant_of(LIAR)->process, 0);
	CHECK(until(liar_has_none));
	end();
}

UNIT_TEST(what_workers_have_done_is_not_forgotten_with_them)
{
	begin(LYING_SEED, 1);
	for (unsigned i = 1; i <= 2; i++) {
		CHECK(submit_as(LIAR) && until(liar_has_a_worker));
		puppet_of(LIAR)->counters->sums[SERVE_DONE] = 5;
		forget_puppet(puppet_of(LIAR));
		for (int k = 0; k < ROUNDS && tenant_of(LIAR)->sums[SERVE_DONE] < UINT64_C(5) * i;
		     k++) {
			step();
		}
		CHECK(tenant_of(LIAR)->sums[SERVE_DONE] == UINT64_C(5) * i);
	}
	end();
}

UNIT_TEST(who_begins_as_no_client_does_is_refused_at_once)
{
	for (int kind = 1; kind < WIRE_KINDS; kind++) {
		static uint8_t bytes[MESSAGE_MAX];
		const struct sgpu_greeting header = { .magic = 0x53475055,
						      .version = SGPU_GREETING_VERSION,
						      .kind = (uint16_t)kind,
						      .size = (uint32_t)message_size(kind) };
		struct client *client;

		if (kind == WIRE_SUBMIT || kind == WIRE_STATUS ||
		    wire_is_request((enum wire_kind)kind)) {
			continue;
		}
		begin(LYING_SEED, 1);
		client = connect_as(LIAR);
		memcpy(bytes, &header, sizeof(header));
		send_bytes(client->fd, bytes, header.size, NULL, 0);
		for (int i = 0; i < 4; i++) {
			step();
		}
		CHECK(w.refused == 1);
		end();
	}
}

/* ---- limits ---- */
UNIT_TEST(a_tenant_with_a_limit_for_all_of_its_workers_awaits_the_end_of_one)
{
	for (int i = 0; i < 4; i++) {
		struct puppet *p;

		begin(LYING_SEED, 64);
		w.s.rules.others.device_memory = i == 0;
		w.s.rules.others.host_memory = i == 1;
		w.s.rules.others.sessions = i == 2 ? 1 : TENANT_SESSIONS_MAX;
		CHECK(submit_as(LIAR) && until(liar_has_a_worker));
		p = puppet_of(LIAR);
		p->deaf = true;
		workers_dismiss(&w.s, tenant_of(LIAR)->process);
		CHECK(submit_as(LIAR));
		step();
		CHECK(w.s.awaiting == (i < 3));
		end();
	}
}

UNIT_TEST(some_user_has_high_priority_if_all_others_have)
{
	enum { READ_TO = 64 << 10 };
	static const char *const lines[] = { "* priority=normal", "* priority=high", "7 weight=2",
					     "7 priority=high" };

	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(lines); i++) {
		static struct tenant_rules rules;
		const int fd = memfd_create("tenants", MFD_CLOEXEC);
		struct sgpu_error error;
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		CHECK(fchmod(fd, 0600) == 0 && dprintf(fd, "%s\n", lines[i]) > 0);
		const size_t used = mallinfo2().uordblks;
		CHECK(tenant_rules_load(path, &rules, &error) == SGPU_OK &&
		      rules.any_high == (i % 2 == 1));
		CHECK(mallinfo2().uordblks == used);
		close(fd);
		/* The file may have been a key, given by mistake: where it was read to. */
		char *memory = malloc(READ_TO);
		__asm__ volatile("" : : "r"(memory) : "memory");
		CHECK(memory && !memmem(memory, READ_TO, "priority", 8));
		free(memory);
	}
}

UNIT_TEST(a_user_has_so_many_requests_and_no_more)
{
	struct puppet *p = begin_lying(1);
	struct wire_quote request = { .nonce_size = 0 };

	p->deaf = true;
	for (int i = 0; i <= SUPERVISOR_REQUESTS_MAX; i++) {
		struct client *client = connect_as(LIAR);

		REQUIRE(client && w.refused == 0);
		CHECK(sgpu_wire_send(client->fd, WIRE_QUOTE, &request, sizeof(request), NULL, 0));
		step();
	}
	step();
	CHECK(w.refused == 1 && tenant_of(LIAR)->sums[SERVE_OVER_QUOTA] == 1);
	end();
}

/* All places are taken: of the silent, who came first goes; of those who wait, who came last of the
 * user who has most. */
UNIT_TEST(a_connection_without_a_place_gets_that_of_another)
{
	for (int waits = 0; waits < 2; waits++) {
		struct sockaddr_un address =
			address_of(waits ? "sgpu-test-waiting" : "sgpu-test-silent");
		const int listener =
			socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		const int client = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		struct caller *expected = NULL, *accepted = NULL;

		CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		      listen(listener, 1) == 0);
		CHECK(connect(client, (struct sockaddr *)&address, sizeof(address)) == 0);
		begin(LYING_SEED, 1);
		for (unsigned i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
			struct caller *c = &w.s.callers[i];
			const unsigned number = (i * 37 + 100) % SUPERVISOR_CALLERS_MAX;

			*c = (struct caller){ .fd = dup(w.batch),
					      .uid = LIAR,
					      .since_ns = number + 1,
					      .order = number };
			c->tenant = waits ? &w.s.tenants[i % 3 != 0] : NULL;
			if (waits ? i % 3 && (!expected || number > expected->order)
				  : number == 0) {
				expected = c;
			}
		}
		w.socket.fd = listener;
		CHECK(callers_accept(&w.s, &accepted) && accepted == expected);
		CHECK(w.s.tenants[1].sums[SERVE_OVER_QUOTA] == (uint64_t)waits);
		w.socket.fd = -1;
		for (int i = 0; i < SUPERVISOR_CALLERS_MAX; i++) {
			callers_hang_up(&w.s.callers[i]);
		}
		end();
		close(listener);
		close(client);
	}
}

/* ---- anything, in any order ---- */
static void lie_as_client(void)
{
	struct client *client = connect_as(LIAR);

	if (!client) {
		return;
	}
	for (uint32_t i = drawn(&w.random, 3); i > 0; i--) {
		lie(&w.random, client->fd, 1 + drawn(&w.random, WIRE_KINDS - 1));
	}
	if (drawn(&w.random, 2)) {
		leave(client);
	}
}

static void attack(uint64_t seed)
{
	begin(seed, 1);
	w.lies = true;
	/* On a busy machine more rounds pass while the honest wait. */
	for (int i = 0; i < ROUNDS || (i < 50 * ROUNDS && (w.came <= 20 || w.died == 0)); i++) {
		struct client *any = &w.clients[drawn(&w.random, CLIENTS_MAX)];

		switch (drawn(&w.random, 6)) {
		case 0:
			if (w.came - w.answered < 8) {
				(void)submit_as(HONEST);
			}
			break;
		case 1:
		case 2:
			(void)submit_as(LIAR);
			break;
		case 3:
			lie_as_client();
			break;
		case 4:
			if (any->fd >= 0 && any->uid == LIAR) {
				leave(any);
			}
			break;
		default:
			check_status();
		}
		step();
	}
	CHECK(until(all_are_answered) && w.came > 20 && w.died > 0);
	printf("# %u batches, %u workers that lied\n", w.came, w.died);
	end();
}

UNIT_TEST(liars_keep_nobody_from_turns_and_answers_for_the_fixed_seed)
{
	attack(LYING_SEED);
}

UNIT_TEST(liars_keep_nobody_from_turns_and_answers_for_a_fresh_seed)
{
	attack(fresh_seed());
}

int main(int argc, char **argv)
{
	if (argc > 2 && strcmp(argv[1], "--puppet") == 0) {
		return be_puppet(argv[2]);
	}
	UNIT_RUN(an_honest_worker_is_believed);
	UNIT_RUN(a_worker_cannot_take_its_counters_away);
	UNIT_RUN(a_worker_that_says_it_has_ended_more_than_it_got_keeps_nobody_from_turns);
	UNIT_RUN(a_worker_that_changes_its_counters_all_the_time_disturbs_nobody);
	UNIT_RUN(a_worker_that_says_what_none_says_ends_and_nobody_else);
	UNIT_RUN(a_worker_that_reads_nothing_keeps_nobody_waiting);
	UNIT_RUN(a_worker_that_dies_at_its_start_delays_its_own_tenant_alone);
	UNIT_RUN(a_worker_that_cannot_start_is_an_error);
	UNIT_RUN(a_worker_that_is_to_end_gets_no_more_time);
	UNIT_RUN(a_worker_that_does_not_end_is_killed);
	UNIT_RUN(what_workers_have_done_is_not_forgotten_with_them);
	UNIT_RUN(who_begins_as_no_client_does_is_refused_at_once);
	UNIT_RUN(a_tenant_with_a_limit_for_all_of_its_workers_awaits_the_end_of_one);
	UNIT_RUN(some_user_has_high_priority_if_all_others_have);
	UNIT_RUN(a_user_has_so_many_requests_and_no_more);
	UNIT_RUN(a_connection_without_a_place_gets_that_of_another);
	UNIT_RUN(liars_keep_nobody_from_turns_and_answers_for_the_fixed_seed);
	UNIT_RUN(liars_keep_nobody_from_turns_and_answers_for_a_fresh_seed);
	return unit_done();
}
