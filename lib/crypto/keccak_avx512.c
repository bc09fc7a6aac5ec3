/* SPDX-License-Identifier: Apache-2.0
 *
 * Keccak-p[1600, 12] of one state with AVX-512, for KT128's final node, which cannot be computed in
 * parallel.
 *
 * A register holds a row of the state (y fixed). Theta and rho work on rows. Pi turns row y into
 * column y, so permuting each register in itself gives the columns. Chi works on columns, which are
 * then transposed back to rows. Lanes 5 to 7 of a column repeat the rows that the transposition
 * needs there. Almost every instruction waits for the one before; this form has the fewest.
 */
#include "crypto/kt128.h"
#include "crypto/keccak_round.h"

#ifdef SGPU_KECCAK_X86
#include <immintrin.h>

#define ROW_MASK 0x1f
#define XOR3(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0x96)
#define CHI(a, b, c) _mm512_ternarylogic_epi64(a, b, c, 0xd2)
#define PERMUTE(a, index) _mm512_permutexvar_epi64(index, a)

/* By how much rho rotates lane x of row y. */
static const uint64_t rotation[5][8] = {
	{ 0, 1, 62, 28, 27 },  { 36, 44, 6, 55, 20 }, { 3, 10, 43, 25, 39 },
	{ 41, 45, 15, 21, 8 }, { 18, 2, 61, 56, 14 },
};
/* The lanes of a column hold rows 0, 1, 2, 3, 4, 1, 0, 2. Row r of column y comes from lane 3 (r -
 * 3 y) of row y. */
static const uint64_t to_column[5][8] = {
	{ 0, 3, 1, 4, 2, 3, 0, 1 }, { 1, 4, 2, 0, 3, 4, 1, 2 }, { 2, 0, 3, 1, 4, 0, 2, 3 },
	{ 3, 1, 4, 2, 0, 1, 3, 4 }, { 4, 2, 0, 3, 1, 2, 4, 0 },
};
/* The lanes of a row: 0 to 7 from columns 0 and 1 interleaved; 8 to 15 from columns 2 and 3
 * interleaved, with some lanes of column 4 blended in. */
static const uint64_t to_row[5][8] = {
	{ 0, 1, 8, 9, 14 },  { 0, 1, 8, 9, 13 },  { 2, 3, 10, 11, 15 },
	{ 2, 3, 10, 11, 0 }, { 4, 5, 12, 13, 0 },
};
static const uint64_t beside[2][8] = { { 4, 0, 1, 2, 3 }, { 1, 2, 3, 4, 0 } };
static const uint64_t constants[] = { SGPU_KECCAK_P12_CONSTANTS };
enum { ROUNDS = sizeof(constants) / sizeof(constants[0]) };

#define LOAD(table) _mm512_loadu_si512(table)
#define LOAD_ROW(from) _mm512_maskz_loadu_epi64(ROW_MASK, from)

