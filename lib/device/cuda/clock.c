/* SPDX-License-Identifier: Apache-2.0
 *
 * The times of tasks. A mark follows a timed task's work; a base, one moment of which both clocks'
 * times are known, gives its time on the host's clock.
 *
 * A mark is an event or, in confidential computing mode, where events tell wrong times, a word of
 * device memory in which a kernel stores %globaltimer. Host memory would be slower there: the
 * driver moves it first, and the next task would be charged with that.
 */
#include <math.h>
#include <stdlib.h>

#include <device/cuda/kernels.h>
#include <device/cuda/moment.h>
#include <device/cuda/stream.h>

/* The age at which a base is replaced: the clocks drift apart by some 10 us a second, and an event
 * time is a float, exact to 0.1 us after one second. */
#define BASE_NS ((uint64_t)1000000000)
/* Taking a base may last CLOSE_NS without another try, and PATIENCE_NS at most; FIRST_NS for the
 * first base, which loads a kernel. */
#define CLOSE_NS ((uint64_t)50000)
#define PATIENCE_NS ((uint64_t)3000000)
#define FIRST_NS ((uint64_t)10000000000)
enum { TRIES = 3, STAMPS = SGPU_CUDA_PAGE / sizeof(uint64_t) };

struct sgpu_cuda_mark {
	CUevent event;	   /* by events */
	CUdeviceptr stamp; /* by %globaltimer */
	uint64_t time;	   /* read from there, or 0 */
	struct sgpu_cuda_mark *next;
};

struct sgpu_cuda_timer {
	enum sgpu_device_timer name;
	/* Makes a mark, and may give others to the device; NULL: out of memory. */
	struct sgpu_cuda_mark *(*make)(struct sgpu_device *device);
	CUresult (*put)(CUstream native, struct sgpu_cuda_mark *mark);
	CUresult (*measure)(struct sgpu_device *device, struct sgpu_cuda_mark *from,
			    struct sgpu_cuda_mark *to, double *ns);
};

static void give(struct sgpu_device *device, struct sgpu_cuda_mark *mark)
{
	pthread_mutex_lock(&device->clock.lock);
	mark->next = device->clock.idle;
	device->clock.idle = mark;
	pthread_mutex_unlock(&device->clock.lock);
}

static struct sgpu_cuda_mark *take(struct sgpu_device *device)
{
	struct sgpu_cuda_mark *mark;

	pthread_mutex_lock(&device->clock.lock);
	mark = device->clock.idle;
	if (mark) {
		device->clock.idle = mark->next;
	}
	pthread_mutex_unlock(&device->clock.lock);
	return mark ? mark : device->clock.timer->make(device);
}

/* ---- by events ---- */
static struct sgpu_cuda_mark *make_event(struct sgpu_device *device)
{
	struct sgpu_cuda_mark *mark = calloc(1, sizeof(*mark));

	(void)device;
	if (mark && sgpu_cu.cuEventCreate(&mark->event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		free(mark);
		mark = NULL;
	}
	return mark;
}

static CUresult put_event(CUstream native, struct sgpu_cuda_mark *mark)
{
	return sgpu_cu.cuEventRecord(mark->event, native);
}

static CUresult between_events(struct sgpu_device *device, struct sgpu_cuda_mark *from,
			       struct sgpu_cuda_mark *to, double *ns)
{
	float ms = NAN;
	CUresult result = sgpu_cu.cuEventElapsedTime(&ms, from->event, to->event);

	(void)device;
	*ns = (double)ms * 1e6;
	return result;
}

/* ---- by %globaltimer ---- */
static struct sgpu_cuda_mark *make_stamps(struct sgpu_device *device)
{
	struct sgpu_cuda_mark *mark = NULL;
	CUdeviceptr page;

	if (sgpu_cuda_private_alloc(device, SGPU_CUDA_PAGE, &page, NULL) < 0) {
		return NULL;
	}
	for (unsigned i = 0; i < STAMPS; i++) {
		if (mark) {
			give(device, mark);
		}
		mark = calloc(1, sizeof(*mark));
		if (!mark) {
			return NULL;
		}
		mark->stamp = page + i * sizeof(uint64_t);
	}
	return mark;
}

static CUresult put_stamp(CUstream native, struct sgpu_cuda_mark *mark)
{
	mark->time = 0;
	return (CUresult)sgpu_cuda_store_time(native, mark->stamp);
}

static CUresult read_stamp(struct sgpu_device *device, struct sgpu_cuda_mark *mark)
{
	CUresult result = sgpu_cu.cuMemcpyDtoHAsync(&mark->time, mark->stamp, sizeof(mark->time),
						    device->clock.native);

	return result == CUDA_SUCCESS ? sgpu_cu.cuStreamSynchronize(device->clock.native) : result;
}

static CUresult between_stamps(struct sgpu_device *device, struct sgpu_cuda_mark *from,
			       struct sgpu_cuda_mark *to, double *ns)
{
	CUresult result = from->time ? CUDA_SUCCESS : read_stamp(device, from);

