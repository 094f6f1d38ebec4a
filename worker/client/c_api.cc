// The client's functions of <capstan/capstan.h>, which call <capstan/client.h>.
#include <capstan/capstan.h>
#include <capstan/client.h>
#include <capstan/collectives.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "common/data/catalog.h"
#include "worker/client/c_border.h"

struct capstan_client : capstan::client::Handle<capstan::Client> {
  capstan::Work work;  // the current round; capstan_work::slots points into it
};

namespace {

using capstan::Client;
using capstan::Invalid;
using capstan::kGroupsMax;
using capstan::kTensorsMax;
using capstan::Result;
using capstan::Status;
using capstan::client::Answer;
using capstan::client::AnswerFor;
using capstan::client::CheckSize;
using capstan::client::DeadlineIn;
using capstan::client::IsMissing;
using capstan::client::JoinDeadline;
using capstan::client::ReadStruct;
using capstan::client::TextOf;
using capstan::client::WriteOut;
using capstan::client::WriteStruct;

Result<capstan::ClientOptions> ReadOptions(const capstan_options* given) {
  CAPSTAN_ASSIGN_OR_RETURN(const capstan_options options, ReadStruct(given, "capstan_options"));
  capstan::ClientOptions out;
  CAPSTAN_ASSIGN_OR_RETURN(out.join_deadline, JoinDeadline(options.join_seconds, "capstan_options"));
  out.coordinator = TextOf(options.coordinator);
  out.worker = TextOf(options.worker);
  out.key_file = TextOf(options.key_file);
  if (options.rank > options.ranks || (options.rank == 0) != (options.ranks == 0)) {
    return Invalid("capstan_options.rank is " + std::to_string(options.rank) + " of " + std::to_string(options.ranks) +
                   " ranks; it is counted from 1, or both are 0");
  }
  if (options.rank != 0) out.rank = options.rank - 1;
  out.ranks = options.ranks;
  if (options.on_notice != nullptr) {  // otherwise the default of ClientOptions stays
    out.on_notice = [options](const std::string& text) { options.on_notice(options.context, text.c_str()); };
  }
  return out;
}

Result<capstan::TensorDeclaration> ReadTensor(const capstan_tensor* given) {
  CAPSTAN_ASSIGN_OR_RETURN(const capstan_tensor tensor, ReadStruct(given, "capstan_tensor"));
  capstan::TensorDeclaration out;
  out.name = TextOf(tensor.name);
  if (tensor.shape == nullptr && tensor.dimensions > 0) return IsMissing("capstan_tensor.shape");
  if (tensor.dimensions > 8) return Invalid("tensor \"" + out.name + "\": more than 8 dimensions");
  if (tensor.initial < CAPSTAN_ZEROS || tensor.initial > CAPSTAN_GIVEN) {
    return Invalid("tensor \"" + out.name + "\": initial is " + std::to_string(tensor.initial) +
                   ", not a capstan_initial");
  }
  out.shape.assign(tensor.shape, tensor.shape + tensor.dimensions);
  out.initial = static_cast<capstan::InitialWeights>(tensor.initial);
  out.scale = tensor.scale;
  out.weight_decay = tensor.no_weight_decay == 0;
  if (tensor.group > kGroupsMax) {
    return Invalid("tensor \"" + out.name + "\": group is " + std::to_string(tensor.group) + "; there are at most " +
                   std::to_string(kGroupsMax));
  }
  out.group = static_cast<std::uint32_t>(tensor.group);
  if (tensor.statistic > 1) {
    return Invalid("tensor \"" + out.name + "\": statistic is " + std::to_string(tensor.statistic) +
                   "; it is 1, or 0 for a tensor that is trained");
  }
  out.statistic = tensor.statistic == 1;
  return out;
}

// Returns element `index` of a caller's array. The stride is the `size` in the first element. All elements must have
// the same `size`.
template <class T>
Result<const T*> ElementOf(const T* array, std::size_t index, const char* name) {
  const auto* bytes = reinterpret_cast<const char*>(array);
  const auto* element = reinterpret_cast<const T*>(bytes + index * array->size);
  if (element->size != array->size) return Invalid(std::string(name) + ".size differs between the elements");
  return element;
}

Result<capstan::WorkerDescription> ReadDescription(const capstan_description* given) {
  CAPSTAN_ASSIGN_OR_RETURN(const capstan_description description, ReadStruct(given, "capstan_description"));
  if (description.tensor_count > kTensorsMax) {
    return Invalid("capstan_description.tensor_count is " + std::to_string(description.tensor_count) +
                   "; there are at most " + std::to_string(kTensorsMax));
  }
  if (description.tensors == nullptr && description.tensor_count > 0) return IsMissing("capstan_description.tensors");
  capstan::WorkerDescription out;
  for (std::size_t i = 0; i < description.tensor_count; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(const capstan_tensor* tensor, ElementOf(description.tensors, i, "capstan_tensor"));
    CAPSTAN_ASSIGN_OR_RETURN(capstan::TensorDeclaration declared, ReadTensor(tensor));
    out.tensors.push_back(std::move(declared));
  }
  out.numeric_class = TextOf(description.numeric_class);
  out.numeric_fingerprint = description.numeric_fingerprint;
  out.data_fingerprint = description.data_fingerprint;
  out.given = description.given;
  return out;
}

Result<std::vector<capstan::HyperParameters>> ReadHyperParameters(const capstan_hyper_parameters* groups,
                                                                  std::size_t count) {
  if (groups == nullptr && count > 0) return IsMissing("groups");
  if (count > kGroupsMax)
    return Invalid("`count` is " + std::to_string(count) + "; there are at most " + std::to_string(kGroupsMax) +
                   " groups");
  std::vector<capstan::HyperParameters> out;
  for (std::size_t i = 0; i < count; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(const capstan_hyper_parameters* given, ElementOf(groups, i, "capstan_hyper_parameters"));
    CAPSTAN_ASSIGN_OR_RETURN(const capstan_hyper_parameters group, ReadStruct(given, "capstan_hyper_parameters"));
    out.push_back({group.learning_rate, group.momentum, group.beta1, group.beta2, group.eps, group.weight_decay,
                   group.nesterov != 0, group.dampening, group.alpha, group.lr_decay, group.initial_accumulator_value,
                   group.momentum_decay, group.maximize != 0, group.decoupled_weight_decay != 0});
  }
  return out;
}

Result<std::vector<capstan::Metric>> ReadMetrics(const capstan_metric* metrics, std::size_t count) {
  if (metrics == nullptr && count > 0) return IsMissing("capstan_result.metrics");
  if (count > capstan::kMetricsMax) {
    return Invalid("capstan_result.metric_count is " + std::to_string(count) + "; there are at most " +
                   std::to_string(capstan::kMetricsMax));
  }
  std::vector<capstan::Metric> out;
  for (std::size_t i = 0; i < count; ++i) {
    CAPSTAN_ASSIGN_OR_RETURN(const capstan_metric* given, ElementOf(metrics, i, "capstan_metric"));
    CAPSTAN_ASSIGN_OR_RETURN(const capstan_metric metric, ReadStruct(given, "capstan_metric"));
    out.push_back({TextOf(metric.name), metric.sum, metric.weight});
  }
  return out;
}

capstan_work WorkOf(const capstan::Work& work) {
  capstan_work out{};
  out.loss_scale = work.loss_scale;
  out.step = work.step;
  out.generation = work.generation;
  out.slots = work.slots.data();
  out.slot_length = work.slots.size();
  out.slot_count = work.slot_count;
  out.updates = work.updates;
  out.gradient_norm = work.gradient_norm;
  out.source = static_cast<std::uint64_t>(work.source);
  out.keep = work.keep ? 1 : 0;
  out.at_end = work.at_end ? 1 : 0;
  return out;
}

capstan_counters CountersOf(const capstan::ClientCounters& counters) {
  capstan_counters out{};
  out.messages_in = counters.messages_in;
  out.messages_out = counters.messages_out;
  out.payload_messages_in = counters.payload_messages_in;
  out.payload_messages_out = counters.payload_messages_out;
  out.payload_bytes_in = counters.payload_bytes_in;
  out.payload_bytes_out = counters.payload_bytes_out;
  out.header_bytes_in = counters.header_bytes_in;
  out.header_bytes_out = counters.header_bytes_out;
  out.decode_errors = counters.decode_errors;
  out.sends_blocked = counters.sends_blocked;
  out.sends_unreachable = counters.sends_unreachable;
  out.unstaged_pushes = counters.unstaged_pushes;
  return out;
}

Status NextWork(capstan_client* handle, double seconds, capstan_work* work) {
  if (work == nullptr) return IsMissing("work");
  CAPSTAN_RETURN_IF_ERROR(CheckSize(work->size, "capstan_work"));
  CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
  CAPSTAN_ASSIGN_OR_RETURN(std::optional<capstan::Work> next, handle->object->NextWork(deadline));
  const bool done = !next;
  handle->work = done ? capstan::Work() : std::move(*next);
  capstan_work out = WorkOf(handle->work);
  out.done = done ? 1 : 0;
  return WriteStruct(out, work, "capstan_work");
}

}  // namespace

