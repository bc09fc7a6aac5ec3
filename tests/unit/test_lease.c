/* SPDX-License-Identifier: Apache-2.0
 *
 * A pool of leases: who may have a range, for how long, and what is left in it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "stage/lease.h"
#include "unit.h"

/* In place of the C library's, which ask the file system of a file: how often that was. */
static int asked;

int fstat(int fd, struct stat *status)
{
	asked++;
	return fstatat(fd, "", status, AT_EMPTY_PATH);
}

int fstatfs(int fd, struct statfs *about)
{
	asked++;
	return (int)syscall(SYS_fstatfs, fd, about);
}

enum { MIB = 1 << 20 };
/* They differ in their last byte alone. */
static const uint8_t mine[SGPU_BATCH_ID_SIZE] = { 1 },
		     foreign[SGPU_BATCH_ID_SIZE] = { 1, [SGPU_BATCH_ID_SIZE - 1] = 1 };
static const char nobody[] = "0123456789abcdef0123456789abcdef";

static atomic_uint leases;
static _Atomic uint64_t bytes;

static void count(unsigned now, uint64_t of)
{
	atomic_store(&leases, now);
	atomic_store(&bytes, of);
}

static struct sgpu_lease_pool *new_pool(uint64_t size, uint64_t life_ns)
{
	const struct sgpu_lease_pool_config config = { .size = size,
						       .life_ns = life_ns,
						       .changed = count };
	struct sgpu_lease_pool *pool = NULL;

	return sgpu_lease_pool_create(&config, &pool, NULL) == SGPU_OK ? pool : NULL;
}

static void wait_until_none(void)
{
	while (atomic_load(&leases) > 0) {
		usleep(1000);
	}
}

