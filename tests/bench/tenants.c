/* SPDX-License-Identifier: Apache-2.0
 *
 * Many users of one server: `tenants SOCKET RUNNER ELEMENTS LOAD...`. RUNNER is its public key, and
 * a LOAD is
 *
 *   UID[-UID]:COUNT:DEPTH    each of these users submits COUNT batches, DEPTH at once; with +
 *                            before it, until all others have ended, and at the least priority
 *                            for processors: it is the server that is measured
 *
 * Each user is a process, and each batch has a key and numbers of its own. A response must be of
 * its batch, verify under its key, and hold the sums of its numbers. A batch that a server refuses
 * to take now (SGPU_ERETRY) is submitted again.
 *
 * Prints a line for each user: uid, batches that came back right, batches when the first of the
 * users had all of theirs, median and 99th percentile of the time from the connection to the answer
 * in microseconds, and how often it was refused; then `all`, batches, and seconds from the first to
 * the last. The clock starts when each user has a batch back that is not counted. Exits with 1 when
 * a batch is lost or wrong.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sgpu/base.h>
#include <sgpu/batch.h>

#include "base/io.h"
#include "crypto/crypto.h"
#include "ops/ops.h"
#include "../../tools/runner/wire.c"
#include "sealed.h"

enum { USERS_MAX = 256, DEPTH_MAX = 64, PATIENCE_MS = 300000, RETRY_US = 20000 };

struct load {
	uid_t uid;
	unsigned count, depth;
	bool endless;
};

/* Of one user, shared with its process. */
struct tally {
	atomic_bool ready; /* its first batch is back */
	_Atomic unsigned right, wrong, refused;
	uint64_t *end_ns, *took_ns; /* of each batch that came back right; `count` of them */
};

static struct board {
	atomic_bool go, over;
	struct tally tallies[USERS_MAX];
} * board;

static struct load loads[USERS_MAX];
static pid_t pids[USERS_MAX];
static unsigned users;
static struct sgpu_key runner;
static const char *socket_path;
static unsigned long elements;
static struct sgpu_error error;

static void must(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "tenants: %s: %s\n", what, strerror(errno));
		exit(3);
	}
}

static void succeed(int rc)
{
	if (rc != SGPU_OK) {
		fprintf(stderr, "tenants: %s\n", error.text);
		exit(3);
	}
}

/* ---- a batch ---- */
struct slot {
	int connection, response_fd; /* -1: nothing is under way */
	uint64_t begin_ns, seed;
	struct sgpu_batch *batch;
	uint8_t key[SGPU_KEY_SIZE];
	void *sealed[2];
};

enum { RESULT = 2 };

static struct sgpu_manifest *make_manifest(void)
{
	const char *const directions[] = { "INPUT", "INPUT", "OUTPUT" }, *const names[] = { "one",
											    "other",
											    "sum" };
	struct sgpu_diagnostics diagnostics = { 0 };
	struct sgpu_manifest *manifest = NULL;
	char text[2048];
	int at = snprintf(text, sizeof(text),
			  "{\"version\":1,\"manifest_id\":\"tenants\",\"segments\":[");

	for (int i = 0; i < 3; i++) {
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "%s{\"segment_id\":\"%s\",\"data_location_client\":\"%s\","
			       "\"sensitivity_level\":\"HIGH\","
			       "\"direction\":\"%s\",\"data_type_info\":{\"dtype\":\"f32\","
			       "\"shape\":[%lu]}}",
			       i ? "," : "", names[i], names[i], directions[i], elements);
	}
	snprintf(text + at, sizeof(text) - (size_t)at,
		 "],\"operations\":[{\"gpu_operation_id\":\"ADD\",\"kernel\":\"vector_add\","
		 "\"arguments\":{\"a\":\"one\",\"b\":\"other\",\"output\":\"sum\"}}]}");
	succeed(sgpu_ops_load_manifest(text, strlen(text), "tenants", 0, &manifest, &diagnostics,
				       &error));
	sgpu_diagnostics_clear(&diagnostics);
	return manifest;
}

/* Whole numbers that depend on the batch, so that sums are exact and no two batches have the same.
 */
static float number_of(uint64_t seed, int segment, unsigned long i)
{
	uint64_t x = seed * 2 + (uint64_t)segment + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (float)(x >> 42); /* 22 bits: two of them are exact in 24 */
}

static int write_sealed(int fd, const char *name, const struct sgpu_batch *batch, int segment,
			void *argument, struct sgpu_error *failed)
{
	const struct slot *slot = argument;

	return sgpu_write(fd, name, slot->sealed[segment],
			  (size_t)sgpu_batch_payload_size(batch, segment), failed);
}