// The exported functions; exports.map lists them.

uint32_t capstan_abi_version(void) { return CAPSTAN_ABI_VERSION; }

const char* capstan_version(void) { return CAPSTAN_VERSION; }

const char* capstan_code_name(int code) { return capstan::CodeName(static_cast<capstan::Code>(code)); }

capstan_code capstan_connect(const capstan_options* options, capstan_client** client, char* error, size_t error_bytes) {
  return Answer(error, error_bytes, [&]() -> Status {
    if (client == nullptr) return IsMissing("client");
    *client = nullptr;
    CAPSTAN_ASSIGN_OR_RETURN(const capstan::ClientOptions read, ReadOptions(options));
    auto handle = std::make_unique<capstan_client>();
    CAPSTAN_ASSIGN_OR_RETURN(handle->object, Client::Connect(read));
    *client = handle.release();
    return {};
  });
}

const char* capstan_last_error(const capstan_client* client) { return capstan::client::LastError(client); }

capstan_code capstan_job_file(capstan_client* client, const char** text) {
  return AnswerFor(client, [&](const Client& c) { return WriteOut(c.job_file().c_str(), text, "text"); });
}

capstan_code capstan_declare(capstan_client* client, const capstan_description* description) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const capstan::WorkerDescription read, ReadDescription(description));
    CAPSTAN_RETURN_IF_ERROR(c.Declare(read));
    if (c.narrow_weights() == nullptr) return {};
    return capstan::Unsupported(
        "the job's numbers have 16 bits ([worker] precision), which this interface does not hand out; "
        "use fp32 or model.kind = \"client\"");
  });
}

