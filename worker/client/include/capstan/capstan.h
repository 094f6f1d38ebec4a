/* capstan.h: capstan's client in plain C. A program that uses it takes part in a job as a worker: learns what to
 * compute, gets the weights for it, gives gradients back. <capstan/client.h> is the same in C++ and says more on each
 * call. At the end: a reader, which follows a job and changes nothing.
 *
 * Kind:   a handle belongs to one thread at a time; a program may have several handles. There is no global state. After
 *         fork() a child has none of its parent's: every call answers CAPSTAN_INVALID, capstan_free lets go of it.
 * Limits: up to 65536 tensors of fp32.
 * Fails:  every call that can fail returns a code, which names the reaction; capstan_last_error has the text: what,
 *         which one, whom, what to do next.
 * Why:    C is what every language can call. Functions and fields are only ever added; the soname changes otherwise.
 *
 * Structs begin with their size, which the caller sets: capstan_options options = {.size = sizeof options}. What a
 * caller leaves out is 0; what it sets and this library does not know is CAPSTAN_UNSUPPORTED.
 *
 * `seconds` is how long a call may wait, from now: 0 takes what is there already, then the answer is CAPSTAN_TIMEOUT
 * and the call may be made again. A negative number sets no limit of its own: the call ends when the job does, or when
 * the job gives up (its limits.stall). What is not a number is CAPSTAN_INVALID.
 *
 * Use:
 *   capstan_connect(&options, &client, error, sizeof error);
 *   capstan_declare(client, &description);
 *   while (capstan_next_work(client, -1, &work) == CAPSTAN_OK && !work.done) {
 *     for (i = 0; i < work.slot_length; ++i) {
 *       capstan_begin_slot(client, work.slots[i], samples, &gradient);
 *       capstan_wait_weights(client, 0, tensors - 1, -1);     ... forward and backward ...
 *       capstan_end_slot(client, work.slots[i], &result);      CAPSTAN_STALE: leave this loop, ask for work again
 *     }
 *   }
 *   capstan_free(client);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CAPSTAN_ABI_VERSION 2 /* rises when functions or fields are added; of the library: capstan_abi_version() */

typedef enum capstan_code {
  CAPSTAN_OK = 0,
  CAPSTAN_INVALID = 1,     /* fix the call */
  CAPSTAN_BUSY = 2,        /* the same call may succeed later: memory or threads were short */
  CAPSTAN_STALE = 3,       /* the round is over: ask for the next work */
  CAPSTAN_TIMEOUT = 4,     /* the time was up */
  CAPSTAN_UNREACHABLE = 5, /* nobody answers there */
  CAPSTAN_CORRUPT = 6,     /* bytes do not match their checksum or format */
  CAPSTAN_UNSUPPORTED = 7, /* known, but not in this build */
  CAPSTAN_REFUSED = 8      /* the job does not want this worker, or has failed; do not retry */
} capstan_code;

/* How a tensor's first weights follow from the job's seed and its name. */
typedef enum capstan_initial {
  CAPSTAN_ZEROS = 0,
  CAPSTAN_ONES = 1,
  CAPSTAN_NORMAL = 2,  /* scale: standard deviation */
  CAPSTAN_UNIFORM = 3, /* values in [-scale, scale) */
  CAPSTAN_GIVEN = 4    /* they come from a worker: capstan_description.given */
} capstan_initial;

typedef struct capstan_client capstan_client;

typedef struct capstan_options {
  size_t size;
  const char* coordinator; /* "host:port" */
  const char* worker;      /* this worker's name; a newer process of that name takes over */
  double join_seconds;     /* until the coordinator has answered; 0: 60 */
  /* Lines for people: whom the client waits for, and since when. Called from a thread of the client's own, between
   * capstan_connect and the end of capstan_free, with `context`. Null: they go to stderr, each after "capstan: "; who
   * wants none gives a function that does nothing. */
  void (*on_notice)(void* context, const char* text);
  void* context;
  /* Number `rank`, counted from 1, of `ranks`, as many as the job has slots: this worker alone computes slot rank - 1,
   * and the job waits for it when it is lost. Both 0: it takes whatever slots it is given. */
  uint32_t rank;
  uint32_t ranks;
} capstan_options;

