/* capstan.h: capstan's client in plain C. A program that uses it takes part in a job as a worker: it learns what to
 * compute, gets the weights for it and returns gradients. <capstan/client.h> is the same interface in C++ and documents
 * each call in more detail. The last section is a reader, which follows a job and changes nothing.
 *
 * Kind:   a handle belongs to one thread at a time; a program may have several handles. There is no global state. A
 *         child of fork() cannot use its parent's handles: every call returns CAPSTAN_INVALID there, and capstan_free
 *         does nothing but drop the handle.
 * Limits: up to 65536 tensors of fp32.
 * Fails:  every call that can fail returns a code, which tells the caller how to react. capstan_last_error has the
 *         text: what failed, for which object and peer, and what to do next.
 * Why:    every language can call C. Functions and fields are only ever added; any other change gets a new soname.
 *
 * Structs begin with their size, which the caller sets: capstan_options options = {.size = sizeof options}. A field
 * that the caller leaves out is 0. A field that the caller sets and this library does not know gives
 * CAPSTAN_UNSUPPORTED.
 *
 * `seconds` is how long a call may wait. With 0 the call takes only what has arrived already. A call that runs out of
 * time returns CAPSTAN_TIMEOUT and may be made again. A negative number means no deadline: the call ends when the job
 * ends, or when the job gives up (limits.stall in its job file). NaN gives CAPSTAN_INVALID.
 *
 * Use:
 *   capstan_connect(&options, &client, error, sizeof error);
 *   capstan_declare(client, &description);
 *   while (capstan_next_work(client, -1, &work) == CAPSTAN_OK && !work.done) {
 *     for (i = 0; i < work.slot_length; ++i) {
 *       capstan_begin_slot(client, work.slots[i], samples, &gradient);
 *       capstan_wait_weights(client, 0, tensors - 1, -1);     ... forward and backward ...
 *       capstan_end_slot(client, work.slots[i], &result);      CAPSTAN_STALE: leave this loop, ask for the next work
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

/* Rises when functions or fields are added. capstan_abi_version() returns the library's number. */
#define CAPSTAN_ABI_VERSION 4

typedef enum capstan_code {
  CAPSTAN_OK = 0,
  CAPSTAN_INVALID = 1,     /* fix the call */
  CAPSTAN_BUSY = 2,        /* the same call may succeed later: memory or threads were short */
  CAPSTAN_STALE = 3,       /* the round is over: ask for the next work */
  CAPSTAN_TIMEOUT = 4,     /* the deadline passed */
  CAPSTAN_UNREACHABLE = 5, /* no answer from that address */
  CAPSTAN_CORRUPT = 6,     /* bytes do not match their checksum or format */
  CAPSTAN_UNSUPPORTED = 7, /* this build cannot do it */
  CAPSTAN_REFUSED = 8      /* the job does not want this worker, or has failed; do not retry */
} capstan_code;

/* A tensor's first weights. They follow from the job's seed and the tensor's name, except with CAPSTAN_GIVEN. */
typedef enum capstan_initial {
  CAPSTAN_ZEROS = 0,
  CAPSTAN_ONES = 1,
  CAPSTAN_NORMAL = 2,  /* scale: standard deviation */
  CAPSTAN_UNIFORM = 3, /* values in [-scale, scale) */
  CAPSTAN_GIVEN = 4    /* a worker brings them in capstan_description.given */
} capstan_initial;

typedef struct capstan_client capstan_client;

typedef struct capstan_options {
  size_t size;
  const char* coordinator; /* "host:port", "host:port#KEY" or "ipc:///path", as CAPSTAN_COORDINATOR has it */
  const char* worker;  /* 1 to 64 bytes of A-Z, a-z, 0-9 and ._-; a newer process with this name replaces this one */
  double join_seconds; /* longest wait for the coordinator's answer; 0: 60 */
  /* Called with `context` and a line for the user, such as which peers the client waits for, and for how long. The call
   * comes from the client's own thread, between capstan_connect and the end of capstan_free. Null: the lines go to
   * stderr, each after "capstan: ". A function that does nothing silences them. */
  void (*on_notice)(void* context, const char* text);
  void* context;
  /* `rank` counts from 1; `ranks` is the job's number of slots. Only this worker computes slot rank - 1, and the job
   * waits for it when it is lost. Both 0: the worker computes whichever slots the coordinator assigns. */
  uint32_t rank;
  uint32_t ranks;
  /* File with this process's key, of mode 0600, as CAPSTAN_KEY_FILE names it; needed if the coordinator's address has a key,
   * else null. */
  const char* key_file;
} capstan_options;

