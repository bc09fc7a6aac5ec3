/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes keys' states, one a thread block: opens sealed keys, expands keys, and computes powers of
 * H.
 */
#include <cuda_runtime.h>

#include <device/cuda/kernels/aead_state.cuh>
#include <device/cuda/kernels/delivery.cuh>
#include <device/cuda/kernels/gf128.cuh>

using namespace sgpu_aead;

enum { THREADS = 1024 };

struct scratch {
	uint32_t t0[256];
	uint32_t round_keys[sgpu_aes::ROUND_KEY_WORDS];
	uint4 power[POWERS];
	/* key, base nonce, and USABLE if they have verified */
	alignas(16) uint32_t material[SGPU_CUDA_MATERIAL / 4];
	struct sgpu_cuda_delivery delivery;
	uint32_t session[sgpu_aes::ROUND_KEY_WORDS];
	alignas(16) uint32_t stream[SGPU_DELIVERY_TERMS][4];
	uint4 term[SGPU_DELIVERY_TERMS];
};

/* Makes the powers of H by doubling: H^n times H^1 to H^n gives the next n. */
static __device__ void make_powers(scratch *s)
{
#pragma unroll 1
	for (int n = 1; n < POWERS - 1; n *= 2) {
		int i = (int)threadIdx.x + 1;

		if (i <= n && n + i < POWERS) {
			s->power[n + i] = sgpu_gf_product(s->power[n], s->power[i]);
		}
		__syncthreads();
	}
}

/* Opens the block's delivery into s->material. One warp computes the key stream, another GHASH. All
 * threads call it. */
static __device__ void receive(scratch *s, const sgpu_cuda_message &m)
{
	enum { WORDS = sizeof(sgpu_cuda_delivery) / 4 };
	const key_state *session = (const key_state *)m.session;
	const sgpu_cuda_delivery &d = s->delivery;
	int t = threadIdx.x, i = t - 32;

	if (t < WORDS) {
		((uint32_t *)&s->delivery)[t] = ((const uint32_t *)m.keys)[blockIdx.x * WORDS + t];
	}
	if (t < sgpu_aes::ROUND_KEY_WORDS) {
		s->session[t] = ((const uint32_t *)session->round_keys)[t];
	}
	__syncthreads();
	if (t < SGPU_DELIVERY_TERMS) {
		sgpu_delivery_stream(&d, s->t0, s->session, (uint32_t)t + 1, s->stream[t]);
	} else if (i >= 0 && i < SGPU_DELIVERY_TERMS) {
		s->term[i] = sgpu_delivery_term(&d, i, session->power[SGPU_DELIVERY_TERMS - i]);
	}
	__syncthreads();
	if (t == 0) {
		uint4 tag = *(const uint4 *)s->stream[0];
		uint32_t wrong;

		for (int k = 0; k < SGPU_DELIVERY_TERMS; k++) {
			tag = make_uint4(tag.x ^ s->term[k].x, tag.y ^ s->term[k].y,
					 tag.z ^ s->term[k].z, tag.w ^ s->term[k].w);
		}
		wrong = (tag.x ^ d.tag[0]) | (tag.y ^ d.tag[1]) | (tag.z ^ d.tag[2]) |
			(tag.w ^ d.tag[3]);
		s->material[SGPU_DELIVERY_WORDS] =
			wrong == 0 && session->nonce.w == USABLE ? USABLE : 0;
	}
	if (t < SGPU_DELIVERY_WORDS) {
		s->material[t] = d.words[t] ^ s->stream[1 + t / 4][t % 4];
	}
}

template <bool SEALED_KEY>
static __global__ void __launch_bounds__(THREADS, 1)
	set_up(const __grid_constant__ sgpu_cuda_message message, uint4 *material)
{
	__shared__ __align__(16) scratch s;
	key_state *state = (key_state *)message.states + blockIdx.x;
	int t = threadIdx.x;

	if (t < 256) {
		s.t0[t] = sgpu_aes::t0_table.at[t];
	}
	if (SEALED_KEY) {
		__syncthreads();
		receive(&s, message);
	} else if (t < SGPU_CUDA_MATERIAL / 16) {
		((uint4 *)s.material)[t] = material[t];
		material[t] = make_uint4(0, 0, 0, 0);
		if (t == SGPU_CUDA_MATERIAL / 16 - 1) {
			s.material[SGPU_DELIVERY_WORDS] = USABLE;
		}
	}
	__syncthreads();
	bool usable = s.material[SGPU_DELIVERY_WORDS] == USABLE;
	__syncthreads();
	if (!usable) {
		/* The state stays cleared. */
		for (int i = t; i < (int)(sizeof(s) / 4); i += THREADS) {
			((volatile uint32_t *)&s)[i] = 0;
		}
		if (t == 0) {
			state->nonce = make_uint4(0, 0, 0, 0);
		}
		return;
	}
	if (t == 0) {
		sgpu_aes_expand(s.t0, s.material, s.round_keys);
		s.power[0] = make_uint4(0, 0, 0, 0);
		/* H is the block of zeros, enciphered. */
		sgpu_aes_encipher(s.t0, s.round_keys, (const uint32_t *)&s.power[0],
				  (uint32_t *)&s.power[1]);
		state->nonce = ((const uint4 *)s.material)[2];
	}
	__syncthreads();
	if (t < sgpu_aes::ROUND_KEY_WORDS) {
		((uint32_t *)state->round_keys)[t] = s.round_keys[t];
	}
	if (t == THREADS - 1) {
		/* The data's length in bits, big-endian, in the last eight bytes. */
		uint4 length = make_uint4(0, 0, 0, __byte_perm(CHUNK * 8, 0, 0x0123));

		state->full_length = sgpu_gf_product(length, s.power[1]);
	}
	make_powers(&s);
	for (int i = t; i < POWERS; i += THREADS) {
		state->power[i] = s.power[i];
	}
	__syncthreads();
	for (int i = t; i < (int)(sizeof(s) / 4); i += THREADS) {
		((volatile uint32_t *)&s)[i] = 0;
	}
}

extern "C" int sgpu_cuda_key_setup(void *stream, uint64_t material, uint64_t state)
{
	sgpu_cuda_message none = {};

	none.states = state;
	set_up<false><<<1, THREADS, 0, (cudaStream_t)stream>>>(none, (uint4 *)material);
	return (int)cudaGetLastError();
}

extern "C" int sgpu_cuda_keys_deliver(void *stream, const struct sgpu_cuda_message *message,
				      unsigned count)
{
	set_up<true><<<count, THREADS, 0, (cudaStream_t)stream>>>(*message, NULL);
	return (int)cudaGetLastError();
}
