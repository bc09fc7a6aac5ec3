/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session leaves on the stacks of its two sides: none of the keys of what is copied.
 */
#include "remote_harness.h"
#include "unit.h"

enum { SIZE = 3 * 4096, KEYS = 2, STACK = 1 << 20 };

static struct sgpu_remote *remote;
static uint8_t data[SIZE], back[SIZE];

static void *copy(void *argument)
{
	uint32_t buffer = 0;
	int *rc = argument;

	*rc = sgpu_remote_alloc(remote, SIZE, &buffer, &error);
	*rc = *rc == SGPU_OK ? sgpu_remote_copy_in(remote, buffer, 0, data, SIZE, &error) : *rc;
	*rc = *rc == SGPU_OK ? sgpu_remote_copy_out(remote, back, buffer, 0, SIZE, &error) : *rc;
	return NULL;
}

/* Nothing is called behind what fails, and the end of a thread does not reach so far: all of its
 * stack is as it was left. */
static void *copy_to_nobody(void *argument)
{
	char room[STACK / 4];
	int *rc = argument;

	__asm__ volatile("" : : "r"(room) : "memory");
	remote->sizes[2] = SIZE; /* a buffer, for all that this side knows */
	*rc = sgpu_remote_copy_in(remote, 2, 0, data, SIZE, &error);
	return NULL;
}

/* Without a trace of its own: what is looked for stays where it is. */
static unsigned count(const uint8_t *stack, size_t size, const uint8_t *key)
{
	unsigned found = 0;

	for (size_t i = 0; i + SGPU_KEY_SIZE <= size; i++) {
		found += memcmp(stack + i, key, SGPU_KEY_SIZE) == 0;
	}
	return found;
}

/* The program's part, on a stack of its own; what it ended with. */
static int run_on(uint8_t *stack, void *(*part)(void *))
{
	pthread_attr_t attributes;
	pthread_t thread;
	int rc = 1;

	pthread_attr_init(&attributes);
	CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0 &&
	      pthread_create(&thread, &attributes, part, &rc) == 0 &&
	      pthread_join(thread, NULL) == 0);
	pthread_attr_destroy(&attributes);
	return rc;
}

#define NEEDS_OWN_STACK()                                          \
	do {                                                       \
		if (UNIT_SANITIZED) {                              \
			SKIP("a sanitizer has stacks of its own"); \
		}                                                  \
	} while (0)

static uint8_t *begin(struct worker *w)
{
	uint8_t *stack =
		mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(stack != MAP_FAILED && open_all());
	fill(data, SIZE, 1);
	start_worker(w);
	remote = open_remote(w);
	CHECK(remote);
	return stack;
}

static void end(struct worker *w, uint8_t *stack)
{
	sgpu_remote_close(&remote);
	(void)end_worker(w);
	close_all();
	munmap(stack, STACK);
}

/* Both directions have a key then, and the worker's thread waits for more. */
UNIT_TEST(neither_side_keeps_a_sessions_keys_on_its_stack)
{
	struct worker w;
	pthread_attr_t attributes;
	void *stack = NULL;
	size_t size = 0;
	uint8_t *own;

	NEEDS_OWN_STACK();
	own = begin(&w);
	CHECK(run_on(own, copy) == SGPU_OK && memcmp(data, back, SIZE) == 0);
	REQUIRE(pthread_getattr_np(w.thread, &attributes) == 0);
	CHECK(pthread_attr_getstack(&attributes, &stack, &size) == 0 && size > 0);
	pthread_attr_destroy(&attributes);
	for (int i = 0; i < KEYS; i++) {
		const uint8_t *key = remote->directions[i].keys.key;

		CHECK(remote->directions[i].aead);
		CHECK(count(own, STACK, key) == 0);
		CHECK(count(stack, size, key) == 0);
		memcpy(own, key, SGPU_KEY_SIZE);
		CHECK(count(own, STACK, key) == 1); /* it would be found */
		sgpu_wipe(own, SGPU_KEY_SIZE);
	}
	end(&w, own);
}

UNIT_TEST(nor_does_a_program_whose_worker_has_gone)
{
	static const uint8_t none[SGPU_KEY_SIZE];
	struct worker w;
	uint8_t *own;

	NEEDS_OWN_STACK();
	own = begin(&w);
	CHECK(shutdown(w.near.bell, SHUT_RDWR) == 0 && pthread_join(w.thread, NULL) == 0);
	sgpu_remote_service_free(&w.service);
	CHECK(run_on(own, copy_to_nobody) < 0);
	CHECK(sgpu_remote_copy_in(remote, 2, 0, data, SIZE, &error) == SGPU_EAUTH &&
	      strstr(error.text, "no keys any more"));
	CHECK(memcmp(remote->directions[0].keys.key, none, sizeof(none)) != 0);
	CHECK(count(own, STACK, remote->directions[0].keys.key) == 0);
	end(&w, own);
}

int main(void)
{
	UNIT_RUN(neither_side_keeps_a_sessions_keys_on_its_stack);
	UNIT_RUN(nor_does_a_program_whose_worker_has_gone);
	return unit_done();
}