	if (result == CUDA_SUCCESS) {
		result = read_stamp(device, to);
	}
	*ns = (double)(int64_t)(to->time - from->time);
	return result;
}

static const struct sgpu_cuda_timer events = { SGPU_TIMER_EVENTS, make_event, put_event,
					       between_events };
static const struct sgpu_cuda_timer stamps = { SGPU_TIMER_GLOBALTIMER, make_stamps, put_stamp,
					       between_stamps };

/* ---- the base ---- */
/* Takes the time on the clock's stream, which is empty, and the host's before and after. Since the
 * GPU may be busy, this fails after `patience`. */
static bool take_moment(struct sgpu_device *device, struct sgpu_cuda_base *base, uint64_t patience)
{
	const CUstream native = device->clock.native;
	const uint64_t before = sgpu_now_ns();
	CUresult result = sgpu_cu.cuStreamQuery(native);

	if (result == CUDA_SUCCESS) {
		result = device->clock.timer->put(native, base->mark);
	}
	if (result == CUDA_SUCCESS) {
		do {
			result = sgpu_cu.cuStreamQuery(native);
			base->error_ns = sgpu_now_ns() - before;
		} while (result == CUDA_ERROR_NOT_READY && base->error_ns < patience);
		base->host_ns = before + base->error_ns / 2;
	}
	return result == CUDA_SUCCESS;
}

/* Replaces the base; if that fails, the old one stays. */
static bool renew_base(struct sgpu_device *device, uint64_t patience)
{
	struct sgpu_cuda_base new = { .mark = take(device), .error_ns = UINT64_MAX }, old;
	bool taken = new.mark != NULL;

	for (int i = 0; taken && i<TRIES &&new.error_ns> CLOSE_NS; i++) {
		taken = take_moment(device, &new, patience);
	}
	pthread_mutex_lock(&device->clock.lock);
	old = taken ? device->clock.base : new;
	device->clock.base = taken ? new : device->clock.base;
	pthread_mutex_unlock(&device->clock.lock);
	if (old.mark) {
		give(device, old.mark);
	}
	return taken;
}

/* Whether this thread is to replace the base: at most one thread in BASE_NS tries. */
static bool base_is_old(struct sgpu_cuda_clock *clock)
{
	const uint64_t now = sgpu_now_ns();
	bool old;

	pthread_mutex_lock(&clock->lock);
	old = now > clock->tried_ns && now - clock->tried_ns > BASE_NS;
	clock->tried_ns = old ? now : clock->tried_ns;
	pthread_mutex_unlock(&clock->lock);
	return old;
}

/* ---- marks ---- */
CUresult sgpu_cuda_mark(struct sgpu_stream *stream, struct sgpu_cuda_mark **mark)
{
	*mark = take(stream->device);
	return *mark ? stream->device->clock.timer->put(stream->native, *mark)
		     : CUDA_ERROR_OUT_OF_MEMORY;
}

void sgpu_cuda_unmark(struct sgpu_device *device, struct sgpu_cuda_mark **mark)
{
	if (*mark) {
		give(device, *mark);
		*mark = NULL;
	}
}

bool sgpu_cuda_time_of(struct sgpu_device *device, struct sgpu_cuda_mark *mark, uint64_t from,
		       uint64_t *time)
{
	struct sgpu_cuda_clock *clock = &device->clock;
	const uint64_t now = sgpu_now_ns();
	CUresult result = CUDA_ERROR_UNKNOWN;
	double ns = NAN;
	bool possible;

	if (sgpu_cuda_enter(device, NULL) == SGPU_OK && base_is_old(clock)) {
		(void)renew_base(device, PATIENCE_NS);
	}
	pthread_mutex_lock(&clock->lock);
	if (atomic_load(&device->faulted) == 0) {
		result = clock->timer->measure(device, clock->base.mark, mark, &ns);
	}
	possible = sgpu_cuda_moment(clock->base.host_ns, clock->base.error_ns,
				    result == CUDA_SUCCESS ? ns : NAN, from, now, time);
	if (possible) {
		/* If the time was clamped, the base is wrong by as much. Move the base, too, so
		 * that differences of later times stay true. */
		clock->base.host_ns = *time - (uint64_t)(int64_t)ns;
	}
	pthread_mutex_unlock(&clock->lock);
	return possible;
}

/* ---- opening and closing ---- */
int sgpu_cuda_clock_open(struct sgpu_device *device, enum sgpu_device_timer timer,
			 struct sgpu_error *error)
{
	struct sgpu_cuda_clock *clock = &device->clock;
	CUresult result = sgpu_cu.cuStreamCreate(&clock->native, CU_STREAM_NON_BLOCKING);

	if (result != CUDA_SUCCESS) {
		return sgpu_cuda_fail(error, result, "cannot create a stream");
	}
	clock->timer = timer == SGPU_TIMER_GLOBALTIMER || (timer == SGPU_TIMER_AUTO &&
							   sgpu_cuda_in_confidential_mode(device))
			       ? &stamps
			       : &events;
	snprintf(device->info.timer, sizeof(device->info.timer), "%s",
		 sgpu_device_timer_name(clock->timer->name));
	/* Three times: a stream's first event and a kernel's first launch take long. */
	for (int round = 0; round < 3; round++) {
		if (!renew_base(device, FIRST_NS)) {
			return sgpu_fail(error, SGPU_EDEVICE, "cannot read the device's clock");
		}
	}
	clock->tried_ns = sgpu_now_ns();
	return SGPU_OK;
}

void sgpu_cuda_clock_close(struct sgpu_device *device)
{
	struct sgpu_cuda_clock *clock = &device->clock;
	const bool faulted = atomic_load(&device->faulted) != 0;
	struct sgpu_cuda_mark *mark;

	sgpu_cuda_unmark(device, &clock->base.mark);
	while ((mark = clock->idle)) {
		clock->idle = mark->next;
		if (mark->event && !faulted) {
			(void)sgpu_cu.cuEventDestroy(mark->event);
		}
		free(mark);
	}
	if (clock->native && !faulted) {
		(void)sgpu_cu.cuStreamDestroy(clock->native);
	}
}