typedef struct capstan_tensor {
  size_t size;
  const char* name;     /* unique within the job */
  const int64_t* shape; /* row-major */
  size_t dimensions;
  int32_t initial; /* a capstan_initial */
  float scale;
  int32_t no_weight_decay; /* 1: the optimizer's weight_decay spares it */
  /* 0: the job file has its hyper-parameters; else those of this group, from 1 on, of all or of none. Of 8 bytes: an
   * older program's padding, which may hold anything, ends before it. */
  uint64_t group;
  /* Since version 2. 1: not trained but observed, as batch-norm's running mean. A slot's "gradient" is the mean that it
   * saw over its samples, without the loss scale; a step moves the kept value by a tenth of the way to the mean over all
   * samples. It has a group where the others have one, and nothing of it counts. */
  uint64_t statistic;
} capstan_tensor;

/* How the tensors of one group are updated; all finite and not negative, beta1 and beta2 below 1. */
typedef struct capstan_hyper_parameters {
  size_t size;
  double learning_rate;
  double momentum;     /* of momentum, lars */
  double beta1, beta2; /* of adam, adamw, lamb */
  double eps;          /* of adam, adamw, adagrad, lamb */
  double weight_decay; /* of tensors that it does not spare */
  int32_t nesterov;    /* of momentum; 1: yes */
} capstan_hyper_parameters;

typedef struct capstan_description {
  size_t size;
  const capstan_tensor* tensors; /* in the order of the forward pass, the same on every worker */
  size_t tensor_count;
  const char* numeric_class;    /* what the bits of a gradient depend on: build, machine kind, libraries; may be null */
  uint64_t numeric_fingerprint; /* of a fixed probe computed on this machine, or 0 */
  uint64_t data_fingerprint;    /* of the data this worker reads, or 0 */
  /* All tensors one behind the other, as declared; only those of CAPSTAN_GIVEN are read, and copied by capstan_declare.
   * Every worker brings them: the job takes one worker's, and has it on disk before the first step. Else null. */
  const float* given;
} capstan_description;

/* One round: compute the gradients of these slots of global batch `step`. */
typedef struct capstan_work {
  size_t size;
  int32_t done;     /* 1: the job is done, there is no more work */
  float loss_scale; /* gradients are to be of loss_scale * loss */
  uint64_t step;
  uint64_t generation;   /* one history of the job; rises when it went back to an earlier step */
  const uint32_t* slots; /* ascending; valid until the next capstan_next_work */
  size_t slot_length;    /* of `slots` */
  uint32_t slot_count;   /* of the job */
  /* sync: that the weights have had, which is the steps before less those that were skipped; else 0. Of 8 bytes: an
   * older program's padding ends before it. */
  uint64_t updates;
} capstan_work;

/* A slot's part of a weighted average over all slots, which people see for each step as sum / weight. */
typedef struct capstan_metric {
  size_t size;
  const char* name; /* 1 to 64 bytes of A-Z, a-z, 0-9 and _./- */
  double sum;
  double weight; /* at least 0; both are finite */
} capstan_metric;

typedef struct capstan_result {
  size_t size;
  double loss_sum; /* over `predictions` */
  uint64_t predictions;
  double validation_loss_sum; /* of this slot's share of the validation set, where the step validates */
  uint64_t validation_predictions;
  uint64_t validation_correct;
  const capstan_metric* metrics; /* at most 32; a name that comes twice is added up */
  size_t metric_count;
} capstan_result;

typedef struct capstan_counters {
  size_t size;
  uint64_t messages_in, messages_out;
  uint64_t payload_messages_in, payload_messages_out; /* of these, with weights or a gradient */
  uint64_t payload_bytes_in, payload_bytes_out;       /* of weights and gradients */
  uint64_t header_bytes_in, header_bytes_out;         /* of everything else */
  uint64_t decode_errors;                             /* messages that were dropped as unreadable */
  uint64_t sends_blocked, sends_unreachable;          /* a full queue, a peer that is gone */
  uint64_t unstaged_pushes;                           /* kept until their shard has staged them */
} capstan_counters;