typedef struct capstan_tensor {
  size_t size;
  const char* name;     /* unique within the job */
  const int64_t* shape; /* row-major */
  size_t dimensions;
  int32_t initial; /* a capstan_initial */
  float scale;
  int32_t no_weight_decay; /* 1: the optimizer's weight_decay does not apply to it */
  /* 0: the job file has the tensor's hyper-parameters. Otherwise the number of its group, counted from 1, whose
   * hyper-parameters capstan_set_hyper_parameters gives. Either all tensors have a group or none has. The field has 8
   * bytes so that it begins after the trailing padding of an older program's struct, which may hold anything. */
  uint64_t group;
  /* Since version 2. 1: a statistic, observed and not trained, such as batch-norm's running mean. A slot's "gradient"
   * is the mean that the slot observed over its samples, without the loss scale. A step moves the stored value a tenth
   * of the way to the mean over all samples. A statistic has a group where the other tensors have one, but the group's
   * hyper-parameters do not affect it. */
  uint64_t statistic;
} capstan_tensor;

/* How the tensors of one group are updated. All values are finite and not negative; beta1, beta2 and alpha are below 1. */
typedef struct capstan_hyper_parameters {
  size_t size;
  double learning_rate;
  double momentum;     /* momentum, lars; rmsprop, if the job file gives it a momentum */
  double beta1, beta2; /* adam, adamw, adamax, nadam, radam, lion, lamb */
  double eps;          /* all but sgd, momentum, lion and lars */
  double weight_decay; /* not applied to tensors with no_weight_decay */
  int32_t nesterov;    /* momentum; 1: yes */
  /* Since version 3. The field has 8 bytes so that it begins after the trailing padding of an older program's struct. */
  double dampening;                 /* momentum */
  double alpha;                     /* rmsprop; adadelta: its rho */
  double lr_decay;                  /* adagrad */
  double initial_accumulator_value; /* adagrad: what the first update finds in the sum of squares */
  /* nadam: the bits of an update follow from its number, so beta1 and this value must stay the same in all steps. */
  double momentum_decay;
  int32_t maximize;               /* 1: updates go up the gradient */
  int32_t decoupled_weight_decay; /* nadam, radam; 1: yes */
} capstan_hyper_parameters;

typedef struct capstan_description {
  size_t size;
  const capstan_tensor* tensors; /* in the order of the forward pass, the same on every worker */
  size_t tensor_count;
  const char* numeric_class;    /* what a gradient's bits depend on: build, machine kind, libraries; may be null */
  uint64_t numeric_fingerprint; /* hash of a fixed probe computed on this machine, or 0 */
  uint64_t data_fingerprint;    /* hash of the data that this worker reads, or 0 */
  /* First weights: all tensors in the declared order, without gaps. Only those of CAPSTAN_GIVEN are read;
   * capstan_declare copies them. Every worker brings them. The job takes one worker's and writes them to disk before
   * the first step. Null when no tensor is CAPSTAN_GIVEN. */
  const float* given;
} capstan_description;

/* How a program gets the weights of a round's version. The values after CAPSTAN_SERVERS are of a job whose program runs
 * the optimizer. */
typedef enum capstan_source {
  CAPSTAN_SERVERS = 0,  /* the servers run the optimizer, and the round brings the weights */
  CAPSTAN_CURRENT = 1,  /* the program has this version: it needs no update */
  CAPSTAN_GRADIENT = 2, /* the program makes it: one optimizer step with capstan_mean_gradient */
  CAPSTAN_SKIPPED = 3,  /* it equals the version before: the step's gradient was not finite or had no samples */
  CAPSTAN_WHOLE = 4     /* the program takes it from capstan_weights and capstan_program_state */
} capstan_source;

