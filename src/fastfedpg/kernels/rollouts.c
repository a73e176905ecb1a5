/* The two inner loops of the sampled oracles for CPUs, called by XLA: `play` and `weigh` of oracles/sampled.py, which
 * are their definition: trajectories and sums of weights are equal to the last bit, so sums keep its order.
 *
 * Leading axes are lanes: agents, seeds, settings. An argument that lanes share has length 1 there. Types and lengths
 * are checked before anything is read, states and pairs before they are indices.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "ffi.h"

enum { TOGETHER = 8, TILE = 32, MOST_AXES = 16, SPLIT = 8 };

typedef XLA_FFI_Buffer Buffer;

/* ---- lanes ---- */

typedef struct {
  char *data;
  int64_t step[MOST_AXES]; /* bytes from one lane to the next along each leading axis: 0 where they share */
} Operand;

typedef struct Work Work;
typedef int Lane(const Work *, char **operand); /* what was wrong */

enum { NOTHING, NOT_THERE, NO_MEMORY };

struct Work {
  Lane *lane;
  int axes, operands;
  int64_t length[MOST_AXES], lanes, block;
  Operand operand[8];
  int64_t S, A, fours, B, K, W, W0, d; /* states, actions, in fours, trajectories, steps, bins, pairs (s, a) */
  int weights, wide;         /* which, and whether they are float64 */
  atomic_llong next, done;
  atomic_int users, wrong;
};

static void use(Work *w, int64_t n) {
  char *at[8];
  for (int o = 0; o < w->operands; o++) {
    int64_t rest = n;
    at[o] = w->operand[o].data;
    for (int x = w->axes - 1; x >= 0; x--) {
      at[o] += rest % w->length[x] * w->operand[o].step[x];
      rest /= w->length[x];
    }
  }
  const int wrong = w->lane(w, at);
  if (wrong) atomic_store(&w->wrong, wrong);
}

static void help(void *data) {
  Work *w = data;
  for (;;) {
    int64_t first = atomic_fetch_add(&w->next, w->block);
    if (first >= w->lanes) break;
    int64_t last = first + w->block < w->lanes ? first + w->block : w->lanes;
    for (int64_t n = first; n < last; n++) use(w, n);
    atomic_fetch_add(&w->done, last - first);
  }
  if (atomic_fetch_sub(&w->users, 1) == 1) free(w);
}

static int failed(XLA_FFI_CallFrame *call, XLA_FFI_Error *error) {
  XLA_FFI_Error_Destroy_Args args = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, NULL, error};
  if (error) call->api->XLA_FFI_Error_Destroy(&args);
  return error != NULL;
}

/* All lanes, on this thread and on as many of XLA's as come in time: what was wrong in any of them. */
static int run(XLA_FFI_CallFrame *call, Work *w) {
  int64_t threads = 1;
  XLA_FFI_ThreadPool_NumThreads_Args asked = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, NULL, call->ctx, &threads};
  if (failed(call, call->api->XLA_FFI_ThreadPool_NumThreads(&asked))) threads = 1;
  w->block = w->lanes / (SPLIT * threads) + 1;
  int64_t helpers = (w->lanes + w->block - 1) / w->block - 1;
  if (helpers > threads - 1) helpers = threads - 1;
  atomic_store(&w->users, 2);
  for (int64_t i = 0; i < helpers; i++) {
    XLA_FFI_ThreadPool_Schedule_Args task = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, NULL, call->ctx, help, w};
    atomic_fetch_add(&w->users, 1);
    if (failed(call, call->api->XLA_FFI_ThreadPool_Schedule(&task))) {
      atomic_fetch_sub(&w->users, 1);
      break;
    }
  }
  help(w);
  while (atomic_load(&w->done) < w->lanes) sched_yield();
  const int wrong = atomic_load(&w->wrong);
  if (atomic_fetch_sub(&w->users, 1) == 1) free(w);
  return wrong;
}

static int64_t bytes(XLA_FFI_DataType type) { return type == XLA_FFI_DataType_F64 ? 8 : 4; }

/* Whether an array has this type, `own` axes beside those of the lanes, and in these the result's length or 1. */
static int fits(const Buffer *b, XLA_FFI_DataType type, const Buffer *result, int64_t lanes, int own) {
  int right = b->dtype == type && b->rank == lanes + own;
  for (int64_t x = 0; right && x < lanes; x++) right = b->dims[x] == result->dims[x] || b->dims[x] == 1;
  return right;
}

/* The length of an array's axis, counted from the last: 1 is the last. */
static int64_t length(const Buffer *b, int from_last) { return b->dims[b->rank - from_last]; }