/* A memory file. */
static int make_batch(struct slot *slot, const struct sgpu_manifest *manifest)
{
	const int fd = memfd_create("batch", MFD_CLOEXEC);
	float *data = malloc(elements * sizeof(*data));

	must(fd >= 0 && data, "a batch");
	succeed(sgpu_random(slot->key, sizeof(slot->key), &error));
	succeed(sgpu_random((uint8_t *)&slot->seed, sizeof(slot->seed), &error));
	succeed(sgpu_batch_create(manifest, &slot->batch, &error));
	slot->batch->packed = false;
	for (int i = 0; i < 2; i++) {
		for (unsigned long k = 0; k < elements; k++) {
			data[k] = number_of(slot->seed, i, k);
		}
		succeed(batch_set_payload(slot->batch, i, data, elements * sizeof(*data), &error));
		slot->sealed[i] = malloc((size_t)sgpu_batch_payload_size(slot->batch, i));
		must(slot->sealed[i], "a payload");
		succeed(batch_seal_payload(slot->batch, slot->key, i, data, slot->sealed[i],
					   &error));
	}
	free(data);
	succeed(sgpu_batch_wrap(slot->batch, &runner, slot->key, &error));
	succeed(sgpu_batch_sign(slot->batch, slot->key, &error));
	succeed(sgpu_batch_write(fd, "batch", slot->batch, write_sealed, slot, &error));
	must(lseek(fd, 0, SEEK_SET) == 0, "a batch");
	return fd;
}

/* Whether the response is the one to this batch. */
static bool is_right(const struct slot *slot)
{
	struct sgpu_tar_reader *reader = NULL;
	struct sgpu_batch *response = NULL;
	void *payload = NULL;
	float *data = malloc(elements * sizeof(*data));
	int segment = -1, none = -1;
	bool right;

	must(data && lseek(slot->response_fd, 0, SEEK_SET) == 0, "a response");
	right = sgpu_tar_open(slot->response_fd, "response", &reader, &error) == SGPU_OK &&
		sgpu_batch_read(reader, SGPU_READ_RESPONSE, &response, &error) == SGPU_OK &&
		memcmp(response->id, slot->batch->id, sizeof(response->id)) == 0 &&
		sgpu_batch_verify(response, slot->key, &error) == SGPU_OK &&
		response->segment_count == 1 && response->segments[0].status == SGPU_OK &&
		response->segments[0].size == elements * sizeof(*data) &&
		sgpu_batch_next_payload(reader, response, &segment, &error) == SGPU_OK &&
		segment == 0;
	if (right) {
		const size_t size = (size_t)sgpu_batch_payload_size(response, 0);

		payload = malloc(size);
		right = payload && sgpu_tar_read(reader, payload, size, &error) == SGPU_OK &&
			sgpu_batch_next_payload(reader, response, &none, &error) == SGPU_OK &&
			none == -1 &&
			batch_open_payload(response, slot->key, 0, payload, data, &error) ==
				SGPU_OK;
	}
	for (unsigned long k = 0; right && k < elements; k++) {
		right = data[k] == number_of(slot->seed, 0, k) + number_of(slot->seed, 1, k);
	}
	sgpu_tar_close(&reader);
	sgpu_batch_free(&response);
	free(payload);
	free(data);
	return right;
}

static void clear_slot(struct slot *slot)
{
	if (slot->connection >= 0) {
		close(slot->connection);
	}
	if (slot->response_fd >= 0) {
		close(slot->response_fd);
	}
	sgpu_batch_free(&slot->batch);
	free(slot->sealed[0]);
	free(slot->sealed[1]);
	*slot = (struct slot){ .connection = -1, .response_fd = -1 };
}

/* ---- a user ---- */
static int connect_to_server(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	must(fd >= 0 && strlen(socket_path) < sizeof(address.sun_path), "a socket");
	memcpy(address.sun_path, socket_path, strlen(socket_path));
	must(connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0, socket_path);
	return fd;
}

static void submit(struct slot *slot, const struct sgpu_manifest *manifest)
{
	static struct wire_submit message;
	int fds[3];

	fds[0] = make_batch(slot, manifest);
	fds[1] = slot->response_fd = memfd_create("response", MFD_CLOEXEC);
	must(fds[1] >= 0, "a response");
	fds[2] = fds[0]; /* its manifest is in it */
	message = (struct wire_submit){ .in_name = "batch", .out_name = "response" };
	slot->begin_ns = sgpu_now_ns();
	slot->connection = connect_to_server();
	/* A server that refuses at once may have said so and closed. */
	(void)sgpu_wire_send(slot->connection, WIRE_SUBMIT, &message, sizeof(message), fds, 3);
	close(fds[0]);
}

/* One of these while there is more to hear, then what the server has said of the batch. */
enum { MORE = 1 };

