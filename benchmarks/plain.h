/* One estimate, Eq. (5) averaged over B trajectories, four of them interleaved. */

#define LANES 4
_Static_assert(B % LANES == 0, "B in groups of 4");

static inline uint32_t left(uint32_t x, int k) { return x << k | x >> (32 - k); }

static inline uint32_t next(uint32_t *s) { /* xoshiro128++ 1.0 */
    uint32_t result = left(s[0] + s[3], 7) + s[0], t = s[1] << 9;
    s[2] ^= s[0], s[3] ^= s[1], s[1] ^= s[2], s[0] ^= s[3], s[2] ^= t, s[3] = left(s[3], 11);
    return result;
}

static void policy(const double *theta, double *pi, int32_t *below) {
    for (int s = 0; s < S; s++) { /* Eq. (2) */
        double most = theta[s * A], total = 0, sum = 0;
        for (int a = 1; a < A; a++) most = theta[s * A + a] > most ? theta[s * A + a] : most;
        for (int a = 0; a < A; a++) total += pi[s * A + a] = exp(theta[s * A + a] - most);
        for (int a = 0; a < A; a++) {
            pi[s * A + a] /= total;
            sum += pi[s * A + a];
            double edge = sum * 4294967296.0 - 2147483648.0; /* from -2^31: an action is the number of edges at or below u */
            below[s * A + a] = (int32_t)(edge < 2147483647.0 ? edge : 2147483647.0);
        }
    }
}

static void estimate(uint64_t key, const double *theta, const double *cost, double *g) {
    double pi[D], total[D] = {0};
    int32_t below[D];
    policy(theta, pi, below);
    for (int b = 0; b < B; b += LANES) {
        uint32_t gen[LANES][4];
        int32_t at[LANES];
        uint8_t seen[LANES][K];
        double sum[LANES] = {0}, power = 1.0 / B;
        for (int l = 0; l < LANES; l++) {
            uint64_t x = splitmix(&key), y = splitmix(&key);
            gen[l][0] = (uint32_t)x, gen[l][1] = (uint32_t)(x >> 32);
            gen[l][2] = (uint32_t)y, gen[l][3] = (uint32_t)(y >> 32) | !(x | y);
            at[l] = D;
        }
        for (int t = 0; t < K; t++, power *= gamma_)
            for (int l = 0; l < LANES; l++) {
                const uint32_t u = next(gen[l]);
                const int32_t v = (int32_t)next(gen[l]), bin = (int32_t)(u >> (32 - BITS));
                const int32_t e = table[at[l] << BITS | bin], rest = (int32_t)(u << BITS | (BINS - 1));
                const int32_t s = e > rest ? bin : e & (BINS - 1), *row = below + s * A;
                at[l] = s * A + (v >= row[0]) + (v >= row[1]) + (v >= row[2]);
                seen[l][t] = (uint8_t)at[l];
                sum[l] += power * cost[at[l]];
            }
        for (int l = 0; l < LANES; l++)
            for (int t = 0; t < K; t++) total[seen[l][t]] += sum[l];
    }
    for (int s = 0; s < S; s++) { /* a score is e_{s,a} - pi(.|s) in row s */
        double w = 0;
        for (int a = 0; a < A; a++) w += total[s * A + a];
        for (int a = 0; a < A; a++) g[s * A + a] = total[s * A + a] - pi[s * A + a] * w;
    }
}
