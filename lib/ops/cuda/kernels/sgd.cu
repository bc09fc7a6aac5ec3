/* SPDX-License-Identifier: Apache-2.0
 *
 * sgd: as cpu/sgd.c.
 */
#include "ops/cuda/kernels/common.cuh"

enum { WEIGHTS, GRADIENT, VELOCITY, OUTPUT, OUTPUT_VELOCITY, RATE = 0, MOMENTUM };

template <typename T>
SGPU_KERNEL step(uint64_t count, double rate, double momentum, const T *weights, const T *gradient,
		 const T *velocity, T *output, T *output_velocity)
{
	for (uint64_t i = sgpu_cuda_self(); i < count; i += sgpu_cuda_step()) {
		double before = velocity ? momentum * (double)velocity[i] : 0.0;
		T now = (T)(before + (double)gradient[i]);

		output[i] = (T)((double)weights[i] - rate * (double)now);
		if (output_velocity) {
			output_velocity[i] = now;
		}
	}
}

extern "C" int sgpu_sgd_cuda(struct sgpu_op_call *call, struct sgpu_launch *launch)
{
	uint64_t count = sgpu_ops_count(&call->type[OUTPUT]);

	return SGPU_CUDA_FLOATS(
		call->type[OUTPUT].dtype, T,
		sgpu_cuda_run(launch, step<T>, sgpu_cuda_grid(count, SGPU_CUDA_BLOCK), count,
			      call->param[RATE].number, call->param[MOMENTUM].number,
			      call->data[WEIGHTS], call->data[GRADIENT], call->data[VELOCITY],
			      call->data[OUTPUT], call->data[OUTPUT_VELOCITY]));
}
