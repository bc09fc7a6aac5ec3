/* SPDX-License-Identifier: Apache-2.0
 *
 * One round of Keccak-p[1600] (FIPS 202, section 3.2), for any type that holds lanes: an integer, a
 * vector of integers, a GPU's registers. All use this macro, so they compute the same. Lane (x, y)
 * is a[5 * y + x].
 *
 * T is the type, ROL(v, n) rotates left by n bits (1 to 63), XOR3(a, b, c) is a ^ b ^ c, CHI(a, b,
 * c) is a ^ (~b & c).
 */
#ifndef SGPU_CRYPTO_KECCAK_ROUND_H
#define SGPU_CRYPTO_KECCAK_ROUND_H

#if SGPU_CLONES && defined(__x86_64__) && defined(__GNUC__)
#define SGPU_KECCAK_X86 1
#define SGPU_KECCAK_HAS_AVX512 \
	(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
#define SGPU_KECCAK_HAS_AVX2 __builtin_cpu_supports("avx2")
#endif

/* Rounds 12 to 23 of Keccak-f[1600] are the rounds of Keccak-p[1600, 12]. */
#define SGPU_KECCAK_P12_CONSTANTS                                                    \
	0x000000008000808BULL, 0x800000000000008BULL, 0x8000000000008089ULL,         \
		0x8000000000008003ULL, 0x8000000000008002ULL, 0x8000000000000080ULL, \
		0x000000000000800AULL, 0x800000008000000AULL, 0x8000000080008081ULL, \
		0x8000000000008080ULL, 0x0000000080000001ULL, 0x8000000080008008ULL

#define SGPU_KECCAK_PARITY(T, XOR3, a, x) \
	T p##x = XOR3(XOR3(a[x], a[x + 5], a[x + 10]), a[x + 15], a[x + 20])
#define SGPU_KECCAK_CHI_ROW(CHI, a, at, b0, b1, b2, b3, b4) \
	a[at] = CHI(b0, b1, b2);                            \
	a[at + 1] = CHI(b1, b2, b3);                        \
	a[at + 2] = CHI(b2, b3, b4);                        \
	a[at + 3] = CHI(b3, b4, b0);                        \
	a[at + 4] = CHI(b4, b0, b1)

#define SGPU_KECCAK_ROUND(T, ROL, XOR3, CHI, a, constant)                                 \
	do {                                                                              \
		SGPU_KECCAK_PARITY(T, XOR3, a, 0);                                        \
		SGPU_KECCAK_PARITY(T, XOR3, a, 1);                                        \
		SGPU_KECCAK_PARITY(T, XOR3, a, 2);                                        \
		SGPU_KECCAK_PARITY(T, XOR3, a, 3);                                        \
		SGPU_KECCAK_PARITY(T, XOR3, a, 4);                                        \
		T r0 = ROL(p0, 1), r1 = ROL(p1, 1), r2 = ROL(p2, 1), r3 = ROL(p3, 1),     \
		  r4 = ROL(p4, 1);                                                        \
		T b0 = XOR3(a[0], p4, r1), b1 = ROL(XOR3(a[6], p0, r2), 44);              \
		T b2 = ROL(XOR3(a[12], p1, r3), 43), b3 = ROL(XOR3(a[18], p2, r4), 21);   \
		T b4 = ROL(XOR3(a[24], p3, r0), 14);                                      \
		T b5 = ROL(XOR3(a[3], p2, r4), 28), b6 = ROL(XOR3(a[9], p3, r0), 20);     \
		T b7 = ROL(XOR3(a[10], p4, r1), 3), b8 = ROL(XOR3(a[16], p0, r2), 45);    \
		T b9 = ROL(XOR3(a[22], p1, r3), 61);                                      \
		T b10 = ROL(XOR3(a[1], p0, r2), 1), b11 = ROL(XOR3(a[7], p1, r3), 6);     \
		T b12 = ROL(XOR3(a[13], p2, r4), 25), b13 = ROL(XOR3(a[19], p3, r0), 8);  \
		T b14 = ROL(XOR3(a[20], p4, r1), 18);                                     \
		T b15 = ROL(XOR3(a[4], p3, r0), 27), b16 = ROL(XOR3(a[5], p4, r1), 36);   \
		T b17 = ROL(XOR3(a[11], p0, r2), 10), b18 = ROL(XOR3(a[17], p1, r3), 15); \
		T b19 = ROL(XOR3(a[23], p2, r4), 56);                                     \
		T b20 = ROL(XOR3(a[2], p1, r3), 62), b21 = ROL(XOR3(a[8], p2, r4), 55);   \
		T b22 = ROL(XOR3(a[14], p3, r0), 39), b23 = ROL(XOR3(a[15], p4, r1), 41); \
		T b24 = ROL(XOR3(a[21], p0, r2), 2);                                      \
		SGPU_KECCAK_CHI_ROW(CHI, a, 0, b0, b1, b2, b3, b4);                       \
		SGPU_KECCAK_CHI_ROW(CHI, a, 5, b5, b6, b7, b8, b9);                       \
		SGPU_KECCAK_CHI_ROW(CHI, a, 10, b10, b11, b12, b13, b14);                 \
		SGPU_KECCAK_CHI_ROW(CHI, a, 15, b15, b16, b17, b18, b19);                 \
		SGPU_KECCAK_CHI_ROW(CHI, a, 20, b20, b21, b22, b23, b24);                 \
		a[0] ^= (constant);                                                       \
	} while (0)

#endif
