/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may stop the device: a run that is on it, and none that has left.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <sgpu/base.h>

#include "device/backend.h"
#include "run/private.h"
#include "unit.h"

static int stops, goes;

static void count_cancel(struct sgpu_device *device, bool cancel)
{
	(void)device;
	stops += cancel;
	goes += !cancel;
}

static const struct sgpu_device_backend backend = { .name = "counted", .cancel = count_cancel };
static struct sgpu_device_object object = { .backend = &backend };
static const struct sgpu_run_device device = { .device = (struct sgpu_device *)(void *)&object };
static struct sgpu_runner runner;
static struct sgpu_presence *const presence = &runner.presence;

static void begin(void)
{
	stops = goes = 0;
	runner = (struct sgpu_runner){ .devices = { device },
				       .device_count = 1,
				       .presence = { .mutex = PTHREAD_MUTEX_INITIALIZER,
						     .changed = PTHREAD_COND_INITIALIZER } };
}

static int goes_on(void *argument)
{
	(void)argument;
	return SGPU_OK;
}

static bool enter(struct sgpu_run *run)
{
	struct sgpu_error error;

	run->runner = &runner;
	return sgpu_presence_enter(run, goes_on, &error) == SGPU_OK && run->inside;
}

static void leave(struct sgpu_run *run)
{
	run->runner = &runner;
	sgpu_presence_leave(run);
	sgpu_presence_cleared(run);
}

static void stop(struct sgpu_run *run, uint64_t stopped_ns)
{
	atomic_store(&run->stop_ns, stopped_ns);
	sgpu_presence_stop(run);
}

UNIT_TEST(a_run_that_has_left_stops_nothing_of_the_one_that_stays)
{
	struct sgpu_run first = { .runner = NULL }, second = { .runner = NULL };

	begin();
	REQUIRE(enter(&first) && enter(&second));
	leave(&first);
	stop(&first, 1);
	CHECK(stops == 0 && !presence->cancelling);
	leave(&second);
	CHECK(presence->count == 0 && stops == 0 && goes == 0);
}

UNIT_TEST(a_run_that_was_the_last_to_leave_stops_nothing_of_the_next)
{
	struct sgpu_run first = { .runner = NULL }, second = { .runner = NULL };

	begin();
	REQUIRE(enter(&first));
	leave(&first);
	stop(&first, 1);
	CHECK(stops == 0);
	REQUIRE(!presence->cancelling); /* or else the next line would wait for ever */
	CHECK(enter(&second) && stops == 0);
	leave(&second);
}

UNIT_TEST(leaving_twice_counts_once)
{
	struct sgpu_run first = { .runner = NULL }, second = { .runner = NULL };

	begin();
	leave(&first);
	CHECK(presence->count == 0);
	REQUIRE(enter(&first) && enter(&second));
	leave(&first);
	leave(&first);
	CHECK(presence->count == 1);
	leave(&second);
	CHECK(presence->count == 0);
}

UNIT_TEST(alone_a_run_stops_the_device_once_and_lets_it_go_as_it_leaves)
{
	struct sgpu_run inside = { .runner = NULL };

	begin();
	REQUIRE(enter(&inside));
	stop(&inside, sgpu_now_ns());
	CHECK(stops == 1);
	stop(&inside, sgpu_now_ns());
	CHECK(stops == 1);
	leave(&inside);
	CHECK(goes == 1 && !presence->cancelling);
}

UNIT_TEST(beside_others_a_run_waits_for_its_kernels_and_not_for_ever)
{
	const uint64_t now = sgpu_now_ns(), hour = UINT64_C(3600000000000);
	struct sgpu_run first = { .runner = NULL }, second = { .runner = NULL };

	begin();
	REQUIRE(enter(&first) && enter(&second));
	stop(&first, now + hour);
	CHECK(stops == 0);
	stop(&first, 0); /* the time is long over */
	CHECK(stops == 1);
	leave(&first);
	CHECK(goes == 1);
	leave(&second);
	CHECK(goes == 1);
}

/* ---- modules ---- */
struct waiter {
	struct sgpu_run run;   /* first, since stop_of() gets it */
	atomic_int code, stop; /* code: 1 until enter has returned */
	atomic_bool entering;
	pthread_t thread;
};

static int stop_of(void *argument)
{
	struct waiter *w = argument;

	atomic_store(&w->entering, true);
	return atomic_load(&w->stop);
}

static void *enter_there(void *argument)
{
	struct waiter *w = argument;

	atomic_store(&w->code, sgpu_presence_enter(&w->run, stop_of, NULL));
	return NULL;
}

static void start(struct waiter *w, bool has_module, const char *owner)
{
	*w = (struct waiter){ .run = { .runner = &runner, .job.has_module = has_module },
			      .code = 1 };
	snprintf(w->run.job.owner, sizeof(w->run.job.owner), "%s", owner);
	REQUIRE(pthread_create(&w->thread, NULL, enter_there, w) == 0);
	while (!atomic_load(&w->entering)) { /* before the next one may enter */
		usleep(100);
	}
}

/* Whether it still waits, after it had time to enter. */
static bool waits(struct waiter *w)
{
	usleep(20000);
	return atomic_load(&w->code) == 1;
}

