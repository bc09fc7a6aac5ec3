/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules on the CUDA device, and an orderly end after a fault or a kernel that does not stop.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/device.h"
#include "cuda_harness.h"

/* `spin` ends by itself after 20 s, so that a failing test does not stop the machine. */
static const char ptx[] =
	".version 7.0\n.target sm_80\n.address_size 64\n"
	".visible .entry trap()\n{\n\ttrap;\n\tret;\n}\n"
	".visible .entry spin()\n{\n\t.reg .pred %p<2>;\n\t.reg .u64 %t<4>;\n"
	"\tmov.u64 %t1, %globaltimer;\nLOOP:\n\tmov.u64 %t2, %globaltimer;\n\tsub.u64 %t3, %t2, "
	"%t1;\n"
	"\tsetp.lt.u64 %p1, %t3, 20000000000;\n\t@%p1 bra LOOP;\n\tret;\n}\n"
	".visible .entry fill(.param .u64 out, .param .u32 value)\n{\n\t.reg .u32 %r<6>;\n\t.reg "
	".u64 %d<4>;\n"
	"\tld.param.u64 %d1, [out];\n\tld.param.u32 %r1, [value];\n\tmov.u32 %r2, "
	"%ctaid.x;\n\tmov.u32 %r3, %ntid.x;\n"
	"\tmov.u32 %r4, %tid.x;\n\tmad.lo.u32 %r5, %r2, %r3, %r4;\n\tcvta.to.global.u64 %d1, %d1;\n"
	"\tmul.wide.u32 %d2, %r5, 4;\n\tadd.u64 %d3, %d1, %d2;\n\tst.global.u32 [%d3], "
	"%r1;\n\tret;\n}\n";

static const struct sgpu_module_shape one = { { 1, 1, 1 }, { 1, 1, 1 }, 0 };

/* ---- modules ---- */
UNIT_TEST(a_module_runs_and_what_does_not_fit_is_refused)
{
	struct sgpu_module_shape shape = { { 4, 1, 1 }, { 256, 1, 1 }, 0 };
	struct sgpu_device_module *module = NULL, *none = NULL;
	struct sgpu_task task = { 0 };
	struct sgpu_error error = { 0 };
	sgpu_devptr memory;
	uint32_t value = 0x01020304, out[1024];
	void *args[] = { &memory, &value };
	size_t sizes[] = { 8, 4 }, wrong[] = { 8, 8 };
	int i;

	REQUIRE(begin());
	REQUIRE(sgpu_device_alloc(device, sizeof(out), &memory, NULL) == SGPU_OK);
	CHECK(sgpu_device_module_load(device, "rubbish", 7, &none, &error) == SGPU_EINVALID &&
	      !none && error.text[0]);
	CHECK(sgpu_device_module_load(device, "\177ELF\2\1\1", 7, &none, &error) == SGPU_EINVALID &&
	      !none);
	CHECK(sgpu_device_module_load(device, "", 0, &none, &error) == SGPU_EINVALID && !none);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, &error) == SGPU_OK);
	CHECK(sgpu_device_module_launch_on(stream, module, "nothing", &shape, args, sizes, 2, NULL,
					   &task) == SGPU_EINVALID);
	CHECK(strstr(task.error.text, "nothing"));
	CHECK(sgpu_device_module_launch_on(stream, module, "fill", &shape, args, wrong, 2, NULL,
					   &task) == SGPU_EINVALID);
	CHECK(sgpu_device_module_launch_on(stream, module, "fill", &shape, args, sizes, 1, NULL,
					   &task) == SGPU_EINVALID);
	CHECK(sgpu_device_module_launch_on(stream, module, "trap", &shape, args, sizes, 1, NULL,
					   &task) == SGPU_EINVALID);
	shape.block[0] = 5000;
	CHECK(sgpu_device_module_launch_on(stream, module, "fill", &shape, args, sizes, 2, NULL,
					   &task) == SGPU_EINVALID);
	shape.block[0] = 256;
	memset(&task, 0, sizeof(task));
	CHECK(sgpu_device_module_launch_on(stream, module, "fill", &shape, args, sizes, 2, NULL,
					   &task) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, out, memory, sizeof(out), NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && task.code == SGPU_OK &&
	      task.end_ns >= task.begin_ns);
	for (i = 0; i < 1024 && out[i] == value; i++) {
	}
	CHECK(i == 1024);
	sgpu_device_module_free(&module);
	finish();
}