capstan_code capstan_next_work(capstan_client* client, double seconds, capstan_work* work) {
  return AnswerFor(client, [&](Client&) { return NextWork(client, seconds, work); });
}

capstan_code capstan_weights(capstan_client* client, const float** weights) {
  return AnswerFor(client, [&](const Client& c) {
    if (c.weights() == nullptr) return Invalid("there are no weights before capstan_declare");
    return WriteOut(c.weights(), weights, "weights");
  });
}

capstan_code capstan_element_count(capstan_client* client, uint64_t* count) {
  return AnswerFor(client, [&](const Client& c) { return WriteOut(c.element_count(), count, "count"); });
}

capstan_code capstan_wait_weights(capstan_client* client, uint32_t first, uint32_t last, double seconds) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
    return c.WaitWeights(first, last, deadline);
  });
}

capstan_code capstan_set_hyper_parameters(capstan_client* client, const capstan_hyper_parameters* groups,
                                          size_t count) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const std::vector<capstan::HyperParameters> read, ReadHyperParameters(groups, count));
    return c.SetHyperParameters(read);
  });
}

capstan_code capstan_set_clip_norm(capstan_client* client, double max_norm) {
  return AnswerFor(client, [&](Client& c) { return c.SetClipNorm(max_norm); });
}

capstan_code capstan_set_clip_value(capstan_client* client, double max_value) {
  return AnswerFor(client, [&](Client& c) { return c.SetClipValue(max_value); });
}

capstan_code capstan_set_program_state(capstan_client* client, const void* state, size_t bytes) {
  return AnswerFor(client, [&](Client& c) -> Status {
    if (state == nullptr && bytes > 0) return IsMissing("state");
    return c.SetProgramState({static_cast<const char*>(state), bytes});
  });
}

capstan_code capstan_program_state(capstan_client* client, const void** state, size_t* bytes) {
  return AnswerFor(client, [&](const Client& c) -> Status {
    CAPSTAN_RETURN_IF_ERROR(WriteOut(c.program_state().size(), bytes, "bytes"));
    return WriteOut(static_cast<const void*>(c.program_state().data()), state, "state");
  });
}

capstan_code capstan_take_version(capstan_client* client) {
  return AnswerFor(client, [&](Client& c) { return c.TakeVersion(); });
}

capstan_code capstan_mean_gradient(capstan_client* client, const float** gradient) {
  return AnswerFor(client, [&](const Client& c) {
    if (c.mean_gradient() == nullptr) return Invalid("this round has no mean gradient: its source is another");
    return WriteOut(c.mean_gradient(), gradient, "gradient");
  });
}

capstan_code capstan_keep_version(capstan_client* client, const float* weights, const void* state, size_t bytes) {
  return AnswerFor(client, [&](Client& c) -> Status {
    if (weights == nullptr) return IsMissing("weights");
    if (state == nullptr && bytes > 0) return IsMissing("state");
    return c.KeepVersion(weights, {static_cast<const char*>(state), bytes});
  });
}

capstan_code capstan_begin_slot(capstan_client* client, uint32_t slot, uint64_t samples, float** gradient) {
  return AnswerFor(client, [&](Client& c) -> Status {
    if (gradient == nullptr) return IsMissing("gradient");
    CAPSTAN_ASSIGN_OR_RETURN(*gradient, c.BeginSlot(slot, samples));
    return {};
  });
}