static int hear(const struct slot *slot)
{
	static struct wire_answer answer;
	struct sgpu_greeting word;
	enum wire_kind kind;
	int rc = wire_peek(slot->connection, &kind, &error);

	if (rc == SGPU_OK && kind != WIRE_ANSWER) {
		rc = wire_receive(slot->connection, kind, &word, sizeof(word), NULL, 0, &error);
		return rc == SGPU_OK ? MORE : rc;
	}
	if (rc == SGPU_OK) {
		rc = wire_receive(slot->connection, WIRE_ANSWER, &answer, sizeof(answer), NULL, 0,
				  &error);
	}
	if (rc == SGPU_OK) {
		error = answer.error;
		rc = answer.error.code;
	}
	return rc;
}

static void count_answer(struct tally *tally, const struct load *load, struct slot *slot, int rc)
{
	const uint64_t now = sgpu_now_ns();
	const unsigned right = atomic_load(&tally->right);

	if (rc == SGPU_ERETRY) {
		atomic_fetch_add(&tally->refused, 1);
		usleep(RETRY_US);
	} else if (rc != SGPU_OK || !is_right(slot)) {
		fprintf(stderr, "tenants: user %u: %s\n", (unsigned)load->uid, error.text);
		atomic_fetch_add(&tally->wrong, 1);
	} else if (!load->endless) {
		tally->end_ns[right] = now;
		tally->took_ns[right] = now - slot->begin_ns;
		atomic_store(&tally->right, right + 1);
	} else {
		atomic_store(&tally->right, right + 1);
	}
	clear_slot(slot);
}

/* Has always so many under way, until so many are back. */
static void keep_busy(struct tally *tally, const struct load *load,
		      const struct sgpu_manifest *manifest)
{
	struct slot slots[DEPTH_MAX];
	struct pollfd fds[DEPTH_MAX];
	unsigned open = 0, back;

	for (unsigned i = 0; i < load->depth; i++) {
		slots[i] = (struct slot){ .connection = -1, .response_fd = -1 };
	}
	do {
		back = atomic_load(&tally->right) + atomic_load(&tally->wrong);
		for (unsigned i = 0; i < load->depth; i++) {
			if (slots[i].connection < 0 &&
			    (load->endless ? !atomic_load(&board->over)
					   : back + open < load->count)) {
				submit(&slots[i], manifest);
				open++;
			}
			fds[i] = (struct pollfd){ .fd = slots[i].connection, .events = POLLIN };
		}
		if (open > 0 && poll(fds, load->depth, PATIENCE_MS) == 0) {
			fprintf(stderr, "tenants: user %u: no answer\n", (unsigned)load->uid);
			exit(1);
		}
		for (unsigned i = 0; i < load->depth; i++) {
			const int rc =
				slots[i].connection >= 0 && fds[i].revents ? hear(&slots[i]) : MORE;

			if (rc != MORE && rc != SGPU_ETIMEOUT) {
				count_answer(tally, load, &slots[i], rc);
				open--;
			}
		}
	} while (open > 0 ||
		 (load->endless
			  ? !atomic_load(&board->over)
			  : atomic_load(&tally->right) + atomic_load(&tally->wrong) < load->count));
}

/* Has a worker when the clock starts. */
static void warm_up(struct tally *tally, const struct load *load,
		    const struct sgpu_manifest *manifest)
{
	uint64_t end_ns, took_ns;
	struct tally first = { .end_ns = &end_ns, .took_ns = &took_ns };
	const struct load one = { .uid = load->uid, .count = 1, .depth = 1 };

	keep_busy(&first, &one, manifest);
	atomic_store(&tally->wrong, atomic_load(&first.wrong));
	atomic_store(&tally->ready, true);
}

static void be_user(unsigned i)
{
	struct sgpu_manifest *manifest;

	if (geteuid() != loads[i].uid) {
		must(setresuid(loads[i].uid, loads[i].uid, loads[i].uid) == 0, "another user");
	}
	must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "the end of a user");
	if (loads[i].endless) {
		(void)setpriority(PRIO_PROCESS, 0, PRIO_MAX - 1);
	}
	manifest = make_manifest();
	warm_up(&board->tallies[i], &loads[i], manifest);
	while (!atomic_load(&board->go)) {
		usleep(1000);
	}
	keep_busy(&board->tallies[i], &loads[i], manifest);
	sgpu_manifest_free(&manifest);
	exit(0);
}

/* ---- all ---- */
static void *share(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(memory != MAP_FAILED, "memory");
	return memory;
}