/* One round: compute the gradients of these slots of global batch `step`. */
typedef struct capstan_work {
  size_t size;
  int32_t done;     /* 1: the job is done, there is no more work */
  float loss_scale; /* compute the gradient of loss_scale * loss */
  uint64_t step;
  uint64_t generation;   /* rises with each recovery, for example when the job goes back to an earlier step */
  const uint32_t* slots; /* ascending; valid until the next capstan_next_work */
  size_t slot_length;    /* number of entries in `slots` */
  uint32_t slot_count;   /* the job's number of slots */
  /* sync: how many updates the weights have had: the steps before this one, less the skipped ones; else 0. The field
   * has 8 bytes so that it begins after the trailing padding of an older program's struct. */
  uint64_t updates;
  /* Since version 3. Norm of the whole averaged gradient of the step that made these weights, before clipping and without
   * the loss scale. Infinity: the gradient was not finite. 0: version 0, or mode async or bounded. */
  double gradient_norm;
  /* Since version 3. A capstan_source: how the program gets the round's version. If it is not CAPSTAN_SERVERS, the job
   * has [optimizer] kind = "external", and capstan_take_version comes before the first slot. */
  uint64_t source;
  uint64_t keep;   /* 1: give the version with capstan_keep_version in this round, which has no slots */
  uint64_t at_end; /* 1: the version is the job's last one */
} capstan_work;

/* A slot's part of a weighted average over all slots. The job records sum / weight for each step. */
typedef struct capstan_metric {
  size_t size;
  const char* name; /* 1 to 64 bytes of A-Z, a-z, 0-9 and _./- */
  double sum;
  double weight; /* at least 0; sum and weight are finite */
} capstan_metric;

typedef struct capstan_result {
  size_t size;
  double loss_sum; /* summed over `predictions` */
  uint64_t predictions;
  double validation_loss_sum; /* over this slot's share of the validation set, if the step validates */
  uint64_t validation_predictions;
  uint64_t validation_correct;
  const capstan_metric* metrics; /* at most 32; entries with the same name are added up */
  size_t metric_count;
} capstan_result;

typedef struct capstan_counters {
  size_t size;
  uint64_t messages_in, messages_out;
  uint64_t payload_messages_in, payload_messages_out; /* those with weights or a gradient */
  uint64_t payload_bytes_in, payload_bytes_out;       /* weights and gradients */
  uint64_t header_bytes_in, header_bytes_out;         /* everything else */
  uint64_t decode_errors;                             /* messages dropped as unreadable or not whole */
  uint64_t sends_blocked, sends_unreachable;          /* a full queue, a peer that is gone */
  uint64_t unstaged_pushes;                           /* pushes that their shard has not staged yet */
} capstan_counters;

uint32_t capstan_abi_version(void);
const char* capstan_version(void);
const char* capstan_code_name(int code); /* "invalid" */

/* Joins the job: asks the coordinator for its job file. On failure *client is null and `error`, a buffer of
 * `error_bytes` bytes, holds the text, cut if it is too long. `error` may be null with error_bytes 0. */
capstan_code capstan_connect(const capstan_options* options, capstan_client** client, char* error, size_t error_bytes);
/* The error text of the last failed call on this handle. Never null; valid until the next call on the handle. */
const char* capstan_last_error(const capstan_client* client);

/* The job file as canonical TOML; valid as long as the handle. */
capstan_code capstan_job_file(capstan_client* client, const char** text);
/* Declares the model's tensors and this worker's fingerprints. Call it once, before the first capstan_next_work. */
capstan_code capstan_declare(capstan_client* client, const capstan_description* description);

/* Gives up the current round, if there is one, and waits for the next. work->done is 1 when the job is done: after the
 * last step the call waits until the last snapshot and the final weights are written. */
capstan_code capstan_next_work(capstan_client* client, double seconds, capstan_work* work);
/* The weights: all tensors in the declared order, without gaps; capstan_element_count floats. A tensor may be read once
 * capstan_wait_weights has returned CAPSTAN_OK for it. The pointer is the same for the life of the handle. */
capstan_code capstan_weights(capstan_client* client, const float** weights);
capstan_code capstan_element_count(capstan_client* client, uint64_t* count);
/* Waits until this round's weights of tensors [first, last] have arrived; `last` is included. */
capstan_code capstan_wait_weights(capstan_client* client, uint32_t first, uint32_t last, double seconds);