__attribute__((target("avx512f,avx512vl"))) void sgpu_keccak_blocks_planes(uint64_t lanes[],
									   const uint8_t *data,
									   size_t blocks)
{
	__m512i r0 = LOAD_ROW(lanes), r1 = LOAD_ROW(lanes + 5), r2 = LOAD_ROW(lanes + 10),
		r3 = LOAD_ROW(lanes + 15);
	__m512i r4 = LOAD_ROW(lanes + 20);
	const __m512i rotate0 = LOAD(rotation[0]), rotate1 = LOAD(rotation[1]),
		      rotate2 = LOAD(rotation[2]);
	const __m512i rotate3 = LOAD(rotation[3]), rotate4 = LOAD(rotation[4]);
	const __m512i column0 = LOAD(to_column[0]), column1 = LOAD(to_column[1]),
		      column2 = LOAD(to_column[2]);
	const __m512i column3 = LOAD(to_column[3]), column4 = LOAD(to_column[4]);
	const __m512i row0 = LOAD(to_row[0]), row1 = LOAD(to_row[1]), row2 = LOAD(to_row[2]),
		      row3 = LOAD(to_row[3]);
	const __m512i row4 = LOAD(to_row[4]), left = LOAD(beside[0]), right = LOAD(beside[1]);
	const __m512i three = _mm512_set1_epi64(3), four = _mm512_set1_epi64(4);
	unsigned i;

	for (; blocks > 0; blocks--, data += SGPU_TURBOSHAKE_RATE) {
		r0 = _mm512_xor_si512(r0, LOAD_ROW(data));
		r1 = _mm512_xor_si512(r1, LOAD_ROW(data + 40));
		r2 = _mm512_xor_si512(r2, LOAD_ROW(data + 80));
		r3 = _mm512_xor_si512(r3, LOAD_ROW(data + 120));
		r4 = _mm512_xor_si512(r4, _mm512_maskz_loadu_epi64(1, data + 160));
		for (i = 0; i < ROUNDS; i++) {
			__m512i parity = XOR3(XOR3(r0, r1, r2), r3, r4);
			__m512i after = _mm512_rol_epi64(PERMUTE(parity, right), 1),
				before = PERMUTE(parity, left);
			__m512i a0 = PERMUTE(_mm512_rolv_epi64(XOR3(r0, before, after), rotate0),
					     column0);
			__m512i a1 = PERMUTE(_mm512_rolv_epi64(XOR3(r1, before, after), rotate1),
					     column1);
			__m512i a2 = PERMUTE(_mm512_rolv_epi64(XOR3(r2, before, after), rotate2),
					     column2);
			__m512i a3 = PERMUTE(_mm512_rolv_epi64(XOR3(r3, before, after), rotate3),
					     column3);
			__m512i a4 = PERMUTE(_mm512_rolv_epi64(XOR3(r4, before, after), rotate4),
					     column4);
			/* Adds iota to both copies of row 0 where no instruction waits for it. */
			__m512i constant = _mm512_maskz_set1_epi64(0x41, (long long)constants[i]);
			__m512i b0 = CHI(_mm512_xor_si512(a0, constant), a1, a2),
				b1 = CHI(a1, a2, a3);
			__m512i b2 = CHI(a2, a3, a4), b3 = CHI(a3, a4, a0), b4 = CHI(a4, a0, a1);
			/* `even` has rows 0, 2 and 4 of two columns, `odd` rows 1 and 3. */
			__m512i even01 = _mm512_unpacklo_epi64(b0, b1),
				odd01 = _mm512_unpackhi_epi64(b0, b1);
			__m512i even =
				_mm512_mask_blend_epi64(0xc0, _mm512_unpacklo_epi64(b2, b3), b4);
			__m512i odd =
				_mm512_mask_blend_epi64(0x20, _mm512_unpackhi_epi64(b2, b3), b4);

			r0 = _mm512_permutex2var_epi64(even01, row0, even);
			r1 = _mm512_permutex2var_epi64(odd01, row1, odd);
			r2 = _mm512_permutex2var_epi64(even01, row2, even);
			r3 = _mm512_mask_permutexvar_epi64(
				_mm512_permutex2var_epi64(odd01, row3, odd), 0x10, three, b4);
			r4 = _mm512_mask_permutexvar_epi64(
				_mm512_permutex2var_epi64(even01, row4, even), 0x10, four, b4);
		}
	}
	_mm512_mask_storeu_epi64(lanes, ROW_MASK, r0);
	_mm512_mask_storeu_epi64(lanes + 5, ROW_MASK, r1);
	_mm512_mask_storeu_epi64(lanes + 10, ROW_MASK, r2);
	_mm512_mask_storeu_epi64(lanes + 15, ROW_MASK, r3);
	_mm512_mask_storeu_epi64(lanes + 20, ROW_MASK, r4);
}
#endif