UNIT_TEST(cancelled_launches_do_not_run_until_it_is_lifted)
{
	struct sgpu_device_module *module = NULL;
	struct sgpu_task tasks[2] = { 0 };
	uint32_t value = 7, out = 0;
	sgpu_devptr memory;
	void *args[] = { &memory, &value };
	size_t sizes[] = { 8, 4 };

	REQUIRE(begin());
	REQUIRE(sgpu_device_alloc(device, 4, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_clear(stream, memory, 4, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, NULL) == SGPU_OK);
	sgpu_device_cancel(device, true);
	CHECK(sgpu_device_module_launch_on(stream, module, "fill", &one, args, sizes, 2, NULL,
					   &tasks[0]) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, &out, memory, 4, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(tasks[0].code == SGPU_ECANCELED && tasks[0].error.text[0] && out == 0);
	sgpu_device_cancel(device, false);
	CHECK(sgpu_device_module_launch_on(stream, module, "fill", &one, args, sizes, 2, NULL,
					   &tasks[1]) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, &out, memory, 4, NULL) == SGPU_OK);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && tasks[1].code == SGPU_OK && out == 7);
	sgpu_device_module_free(&module);
	finish();
}

/* ---- faults: in processes of their own, since CUDA is at an end there ---- */
static void fault(void)
{
	struct sgpu_device_module *module = NULL;
	struct sgpu_device *other = NULL;
	struct sgpu_task tasks[3] = { 0 };
	struct sgpu_error error = { 0 };
	static uint8_t host[4096];
	sgpu_devptr memory, more;
	void *pinned;

	memset(host, 0x99, sizeof(host));
	REQUIRE(begin() && works());
	REQUIRE(sgpu_device_alloc(device, sizeof(host), &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_host_alloc(device, 8192, &pinned, NULL) == SGPU_OK);
	memset(pinned, 0x66, 8192);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, &error) == SGPU_OK);
	/* Whether they are taken depends on how soon the fault shows. */
	(void)!sgpu_device_module_launch_on(stream, module, "trap", &one, NULL, NULL, 0, NULL,
					    &tasks[0]);
	(void)!sgpu_copy_in(stream, memory, pinned, sizeof(host), &tasks[1]);
	CHECK(sgpu_stream_sync(stream, &error) == SGPU_EDEVICE &&
	      strstr(error.text, "context ended"));
	CHECK(tasks[0].code == SGPU_EDEVICE && strstr(tasks[0].error.text, "context ended"));
	CHECK(tasks[1].code == SGPU_EDEVICE);
	CHECK(sgpu_copy_in(stream, memory, host, 1, &tasks[2]) == SGPU_EDEVICE &&
	      tasks[2].code == SGPU_EDEVICE);
	CHECK(sgpu_device_alloc(device, 1, &more, &error) == SGPU_EDEVICE);
	CHECK(all_are(pinned, 8192, 0x66) && all_are(host, sizeof(host), 0x99));
	CHECK(sgpu_device_open("cuda", NULL, &other, &error) == SGPU_EDEVICE && !other &&
	      error.hint[0]);
	sgpu_device_module_free(&module);
	sgpu_device_free(device, &memory, sizeof(host));
	sgpu_host_free(device, &pinned, 8192);
	finish();
	CHECK(sgpu_device_open("cuda", NULL, &other, &error) == SGPU_EDEVICE && !other &&
	      error.hint[0]);
}

