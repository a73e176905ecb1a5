/* One lane's total weight of each pair; T is float or double. Costs r by pair, discounts gamma^k by step.
 *
 * The order of sums is that of oracles/sampled.py: trajectories from the first on, of each the steps from the last on.
 * A trajectory's whole cost is summed from the first step on; where it is added to each of its pairs no order matters.
 */
static int WEIGH(const Work *w, const int32_t *visited, const T *r, const T *discount, T *total) {
  const int64_t B = w->B, K = w->K;
  for (int64_t i = 0; i < w->d; i++) total[i] = 0;
  if (w->weights == WHOLE) {
    enum { FOUR = 4 }; /* sums that do not wait for each other */
    for (int64_t b = 0; b < B; b += FOUR) {
      const int64_t n = B - b < FOUR ? B - b : FOUR;
      const int32_t *v[FOUR];
      T sum[FOUR] = {0};
      for (int j = 0; j < FOUR; j++) v[j] = visited + (b + (j < n ? j : 0)) * K;
      for (int64_t k = 0; k < K; k++)
        for (int j = 0; j < FOUR; j++) sum[j] += discount[k] * r[v[j][k]];
      for (int j = 0; j < n; j++)
        for (int64_t k = 0; k < K; k++) total[v[j][k]] += sum[j];
    }
    return NOTHING;
  }
  T *others = calloc((size_t)K + 1, sizeof(T)); /* sums to go over all trajectories */
  if (!others) return NO_MEMORY;
  const T rest = B > 1 ? (T)1 / (T)(B - 1) : 0;
  if (w->weights == LEAVE_ONE_OUT)
    for (int64_t b = 0; b < B; b++) {
      T to_go = 0;
      for (int64_t k = K - 1; k >= 0; k--) others[k] += to_go += discount[k] * r[visited[b * K + k]];
    }
  for (int64_t b = 0; b < B; b++) {
    T to_go = 0;
    for (int64_t k = K - 1; k >= 0; k--) {
      const int32_t pair = visited[b * K + k];
      to_go += discount[k] * r[pair];
      total[pair] += w->weights == TO_GO ? to_go : to_go - (others[k] - to_go) * rest;
    }
  }
  free(others);
  return NOTHING;
}