capstan_code capstan_gradient_ready(capstan_client* client, uint32_t first, uint32_t last) {
  return AnswerFor(client, [&](Client& c) { return c.GradientReady(first, last); });
}

capstan_code capstan_gradient_ready_from(capstan_client* client, uint32_t tensor, uint64_t element) {
  return AnswerFor(client, [&](Client& c) { return c.GradientReadyFrom(tensor, element); });
}

capstan_code capstan_end_slot(capstan_client* client, uint32_t slot, const capstan_result* result) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const capstan_result read, ReadStruct(result, "capstan_result"));
    CAPSTAN_ASSIGN_OR_RETURN(std::vector<capstan::Metric> metrics, ReadMetrics(read.metrics, read.metric_count));
    return c.EndSlot(slot, {read.loss_sum, read.predictions, read.validation_loss_sum, read.validation_predictions,
                            read.validation_correct, std::move(metrics)});
  });
}

capstan_code capstan_barrier(capstan_client* client, double seconds) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
    return c.Barrier(deadline);
  });
}

capstan_code capstan_form_team(capstan_client* client, uint32_t rank, uint32_t ranks, double seconds,
                               capstan_team* team) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
    if (rank > ranks || (rank == 0) != (ranks == 0)) {
      return Invalid("rank " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     " ranks: capstan_form_team counts it from 1, or both are 0");
    }
    std::optional<capstan::TeamPlace> place;
    if (rank != 0) place = {rank - 1, ranks};
    CAPSTAN_ASSIGN_OR_RETURN(const capstan::TeamPlace formed, c.collectives().FormTeam(place, deadline));
    return WriteStruct({sizeof(capstan_team), formed.rank, formed.ranks, 0}, team, "capstan_team");
  });
}

capstan_code capstan_read_team(capstan_client* client, capstan_team* team) {
  return AnswerFor(client, [&](Client& c) -> Status {
    const uint32_t waiting = c.collectives().WaitingForTeam();
    const capstan::TeamPlace place = c.collectives().place().value_or(capstan::TeamPlace{});
    return WriteStruct({sizeof(capstan_team), place.rank, place.ranks, waiting}, team, "capstan_team");
  });
}

capstan_code capstan_all_reduce(capstan_client* client, void* values, uint64_t count, int type, int reduction,
                                double seconds) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
    if (values == nullptr && count > 0) return IsMissing("values");
    if (type < CAPSTAN_FLOAT32 || type > CAPSTAN_UINT8) return Invalid("type " + std::to_string(type) + " is none");
    if (reduction < CAPSTAN_SUM || reduction > CAPSTAN_PRODUCT)
      return Invalid("reduction " + std::to_string(reduction) + " is none");
    return c.collectives().AllReduce(values, count, static_cast<capstan::NumberType>(type),
                                     static_cast<capstan::Reduction>(reduction), deadline);
  });
}

capstan_code capstan_all_gather(capstan_client* client, const void* given, uint64_t bytes, const char* what,
                                double seconds) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
    if (given == nullptr && bytes > 0) return IsMissing("given");
    return c.collectives().AllGather(given, bytes, TextOf(what), deadline);
  });
}

capstan_code capstan_gathered(capstan_client* client, uint32_t rank, const void** given, uint64_t* bytes) {
  return AnswerFor(client, [&](Client& c) -> Status {
    const capstan::Collectives::Bytes gathered = c.collectives().Gathered(rank);
    CAPSTAN_RETURN_IF_ERROR(WriteOut<const void*>(gathered.data, given, "given"));
    return WriteOut<uint64_t>(gathered.size, bytes, "bytes");
  });
}

capstan_code capstan_broadcast(capstan_client* client, void* values, uint64_t bytes, uint32_t root, double seconds) {
  return AnswerFor(client, [&](Client& c) -> Status {
    CAPSTAN_ASSIGN_OR_RETURN(const Client::Deadline deadline, DeadlineIn(seconds));
    if (values == nullptr && bytes > 0) return IsMissing("values");
    return c.collectives().Broadcast(values, bytes, root, deadline);
  });
}

capstan_code capstan_leave(capstan_client* client, const char* reason) {
  return AnswerFor(client, [&](Client& c) { return c.Leave(TextOf(reason)); });
}

capstan_code capstan_read_counters(capstan_client* client, capstan_counters* counters) {
  return AnswerFor(
      client, [&](const Client& c) { return WriteStruct(CountersOf(c.counters()), counters, "capstan_counters"); });
}

void capstan_free(capstan_client* client) {
  (void)Answer(nullptr, 0, [&]() -> Status {
    delete client;
    return {};
  });
}