/* How this round's gradients update the weights: `groups` has one entry for each group of the tensors. All workers of a
 * step must give the same values, so compute them from the step only. Call it before a gradient of the round is final;
 * later rounds keep the values. If tensors have groups, this call must come before the first gradient. */
capstan_code capstan_set_hyper_parameters(capstan_client* client, const capstan_hyper_parameters* groups, size_t count);

/* Since version 3. Set how the gradient of a step is clipped: by the norm of the whole averaged gradient, as torch's
 * clip_grad_norm_ does, or each element of it by its magnitude, as clip_grad_value_ does. The gradient's scale is that
 * of the loss, without the loss scale. capstan_set_clip_norm(client, 0) is the job file's optimizer.clip_norm,
 * capstan_set_clip_value(client, 0) no limit. A limit goes with each slot that ends after the call, also in later rounds.
 * All slots of a step must bring the same one, or the job stops and names two that differ. Only one of the two can be
 * set, and the value only in a job without optimizer.clip_norm. The servers redo a step whose gradient they clip. Mode
 * sync; not negative and finite. */
capstan_code capstan_set_clip_norm(capstan_client* client, double max_norm);
capstan_code capstan_set_clip_value(capstan_client* client, double max_value);

/* Gives the program's state after the round's step, such as a schedule's. The job stores it with each version of the
 * weights and in snapshots, and returns it to every worker with the weights, also after the job went back or was
 * resumed. `state` has `bytes` bytes, at most 65536; null and 0 mean none. It is sent with those slots of the round
 * that end after this call. All slots of a step that bring a state must bring the same one, so compute it from
 * capstan_program_state and the step only. If no slot brings one, the previous version's state stays. Mode sync. */
capstan_code capstan_set_program_state(capstan_client* client, const void* state, size_t bytes);
/* The program's state of the version that this round computes with; 0 bytes: none was given yet. It may be read once
 * capstan_wait_weights has returned CAPSTAN_OK for tensor 0, and is valid until the next capstan_next_work. */
capstan_code capstan_program_state(capstan_client* client, const void** state, size_t* bytes);

/* Jobs with [optimizer] kind = "external". Confirms that the program has this round's version, or makes it now of what
 * the round brings (capstan_work.source). Call it once in each round without `keep`, before the first slot.
 * A program that leaves it out in a round without slots gets a whole version when it gets slots. CAPSTAN_STALE: the round is over; do not change the weights. */
capstan_code capstan_take_version(capstan_client* client);
/* The mean gradient over all samples of the step before, laid out as the weights, if the round's source is
 * CAPSTAN_GRADIENT; else CAPSTAN_INVALID. Valid until the next capstan_next_work. */
capstan_code capstan_mean_gradient(capstan_client* client, const float** gradient);
/* Gives this round's version, in a round with `keep`: the weights, laid out as capstan_weights, and `bytes` bytes of
 * all else that the program needs to go on from them, such as the optimizer's state. They have any form; all processes
 * must make the same bytes of the same state. capstan_program_state returns them when a round's source is CAPSTAN_WHOLE.
 * At most 65520 bytes, and 4 bytes for each weight and for each of [optimizer] states. Both are copied. */
capstan_code capstan_keep_version(capstan_client* client, const float* weights, const void* state, size_t bytes);

/* Starts a slot of the round, in the order of `slots`. The caller writes the slot's gradient to *gradient, laid out as
 * the weights: the mean over its `samples` samples, times the loss scale. *gradient is null when samples is 0, because
 * there is nothing to compute. */
capstan_code capstan_begin_slot(capstan_client* client, uint32_t slot, uint64_t samples, float** gradient);
/* Declares the slot's gradient of tensors [first, last] final, so that finished blocks are sent at once. Optional; name
 * each tensor at most once in a slot. The second time is CAPSTAN_INVALID, because the gradient may have been sent. */
