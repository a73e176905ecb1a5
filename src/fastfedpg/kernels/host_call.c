/* An operation of XLA's whose work is done by a Python function, which is known by a number.
 *
 * JAX's own callbacks are part of the compiled program, which therefore can't be kept for another process. Here the
 * program has the number alone, and `gym_workers/host_callback.py` knows whose it is.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "ffi.h"

enum { MOST_ARRAYS = 16, WORDS = 4096 };

typedef struct {
  void *data;
  const int64_t *dims;
  int64_t rank, kind; /* NumPy's letter for what it holds */
} Given;

/* 1, or something else and why in words. */
typedef int Host(int64_t number, int64_t args, const Given *in, int64_t rets, const Given *out, char *words, int64_t most);

static _Atomic(Host *) host;

void fastfedpg_set_host(Host *given) { atomic_store(&host, given); }

static int taken(XLA_FFI_Buffer *b, Given *to) {
  const char kind = b->dtype == XLA_FFI_DataType_F64    ? 'd'
                    : b->dtype == XLA_FFI_DataType_F32  ? 'f'
                    : b->dtype == XLA_FFI_DataType_S32  ? 'i'
                    : b->dtype == XLA_FFI_DataType_U32  ? 'I'
                    : b->dtype == XLA_FFI_DataType_PRED ? '?'
                                                        : 0;
  *to = (Given){b->data, b->dims, b->rank, kind};
  return kind != 0;
}

XLA_FFI_Error *fastfedpg_call_host(XLA_FFI_CallFrame *call) {
  if (asked_for_version(call)) return NULL;
  if (call->stage != XLA_FFI_ExecutionStage_EXECUTE) return NULL;
  const XLA_FFI_Attrs *attrs = &call->attrs;
  const XLA_FFI_Scalar *number = attrs->size == 1 && attrs->types[0] == XLA_FFI_AttrType_SCALAR ? attrs->attrs[0] : NULL;
  if (!number || number->dtype != XLA_FFI_DataType_S64) return complain(call, "call_host takes one number, an int64");
  const int64_t args = call->args.size, rets = call->rets.size;
  if (args > MOST_ARRAYS || rets > MOST_ARRAYS) return complain(call, "call_host takes %d arrays at most", MOST_ARRAYS);
  Given in[MOST_ARRAYS], out[MOST_ARRAYS];
  int right = 1;
  for (int64_t i = 0; i < args; i++) right &= taken(call->args.args[i], &in[i]);
  for (int64_t i = 0; i < rets; i++) right &= taken(call->rets.rets[i], &out[i]);
  if (!right) return complain(call, "call_host takes and gives float64, float32, int32, uint32 and bool");
  Host *asked = atomic_load(&host);
  if (!asked) return complain(call, "call_host: nobody has said what is to be called");
  char words[WORDS] = "";
  if (asked(*(int64_t *)number->value, args, in, rets, out, words, WORDS) == 1) return NULL;
  return complain(call, "%s", words);
}
