/* One estimate, Eq. (5) averaged over B trajectories, eight of them in a vector. */

#include <immintrin.h>

#define LANES 8
#define GROUPS (B / LANES)
_Static_assert(B % LANES == 0 && A == 4, "B in lanes of 8, and one state's actions in one vector of doubles");

/* ---- Random numbers: 8 generators in a vector ---- */

typedef struct {
    __m256i a, b, c, d;
} Generators;

#define ROTATE(x, k) _mm256_or_si256(_mm256_slli_epi32(x, k), _mm256_srli_epi32(x, 32 - (k)))

static inline __m256i next(Generators *g) { /* xoshiro128++ 1.0 */
    __m256i result = _mm256_add_epi32(ROTATE(_mm256_add_epi32(g->a, g->d), 7), g->a);
    __m256i t = _mm256_slli_epi32(g->b, 9);
    g->c = _mm256_xor_si256(g->c, g->a);
    g->d = _mm256_xor_si256(g->d, g->b);
    g->b = _mm256_xor_si256(g->b, g->c);
    g->a = _mm256_xor_si256(g->a, g->d);
    g->c = _mm256_xor_si256(g->c, t);
    g->d = ROTATE(g->d, 11);
    return result;
}

static void seed_all(uint64_t key, Generators *g) {
    uint32_t words[4][B] __attribute__((aligned(32)));
    for (int b = 0; b < B; b++) {
        uint64_t x = splitmix(&key), y = splitmix(&key);
        words[0][b] = (uint32_t)x, words[1][b] = (uint32_t)(x >> 32);
        words[2][b] = (uint32_t)y, words[3][b] = (uint32_t)(y >> 32) | !(x | y);
    }
    for (int i = 0; i < GROUPS; i++) {
        __m256i *w = (__m256i *)&words[0][i * LANES];
        g[i] = (Generators){w[0], w[B / 8], w[2 * B / 8], w[3 * B / 8]};
    }
}

/* ---- One estimate, Eq. (5) averaged over B trajectories ---- */

extern __m256d _ZGVdN4v_exp(__m256d); /* glibc's vector exp, within 4 ulp */

static inline __m256d over_row(__m256d x, int maximum) { /* the maximum or the sum, in all four places */
    __m256d y = _mm256_permute_pd(x, 5);
    x = maximum ? _mm256_max_pd(x, y) : _mm256_add_pd(x, y);
    y = _mm256_permute4x64_pd(x, 0x4e);
    return maximum ? _mm256_max_pd(x, y) : _mm256_add_pd(x, y);
}

static void policy(const double *theta, double *pi, int32_t *below) {
    for (int s = 0; s < S; s++) { /* Eq. (2) */
        __m256d x = _mm256_loadu_pd(theta + s * A);
        x = _ZGVdN4v_exp(_mm256_sub_pd(x, over_row(x, 1)));
        x = _mm256_div_pd(x, over_row(x, 0));
        _mm256_storeu_pd(pi + s * A, x);
        /* cumulative: (a, a+b, a+b+c, 1), as int32 from -2^31: an action is the number of thresholds at or below u */
        __m256d shifted = _mm256_blend_pd(_mm256_permute4x64_pd(x, 0x90), _mm256_setzero_pd(), 1);
        x = _mm256_add_pd(x, shifted);
        x = _mm256_add_pd(x, _mm256_permute2f128_pd(x, x, 0x08));
        x = _mm256_fmadd_pd(x, _mm256_set1_pd(4294967296.0), _mm256_set1_pd(-2147483648.0));
        x = _mm256_min_pd(x, _mm256_set1_pd(2147483647.0));
        _mm_storeu_si128((__m128i *)(below + s * A), _mm256_cvttpd_epi32(x));
    }
}