uint32_t capstan_abi_version(void);
const char* capstan_version(void);
const char* capstan_code_name(int code); /* "invalid" */

/* Asks the coordinator for the job. On failure *client is null and `error`, of `error_bytes`, holds the text (cut where
 * it is too long; null and 0: not wanted). */
capstan_code capstan_connect(const capstan_options* options, capstan_client** client, char* error, size_t error_bytes);
/* The text of the last call on this handle that failed; never null; valid until the next call on the handle. */
const char* capstan_last_error(const capstan_client* client);

/* Canonical TOML; valid as long as the handle. */
capstan_code capstan_job_file(capstan_client* client, const char** text);
/* Says what this worker brings. Once, before the first capstan_next_work. */
capstan_code capstan_declare(capstan_client* client, const capstan_description* description);

/* Gives up whatever round was under way and waits for the next one. work->done is 1 when the job is done: after the last
 * step the call waits until the last snapshot and the final weights are written. */
capstan_code capstan_next_work(capstan_client* client, double seconds, capstan_work* work);
/* All tensors one behind the other, as declared: capstan_element_count floats, to read for tensors that
 * capstan_wait_weights has answered for. The pointer is the same for the life of the handle. */
capstan_code capstan_weights(capstan_client* client, const float** weights);
capstan_code capstan_element_count(capstan_client* client, uint64_t* count);
/* Until the weights of tensors [first, last] of this round are there. */
capstan_code capstan_wait_weights(capstan_client* client, uint32_t first, uint32_t last, double seconds);

/* How this round's gradients update the weights: `groups` has one entry for each group of the tensors, the same from
 * every worker of a step, a function of the step alone. Before a gradient of the round is final; kept for rounds to
 * come. Where tensors have a group there are no gradients without it. */
capstan_code capstan_set_hyper_parameters(capstan_client* client, const capstan_hyper_parameters* groups, size_t count);

/* What a program keeps from step to step: bytes that the job keeps with each version of the weights, on disk with its
 * snapshots, and hands to every worker with them; also when the job went back, or was resumed. `state`, of `bytes`
 * bytes (at most 65536; null and 0: none), is as of the end of the round's step, and goes with the slots of the round
 * that end after this call. The slots of a step that have one are to have the same: made from capstan_program_state and
 * the step alone. Where none has one, what the version before had stays. Mode sync. */
capstan_code capstan_set_program_state(capstan_client* client, const void* state, size_t bytes);
/* Of the version that this round computes with; 0 bytes: none was given yet. To read when capstan_wait_weights has
 * answered for tensor 0; valid until the next capstan_next_work. */
capstan_code capstan_program_state(capstan_client* client, const void** state, size_t* bytes);

/* Starts a slot of the round, in the order of `slots`. *gradient is where its gradient goes, laid out as the weights:
 * the mean over its `samples` samples, times the loss scale. Null when samples is 0: there is nothing to compute. */
capstan_code capstan_begin_slot(capstan_client* client, uint32_t slot, uint64_t samples, float** gradient);
/* The gradient of tensors [first, last] of the slot is final: what can leave now leaves. May be left out. */
capstan_code capstan_gradient_ready(capstan_client* client, uint32_t first, uint32_t last);
/* All gradients of the slot are final. */
capstan_code capstan_end_slot(capstan_client* client, uint32_t slot, const capstan_result* result);

/* Until every worker of the job has called it: of a job with ranks all of them, else all that are in it, and at least
 * cluster.min_workers. After capstan_declare, also in a round. CAPSTAN_TIMEOUT names who is missing; this worker still
 * counts as waiting, and the next call goes on with the same barrier. CAPSTAN_STALE: the job is done. */
capstan_code capstan_barrier(capstan_client* client, double seconds);

/* Leaves the job in good order. Afterwards there is no more work. */
capstan_code capstan_leave(capstan_client* client, const char* reason);
capstan_code capstan_read_counters(capstan_client* client, capstan_counters* counters);
/* Leaves the job, if that was not done, and ends the handle. Null is nothing. */
void capstan_free(capstan_client* client);