static int result(struct waiter *w)
{
	pthread_join(w->thread, NULL);
	return atomic_load(&w->code);
}

UNIT_TEST(a_run_with_a_module_waits_until_it_is_alone_and_keeps_the_others_out)
{
	struct waiter module, second, other;
	struct sgpu_run first = { .runner = NULL };

	begin();
	REQUIRE(enter(&first));
	start(&module, true, "");
	CHECK(waits(&module));
	start(&other, false, ""); /* not before it, or it would wait for ever */
	CHECK(waits(&other));
	leave(&first);
	CHECK(result(&module) == SGPU_OK && module.run.inside);
	start(&second, true, "");
	CHECK(waits(&other) && waits(&second) && presence->count == 1);
	leave(&module.run);
	CHECK(result(&second) == SGPU_OK);
	leave(&second.run);
	CHECK(result(&other) == SGPU_OK);
	leave(&other.run);
	CHECK(presence->count == 0 && presence->alone == 0);
}

UNIT_TEST(a_run_with_a_module_waits_until_the_data_of_others_are_gone)
{
	struct waiter module, other;
	struct sgpu_run first = { .runner = NULL };

	begin();
	REQUIRE(enter(&first));
	start(&module, true, "");
	CHECK(waits(&module));
	sgpu_presence_leave(&first);
	CHECK(first.uncleared);
	CHECK(waits(&module) && presence->count == 0);
	sgpu_presence_cleared(&first);
	CHECK(result(&module) == SGPU_OK);
	sgpu_presence_leave(&module.run);
	CHECK(module.run.uncleared);
	start(&other, false, ""); /* its kernels do what they say, and keep to their own */
	CHECK(result(&other) == SGPU_OK);
	sgpu_presence_cleared(&module.run);
	leave(&other.run);
	CHECK(presence->count == 0 && presence->uncleared == 0);
}

UNIT_TEST(after_a_module_none_of_another_owner_enters)
{
	struct waiter module, own, stranger;

	begin();
	start(&module, true, "anna");
	CHECK(result(&module) == SGPU_OK);
	start(&stranger, false, "anne");
	CHECK(result(&stranger) == SGPU_ERETRY && !stranger.run.inside);
	start(&stranger, true, "anne");
	CHECK(result(&stranger) == SGPU_ERETRY && presence->alone == 1);
	leave(&module.run);
	start(&stranger, false, "");
	CHECK(result(&stranger) == SGPU_ERETRY);
	start(&own, false, "anna");
	CHECK(result(&own) == SGPU_OK);
	leave(&own.run);
}

UNIT_TEST(a_run_that_is_stopped_while_it_waits_to_be_alone_holds_nobody_up)
{
	struct waiter module, other;
	struct sgpu_run first = { .runner = NULL };

	begin();
	REQUIRE(enter(&first));
	start(&module, true, "");
	CHECK(waits(&module));
	start(&other, false, "");
	CHECK(waits(&other));
	atomic_store(&module.stop, SGPU_ECANCELED);
	CHECK(result(&module) == SGPU_ECANCELED && !module.run.inside);
	CHECK(result(&other) == SGPU_OK && presence->count == 2 && !presence->bound);
	leave(&other.run);
	leave(&first);
}

/* Its response may have taken long in between. */
UNIT_TEST(a_run_that_was_stopped_is_stuck_only_while_the_devices_have_work_of_it)
{
	static struct sgpu_run run;
	struct sgpu_run_progress progress;
	const uint64_t now = sgpu_now_ns();

	atomic_store(&run.stop_ns, 1);
	atomic_store(&run.stop, SGPU_ETIMEOUT);
	sgpu_run_get_progress(&run, &progress);
	CHECK(progress.stopping_ns == 0);
	atomic_store(&run.busy_ns, now);
	sgpu_run_get_progress(&run, &progress);
	CHECK(progress.stopping_ns <= sgpu_now_ns() - now);
	atomic_store(&run.busy_ns, 1);
	sgpu_run_get_progress(&run, &progress);
	CHECK(progress.stopping_ns >= now - 1);
}

int main(void)
{
	alarm(120); /* what waits for a run that never comes would wait for ever */
	UNIT_RUN(a_run_that_has_left_stops_nothing_of_the_one_that_stays);
	UNIT_RUN(a_run_that_was_the_last_to_leave_stops_nothing_of_the_next);
	UNIT_RUN(leaving_twice_counts_once);
	UNIT_RUN(alone_a_run_stops_the_device_once_and_lets_it_go_as_it_leaves);
	UNIT_RUN(beside_others_a_run_waits_for_its_kernels_and_not_for_ever);
	UNIT_RUN(a_run_with_a_module_waits_until_it_is_alone_and_keeps_the_others_out);
	UNIT_RUN(a_run_with_a_module_waits_until_the_data_of_others_are_gone);
	UNIT_RUN(after_a_module_none_of_another_owner_enters);
	UNIT_RUN(a_run_that_is_stopped_while_it_waits_to_be_alone_holds_nobody_up);
	UNIT_RUN(a_run_that_was_stopped_is_stuck_only_while_the_devices_have_work_of_it);
	return unit_done();
}