capstan_code capstan_gradient_ready(capstan_client* client, uint32_t first, uint32_t last);
/* Declares the slot's gradient of one tensor final from element `element` on, in row-major order. So a large tensor's
 * blocks are sent while the rest of its gradient is computed, from its end to its start. Optional;
 * capstan_gradient_ready or capstan_end_slot declares the rest, unless element 0 was named. Elements that are final must
 * not be written any more. CAPSTAN_INVALID if the tensor does not have the element, or if it is not below the one named
 * before. */
capstan_code capstan_gradient_ready_from(capstan_client* client, uint32_t tensor, uint64_t element);
/* Declares all gradients of the slot final and reports its result. */
capstan_code capstan_end_slot(capstan_client* client, uint32_t slot, const capstan_result* result);

/* Waits until every worker of the job has called it. In a job with ranks these are all ranks, otherwise all current
 * workers and at least cluster.min_workers. Call it after capstan_declare, also within a round. The text of
 * CAPSTAN_TIMEOUT names the missing workers; this worker still counts as waiting, and the next call continues the same
 * barrier. CAPSTAN_STALE: the job is done. */
capstan_code capstan_barrier(capstan_client* client, double seconds);

/* ---- collective calls: all members of a team of workers make the same calls in the same order ----------------------
 *
 *   capstan_form_team(client, 0, 0, 60, &team);
 *   capstan_all_reduce(client, values, 1000, CAPSTAN_FLOAT32, CAPSTAN_SUM, 60);
 *
 * A member gives at most 64 MiB in a call, and a team has at most 128 members. Values are reduced in the order of the
 * ranks, so the bits depend on neither timing nor restarts of servers and of the coordinator. CAPSTAN_TIMEOUT names the
 * missing members; the same call, made again, goes on. CAPSTAN_UNREACHABLE: a member is lost; CAPSTAN_INVALID: the
 * members' calls differ. Both end the team: every later call fails alike until capstan_form_team succeeds.
 * CAPSTAN_STALE: the team, or the job, is over. */

typedef enum capstan_type {
  CAPSTAN_FLOAT32 = 0,
  CAPSTAN_FLOAT64 = 1,
  CAPSTAN_FLOAT16 = 2, /* 16-bit numbers are added as float32, and rounded once */
  CAPSTAN_BFLOAT16 = 3,
  CAPSTAN_INT32 = 4, /* the sum of integers wraps around */
  CAPSTAN_INT64 = 5,
  CAPSTAN_UINT8 = 6
} capstan_type;

typedef enum capstan_reduction {
  CAPSTAN_SUM = 0,
  CAPSTAN_MEAN = 1, /* the sum divided by the number of ranks; not for integers */
  CAPSTAN_MIN = 2,
  CAPSTAN_MAX = 3,
  CAPSTAN_PRODUCT = 4
} capstan_reduction;

typedef struct capstan_team {
  size_t size;
  uint32_t rank;    /* from 0 */
  uint32_t ranks;   /* number of members; 0: there is no team */
  uint32_t waiting; /* processes that wait for another team, as far as is known */
} capstan_team;

/* Joins the next team, after capstan_declare. The team before is over for this member. `rank` is counted from 1, of
 * `ranks`. With 0 and 0 the team is of all current workers, at least cluster.min_workers: members of the team before keep
 * their order, and others follow in the order of their names. */
capstan_code capstan_form_team(capstan_client* client, uint32_t rank, uint32_t ranks, double seconds,
                               capstan_team* team);
/* Reads the present team; waits for nothing. */
capstan_code capstan_read_team(capstan_client* client, capstan_team* team);
/* Replaces `values`, `count` numbers, by those of all ranks reduced, number by number. `type` is a capstan_type,
 * `reduction` a capstan_reduction. */
capstan_code capstan_all_reduce(capstan_client* client, void* values, uint64_t count, int type, int reduction,
                                double seconds);
/* Sends `bytes` bytes to all members and receives theirs, of any sizes. `what` has the call in words, the same in all
 * members, at most 256 bytes; it may be null. */
capstan_code capstan_all_gather(capstan_client* client, const void* given, uint64_t bytes, const char* what,
                                double seconds);