/* ---- a reader: follows a job without taking part in it; <capstan/reader.h> is the same in C++ and says more --------
 *
 *   capstan_reader_connect(&options, &reader, error, sizeof error);
 *   while (capstan_reader_pull(reader, &wish, -1, &pulled) == CAPSTAN_OK && !pulled.nothing_newer) {
 *     capstan_reader_weights(reader, &weights);              ... evaluate ...
 *     wish.has_newer_than = 1, wish.newer_than = pulled.step;
 *   }
 *   capstan_reader_free(reader);
 */

typedef struct capstan_reader capstan_reader;

typedef struct capstan_reader_options {
  size_t size;
  const char* coordinator; /* "host:port" */
  const char* name;        /* for people; several readers may have one */
  double join_seconds;     /* until the coordinator has answered; 0: 60 */
} capstan_reader_options;

typedef enum capstan_job_state {
  CAPSTAN_GATHERING = 0,
  CAPSTAN_RUNNING = 1,
  CAPSTAN_DONE = 2,
  CAPSTAN_FAILED = 3
} capstan_job_state;

typedef struct capstan_progress {
  size_t size;
  int32_t state;       /* a capstan_job_state */
  uint32_t slot_count; /* of the job */
  uint64_t step;       /* under way */
  uint64_t generation;
  const char* message; /* why the job failed; never null; valid until the next call on the handle */
} capstan_progress;

typedef struct capstan_pull_options {
  size_t size;
  int32_t has_newer_than;  /* 1: of a later step than newer_than; 0: any version */
  int32_t optimizer_state; /* 1: its arrays too */
  uint64_t newer_than;
} capstan_pull_options;

typedef struct capstan_pulled {
  size_t size;
  int32_t nothing_newer; /* 1: the job is done and has no newer version; the rest is 0 */
  int32_t done;          /* 1: the job's last */
  uint64_t step;         /* that computes with these weights; async, bounded: that all slots had reached before */
  uint64_t generation;
  uint64_t updates; /* that the weights have had: skipped steps are none; async, bounded: the block with the fewest */
} capstan_pulled;

typedef struct capstan_reader_tensor {
  size_t size;
  const char* name;     /* this and the shape are valid as long as the handle */
  const int64_t* shape; /* row-major */
  size_t dimensions;
} capstan_reader_tensor;

/* As capstan_connect. */
capstan_code capstan_reader_connect(const capstan_reader_options* options, capstan_reader** reader, char* error,
                                    size_t error_bytes);
const char* capstan_reader_last_error(const capstan_reader* reader);
capstan_code capstan_reader_job_file(capstan_reader* reader, const char** text);
capstan_code capstan_reader_progress(capstan_reader* reader, double seconds, capstan_progress* progress);
/* Waits for a version and fetches it; once the last one was pulled, the reader knows by itself that none is newer. After
 * CAPSTAN_TIMEOUT the same call goes on with what has come so far. */
capstan_code capstan_reader_pull(capstan_reader* reader, const capstan_pull_options* options, double seconds,
                                 capstan_pulled* pulled);
/* The job's tensors, in the order of their declaration: 0 before the first pull has succeeded. */
capstan_code capstan_reader_tensor_count(capstan_reader* reader, size_t* count);
capstan_code capstan_reader_read_tensor(capstan_reader* reader, size_t index, capstan_reader_tensor* tensor);
capstan_code capstan_reader_element_count(capstan_reader* reader, uint64_t* count);
/* Of the last pull, all tensors one behind the other; valid until the next one. CAPSTAN_INVALID when it gave none. */
capstan_code capstan_reader_weights(capstan_reader* reader, const float** weights);
/* What the optimizer keeps, named as PyTorch does, and its values where the last pull asked for them. */
capstan_code capstan_reader_state_count(capstan_reader* reader, size_t* count);
capstan_code capstan_reader_state_name(capstan_reader* reader, size_t index, const char** name);
capstan_code capstan_reader_state(capstan_reader* reader, size_t index, const float** values);
/* Ends the handle. Null is nothing. */
void capstan_reader_free(capstan_reader* reader);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
