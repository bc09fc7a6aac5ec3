/* SPDX-License-Identifier: Apache-2.0
 *
 * Recordings on a GPU, which are CUDA graphs: what they compute, what of them fails and how that is
 * told, and what they may reach when they run; on the device and in secure contexts.
 */
#include "recording_harness.h"

/* ---- what is recorded ---- */
struct plan {
	int count; /* launches, all over the words of steps[i % 4] */
	struct bump steps[4];
	int refused_at; /* the launch of this number says that it cannot be recorded; -1: none does
			 */
	int forbidden_at;      /* this one does what ends a capture; -1: none does */
	sgpu_devptr elsewhere; /* the last launch says that it touches this, unless 0 */
	int told;	       /* what the launch that failed returned */
};

static int launch_step(struct sgpu_launch *launch, void *argument)
{
	CHECK(launch->recorded);
	return bump(launch, argument);
}

static int refuse_step(struct sgpu_launch *launch, void *argument)
{
	(void)argument;
	return sgpu_fail(launch->error, SGPU_EUNAVAILABLE, "needs memory as it goes");
}

static int wait_in_step(struct sgpu_launch *launch, void *argument)
{
	(void)argument;
	CHECK(driver.synchronize(launch->native) !=
	      0); /* the driver refuses it, and ends the capture */
	return SGPU_OK;
}

static int record_plan(struct sgpu_stream *recorder, void *argument, struct sgpu_error *error)
{
	struct plan *p = argument;

	for (int i = 0; i < p->count; i++) {
		struct bump *step = &p->steps[i % 4];
		sgpu_launch_fn function = i == p->refused_at	 ? refuse_step
					  : i == p->forbidden_at ? wait_in_step
								 : launch_step;
		struct sgpu_device_range range = { i == p->count - 1 && p->elsewhere ? p->elsewhere
										     : step->word,
						   4 };
		struct sgpu_task task = { 0 };

		p->told = sgpu_device_launch_on(recorder, function, step, &range, 1, &task);
		if (p->told != SGPU_OK) {
			CHECK(task.code == p->told && task.error.text[0]);
			return sgpu_fail(error, p->told, "launch %d: %s", i, task.error.text);
		}
	}
	return SGPU_OK;
}

static struct plan plan_of(sgpu_devptr words, int count)
{
	struct plan p = { .count = count, .refused_at = -1, .forbidden_at = -1 };

	for (int i = 0; i < 4; i++) {
		p.steps[i] = (struct bump){ words, NEVER, SGPU_EINVALID };
	}
	return p;
}

/* Enqueues a run and waits for it. */
static int run_recording(struct sgpu_stream *on, struct sgpu_recording *recording,
			 struct sgpu_task *task)
{
	int rc;

	*task = (struct sgpu_task){ .untimed = true };
	rc = sgpu_recording_launch(on, recording, task);
	CHECK(rc == task->code || rc == SGPU_OK);
	rc = rc == SGPU_OK ? sgpu_stream_sync(on, NULL) : rc;
	return rc == SGPU_OK ? task->code : rc;
}