/* What `rank`, from 0, gave to the last capstan_all_gather; valid until the next call. */
capstan_code capstan_gathered(capstan_client* client, uint32_t rank, const void** given, uint64_t* bytes);
/* Replaces `values`, `bytes` bytes in every member, by those of rank `root`, from 0. */
capstan_code capstan_broadcast(capstan_client* client, void* values, uint64_t bytes, uint32_t root, double seconds);

/* Leaves the job. The handle gets no more work afterwards. */
capstan_code capstan_leave(capstan_client* client, const char* reason);
capstan_code capstan_read_counters(capstan_client* client, capstan_counters* counters);
/* Leaves the job, if capstan_leave has not been called, and frees the handle. Null is allowed. */
void capstan_free(capstan_client* client);

/* ---- a reader: follows a job without taking part in it; <capstan/reader.h> documents it in more detail ------------
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
  const char* coordinator; /* "host:port", "host:port#KEY" or "ipc:///path", as CAPSTAN_COORDINATOR has it */
  const char* name;        /* shown in logs, of the same bytes as a worker's; several readers may share one */
  double join_seconds;     /* longest wait for the coordinator's answer; 0: 60 */
  const char* key_file;    /* as in capstan_options */
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
  uint32_t slot_count; /* the job's number of slots */
  uint64_t step;       /* the current step */
  uint64_t generation;
  const char* message; /* why the job failed; never null; valid until the next call on the handle */
} capstan_progress;

typedef struct capstan_pull_options {
  size_t size;
  int32_t has_newer_than;  /* 1: only a version of a later step than newer_than; 0: any version */
  int32_t optimizer_state; /* 1: also fetch the optimizer's arrays */
  uint64_t newer_than;
} capstan_pull_options;

typedef struct capstan_pulled {
  size_t size;
  int32_t nothing_newer; /* 1: the job is done and has no newer version; the rest is 0 */
  int32_t done;          /* 1: the job's last version */
  /* The step that computes with these weights. async, bounded: a step that all slots had reached before. */
  uint64_t step;
  uint64_t generation;
  /* Updates of these weights, without skipped steps. async, bounded: those of the block with the fewest. */
  uint64_t updates;
  double gradient_norm; /* since version 3; as in capstan_work */
} capstan_pulled;

typedef struct capstan_reader_tensor {
  size_t size;
  const char* name;     /* name and shape are valid as long as the handle */
  const int64_t* shape; /* row-major */
  size_t dimensions;
} capstan_reader_tensor;

/* Parameters and errors as in capstan_connect. */
capstan_code capstan_reader_connect(const capstan_reader_options* options, capstan_reader** reader, char* error,
                                    size_t error_bytes);
const char* capstan_reader_last_error(const capstan_reader* reader);
capstan_code capstan_reader_job_file(capstan_reader* reader, const char** text);
capstan_code capstan_reader_progress(capstan_reader* reader, double seconds, capstan_progress* progress);
/* Waits for a version and fetches it. Once the last version was pulled, a call for a newer one answers "nothing newer"
 * without asking the servers. After CAPSTAN_TIMEOUT the same call continues with the blocks that have arrived. */
capstan_code capstan_reader_pull(capstan_reader* reader, const capstan_pull_options* options, double seconds,
                                 capstan_pulled* pulled);
/* The job's tensors, in the order of their declaration. The count is 0 before the first pull has succeeded. */
capstan_code capstan_reader_tensor_count(capstan_reader* reader, size_t* count);
capstan_code capstan_reader_read_tensor(capstan_reader* reader, size_t index, capstan_reader_tensor* tensor);
capstan_code capstan_reader_element_count(capstan_reader* reader, uint64_t* count);
/* The weights of the last pull: all tensors in the declared order, without gaps; valid until the next pull.
 * CAPSTAN_INVALID when the last pull gave none. */
capstan_code capstan_reader_weights(capstan_reader* reader, const float** weights);
/* The optimizer's state arrays, named as in PyTorch. Their values are there if the last pull asked for them. */
capstan_code capstan_reader_state_count(capstan_reader* reader, size_t* count);
capstan_code capstan_reader_state_name(capstan_reader* reader, size_t index, const char** name);
capstan_code capstan_reader_state(capstan_reader* reader, size_t index, const float** values);
/* Frees the handle. Null is allowed. */
void capstan_reader_free(capstan_reader* reader);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