UNIT_TEST(a_lease_is_filled_offered_taken_and_ended)
{
	struct sgpu_lease_pool *pool = new_pool(4 * MIB, UINT64_C(60000000000));
	struct sgpu_lease_pool_info info;
	struct sgpu_lease lease, taken;
	struct sgpu_error error;

	REQUIRE(pool);
	sgpu_lease_pool_get_info(pool, &info);
	CHECK(info.size == 4 * MIB && info.fd >= 0 && info.memory);
	CHECK((~fcntl(info.fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) == 0);
	REQUIRE(sgpu_lease_create(pool, mine, false, 5000, &lease, NULL) == SGPU_OK);
	CHECK(lease.size == 5000 && strlen(lease.id) == 32 && atomic_load(&leases) == 1 &&
	      atomic_load(&bytes) >= 5000);
	memset(info.memory + lease.offset, 'x', lease.size);
	/* Nobody has it before it is offered. */
	CHECK(sgpu_lease_take(pool, lease.id, mine, false, &taken, &error) == SGPU_ESYSTEM &&
	      strstr(error.text, "in use"));
	sgpu_lease_offer(pool, lease.id);
	sgpu_lease_end(pool, lease.id); /* nobody holds it: nothing ends */
	usleep(100000);
	CHECK(sgpu_lease_take(pool, lease.id, foreign, false, &taken, &error) == SGPU_EPOLICY);
	CHECK(strstr(error.text, "another batch's") && strstr(error.text, lease.id));
	CHECK(sgpu_lease_take(pool, lease.id, mine, true, &taken, NULL) ==
	      SGPU_ESYSTEM); /* the other way */
	CHECK(sgpu_lease_take(pool, nobody, mine, false, &taken, NULL) == SGPU_ESYSTEM);
	REQUIRE(sgpu_lease_take(pool, lease.id, mine, false, &taken, NULL) == SGPU_OK);
	CHECK(taken.offset == lease.offset && taken.size == 5000 &&
	      strcmp(taken.id, lease.id) == 0);
	CHECK(sgpu_lease_take(pool, lease.id, mine, false, &taken, NULL) ==
	      SGPU_ESYSTEM); /* once */
	CHECK(info.memory[lease.offset] == 'x');
	sgpu_lease_end(pool, lease.id);
	CHECK(sgpu_lease_take(pool, lease.id, mine, false, &taken, &error) == SGPU_ESYSTEM &&
	      strstr(error.text, lease.id));
	wait_until_none();
	CHECK(atomic_load(&bytes) == 0);
	for (int i = 0; i < 5000; i++) {
		CHECK(info.memory[lease.offset + (uint64_t)i] == 0);
	}
	sgpu_lease_pool_free(&pool);
	sgpu_lease_pool_free(&pool);
}

UNIT_TEST(what_is_offered_ends_with_its_time_and_what_is_held_does_not)
{
	struct sgpu_lease_pool *pool = new_pool(4 * MIB, 1);
	struct sgpu_lease_pool_info info;
	struct sgpu_lease held, offered, taken;

	REQUIRE(pool);
	sgpu_lease_pool_get_info(pool, &info);
	REQUIRE(sgpu_lease_create(pool, mine, false, 4096, &held, NULL) == SGPU_OK);
	REQUIRE(sgpu_lease_create(pool, mine, true, 4096, &offered, NULL) == SGPU_OK);
	CHECK(held.offset != offered.offset);
	memset(info.memory + offered.offset, 'x', 4096);
	info.memory[held.offset] = 'h';
	sgpu_lease_offer(pool, offered.id);
	while (atomic_load(&leases) > 1) {
		usleep(1000);
	}
	CHECK(sgpu_lease_take(pool, offered.id, mine, true, &taken, NULL) == SGPU_ESYSTEM);
	CHECK(info.memory[offered.offset] == 0 && info.memory[offered.offset + 4095] == 0);
	CHECK(info.memory[held.offset] == 'h');
	sgpu_lease_end(pool, held.id);
	wait_until_none();
	sgpu_lease_pool_free(&pool);
}

UNIT_TEST(a_pool_that_is_full_says_so_and_a_range_that_is_cleared_is_waited_for)
{
	struct sgpu_lease_pool *pool = new_pool(8 * MIB, 0);
	struct sgpu_lease_pool_info info;
	struct sgpu_lease first, second;
	struct sgpu_error error;

	REQUIRE(pool);
	sgpu_lease_pool_get_info(pool, &info);
	CHECK(sgpu_lease_create(pool, mine, false, 0, &first, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_lease_create(pool, mine, false, 8 * MIB + 1, &first, NULL) == SGPU_EUSAGE);
	CHECK(sgpu_lease_create(pool, mine, false, UINT64_MAX, &first, NULL) == SGPU_EUSAGE);
	/* A large one begins at a huge page. */
	REQUIRE(sgpu_lease_create(pool, mine, false, 1, &first, NULL) == SGPU_OK);
	REQUIRE(sgpu_lease_create(pool, mine, false, 2 * MIB, &second, NULL) == SGPU_OK &&
		second.offset == 2 * MIB);
	sgpu_lease_end(pool, first.id);
	sgpu_lease_end(pool, second.id);
	REQUIRE(sgpu_lease_create(pool, mine, false, 8 * MIB, &first, NULL) == SGPU_OK);
	CHECK(sgpu_lease_create(pool, mine, false, 1, &second, &error) == SGPU_ERETRY &&
	      strstr(error.text, "no room"));
	for (int i = 0; i < 20; i++) {
		memset(info.memory, 'x', 8 * MIB);
		sgpu_lease_end(pool, first.id);
		REQUIRE(sgpu_lease_create(pool, mine, false, 8 * MIB, &first, NULL) == SGPU_OK);
		CHECK(info.memory[0] == 0 && info.memory[4 * MIB] == 0 &&
		      info.memory[8 * MIB - 1] == 0);
	}
	sgpu_lease_end(pool, first.id);
	sgpu_lease_pool_free(&pool);
}

UNIT_TEST(there_are_so_many_leases_and_no_more)
{
	static struct sgpu_lease all[SGPU_LEASES_MAX];
	struct sgpu_lease_pool *pool = new_pool((uint64_t)SGPU_LEASES_MAX * 4096 + 2 * MIB, 0);
	struct sgpu_lease one;
	struct sgpu_error error;

	REQUIRE(pool);
	for (int i = 0; i < SGPU_LEASES_MAX; i++) {
		REQUIRE(sgpu_lease_create(pool, mine, i % 2, 1 + (uint64_t)i, &all[i], NULL) ==
			SGPU_OK);
		for (int k = 0; k < i; k++) {
			CHECK(all[k].offset >= all[i].offset + all[i].size ||
			      all[i].offset >= all[k].offset + all[k].size);
		}
	}
	CHECK(sgpu_lease_create(pool, mine, false, 1, &one, &error) == SGPU_ERETRY &&
	      strstr(error.text, "limit"));
	sgpu_lease_end(pool, all[500].id);
	REQUIRE(sgpu_lease_create(pool, mine, false, 1, &one, NULL) == SGPU_OK);
	sgpu_lease_pool_free(&pool); /* with all that are in it */
}

UNIT_TEST(a_pool_has_a_size_that_this_machine_has)
{
	struct sgpu_lease_pool_config config = { .size = 0 };
	struct sgpu_lease_pool *pool;

	CHECK(sgpu_lease_pool_create(&config, &pool, NULL) == SGPU_EUSAGE && !pool);
	config.size = SGPU_LEASE_POOL_MAX;
	CHECK(sgpu_lease_pool_create(&config, &pool, NULL) == SGPU_ENOMEM && !pool);
	config.size = UINT64_MAX;
	CHECK(sgpu_lease_pool_create(&config, &pool, NULL) == SGPU_EUSAGE && !pool);
}

/* Else a user who gets one worker after the other would take a pool of each. */
UNIT_TEST(a_pool_that_ends_leaves_no_memory_to_who_has_its_file_open)
{
	struct sgpu_lease_pool *pool = new_pool(4 * MIB, 0);
	struct sgpu_lease_pool_info info;
	struct stat status;
	int fd;

	REQUIRE(pool);
	sgpu_lease_pool_get_info(pool, &info);
	fd = dup(info.fd);
	REQUIRE(fd >= 0 && fstat(fd, &status) == 0 && status.st_blocks > 0);
	sgpu_lease_pool_free(&pool);
	CHECK(fstat(fd, &status) == 0 && status.st_size == 4 * MIB && status.st_blocks == 0);
	close(fd);
}

UNIT_TEST(a_client_maps_its_range_and_cannot_change_the_size)
{
	struct sgpu_lease_pool *pool = new_pool(4 * MIB, 0);
	struct sgpu_lease_pool_info info;
	struct sgpu_lease_mapping mapping;
	struct sgpu_lease lease;

	REQUIRE(pool);
	sgpu_lease_pool_get_info(pool, &info);
	REQUIRE(sgpu_lease_create(pool, mine, false, 10000, &lease, NULL) == SGPU_OK);
	REQUIRE(sgpu_lease_check(info.fd, info.size, &lease, NULL) == SGPU_OK);
	REQUIRE(sgpu_lease_map(info.fd, &lease, &mapping, NULL) == SGPU_OK);
	mapping.memory[9999] = 'm';
	CHECK(info.memory[lease.offset + 9999] == 'm');
	sgpu_lease_unmap(&mapping);
	sgpu_lease_unmap(&mapping);
	CHECK(ftruncate(info.fd, 0) != 0 && ftruncate(info.fd, 8 * MIB) != 0);
	sgpu_lease_pool_free(&pool);
}

UNIT_TEST(a_client_refuses_what_is_no_lease)
{
	struct sgpu_lease_pool *pool = new_pool(4 * MIB, 0);
	struct sgpu_lease_pool_info info;
	struct sgpu_lease good, bad;
	int ends[2], file = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int device = open("/dev/zero", O_RDWR | O_CLOEXEC),
	    other = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	REQUIRE(pool && pipe(ends) == 0 && file >= 0 && ftruncate(file, 4 * MIB) == 0);
	sgpu_lease_pool_get_info(pool, &info);
	REQUIRE(sgpu_lease_create(pool, mine, false, 4096, &good, NULL) == SGPU_OK);
	CHECK(sgpu_lease_check(file, 4 * MIB, &good, NULL) == SGPU_EPOLICY);
	CHECK(fcntl(file, F_ADD_SEALS, F_SEAL_GROW) == 0 &&
	      sgpu_lease_check(file, 4 * MIB, &good, NULL) == SGPU_EPOLICY);
	/* A file system may never answer: it is asked about no file but one that is in memory. */
	asked = 0;
	CHECK(sgpu_lease_check(ends[0], 4 * MIB, &good, NULL) == SGPU_EINVALID);
	CHECK(sgpu_lease_check(device, 4 * MIB, &good, NULL) == SGPU_EINVALID);
	CHECK(sgpu_lease_check(other, 4 * MIB, &good, NULL) == SGPU_EINVALID);
	CHECK(sgpu_lease_check(-1, 4 * MIB, &good, NULL) == SGPU_ESYSTEM);
	CHECK(asked == 0);
	CHECK(sgpu_lease_check(info.fd, info.size, &good, NULL) == SGPU_OK &&
	      asked == 2); /* here it is, and counted */
	CHECK(sgpu_lease_check(info.fd, 2 * MIB, &good, NULL) == SGPU_EINVALID);
	bad = good;
	bad.size = 4 * MIB + 1;
	CHECK(sgpu_lease_check(info.fd, info.size, &bad, NULL) == SGPU_EINVALID);
	bad.size = 0;
	CHECK(sgpu_lease_check(info.fd, info.size, &bad, NULL) == SGPU_EINVALID);
	bad = good;
	bad.offset = UINT64_MAX - 4095;
	CHECK(sgpu_lease_check(info.fd, info.size, &bad, NULL) == SGPU_EINVALID);
	bad.offset = 1;
	CHECK(sgpu_lease_check(info.fd, info.size, &bad, NULL) == SGPU_EINVALID);
	bad = good;
	bad.id[3] = '/';
	CHECK(sgpu_lease_check(info.fd, info.size, &bad, NULL) == SGPU_EINVALID);
	close(file);
	close(device);
	close(other);
	close(ends[0]);
	close(ends[1]);
	sgpu_lease_pool_free(&pool);
}

/* ---- many at once ---- */
enum { THREADS = 8, ROUNDS = 200 };
struct client {
	pthread_t thread;
	struct sgpu_lease_pool *pool;
	uint8_t *memory;
	uint8_t byte;
	unsigned wrong, got;
};

static void *use_leases(void *argument)
{
	struct client *client = argument;
	struct sgpu_lease lease;

	for (int i = 0; i < ROUNDS; i++) {
		const uint64_t size =
			1 + ((uint64_t)client->byte * 7919 + (uint64_t)i * 104729) % (3 * MIB);
		const bool results = i % 2;
		uint8_t *memory;

		if (sgpu_lease_create(client->pool, mine, results, size, &lease, NULL) != SGPU_OK) {
			continue; /* others have it all */
		}
		client->got++;
		memory = client->memory + lease.offset;
		client->wrong += memory[0] != 0 || memory[size / 2] != 0 || memory[size - 1] != 0;
		memset(memory, client->byte, size);
		sgpu_lease_offer(client->pool, lease.id);
		if (i % 3 != 0 && sgpu_lease_take(client->pool, lease.id, mine, results, &lease,
						  NULL) == SGPU_OK) {
			client->wrong +=
				memory[0] != client->byte || memory[size - 1] != client->byte;
			sgpu_lease_end(client->pool, lease.id);
		}
	}
	return NULL;
}

UNIT_TEST(clients_on_many_threads_never_share_a_range)
{
	struct sgpu_lease_pool *pool = new_pool(16 * MIB, 50000000);
	struct client clients[THREADS];
	struct sgpu_lease_pool_info info;
	unsigned got = 0;

	REQUIRE(pool);
	sgpu_lease_pool_get_info(pool, &info);
	for (int i = 0; i < THREADS; i++) {
		clients[i] = (struct client){ .pool = pool,
					      .memory = info.memory,
					      .byte = (uint8_t)(i + 1) };
		REQUIRE(pthread_create(&clients[i].thread, NULL, use_leases, &clients[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(clients[i].thread, NULL);
		CHECK(clients[i].wrong == 0);
		got += clients[i].got;
	}
	CHECK(got > 0);
	wait_until_none();
	for (uint64_t i = 0; i < info.size; i += 64) {
		CHECK(info.memory[i] == 0);
	}
	sgpu_lease_pool_free(&pool);
}

int main(void)
{
	UNIT_RUN(a_lease_is_filled_offered_taken_and_ended);
	UNIT_RUN(what_is_offered_ends_with_its_time_and_what_is_held_does_not);
	UNIT_RUN(a_pool_that_is_full_says_so_and_a_range_that_is_cleared_is_waited_for);
	UNIT_RUN(there_are_so_many_leases_and_no_more);
	UNIT_RUN(a_pool_has_a_size_that_this_machine_has);
	UNIT_RUN(a_pool_that_ends_leaves_no_memory_to_who_has_its_file_open);
	UNIT_RUN(a_client_maps_its_range_and_cannot_change_the_size);
	UNIT_RUN(a_client_refuses_what_is_no_lease);
	UNIT_RUN(clients_on_many_threads_never_share_a_range);
	return unit_done();
}