UNIT_TEST(the_first_launch_that_failed_is_named_and_the_next_run_starts_anew)
{
	struct sgpu_recording *recording = NULL;
	struct sgpu_task task;
	struct plan p;
	sgpu_devptr words;

	REQUIRE(begin_with_kernel());
	words = cleared_words(device, stream);
	p = plan_of(words, 4);
	p.steps[1].limit = 5; /* the word is 1 here in the first run, and 5 in the second */
	p.steps[2] = (struct bump){ words, 6, SGPU_ENOMEM };
	REQUIRE(sgpu_device_record(device, record_plan, &p, &recording, NULL) == SGPU_OK &&
		recording);
	CHECK(word_at(stream, words) == 0); /* recording carries out nothing */
	CHECK(run_recording(stream, recording, &task) == SGPU_OK && word_at(stream, words) == 4);
	CHECK(run_recording(stream, recording, &task) == SGPU_EINVALID && task.actual == 1 &&
	      task.error.text[0]);
	CHECK(word_at(stream, words) == 8); /* what stands behind it was enqueued with it */
	for (int i = 0; i < 50; i++) {
		CHECK(sgpu_device_clear(stream, words, PAGE, NULL) == SGPU_OK);
		CHECK(run_recording(stream, recording, &task) == SGPU_OK);
		CHECK(run_recording(stream, recording, &task) == SGPU_EINVALID && task.actual == 1);
	}
	/* Timed as well, and with nobody who asks for the outcome. */
	CHECK(sgpu_device_clear(stream, words, PAGE, NULL) == SGPU_OK);
	task = (struct sgpu_task){ 0 };
	CHECK(sgpu_recording_launch(stream, recording, &task) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(task.code == SGPU_OK && task.end_ns >= task.begin_ns && task.begin_ns > 0);
	CHECK(sgpu_recording_launch(stream, recording, NULL) == SGPU_OK &&
	      sgpu_stream_sync(stream, NULL) == SGPU_OK);
	CHECK(word_at(stream, words) == 8);
	sgpu_recording_free(&recording);
	CHECK(recording == NULL);
	finish_with_kernel();
}

UNIT_TEST(one_run_of_a_recording_at_a_time_and_none_while_the_device_is_cancelled)
{
	struct sgpu_recording *recording = NULL;
	struct sgpu_stream *other = NULL;
	struct sgpu_task first = { .untimed = true }, second = { 0 }, task;
	struct plan p;
	sgpu_devptr words;

	REQUIRE(begin_with_kernel() && sgpu_stream_create(device, &other, NULL) == SGPU_OK);
	words = cleared_words(device, stream);
	p = plan_of(words, 3);
	REQUIRE(sgpu_device_record(device, record_plan, &p, &recording, NULL) == SGPU_OK);
	for (int i = 0; i < 20; i++) {
		/* Until somebody has waited for the first run, it has not ended. */
		REQUIRE(sgpu_recording_launch(stream, recording, &first) == SGPU_OK);
		CHECK(sgpu_recording_launch(i % 2 ? other : stream, recording, &second) ==
		      SGPU_ERETRY);
		CHECK(second.code == SGPU_ERETRY && second.error.text[0]);
		CHECK(sgpu_stream_sync(stream, NULL) == SGPU_OK && first.code == SGPU_OK);
		CHECK(run_recording(other, recording, &task) == SGPU_OK);
	}
	CHECK(word_at(stream, words) == 20 * 6);
	for (int i = 0; i < 20; i++) {
		sgpu_device_cancel(device, true);
		CHECK(run_recording(stream, recording, &task) == SGPU_ECANCELED &&
		      task.error.text[0]);
		CHECK(word_at(stream, words) == (uint32_t)(20 * 6 + 3 * i));
		sgpu_device_cancel(device, false);
		CHECK(run_recording(stream, recording, &task) == SGPU_OK);
	}
	sgpu_recording_free(&recording);
	sgpu_stream_free(&other);
	finish_with_kernel();
}

UNIT_TEST(a_recording_does_not_run_over_memory_that_was_freed)
{
	struct sgpu_recording *recording = NULL;
	struct sgpu_task task;
	struct plan p;
	sgpu_devptr words, gone;

	REQUIRE(begin_with_kernel());
	words = cleared_words(device, stream);
	gone = cleared_words(device, stream);
	p = plan_of(words, 2);
	p.steps[1].word = gone;
	REQUIRE(sgpu_device_record(device, record_plan, &p, &recording, NULL) == SGPU_OK);
	CHECK(run_recording(stream, recording, &task) == SGPU_OK && word_at(stream, gone) == 1);
	sgpu_device_free(device, &gone, PAGE);
	for (int i = 0; i < 3; i++) {
		CHECK(run_recording(stream, recording, &task) == SGPU_EUSAGE && task.error.text[0]);
	}
	CHECK(word_at(stream, words) == 1); /* nor was what stands before it enqueued */
	sgpu_recording_free(&recording);
	finish_with_kernel();
}

UNIT_TEST(what_cannot_be_recorded_leaves_the_device_as_it_was)
{
	struct sgpu_recording *recording = NULL;
	struct sgpu_error error = { 0 };
	struct sgpu_task task;
	struct plan p;
	sgpu_devptr words, freed;
	uint32_t runs = 0;

	REQUIRE(begin_with_kernel());
	words = cleared_words(device, stream);
	freed = cleared_words(device, stream);
	sgpu_device_free(device, &(sgpu_devptr){ freed }, PAGE);
	for (int i = 0; i < 40; i++) {
		p = plan_of(words, i % 4 == 0 ? SGPU_RECORDING_LAUNCHES_MAX + 1 : 5);
		p.refused_at = i % 4 == 1 ? 3 : -1;
		p.forbidden_at = i % 4 == 2 ? 3 : -1;
		p.elsewhere = i % 4 == 3 ? freed : 0;
		recording = (struct sgpu_recording *)(void *)&p;
		error = (struct sgpu_error){ 0 };
		CHECK(sgpu_device_record(device, record_plan, &p, &recording, &error) != SGPU_OK);
		CHECK(recording == NULL && error.text[0]);
		CHECK(p.told == (i % 4 == 2   ? p.told
				 : i % 4 == 3 ? SGPU_EUSAGE
					      : SGPU_EUNAVAILABLE));
		if (i < 4) {
			printf("# %s\n", error.text);
		}
		/* The longest that there may be is recorded right after that. */
		p = plan_of(words, SGPU_RECORDING_LAUNCHES_MAX);
		REQUIRE(sgpu_device_record(device, record_plan, &p, &recording, NULL) == SGPU_OK);
		CHECK(run_recording(stream, recording, &task) == SGPU_OK);
		runs += SGPU_RECORDING_LAUNCHES_MAX;
		sgpu_recording_free(&recording);
	}
	CHECK(word_at(stream, words) == runs);
	p = plan_of(words, 0);
	if (sgpu_device_record(device, record_plan, &p, &recording, NULL) == SGPU_OK) {
		CHECK(run_recording(stream, recording, &task) == SGPU_OK); /* of nothing */
	}
	sgpu_recording_free(&recording);
	CHECK(word_at(stream, words) == runs);
	finish_with_kernel();
}

/* ---- in secure contexts ---- */
UNIT_TEST(a_context_runs_its_own_recordings_over_its_own_memory)
{
	struct inside in[2];
	struct sgpu_recording *recording[2] = { NULL };
	struct sgpu_task task;
	sgpu_devptr words[2], gone;
	struct plan p;

	REQUIRE(begin_with_kernel() && enter(&in[0], NULL) && enter(&in[1], in[0].context));
	for (int i = 0; i < 2; i++) {
		words[i] = cleared_words(in[i].device, in[i].stream);
		p = plan_of(words[i], 2 + i);
		REQUIRE(sgpu_device_record(in[i].device, record_plan, &p, &recording[i], NULL) ==
			SGPU_OK);
	}
	p = plan_of(words[0], 2);
	struct sgpu_recording *foreign = NULL;
	CHECK(sgpu_device_record(in[1].device, record_plan, &p, &foreign, NULL) == SGPU_EUSAGE &&
	      !foreign);
	/* Each run makes its context the one that kernels reach. */
	for (int i = 0; i < 20; i++) {
		CHECK(run_recording(in[i % 2].stream, recording[i % 2], &task) == SGPU_OK);
		CHECK(run_recording(in[i % 2].stream, recording[1 - i % 2], &task) ==
			      SGPU_EPOLICY &&
		      task.error.text[0]);
	}
	CHECK(word_at(in[0].stream, words[0]) == 20 && word_at(in[1].stream, words[1]) == 30);
	sgpu_recording_free(&recording[1]);

	/* The page of what is freed stays mapped; the context knows all the same that nobody has
	 * it. */
	gone = cleared_words(in[1].device, in[1].stream);
	p = plan_of(words[1], 2);
	p.steps[1].word = gone;
	REQUIRE(sgpu_device_record(in[1].device, record_plan, &p, &recording[1], NULL) == SGPU_OK);
	CHECK(run_recording(in[1].stream, recording[1], &task) == SGPU_OK);
	sgpu_device_free(in[1].device, &gone, PAGE);
	CHECK(run_recording(in[1].stream, recording[1], &task) == SGPU_EUSAGE &&
	      task.error.text[0]);
	CHECK(word_at(in[1].stream, words[1]) == 31);
	for (int i = 1; i >= 0; i--) {
		sgpu_recording_free(&recording[i]);
		sgpu_device_free(in[i].device, &words[i], PAGE);
		leave(&in[i]);
	}
	finish_with_kernel();
}

int main(void)
{
	CUDA_OR_SKIP();
	UNIT_RUN(the_first_launch_that_failed_is_named_and_the_next_run_starts_anew);
	UNIT_RUN(one_run_of_a_recording_at_a_time_and_none_while_the_device_is_cancelled);
	UNIT_RUN(a_recording_does_not_run_over_memory_that_was_freed);
	UNIT_RUN(what_cannot_be_recorded_leaves_the_device_as_it_was);
	UNIT_RUN(a_context_runs_its_own_recordings_over_its_own_memory);
	return unit_done();
}