/* An argument or result whose last `own` axes belong to a lane. */
static void add(Work *w, Buffer *b, int own) {
  Operand *o = &w->operand[w->operands++];
  int64_t size = bytes(b->dtype);
  for (int64_t x = b->rank - 1; x >= b->rank - own; x--) size *= b->dims[x];
  o->data = b->data;
  for (int x = w->axes - 1; x >= 0; x--) {
    o->step[x] = b->dims[x] == 1 ? 0 : size;
    size *= b->dims[x];
  }
}

static Work *work(Lane *lane, Buffer *result, int own) {
  Work *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  w->lane = lane;
  w->axes = (int)(result->rank - own);
  w->lanes = 1;
  for (int x = 0; x < w->axes; x++) w->lanes *= w->length[x] = result->dims[x];
  return w;
}

/* ---- play: trajectories, eight at a time ---- */

typedef int32_t V __attribute__((vector_size(4 * TOGETHER)));
typedef uint32_t U __attribute__((vector_size(4 * TOGETHER)));

typedef struct { U s0, s1, s2, s3; } Generators;

static inline U left(U x, int k) { return x << k | x >> (32 - k); }

/* 31 random bits from each generator: xoshiro128++, Blackman and Vigna (2021). */
static inline V draw(Generators *g) {
  U v = (left(g->s0 + g->s3, 7) + g->s0) >> 1, t = g->s1 << 9;
  g->s2 ^= g->s0, g->s3 ^= g->s1, g->s1 ^= g->s2, g->s0 ^= g->s3, g->s2 ^= t, g->s3 = left(g->s3, 11);
  return (V)v;
}

/* Four numbers at each of eight places, as four vectors: loads and shuffles are faster than gathers. */
typedef struct { V at[4]; } Rows;

static inline Rows rows(const int32_t *from, V place) {
  Rows r;
#ifdef __AVX2__
#define ROW(l) _mm_loadu_si128((const __m128i *)(from + 4 * (int64_t)place[l]))
#define PAIR(l) _mm256_set_m128i(ROW(l + 4), ROW(l))
  const __m256i m0 = PAIR(0), m1 = PAIR(1), m2 = PAIR(2), m3 = PAIR(3);
  const __m256i low = _mm256_unpacklo_epi32(m0, m1), lower = _mm256_unpacklo_epi32(m2, m3);
  const __m256i high = _mm256_unpackhi_epi32(m0, m1), higher = _mm256_unpackhi_epi32(m2, m3);
  r.at[0] = (V)_mm256_unpacklo_epi64(low, lower), r.at[1] = (V)_mm256_unpackhi_epi64(low, lower);
  r.at[2] = (V)_mm256_unpacklo_epi64(high, higher), r.at[3] = (V)_mm256_unpackhi_epi64(high, higher);
#else
  for (int l = 0; l < TOGETHER; l++)
    for (int j = 0; j < 4; j++) r.at[j][l] = from[4 * (int64_t)place[l] + j];
#endif
  return r;
}

/* The outcomes of rows of a table with 2^bins bins. */
static inline V outcomes(const int32_t *table, int bins, V row, V v) {
  const V rest = v & (int32_t)((1u << (31 - bins)) - 1);
  const Rows r = rows(table, (row << bins) + (v >> (31 - bins)));
  const V first = rest < r.at[0]; /* a comparison that holds is -1 */
  return (first & r.at[1]) | (~first & r.at[2]);
}

/* The smaller of two numbers without sign, and the larger: one instruction each, where there is one. */
static inline V least(V x, V y) {
#ifdef __AVX2__
  return (V)_mm256_min_epu32((__m256i)x, (__m256i)y);
#else
  const V first = (V)((U)x < (U)y);
  return (first & x) | (~first & y);
#endif
}

static inline V most(V x, V y) {
#ifdef __AVX2__
  return (V)_mm256_max_epu32((__m256i)x, (__m256i)y);
#else
  const V first = (V)((U)x > (U)y);
  return (first & x) | (~first & y);
#endif
}

static int power_of_two(int64_t n) { return n > 0 && n <= INT64_C(1) << 31 && !(n & (n - 1)); }

static inline int log2_of(int64_t n) { return 63 - __builtin_clzll((unsigned long long)n); }