/* Eight actions: the thresholds of each lane's state are one row of four; transposed, they are compared at once. */
static inline __m256i actions(const int32_t *below, __m256i s, __m256i u) {
#define ROW(x) _mm_load_si128((const __m128i *)(below + A * (uint64_t)(x)))
#define ROWS(i, j, shift) _mm256_set_m128i(ROW((uint32_t)(pair[j] >> shift)), ROW((uint32_t)(pair[i] >> shift)))
    const uint64_t pair[4] = {_mm256_extract_epi64(s, 0), _mm256_extract_epi64(s, 1), _mm256_extract_epi64(s, 2),
                              _mm256_extract_epi64(s, 3)};
    __m256i r0 = ROWS(0, 2, 0), r1 = ROWS(0, 2, 32), r2 = ROWS(1, 3, 0), r3 = ROWS(1, 3, 32);
    __m256i low01 = _mm256_unpacklo_epi32(r0, r1), low23 = _mm256_unpacklo_epi32(r2, r3);
    __m256i t0 = _mm256_unpacklo_epi64(low01, low23), t1 = _mm256_unpackhi_epi64(low01, low23);
    __m256i t2 = _mm256_unpacklo_epi64(_mm256_unpackhi_epi32(r0, r1), _mm256_unpackhi_epi32(r2, r3));
    __m256i first = _mm256_add_epi32(_mm256_set1_epi32(3), _mm256_cmpgt_epi32(t0, u)); /* a mask is -1 */
    return _mm256_add_epi32(first, _mm256_add_epi32(_mm256_cmpgt_epi32(t1, u), _mm256_cmpgt_epi32(t2, u)));
}

static void estimate(uint64_t key, const double *theta, const double *cost, double *g) {
    double pi[D], total[D] = {0}, R[B];
    int32_t below[D] __attribute__((aligned(64)));
    uint8_t seen[K][B] __attribute__((aligned(64)));
    policy(theta, pi, below);
    Generators gen[GROUPS];
    seed_all(key, gen);
    const __m256i last = _mm256_set1_epi32(BINS - 1);
    __m256i at[GROUPS];
    for (int i = 0; i < GROUPS; i++) at[i] = _mm256_set1_epi32(D);
    for (int t = 0; t < K; t++) {
        for (int i = 0; i < GROUPS; i++) {
            __m256i u = next(&gen[i]), v = next(&gen[i]);
            __m256i bin = _mm256_srli_epi32(u, 32 - BITS);
            __m256i row = _mm256_slli_epi32(at[i], BITS), e = _mm256_i32gather_epi32(table, _mm256_or_si256(row, bin), 4);
            __m256i rest = _mm256_or_si256(_mm256_slli_epi32(u, BITS), last); /* at equal thresholds no alias wins */
            __m256i keep = _mm256_cmpgt_epi32(e, rest);
            __m256i s = _mm256_blendv_epi8(_mm256_and_si256(e, last), bin, keep);
            __m256i a = actions(below, s, v);
            at[i] = _mm256_add_epi32(_mm256_slli_epi32(s, 2), a);
            __m128i w = _mm_packus_epi32(_mm256_castsi256_si128(at[i]), _mm256_extracti128_si256(at[i], 1));
            _mm_storel_epi64((__m128i *)&seen[t][i * LANES], _mm_packus_epi16(w, w));
        }
    }
    __m256d sum[B / 4];
    for (int i = 0; i < B / 4; i++) sum[i] = _mm256_setzero_pd();
    for (int t = K - 1; t >= 0; t--)
        for (int i = 0; i < B / 4; i++) {
            const uint8_t *n = &seen[t][4 * i];
            __m256d c = _mm256_set_pd(cost[n[3]], cost[n[2]], cost[n[1]], cost[n[0]]);
            sum[i] = _mm256_fmadd_pd(sum[i], _mm256_set1_pd(gamma_), c); /* sum_t gamma^t r_t, from the end */
        }
    for (int i = 0; i < B / 4; i++) _mm256_storeu_pd(R + 4 * i, sum[i]);
    for (int b = 0; b < B; b++) R[b] /= B;
    for (int t = 0; t < K; t++)
#pragma GCC unroll 16
        for (int b = 0; b < B; b++) total[seen[t][b]] += R[b];
    for (int s = 0; s < S; s++) { /* a score is e_{s,a} - pi(.|s) in row s */
        __m256d w = _mm256_loadu_pd(total + s * A);
        _mm256_storeu_pd(g + s * A, _mm256_fnmadd_pd(_mm256_loadu_pd(pi + s * A), over_row(w, 0), w));
    }
}
