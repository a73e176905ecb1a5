/* What every function that XLA calls begins with. */
#include <stdarg.h>
#include <stdio.h>

#include "xla/ffi/api/c_api.h"

static XLA_FFI_Error *complain(XLA_FFI_CallFrame *call, const char *format, ...) {
  char words[4096];
  va_list given;
  va_start(given, format);
  vsnprintf(words, sizeof words, format, given);
  va_end(given);
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, NULL, words,
                                    XLA_FFI_Error_Code_INVALID_ARGUMENT};
  return call->api->XLA_FFI_Error_Create(&args);
}

/* XLA asks first which version of its interface this was made for. */
static int asked_for_version(XLA_FFI_CallFrame *call) {
  XLA_FFI_Extension_Base *x = call->extension_start;
  if (!x || x->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata *m = ((XLA_FFI_Metadata_Extension *)x)->metadata;
  m->api_version.major_version = XLA_FFI_API_MAJOR;
  m->api_version.minor_version = XLA_FFI_API_MINOR;
  m->traits = 0;
  return 1;
}