/* `groups` times eight trajectories from number b on, or as many as there are; one group's loads hide another's. */
static inline __attribute__((always_inline)) int play_some(const Work *w, char **at, const int fours, const int groups,
                                                           const int64_t b) {
  const int32_t *next = (void *)at[0], *start = (void *)at[1], *below = (void *)at[2];
  const uint32_t *seed = (void *)at[3];
  int32_t *visited = (void *)at[4];
  const int32_t A = (int32_t)w->A;
  const V last = (V){0} + (A - 1), last_state = (V){0} + (int32_t)(w->S - 1);
  const int bins = log2_of(w->W), bins0 = log2_of(w->W0);
  const int lanes = w->B - b < groups * TOGETHER ? (int)(w->B - b) : groups * TOGETHER;
  Generators g[2] = {0};
  V pair[2] = {0}, highest = {0}, seen[TILE][2];
  for (int n = 0; n < groups * TOGETHER; n++) {
    const uint32_t *own = seed + 4 * (b + (n < lanes ? n : 0));
    Generators *to = &g[n / TOGETHER];
    const int l = n % TOGETHER;
    to->s0[l] = own[0], to->s1[l] = own[1], to->s2[l] = own[2], to->s3[l] = own[3];
  }
  for (int64_t first = 0; first < w->K; first += TILE) {
    const int steps = w->K - first < TILE ? (int)(w->K - first) : TILE;
    for (int t = 0; t < steps; t++)
      for (int h = 0; h < groups; h++) {
        const V u = draw(&g[h]), v = draw(&g[h]);
        const V then = first + t ? outcomes(next, bins, pair[h], u) : outcomes(start, bins0, pair[h], u);
        const V s = least(then, last_state); /* no index is out of range; if one had been, it is told afterwards */
        highest = most(highest, then);
        V a = {0};
        for (int j = 0; j < fours; j++) {
          const Rows edge = rows(below, s * fours + j);
          a -= (v >= edge.at[0]) + (v >= edge.at[1]) + (v >= edge.at[2]) + (v >= edge.at[3]);
        }
        a = least(a, last); /* what fills a row up is at most the largest v */
        seen[t][h] = pair[h] = s * A + a;
      }
    for (int n = 0; n < lanes; n++)
      for (int t = 0; t < steps; t++) visited[(b + n) * w->K + first + t] = seen[t][n / TOGETHER][n % TOGETHER];
  }
  int any = 0;
  for (int l = 0; l < TOGETHER; l++) any |= (uint32_t)highest[l] >= w->S;
  return any;
}

static inline __attribute__((always_inline)) int play_with(const Work *w, char **at, const int fours) {
  int64_t b = 0;
  int any = 0;
  for (; w->B - b > TOGETHER; b += 2 * TOGETHER) any |= play_some(w, at, fours, 2, b);
  if (b < w->B) any |= play_some(w, at, fours, 1, b);
  return any ? NOT_THERE : NOTHING;
}

static int play_lane(const Work *w, char **at) {
  if (w->fours == 1) return play_with(w, at, 1); /* a loop of known length */
  return play_with(w, at, (int)w->fours);
}

