/* Fast-FedPG with Eq. (5) on one finite MDP, written by hand for one shape of work, in plain C (`plain.h`: four
   trajectories interleaved) or, with -DVECTORS, in AVX2's intrinsics (`vectors.h`: what a processor can do).

   rollouts IN OUT, compiled with -DS=25 -DB=16 -DK=50 -DH=10 (four actions).
   IN:  seed, rounds, agents (three int64), gamma, eta, theta0 (S A), rho (S), P (S A S), costs (agents S A), float64.
   OUT: seconds, theta (S A), each round's mean gradient g(theta_bar) (S A), float64; then the alias tables, int32.

   Next states come from alias tables with integer masses that sum to 2^32, actions from thresholds that are multiples of
   2^-32. Every trajectory has its own xoshiro128++, seeded with splitmix64 from (seed, round, estimate, agent,
   trajectory): results depend on the number of threads only in how the means are rounded. */

#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A 4
#define D (S * A)
_Static_assert(S <= 64, "pairs (s, a) in one byte");

enum { BITS = S <= 2 ? 1 : S <= 4 ? 2 : S <= 8 ? 3 : S <= 16 ? 4 : S <= 32 ? 5 : 6, BINS = 1 << BITS };

/* Entry = threshold (32 - BITS bits, from the smallest int32 up), then the alias (BITS bits). Row D is the start. */
static int32_t table[(D + 1) << BITS] __attribute__((aligned(64)));
static double gamma_, eta;

/* ---- Tables, in exact integers ---- */

static void alias_row(const double *p, int32_t *row) {
    const uint64_t all = 1ull << 32, full = all >> BITS, flip = 1ull << 31;
    uint64_t mass[BINS] = {0};
    double rest[BINS] = {0}, total = 0;
    uint64_t used = 0;
    for (int j = 0; j < S; j++) total += p[j];
    for (int j = 0; j < S; j++) {
        double x = p[j] / total * 4294967296.0;
        mass[j] = (uint64_t)x, rest[j] = x - floor(x), used += mass[j];
    }
    while (used != all) { /* what rounding left over goes to the largest remainders */
        int best = 0;
        if (used < all) {
            for (int j = 1; j < S; j++) best = rest[j] > rest[best] ? j : best;
            mass[best]++, used++, rest[best] = -1;
        } else {
            for (int j = 1; j < S; j++) best = mass[j] > mass[best] ? j : best;
            mass[best]--, used--;
        }
    }
    int small[BINS], large[BINS], n = 0, m = 0;
    for (int j = 0; j < BINS; j++) *(mass[j] < full ? &small[n++] : &large[m++]) = j;
    while (n) { /* the masses that are left always average to `full`, so a small one has a large one to lean on */
        int less = small[--n], more = large[m - 1];
        row[less] = (int32_t)(uint32_t)((mass[less] << BITS | (uint64_t)more) ^ flip);
        mass[more] -= full - mass[less];
        if (mass[more] < full) m--, small[n++] = more;
    }
    while (m) { /* full bins: their alias is themselves */
        int j = large[--m];
        row[j] = (int32_t)(uint32_t)(j ^ flip);
    }
}

/* ---- Random numbers ---- */

static inline uint64_t splitmix(uint64_t *x) {
    uint64_t z = (*x += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

#ifdef VECTORS
#include "vectors.h"
#else
#include "plain.h"
#endif

/* ---- Fast-FedPG ---- */

static uint64_t key_of(uint64_t seed, uint64_t round, uint64_t which, uint64_t agent) {
    uint64_t x = seed;
    x = splitmix(&x) ^ round;
    x = splitmix(&x) ^ which;
    x = splitmix(&x) ^ agent;
    return splitmix(&x);
}

static void *array(size_t numbers) {
    void *x = malloc(numbers * sizeof(double));
    if (!x) fprintf(stderr, "rollouts: too little memory\n"), exit(1);
    return x;
}

static void get(void *to, size_t numbers, FILE *file) {
    if (fread(to, 8, numbers, file) != numbers) fprintf(stderr, "rollouts: the input is too short\n"), exit(1);
}

int main(int argc, char **argv) {
    FILE *in = argc == 3 ? fopen(argv[1], "rb") : NULL, *out = in ? fopen(argv[2], "wb") : NULL;
    if (!out) return fprintf(stderr, "usage: rollouts IN OUT\n"), 2;
    int64_t head[3];
    double theta[D], rho[S], g_bar[D], change[D];
    get(head, 3, in), get(&gamma_, 1, in), get(&eta, 1, in), get(theta, D, in), get(rho, S, in);
    const int64_t rounds = head[1], N = head[2];
    double *P = array(D * S), *cost = array(N * D), *g_i = array(N * D), *gradients = array(rounds * D);
    get(P, D * S, in), get(cost, N * D, in);
    for (int i = 0; i < D; i++) alias_row(P + i * S, table + (i << BITS));
    alias_row(rho, table + (D << BITS));
    memset(g_i, 0, N * D * sizeof(double));

    const double began = omp_get_wtime();
    for (int64_t round = 0; round < rounds; round++) {
        memset(g_bar, 0, sizeof g_bar), memset(change, 0, sizeof change);
#pragma omp parallel for schedule(static) reduction(+ : g_bar[:D])
        for (int64_t i = 0; i < N; i++) { /* line 13 */
            estimate(key_of(head[0], round, 0, i), theta, cost + i * D, g_i + i * D);
            for (int d = 0; d < D; d++) g_bar[d] += g_i[i * D + d];
        }
        for (int d = 0; d < D; d++) g_bar[d] /= N;
#pragma omp parallel for schedule(static) reduction(+ : change[:D])
        for (int64_t i = 0; i < N; i++) { /* lines 4-9 */
            double own[D], g[D];
            memcpy(own, theta, sizeof own);
            for (int l = 0; l < H; l++) {
                estimate(key_of(head[0], round, l + 1, i), own, cost + i * D, g);
                for (int d = 0; d < D; d++) own[d] -= eta * (g[d] - g_i[i * D + d] + g_bar[d]); /* Eq. (6) */
            }
            for (int d = 0; d < D; d++) change[d] += own[d] - theta[d];
        }
        for (int d = 0; d < D; d++) theta[d] += change[d] / N; /* Eq. (7) */
        memcpy(gradients + round * D, g_bar, sizeof g_bar);
    }
    const double seconds = omp_get_wtime() - began;
    fwrite(&seconds, 8, 1, out), fwrite(theta, 8, D, out), fwrite(gradients, 8, rounds * D, out);
    fwrite(table, sizeof table, 1, out);
    printf("%.6f s, %lld environment steps, %d threads\n", seconds, (long long)rounds * N * (H + 1) * B * K,
           omp_get_max_threads());
    return fclose(out) != 0;
}
