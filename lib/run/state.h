/* SPDX-License-Identifier: Apache-2.0
 *
 * A run, for the two files that know all of it: run.c, which lives it, and told.c, which tells of
 * it.
 */
#ifndef SGPU_RUN_STATE_H
#define SGPU_RUN_STATE_H

#include <sgpu/io.h>

#include "run/admit.h"
#include "run/graph.h"
#include "run/loop.h"
#include "run/memory.h"
#include "run/module.h"
#include "run/runner.h"
#include "run/threads.h"
#include "run/trace.h"

struct sgpu_inputs;
struct sgpu_launches;
struct sgpu_moves;
struct sgpu_outputs;

struct sgpu_run {
	struct sgpu_run_base base;
	struct sgpu_runner *runner;
	struct sgpu_runner_entry entry;
	struct sgpu_submission submission;
	sgpu_run_done_fn done;
	void *argument;

	struct sgpu_run_trace trace;
	struct sgpu_job job;
	struct sgpu_memory memory;
	struct sgpu_graph_count count;
	struct sgpu_graph *graph;
	struct sgpu_modules *modules;
	struct sgpu_launches *launches;
	struct sgpu_inputs *inputs;
	struct sgpu_moves *moves;
	struct sgpu_outputs *outputs;

	struct sgpu_tar_reader *tar;
	struct sgpu_blocking reader, finisher;
	struct sgpu_note admitted, read;
	struct sgpu_io_guard guard;
	atomic_bool cancel; /* sgpu_run_cancel was called */
	bool inside;	    /* on the device: the presence's */
	atomic_bool busy;   /* a call of the device may take long */
	/* the loop's */
	bool begun, have_read, stop_seen, finishing;
	/* the reader's, then the finisher's, then everybody's */
	int code;
	struct sgpu_error error;
	bool descriptor_failed; /* it was the client's that failed: the batch's or the response's */
	_Atomic uint32_t ended; /* set under the runner's mutex */
};

#endif
