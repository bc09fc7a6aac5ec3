/* SPDX-License-Identifier: Apache-2.0
 *
 * A digest of device memory, slice by slice: while the GPU hashes the chunks of one, the CPU
 * absorbs the chaining values of those before it, in host functions that a second stream calls.
 *
 * A call starts late, since it wakes a sleeping thread. So there are few calls: after the first
 * slice, every eighth, and the last. When a call starts, all slices up to its own are hashed. It
 * also waits a moment for later ones, which the GPU counts in memory, and absorbs as many as come.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include <device/cuda/kernels.h>
#include <device/cuda/kernels/digest_state.cuh>

enum {
	MARK = 8,	      /* slices between two calls */
	MARKS = 4,	      /* events of calls: enough until a slot is used again */
	PATIENCE_NS = 500000, /* a slice takes about 120 us */
};

struct job {
	struct sgpu_cuda_digests *owner;
	struct job *next; /* in the list of all */
	struct job *next_idle;
	unsigned holders; /* references: the enqueuing thread's and absorb()'s; under the owner's
			     lock */
	struct sgpu_digest_mail *mail;
	cudaStream_t beside;
	cudaEvent_t hashed, absorbed[MARKS];
	struct sgpu_digest_work work;
	uint64_t whole, slices;
	uint8_t *result;
	/* Used only by absorb(), which the CPU runs. */
	uint64_t calls, absorbed_slices;
	bool finished;
	struct sgpu_turboshake node;
};

struct sgpu_cuda_digests {
	pthread_mutex_t lock;
	struct job *all, *idle;
};

struct sgpu_cuda_digests *sgpu_cuda_digests_create(void)
{
	struct sgpu_cuda_digests *digests = (struct sgpu_cuda_digests *)calloc(1, sizeof(*digests));

	if (digests) {
		pthread_mutex_init(&digests->lock, NULL);
	}
	return digests;
}

static void destroy(struct job *job)
{
	for (int i = 0; i < MARKS; i++) {
		if (job->absorbed[i]) {
			(void)cudaEventDestroy(job->absorbed[i]);
		}
	}
	if (job->hashed) {
		(void)cudaEventDestroy(job->hashed);
	}
	if (job->beside) {
		(void)cudaStreamDestroy(job->beside);
	}
	if (job->mail) {
		(void)cudaFreeHost(job->mail);
	}
	sgpu_wipe(job, sizeof(*job));
	free(job);
	(void)cudaGetLastError();
}

void sgpu_cuda_digests_free(struct sgpu_cuda_digests **digests)
{
	struct job *job, *next;

	if (!*digests) {
		return;
	}
	for (job = (*digests)->all; job; job = next) {
		next = job->next;
		destroy(job);
	}
	pthread_mutex_destroy(&(*digests)->lock);
	free(*digests);
	*digests = NULL;
}

static cudaError_t fill(struct job *job)
{
	cudaError_t result = cudaHostAlloc((void **)&job->mail, sizeof(*job->mail),
					   cudaHostAllocPortable | cudaHostAllocMapped);

	if (result == cudaSuccess) {
		result = cudaStreamCreateWithFlags(&job->beside, cudaStreamNonBlocking);
	}
	if (result == cudaSuccess) {
		result = cudaEventCreateWithFlags(&job->hashed, cudaEventDisableTiming);
	}
	for (int i = 0; i < MARKS && result == cudaSuccess; i++) {
		result = cudaEventCreateWithFlags(&job->absorbed[i], cudaEventDisableTiming);
	}
	return result;
}

/* Streams and events are made without the lock: there the driver may wait for host functions to
 * return, and one of them, absorb(), takes the lock. */
static cudaError_t take(struct sgpu_cuda_digests *digests, struct job **taken)
{
	struct job *job;
	cudaError_t result;

	pthread_mutex_lock(&digests->lock);
	job = digests->idle;
	if (job) {
		digests->idle = job->next_idle;
	}
	pthread_mutex_unlock(&digests->lock);
	*taken = job;
	if (job) {
		return cudaSuccess;
	}
	job = (struct job *)calloc(1, sizeof(*job));
	result = job ? fill(job) : cudaErrorMemoryAllocation;
	if (result != cudaSuccess) {
		if (job) {
			destroy(job);
		}
		return result;
	}
	job->owner = digests;
	pthread_mutex_lock(&digests->lock);
	job->next = digests->all;
	digests->all = job;
	pthread_mutex_unlock(&digests->lock);
	*taken = job;
	return cudaSuccess;
}

