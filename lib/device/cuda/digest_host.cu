/* SPDX-License-Identifier: Apache-2.0
 *
 * A digest of device memory, slice by slice: while the GPU hashes the chunks of one, the processor absorbs the chaining
 * values of those before it, in functions that a stream beside the caller's calls.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sgpu/base.h>

#include <device/cuda/digest.h>
#include <device/cuda/digest_state.cuh>

/* One digest in work. */
struct job {
	struct sgpu_cuda_digests *owner;
	struct job *next;              /* of all */
	struct job *next_idle;
	unsigned holders;              /* who enqueues, and the processor's part; under the owner's lock */
	struct sgpu_digest_mail *mail;
	cudaStream_t beside;
	cudaEvent_t hashed[SGPU_DIGEST_SLOTS], absorbed[SGPU_DIGEST_SLOTS];
	struct sgpu_digest_work work;
	uint64_t whole, slices;
	uint8_t *result;
	/* The processor's alone. */
	uint64_t absorbing;            /* slice */
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
	for (int i = 0; i < SGPU_DIGEST_SLOTS; i++) {
		if (job->hashed[i]) {
			(void)cudaEventDestroy(job->hashed[i]);
		}
		if (job->absorbed[i]) {
			(void)cudaEventDestroy(job->absorbed[i]);
		}
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

	if (!digests || !*digests) {
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
	for (int i = 0; i < SGPU_DIGEST_SLOTS && result == cudaSuccess; i++) {
		result = cudaEventCreateWithFlags(&job->hashed[i], cudaEventDisableTiming);
		if (result == cudaSuccess) {
			result = cudaEventCreateWithFlags(&job->absorbed[i], cudaEventDisableTiming);
		}
	}
	return result;
}

static cudaError_t take(struct sgpu_cuda_digests *digests, struct job **taken)
{
	struct job *job;
	cudaError_t result = cudaSuccess;

	pthread_mutex_lock(&digests->lock);
	job = digests->idle;
	if (job) {
		digests->idle = job->next_idle;
	} else {
		job = (struct job *)calloc(1, sizeof(*job));
		result = job ? fill(job) : cudaErrorMemoryAllocation;
		if (result == cudaSuccess) {
			job->owner = digests;
			job->next = digests->all;
			digests->all = job;
		} else if (job) {
			destroy(job);
		}
	}
	pthread_mutex_unlock(&digests->lock);
	*taken = job;
	return result;
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

/* ---- the processor's part; CUDA may not be called here ---- */
static uint64_t slice_count(const struct job *job, uint64_t slice)
{
	uint64_t left = job->whole - slice * SGPU_DIGEST_SLICE;

	return left < SGPU_DIGEST_SLICE ? left : SGPU_DIGEST_SLICE;
}

static void end_node(struct job *job)
{
	/* Chunk 0 has no chaining value, even when it is an odd one. */
	for (unsigned i = job->whole == 0 ? 1 : 0; i < job->work.odd; i++) {
		sgpu_turboshake_absorb(&job->node, job->mail->odd[i], SGPU_KT128_VALUE);
	}
	sgpu_kt128_end(&job->node, job->whole + job->work.odd - 1, job->result, SGPU_KT128_VALUE);
	sgpu_wipe(&job->node, sizeof(job->node));
	sgpu_wipe(job->mail->head, sizeof(job->mail->head));
}

static void CUDART_CB absorb(void *argument)
{
	struct job *job = (struct job *)argument;
	uint64_t slice = job->absorbing++, count = slice_count(job, slice);
	const uint8_t *values = job->mail->values[slice % SGPU_DIGEST_SLOTS];

	if (slice == 0) {
		memcpy(job->node.lanes, job->mail->head, sizeof(job->node.lanes));
		job->node.at = SGPU_KT128_CHUNK % SGPU_TURBOSHAKE_RATE + SGPU_KT128_MARKER;
		values += count > 0 ? SGPU_KT128_VALUE : 0;
		count -= count > 0;
	}
	sgpu_turboshake_absorb(&job->node, values, count * SGPU_KT128_VALUE);
	if (job->absorbing == job->slices) {
		end_node(job);
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

static cudaError_t enqueue_slice(struct job *job, cudaStream_t stream, uint64_t slice)
{
	int slot = (int)(slice % SGPU_DIGEST_SLOTS);
	cudaError_t result = cudaSuccess;

	if (slice >= SGPU_DIGEST_SLOTS) {
		result = cudaStreamWaitEvent(stream, job->absorbed[slot], 0);
	}
	if (result == cudaSuccess) {
		result = launch_slice(job, stream, slice, slot);
	}
	/* One slice alone has nothing to be absorbed beside. */
	if (job->slices == 1) {
		return result == cudaSuccess ? cudaLaunchHostFunc(stream, absorb, job) : result;
	}
	if (result == cudaSuccess) {
		result = cudaEventRecord(job->hashed[slot], stream);
	}
	if (result == cudaSuccess) {
		result = cudaStreamWaitEvent(job->beside, job->hashed[slot], 0);
	}
	if (result == cudaSuccess) {
		result = cudaLaunchHostFunc(job->beside, absorb, job);
	}
	return result == cudaSuccess ? cudaEventRecord(job->absorbed[slot], job->beside) : result;
}

static cudaError_t enqueue_slices(struct job *job, cudaStream_t stream)
{
	cudaError_t result = cudaSuccess;
	uint64_t slice;

	for (slice = 0; slice < job->slices && result == cudaSuccess; slice++) {
		result = enqueue_slice(job, stream, slice);
	}
	if (result == cudaSuccess && job->slices > 1) {
		result = cudaStreamWaitEvent(stream, job->absorbed[(job->slices - 1) % SGPU_DIGEST_SLOTS], 0);
	}
	return result;
}

/* What stands behind the message: the customisation string and its length. */
static void set_suffix(struct sgpu_digest_work *work, const void *custom, size_t size)
{
	if (size > 0) {
		memcpy(work->suffix, custom, size);
	}
	work->suffix_size = (unsigned)size + sgpu_kt128_length(size, work->suffix + size);
}

static cudaError_t enqueue_tree(struct sgpu_cuda_digests *digests, const struct sgpu_digest_work *work, uint64_t whole,
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
	job->slices = whole > SGPU_DIGEST_SLICE ? (whole + SGPU_DIGEST_SLICE - 1) / SGPU_DIGEST_SLICE : 1;
	job->absorbing = 0;
	job->result = result;
	code = enqueue_slices(job, stream);
	if (code != cudaSuccess) {
		/* Some of it may be under way; the processor's part will not come to its end. */
		(void)cudaStreamSynchronize(stream);
		(void)cudaStreamSynchronize(job->beside);
		if (job->absorbing < job->slices) {
			drop(job);
		}
	}
	drop(job);
	return code;
}

int sgpu_cuda_digest_enqueue(struct sgpu_cuda_digests *digests, void *stream, uint64_t memory, uint64_t size,
			     const void *custom, size_t custom_size, volatile void *result, uint64_t result_address)
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