/* What is pending on another stream ends when somebody next does anything with that. */
static void fault_with_events(void)
{
	struct sgpu_device_module *module = NULL;
	struct sgpu_stream *others[2] = { NULL };
	struct sgpu_task trap = { 0 }, copies[2] = { 0 };
	struct sgpu_event *event = NULL, *other = NULL;
	static uint8_t host[4096];
	struct sgpu_error error = { 0 };
	sgpu_devptr memory;
	bool done = false;
	int rc;

	REQUIRE(begin() && sgpu_device_alloc(device, 4096, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_event_create(device, &event, NULL) == SGPU_OK &&
		sgpu_event_create(device, &other, NULL) == SGPU_OK);
	for (int i = 0; i < 2; i++) {
		REQUIRE(sgpu_stream_create(device, &others[i], NULL) == SGPU_OK);
		REQUIRE(sgpu_copy_in(others[i], memory, host, sizeof(host), &copies[i]) == SGPU_OK);
	}
	REQUIRE(sgpu_event_record(others[0], other) == SGPU_OK);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, NULL) == SGPU_OK);
	(void)!sgpu_device_module_launch_on(stream, module, "trap", &one, NULL, NULL, 0, NULL,
					    &trap);
	if (sgpu_event_record(stream, event) == SGPU_OK) {
		while ((rc = sgpu_event_query(event, &done, &error)) == SGPU_OK && !done) {
		}
		CHECK(rc == SGPU_EDEVICE && done && strstr(error.text, "context ended"));
		CHECK(trap.code == SGPU_EDEVICE && strstr(trap.error.text, "context ended"));
	}
	CHECK(copies[0].end_ns == 0 && copies[1].end_ns == 0);
	CHECK(sgpu_event_query(other, &done, NULL) == SGPU_EDEVICE && done &&
	      copies[0].end_ns != 0 && copies[0].code == SGPU_EDEVICE);
	CHECK(sgpu_copy_in(others[1], memory, host, 1, NULL) == SGPU_EDEVICE &&
	      copies[1].end_ns != 0 && copies[1].code == SGPU_EDEVICE);
	sgpu_event_free(&event);
	sgpu_event_free(&other);
	sgpu_stream_free(&others[0]);
	sgpu_stream_free(&others[1]);
	sgpu_device_module_free(&module);
	finish();
}

/* polls: an event is asked for again and again; else the stream is waited for. */
static void hang(bool polls)
{
	struct sgpu_device_module *module = NULL;
	struct sgpu_task task = { 0 }, later = { 0 };
	uint64_t start = sgpu_now_ns(), took;
	struct sgpu_event *event = NULL;
	sgpu_devptr memory;
	bool done = false;
	void *pinned;
	int rc;

	REQUIRE(begin() && sgpu_device_alloc(device, 4096, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_host_alloc(device, 4096, &pinned, NULL) == SGPU_OK);
	REQUIRE(sgpu_event_create(device, &event, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, NULL) == SGPU_OK);
	CHECK(sgpu_device_module_launch_on(stream, module, "spin", &one, NULL, NULL, 0, NULL,
					   &task) == SGPU_OK);
	CHECK(sgpu_copy_out(stream, pinned, memory, 4096, &later) == SGPU_OK);
	CHECK(sgpu_event_record(stream, event) == SGPU_OK);
	usleep(100000);
	CHECK(sgpu_event_query(event, &done, NULL) == SGPU_OK && !done);
	CHECK(task.end_ns == 0 && later.end_ns == 0);
	sgpu_device_cancel(device, true);
	while (polls && (rc = sgpu_event_query(event, &done, NULL)) == SGPU_OK && !done) {
		usleep(100);
	}
	CHECK(!polls || (rc == SGPU_ECANCELED && done));
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_ECANCELED);
	CHECK(task.code == SGPU_ECANCELED && later.code == SGPU_ECANCELED);
	sgpu_event_free(&event);
	sgpu_device_module_free(&module);
	sgpu_host_free(device, &pinned, 4096);
	finish();
	took = sgpu_now_ns() - start;
	CHECK(took > 4000000000u && took < 15000000000u);
}

static void hang_and_wait(void)
{
	hang(false);
}

static void hang_and_poll(void)
{
	hang(true);
}

/* The first use of kernels waits for none that runs: those that open and seal, and what they need.
 */