static void drop(struct job *job)
{
	struct sgpu_cuda_digests *owner = job->owner;

	pthread_mutex_lock(&owner->lock);
	if (--job->holders == 0) {
		job->next_idle = owner->idle;
		owner->idle = job;
	}
	pthread_mutex_unlock(&owner->lock);
}

/* ---- the CPU's part: host functions, which may not call CUDA ---- */
static uint64_t slice_count(const struct job *job, uint64_t slice)
{
	uint64_t left = job->whole - slice * SGPU_DIGEST_SLICE;

	return left < SGPU_DIGEST_SLICE ? left : SGPU_DIGEST_SLICE;
}

static void end_node(struct job *job)
{
	/* Skip chunk 0: it has no chaining value, even if it reaches past the message. */
	for (unsigned i = job->whole == 0 ? 1 : 0; i < job->work.odd; i++) {
		sgpu_turboshake_absorb(&job->node, job->mail->odd[i], SGPU_KT128_VALUE);
	}
	sgpu_kt128_end(&job->node, job->whole + job->work.odd - 1, job->result, SGPU_KT128_VALUE);
	sgpu_wipe(&job->node, sizeof(job->node));
	sgpu_wipe(job->mail->head, sizeof(job->mail->head));
}

static void absorb_slice(struct job *job)
{
	uint64_t slice = job->absorbed_slices++, count = slice_count(job, slice);
	const uint8_t *values = job->mail->values[slice % SGPU_DIGEST_SLOTS];

	if (slice == 0) {
		memcpy(job->node.lanes, job->mail->head, sizeof(job->node.lanes));
		job->node.at = SGPU_KT128_CHUNK % SGPU_TURBOSHAKE_RATE + SGPU_KT128_MARKER;
		values += count > 0 ? SGPU_KT128_VALUE : 0;
		count -= count > 0;
	}
	sgpu_turboshake_absorb(&job->node, values, count * SGPU_KT128_VALUE);
}

/* Waits up to PATIENCE_NS for the next slice, not the last. Returns whether it is hashed. */
static bool comes(const struct job *job)
{
	uint64_t begin = sgpu_now_ns();

	while (__atomic_load_n(&job->mail->hashed, __ATOMIC_ACQUIRE) <= job->absorbed_slices) {
		if (sgpu_now_ns() - begin > PATIENCE_NS) {
			return false;
		}
	}
	return true;
}

/* Returns the slice after which this call of absorb() is enqueued. */
static uint64_t slice_of(const struct job *job, uint64_t call)
{
	return call * MARK < job->slices - 1 ? call * MARK : job->slices - 1;
}

static void CUDART_CB absorb(void *argument)
{
	struct job *job = (struct job *)argument;
	uint64_t certain = slice_of(job, job->calls++);

	while (job->absorbed_slices <= certain) {
		absorb_slice(job);
	}
	while (job->absorbed_slices < job->slices - 1 && job->absorbed_slices <= certain + MARK &&
	       comes(job)) {
		absorb_slice(job);
	}
	if (certain == job->slices - 1) {
		end_node(job);
		job->finished = true;
		drop(job);
	}
}

/* ---- enqueueing ---- */
static cudaError_t launch_slice(struct job *job, cudaStream_t stream, uint64_t slice, int slot)
{
	struct sgpu_digest_work work = job->work;

	work.first = slice * SGPU_DIGEST_SLICE;
	work.count = slice_count(job, slice);
	work.values = job->mail->values[slot];
	work.odd = slice == 0 ? work.odd : 0;
	return sgpu_digest_launch(work, stream);
}