static void read_load(const char *text)
{
	unsigned first, last, count, depth;
	const bool endless = *text == '+';
	int end = 0;

	text += endless;
	if ((sscanf(text, "%u-%u:%u:%u%n", &first, &last, &count, &depth, &end) != 4 ||
	     text[end]) &&
	    (sscanf(text, "%u:%u:%u%n", &first, &count, &depth, &end) != 3 || text[end] ||
	     (last = first, false))) {
		fprintf(stderr, "tenants: '%s' is no UID[-UID]:COUNT:DEPTH\n", text);
		exit(2);
	}
	for (unsigned uid = first;
	     uid <= last && users < USERS_MAX && depth > 0 && depth <= DEPTH_MAX; uid++) {
		struct tally *tally = &board->tallies[users];

		tally->end_ns = share((count + 1) * sizeof(uint64_t));
		tally->took_ns = share((count + 1) * sizeof(uint64_t));
		loads[users++] = (struct load){
			.uid = uid, .count = count, .depth = depth, .endless = endless
		};
	}
}

static int compare_times(const void *a, const void *b)
{
	const uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

	return one < other ? -1 : one > other;
}

static uint64_t percentile_us(const uint64_t *sorted, unsigned count, unsigned percent)
{
	return count == 0 ? 0 : sorted[(uint64_t)(count - 1) * percent / 100] / 1000;
}

/* Of the users who have all of theirs, the one who had them first. */
static uint64_t find_first_end(void)
{
	uint64_t first = UINT64_MAX;

	for (unsigned i = 0; i < users; i++) {
		const unsigned right = atomic_load(&board->tallies[i].right);
		const bool counts = !loads[i].endless && right > 0;

		if (counts && board->tallies[i].end_ns[right - 1] < first) {
			first = board->tallies[i].end_ns[right - 1];
		}
	}
	return first;
}

static int report(uint64_t begin_ns)
{
	const uint64_t first = find_first_end();
	unsigned long all = 0;
	uint64_t end = begin_ns;
	int status = 0;

	for (unsigned i = 0; i < users; i++) {
		struct tally *t = &board->tallies[i];
		const unsigned right = atomic_load(&t->right);
		unsigned early = 0;

		while (!loads[i].endless && early < right && t->end_ns[early] <= first) {
			early++;
		}
		if (!loads[i].endless && right > 0) {
			end = t->end_ns[right - 1] > end ? t->end_ns[right - 1] : end;
			all += right;
			qsort(t->took_ns, right, sizeof(*t->took_ns), compare_times);
		}
		printf("%u %u %u %" PRIu64 " %" PRIu64 " %u\n", (unsigned)loads[i].uid, right,
		       early, loads[i].endless ? 0 : percentile_us(t->took_ns, right, 50),
		       loads[i].endless ? 0 : percentile_us(t->took_ns, right, 99),
		       atomic_load(&t->refused));
		if (atomic_load(&t->wrong) > 0 || (!loads[i].endless && right != loads[i].count)) {
			status = 1;
		}
	}
	printf("all %lu %.3f\n", all, (double)(end - begin_ns) / 1e9);
	return status;
}

static int wait_for_user(unsigned i)
{
	int ended;

	while (waitpid(pids[i], &ended, 0) < 0) {
		must(errno == EINTR, "a user");
	}
	if (ended != 0) {
		fprintf(stderr, "tenants: user %u ended with 0x%x\n", (unsigned)loads[i].uid,
			(unsigned)ended);
	}
	return ended != 0;
}

static int wait_for_users(bool endless)
{
	int status = 0;

	for (unsigned i = 0; i < users; i++) {
		status |= loads[i].endless == endless && wait_for_user(i);
	}
	return status;
}

int main(int argc, char **argv)
{
	uint64_t begin;
	int status;

	if (argc < 5) {
		fprintf(stderr,
			"usage: tenants SOCKET RUNNER ELEMENTS [+]UID[-UID]:COUNT:DEPTH...\n");
		return 2;
	}
	board = share(sizeof(*board));
	socket_path = argv[1];
	succeed(sgpu_key_load(argv[2], &runner, &error));
	elements = strtoul(argv[3], NULL, 10);
	for (int i = 4; i < argc; i++) {
		read_load(argv[i]);
	}
	for (unsigned i = 0; i < users; i++) {
		pids[i] = fork();
		must(pids[i] >= 0, "a process");
		if (pids[i] == 0) {
			be_user(i);
		}
	}
	for (unsigned i = 0; i < users; i++) {
		while (!atomic_load(&board->tallies[i].ready)) {
			must(waitpid(pids[i], NULL, WNOHANG) == 0, "a user");
			usleep(1000);
		}
	}
	begin = sgpu_now_ns();
	atomic_store(&board->go, true);
	status = wait_for_users(false);
	atomic_store(&board->over, true);
	status = wait_for_users(true) ? 1 : status;
	return report(begin) ? 1 : status;
}