static void first_use_beside_a_kernel_that_runs(void)
{
	struct sgpu_device_module *module = NULL;
	struct sgpu_device_key *key = NULL;
	struct sgpu_stream *other = NULL;
	struct sgpu_sealed_keys keys = { .key = { 1 } };
	struct sgpu_task spun = { 0 }, sealed = { 0 };
	uint64_t start;
	sgpu_devptr memory;

	REQUIRE(begin() && sgpu_stream_create(device, &other, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 8192, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_launch_on(stream, module, "spin", &one, NULL, NULL, 0, NULL,
					     &spun) == SGPU_OK);
	usleep(100000);
	start = sgpu_now_ns();
	CHECK(sgpu_device_key_load(other, &keys, &key, NULL) == SGPU_OK);
	CHECK(key && sgpu_device_seal_chunks(other, key, 0, true, memory, 100, memory + 4096,
					     &sealed) == SGPU_OK);
	CHECK(sgpu_stream_sync(other, NULL) == SGPU_OK && sealed.code == SGPU_OK &&
	      sealed.end_ns != 0);
	CHECK(sgpu_now_ns() - start < 5000000000u && spun.end_ns == 0);
	sgpu_device_key_free(&key);
	sgpu_stream_free(&other);
	sgpu_device_cancel(device, true);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_ECANCELED);
	sgpu_device_module_free(&module);
	finish();
}

/* A kernel that does not end follows the set-up of two keys on their stream. One is used on another
 * stream meanwhile, and both are given back; neither waits for the kernel, nor does anybody else
 * who brings a key. */
