/* The compiled loops called without XLA: every array is a block of memory of its own, so a sanitizer sees its ends. */
#include <pthread.h>

#include SOURCE

enum { MOST = 8 };

struct XLA_FFI_Error { char words[256]; };

static pthread_t started[MOST];
static int running;
static int64_t wanted;

static XLA_FFI_Error *error_create(XLA_FFI_Error_Create_Args *args) {
  XLA_FFI_Error *error = malloc(sizeof *error);
  snprintf(error->words, sizeof error->words, "%s", args->message);
  return error;
}

static void error_destroy(XLA_FFI_Error_Destroy_Args *args) { free(args->error); }

static XLA_FFI_Error *refuse(void) {
  XLA_FFI_Error_Create_Args args = {.message = "no more threads"};
  return error_create(&args);
}

static XLA_FFI_Error *threads_asked(XLA_FFI_ThreadPool_NumThreads_Args *args) {
  if (!wanted) return refuse();
  *args->num_threads = wanted;
  return NULL;
}

typedef struct { XLA_FFI_Task *task; void *data; } Task;

static void *perform(void *given) {
  Task task = *(Task *)given;
  free(given);
  task.task(task.data);
  return NULL;
}

static XLA_FFI_Error *schedule(XLA_FFI_ThreadPool_Schedule_Args *args) {
  if (running == MOST) return refuse();
  Task *task = malloc(sizeof *task);
  task->task = args->task, task->data = args->data;
  pthread_create(&started[running++], NULL, perform, task);
  return NULL;
}

/* Arrays by type, rank, lengths, bytes and data; the last is the result. 0, or 1 and why not. */
int drive(int loop, int count, const int *type, const int64_t *rank, const int64_t *const *dims, const int64_t *size,
          char *const *data, int attribute, int32_t weights, int threads, char *words) {
  XLA_FFI_Api api = {.XLA_FFI_Error_Create = error_create, .XLA_FFI_Error_Destroy = error_destroy,
                     .XLA_FFI_ThreadPool_Schedule = schedule, .XLA_FFI_ThreadPool_NumThreads = threads_asked};
  XLA_FFI_Buffer buffer[MOST] = {0};
  void *given[MOST] = {0};
  for (int i = 0; i < count; i++) {
    int64_t *own = malloc((size_t)rank[i] * sizeof *own);
    memcpy(own, dims[i], (size_t)rank[i] * sizeof *own);
    buffer[i] = (XLA_FFI_Buffer){.dtype = (XLA_FFI_DataType)type[i], .data = malloc((size_t)size[i]), .rank = rank[i], .dims = own};
    memcpy(buffer[i].data, data[i], (size_t)size[i]);
    given[i] = &buffer[i];
  }
  XLA_FFI_Scalar scalar = {.dtype = XLA_FFI_DataType_S32, .value = &weights};
  XLA_FFI_AttrType kind = attribute == 1 ? XLA_FFI_AttrType_SCALAR : XLA_FFI_AttrType_STRING;
  void *attributes = &scalar;
  XLA_FFI_CallFrame call = {.api = &api, .stage = XLA_FFI_ExecutionStage_EXECUTE};
  call.args.size = count - 1, call.args.args = given;
  call.rets.size = 1, call.rets.rets = &given[count - 1];
  call.attrs.size = attribute != 0, call.attrs.types = &kind, call.attrs.attrs = &attributes;
  wanted = threads, running = 0;
  XLA_FFI_Error *error = loop ? fastfedpg_weigh(&call) : fastfedpg_play(&call);
  while (running) pthread_join(started[--running], NULL);
  if (error) snprintf(words, 256, "%s", error->words);
  free(error);
  memcpy(data[count - 1], buffer[count - 1].data, (size_t)size[count - 1]);
  for (int i = 0; i < count; i++) free(buffer[i].data), free(buffer[i].dims);
  return error != NULL;
}

/* What a sanitizer must stop. */
__attribute__((no_sanitize("undefined"))) int overrun(int at) {
  char *block = malloc(8);
  const int found = block[at];
  free(block);
  return found;
}