XLA_FFI_Error *fastfedpg_play(XLA_FFI_CallFrame *call) {
  if (asked_for_version(call)) return NULL;
  if (call->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  Buffer **in = (Buffer **)call->args.args, **out = (Buffer **)call->rets.rets;
  const int own[] = {3, 2, 2, 2};
  int right = call->args.size == 4 && call->rets.size == 1 && out[0]->rank >= 2 && out[0]->rank - 2 <= MOST_AXES;
  right = right && out[0]->dtype == XLA_FFI_DataType_S32;
  for (int i = 0; right && i < 4; i++)
    right = fits(in[i], i == 3 ? XLA_FFI_DataType_U32 : XLA_FFI_DataType_S32, out[0], out[0]->rank - 2, own[i]);
  if (!right) return complain(call, "play takes 3 arrays of int32, 1 of uint32, and gives 1 of int32, for the same lanes");
  const int64_t pairs = length(in[0], 3), W = length(in[0], 2), W0 = length(in[1], 2), S = length(in[2], 2);
  const int64_t edges = length(in[2], 1), B = length(out[0], 2), K = length(out[0], 1);
  if (length(in[0], 1) != 4 || length(in[1], 1) != 4 || !power_of_two(W) || !power_of_two(W0))
    return complain(call, "play: tables have %lld and %lld bins of %lld and %lld numbers; a power of two of 4 is right",
                    (long long)W, (long long)W0, (long long)length(in[0], 1), (long long)length(in[1], 1));
  if (S < 1 || pairs < 1 || pairs % S || pairs > INT32_MAX / W || edges < 4 || edges > INT32_MAX / S)
    return complain(call, "play: %lld pairs of %lld bins, and %lld states with %lld thresholds, do not go together",
                    (long long)pairs, (long long)W, (long long)S, (long long)edges);
  if (edges != (pairs / S > 5 ? (pairs / S + 2) / 4 * 4 : 4))
    return complain(call, "play: %lld thresholds for %lld actions; one less than actions, filled up to fours, is right",
                    (long long)edges, (long long)(pairs / S));
  if (length(in[3], 2) != B || length(in[3], 1) != 4)
    return complain(call, "play: %lld generators of %lld words for %lld trajectories; one of 4 for each is right",
                    (long long)length(in[3], 2), (long long)length(in[3], 1), (long long)B);
  Work *w = work(play_lane, out[0], 2);
  if (!w) return complain(call, "no memory");
  for (int i = 0; i < 4; i++) add(w, in[i], own[i]);
  add(w, out[0], 2);
  w->B = B, w->K = K, w->W = W, w->W0 = W0, w->S = S, w->A = pairs / S, w->fours = edges / 4;
  return run(call, w) ? complain(call, "play: a table leads to a state not from 0 to %lld", (long long)S - 1) : NULL;
}

/* ---- weigh: sums of weights ---- */

enum { WHOLE, TO_GO, LEAVE_ONE_OUT };

#define T double
#define WEIGH weigh_double
#include "weigh.h"
#undef T
#undef WEIGH
#define T float
#define WEIGH weigh_float
#include "weigh.h"

static int weigh_lane(const Work *w, char **at) {
  const int32_t *visited = (void *)at[0];
  uint32_t highest = 0;
  for (int64_t i = 0; i < w->B * w->K; i++)
    highest = highest < (uint32_t)visited[i] ? (uint32_t)visited[i] : highest; /* what is negative is high */
  if (w->B * w->K > 0 && (highest > INT32_MAX || highest >= w->d)) return NOT_THERE;
  if (w->wide) return weigh_double(w, visited, (void *)at[1], (void *)at[2], (void *)at[3]);
  return weigh_float(w, visited, (void *)at[1], (void *)at[2], (void *)at[3]);
}

/* Which weights, or -1. */
static int32_t which(const XLA_FFI_Attrs *attrs) {
  if (attrs->size != 1 || attrs->types[0] != XLA_FFI_AttrType_SCALAR) return -1;
  const XLA_FFI_Scalar *number = attrs->attrs[0];
  if (number->dtype != XLA_FFI_DataType_S32) return -1;
  return *(int32_t *)number->value;
}

XLA_FFI_Error *fastfedpg_weigh(XLA_FFI_CallFrame *call) {
  if (asked_for_version(call)) return NULL;
  if (call->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  Buffer **in = (Buffer **)call->args.args, **out = (Buffer **)call->rets.rets;
  int right = call->args.size == 3 && call->rets.size == 1 && out[0]->rank >= 1 && out[0]->rank - 1 <= MOST_AXES;
  const XLA_FFI_DataType type = right ? out[0]->dtype : XLA_FFI_DataType_INVALID;
  right = right && (type == XLA_FFI_DataType_F32 || type == XLA_FFI_DataType_F64);
  right = right && fits(in[0], XLA_FFI_DataType_S32, out[0], out[0]->rank - 1, 2);
  for (int i = 1; right && i < 3; i++) right = fits(in[i], type, out[0], out[0]->rank - 1, 1);
  if (!right)
    return complain(call, "weigh takes pairs as int32, and costs and discounts of one float type, and gives 1 of it, "
                    "for the same lanes");
  const int64_t d = length(out[0], 1), B = length(in[0], 2), K = length(in[0], 1);
  const int32_t weights = which(&call->attrs);
  if (weights < WHOLE || weights > LEAVE_ONE_OUT) return complain(call, "weigh: weights are 0, 1 or 2, an int32");
  if (length(in[1], 1) != d || length(in[2], 1) != K)
    return complain(call, "weigh: %lld costs for %lld pairs, and %lld discounts for %lld steps; as many is right",
                    (long long)length(in[1], 1), (long long)d, (long long)length(in[2], 1), (long long)K);
  if (weights == LEAVE_ONE_OUT && B < 2) return complain(call, "weigh: %lld trajectories; 2 have others", (long long)B);
  Work *w = work(weigh_lane, out[0], 1);
  if (!w) return complain(call, "no memory");
  add(w, in[0], 2), add(w, in[1], 1), add(w, in[2], 1), add(w, out[0], 1);
  w->d = d, w->B = B, w->K = K, w->weights = weights, w->wide = type == XLA_FFI_DataType_F64;
  const int wrong = run(call, w);
  if (wrong == NOT_THERE) return complain(call, "weigh: a visited pair is not from 0 to %lld", (long long)d - 1);
  return wrong ? complain(call, "no memory") : NULL;
}