/* Enqueues a call of absorb() after the slice that was launched last. */
static cudaError_t enqueue_call(struct job *job, cudaStream_t stream, uint64_t call)
{
	cudaError_t result;

	/* With one slice, a second stream would gain nothing. */
	if (job->slices == 1) {
		return cudaLaunchHostFunc(stream, absorb, job);
	}
	result = cudaEventRecord(job->hashed, stream);
	if (result == cudaSuccess) {
		result = cudaStreamWaitEvent(job->beside, job->hashed, 0);
	}
	if (result == cudaSuccess) {
		result = cudaLaunchHostFunc(job->beside, absorb, job);
	}
	return result == cudaSuccess ? cudaEventRecord(job->absorbed[call % MARKS], job->beside)
				     : result;
}

static cudaError_t enqueue_slices(struct job *job, cudaStream_t stream)
{
	cudaError_t result = cudaSuccess;
	uint64_t slice, call = 0, before;

	for (slice = 0; slice < job->slices && result == cudaSuccess; slice++) {
		if (slice >= SGPU_DIGEST_SLOTS) {
			/* Wait for the first call that has absorbed the slot's previous slice. */
			before = (slice - SGPU_DIGEST_SLOTS + MARK - 1) / MARK;
			result = cudaStreamWaitEvent(stream, job->absorbed[before % MARKS], 0);
		}
		if (result == cudaSuccess) {
			result = launch_slice(job, stream, slice, (int)(slice % SGPU_DIGEST_SLOTS));
		}
		if (result == cudaSuccess && slice == slice_of(job, call)) {
			result = enqueue_call(job, stream, call++);
		}
	}
	if (result == cudaSuccess && job->slices > 1) {
		result = cudaStreamWaitEvent(stream, job->absorbed[(call - 1) % MARKS], 0);
	}
	return result;
}

/* Sets the bytes that KT128 appends to the message: the customisation string and its length. */
static void set_suffix(struct sgpu_digest_work *work, const void *custom, size_t size)
{
	if (size > 0) {
		memcpy(work->suffix, custom, size);
	}
	work->suffix_size = (unsigned)size + sgpu_kt128_length(size, work->suffix + size);
}

static cudaError_t enqueue_tree(struct sgpu_cuda_digests *digests,
				const struct sgpu_digest_work *work, uint64_t whole,
				uint8_t *result, cudaStream_t stream)
{
	struct job *job;
	cudaError_t code = take(digests, &job);

	if (code != cudaSuccess) {
		return code;
	}
	job->holders = 2;
	job->work = *work;
	job->work.mail = job->mail;
	job->whole = whole;
	job->slices =
		whole > SGPU_DIGEST_SLICE ? (whole + SGPU_DIGEST_SLICE - 1) / SGPU_DIGEST_SLICE : 1;
	job->mail->hashed = 0;
	job->calls = 0;
	job->absorbed_slices = 0;
	job->finished = false;
	job->result = result;
	code = enqueue_slices(job, stream);
	if (code != cudaSuccess) {
		/* Wait for pending work. If absorb() was not called for the last slice, drop its
		 * reference. */
		(void)cudaStreamSynchronize(stream);
		(void)cudaStreamSynchronize(job->beside);
		if (!job->finished) {
			drop(job);
		}
	}
	drop(job);
	return code;
}

int sgpu_cuda_digest_enqueue(struct sgpu_cuda_digests *digests, void *stream, uint64_t memory,
			     uint64_t size, const void *custom, size_t custom_size,
			     volatile void *result, uint64_t result_address)
{
	struct sgpu_digest_work work;
	uint64_t total, whole = size / SGPU_KT128_CHUNK;

	memset(&work, 0, sizeof(work));
	work.message = (const uint8_t *)(uintptr_t)memory;
	work.size = size;
	work.result = (uint8_t *)(uintptr_t)result_address;
	set_suffix(&work, custom, custom_size);
	total = size + work.suffix_size;
	work.odd = (unsigned)((total + SGPU_KT128_CHUNK - 1) / SGPU_KT128_CHUNK - whole);
	if (total <= SGPU_KT128_CHUNK) {
		return (int)sgpu_digest_launch(work, (cudaStream_t)stream);
	}
	return (int)enqueue_tree(digests, &work, whole, (uint8_t *)result, (cudaStream_t)stream);
}