static void keys_before_a_kernel_that_runs(void)
{
	struct sgpu_device_module *module = NULL;
	struct sgpu_device_key *used = NULL, *unused = NULL, *later = NULL;
	struct sgpu_stream *other = NULL;
	struct sgpu_sealed_keys keys = { .key = { 1 } };
	struct sgpu_task spun = { 0 }, sealed = { 0 };
	sgpu_devptr memory;

	REQUIRE(begin() && sgpu_stream_create(device, &other, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_alloc(device, 8192, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_key_load(stream, &keys, &used, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_key_load(stream, &keys, &unused, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_launch_on(stream, module, "spin", &one, NULL, NULL, 0, NULL,
					     &spun) == SGPU_OK);
	CHECK(sgpu_device_seal_chunks(other, used, 0, true, memory, 100, memory + 4096, &sealed) ==
	      SGPU_OK);
	CHECK(sgpu_stream_sync(other, NULL) == SGPU_OK && sealed.code == SGPU_OK);
	sgpu_device_key_free(&used);
	sgpu_device_key_free(&unused);
	CHECK(sgpu_device_key_load(other, &keys, &later, NULL) == SGPU_OK);
	sgpu_device_key_free(&later);
	CHECK(spun.end_ns == 0); /* it still runs */
	sgpu_stream_free(&other);
	sgpu_device_cancel(device, true);
	CHECK(sgpu_stream_sync(stream, NULL) == SGPU_ECANCELED);
	sgpu_device_module_free(&module);
	finish();
}

/* Somebody waits for work that opens, behind a kernel that traps or does not end: what they listen
 * for never comes. */
static void *cancel_later(void *argument)
{
	usleep(50000);
	sgpu_device_cancel(argument, true);
	return NULL;
}

static void open_behind(const char *function, int code)
{
	static uint8_t sealed[100 + SGPU_TAG_SIZE];
	struct sgpu_device_module *module = NULL;
	struct sgpu_device_key *key = NULL;
	struct sgpu_sealed_keys keys = { .key = { 1 } };
	struct sgpu_task before = { .untimed = true }, sealing = { 0 },
			 opening = { .untimed = true };
	pthread_t thread;
	sgpu_devptr memory;
	int rc;

	REQUIRE(begin() && sgpu_device_alloc(device, 8192, &memory, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_module_load(device, ptx, sizeof(ptx) - 1, &module, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_key_load(stream, &keys, &key, NULL) == SGPU_OK);
	REQUIRE(sgpu_device_seal_chunks(stream, key, 0, true, memory, 100, memory + 4096,
					&sealing) == SGPU_OK);
	REQUIRE(sgpu_copy_out(stream, sealed, memory + 4096, sizeof(sealed), NULL) == SGPU_OK);
	REQUIRE(sgpu_stream_sync(stream, NULL) == SGPU_OK && sealing.code == SGPU_OK);
	rc = sgpu_device_module_launch_on(stream, module, function, &one, NULL, NULL, 0, NULL,
					  &before);
	/* Whether it is taken depends on how soon a fault shows. */
	rc = rc == SGPU_OK ? sgpu_device_open_chunks(stream, key, 0, true, memory + 4096,
						     sizeof(sealed), memory, &opening)
			   : rc;
	REQUIRE(pthread_create(&thread, NULL, cancel_later, device) == 0);
	CHECK(sgpu_stream_sync(stream, NULL) == code);
	CHECK(before.code == code && (opening.code == code || rc != SGPU_OK));
	pthread_join(thread, NULL);
	sgpu_device_key_free(&key);
	sgpu_device_module_free(&module);
	finish();
}

static void open_behind_a_trap(void)
{
	open_behind("trap", SGPU_EDEVICE);
}

static void open_behind_a_hang(void)
{
	open_behind("spin", SGPU_ECANCELED);
}

static const struct {
	const char *name;
	void (*run)(void);
} alone[] = { { "open behind a trap", open_behind_a_trap },
	      { "open behind a hang", open_behind_a_hang },
	      { "keys", keys_before_a_kernel_that_runs },
	      { "first use", first_use_beside_a_kernel_that_runs },
	      { "fault", fault },
	      { "events", fault_with_events },
	      { "hang", hang_and_wait },
	      { "hang, polled", hang_and_poll } };

static int main_alone(const char *name)
{
	for (size_t i = 0; i < SGPU_ARRAY_LENGTH(alone); i++) {
		if (strcmp(name, alone[i].name) == 0) {
			alone[i].run();
			fflush(stdout);
			return unit_bad != 0;
		}
	}
	return 2;
}

/* Whether it found nothing wrong and ended in time. */
static bool run_alone(const char *name)
{
	int status = 0, i;
	pid_t child, ended = 0;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		execl("/proc/self/exe", "test_cuda_fault", name, (char *)NULL);
		_exit(127);
	}
	for (i = 0; i < 450 && child > 0 && ended == 0; i++) {
		usleep(100000);
		ended = waitpid(child, &status, WNOHANG);
	}
	if (ended == 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	printf("# '%s' ended with %#x after %d ms\n", name, ended == child ? (unsigned)status : ~0u,
	       i * 100);
	return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

UNIT_TEST(a_fault_ends_what_is_pending_and_what_comes)
{
	CHECK(run_alone("fault"));
	REQUIRE(begin());
	CHECK(works());
	finish();
}

UNIT_TEST(whoever_asks_for_an_event_hears_of_a_fault)
{
	CHECK(run_alone("events"));
}

UNIT_TEST(a_kernel_that_does_not_end_is_given_up_after_it_was_cancelled)
{
	CHECK(run_alone("hang"));
	CHECK(run_alone("hang, polled"));
	REQUIRE(begin());
	CHECK(works());
	finish();
}

UNIT_TEST(whoever_waits_for_work_that_opens_hears_of_a_fault_and_of_a_cancellation_before_it)
{
	CHECK(run_alone("open behind a trap"));
	CHECK(run_alone("open behind a hang"));
	REQUIRE(begin());
	CHECK(works());
	finish();
}

UNIT_TEST(keys_wait_for_no_kernel_that_follows_them)
{
	CHECK(run_alone("keys"));
}

UNIT_TEST(kernels_are_used_for_the_first_time_beside_one_that_does_not_end)
{
	CHECK(run_alone("first use"));
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		return main_alone(argv[1]);
	}
	CUDA_OR_SKIP();
	UNIT_RUN(a_module_runs_and_what_does_not_fit_is_refused);
	UNIT_RUN(cancelled_launches_do_not_run_until_it_is_lifted);
	UNIT_RUN(a_fault_ends_what_is_pending_and_what_comes);
	UNIT_RUN(whoever_asks_for_an_event_hears_of_a_fault);
	UNIT_RUN(a_kernel_that_does_not_end_is_given_up_after_it_was_cancelled);
	UNIT_RUN(
		whoever_waits_for_work_that_opens_hears_of_a_fault_and_of_a_cancellation_before_it);
	UNIT_RUN(keys_wait_for_no_kernel_that_follows_them);
	UNIT_RUN(kernels_are_used_for_the_first_time_beside_one_that_does_not_end);
	return unit_done();
}
