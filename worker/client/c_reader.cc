// The reader's functions of <capstan/capstan.h>, which call <capstan/reader.h>.
#include <capstan/capstan.h>
#include <capstan/reader.h>

#include <memory>
#include <string>

#include "worker/client/c_border.h"

struct capstan_reader : capstan::client::Handle<capstan::Reader> {
  capstan::JobProgress progress;  // capstan_progress::message points into it
};

namespace {

using capstan::Invalid;
using capstan::Reader;
using capstan::Result;
using capstan::Status;
using capstan::client::Answer;
using capstan::client::AnswerFor;
using capstan::client::CheckSize;
using capstan::client::DeadlineIn;
using capstan::client::IsMissing;
using capstan::client::ReadStruct;
using capstan::client::TextOf;
using capstan::client::WriteOut;
using capstan::client::WriteStruct;

Result<capstan::ReaderOptions> ReadOptions(const capstan_reader_options* given) {
  CAPSTAN_ASSIGN_OR_RETURN(const capstan_reader_options options, ReadStruct(given, "capstan_reader_options"));
  capstan::ReaderOptions out;
  CAPSTAN_ASSIGN_OR_RETURN(out.join_deadline,
                           capstan::client::JoinDeadline(options.join_seconds, "capstan_reader_options"));
  out.coordinator = TextOf(options.coordinator);
  out.name = TextOf(options.name);
  out.key_file = TextOf(options.key_file);
  return out;
}

Status CheckIndex(std::size_t index, std::size_t count, const char* what) {
  if (index < count) return {};
  return Invalid(std::string(what) + " " + std::to_string(index) + " is asked for; there are " + std::to_string(count));
}

// Writes the address of an array; kInvalid if the last pull gave none.
Status WriteArray(const float* values, const float** given, const char* name) {
  if (values == nullptr) return Invalid(std::string("there are no ") + name + ": the last pull gave none");
  return WriteOut(values, given, name);
}

Status Pull(Reader* reader, const capstan_pull_options* options, double seconds, capstan_pulled* pulled) {
  if (pulled == nullptr) return IsMissing("pulled");
  CAPSTAN_RETURN_IF_ERROR(CheckSize(pulled->size, "capstan_pulled"));
  CAPSTAN_ASSIGN_OR_RETURN(const capstan_pull_options read, ReadStruct(options, "capstan_pull_options"));
  CAPSTAN_ASSIGN_OR_RETURN(const Reader::Deadline deadline, DeadlineIn(seconds));
  capstan::PullOptions wanted;
  if (read.has_newer_than != 0) wanted.newer_than = read.newer_than;
  wanted.optimizer_state = read.optimizer_state != 0;
  CAPSTAN_ASSIGN_OR_RETURN(const std::optional<capstan::PulledVersion> version, reader->Pull(wanted, deadline));
  capstan_pulled out{};
  out.nothing_newer = version ? 0 : 1;
  if (version) {
    out.done = version->done ? 1 : 0;
    out.step = version->step;
    out.generation = version->generation;
    out.updates = version->updates;
    out.gradient_norm = version->gradient_norm;
  }
  return WriteStruct(out, pulled, "capstan_pulled");
}

Status Progress(capstan_reader* handle, double seconds, capstan_progress* progress) {
  CAPSTAN_ASSIGN_OR_RETURN(const Reader::Deadline deadline, DeadlineIn(seconds));
  CAPSTAN_ASSIGN_OR_RETURN(handle->progress, handle->object->progress(deadline));
  capstan_progress out{};
  out.state = static_cast<int32_t>(handle->progress.state);
  out.slot_count = handle->progress.slot_count;
  out.step = handle->progress.step;
  out.generation = handle->progress.generation;
  out.message = handle->progress.message.c_str();
  return WriteStruct(out, progress, "capstan_progress");
}

}  // namespace

// The exported functions; exports.map lists them.

capstan_code capstan_reader_connect(const capstan_reader_options* options, capstan_reader** reader, char* error,
                                    size_t error_bytes) {
  return Answer(error, error_bytes, [&]() -> Status {
    if (reader == nullptr) return IsMissing("reader");
    *reader = nullptr;
    CAPSTAN_ASSIGN_OR_RETURN(const capstan::ReaderOptions read, ReadOptions(options));
    auto handle = std::make_unique<capstan_reader>();
    CAPSTAN_ASSIGN_OR_RETURN(handle->object, Reader::Connect(read));
    *reader = handle.release();
    return {};
  });
}

const char* capstan_reader_last_error(const capstan_reader* reader) { return capstan::client::LastError(reader); }

capstan_code capstan_reader_job_file(capstan_reader* reader, const char** text) {
  return AnswerFor(reader, [&](const Reader& r) { return WriteOut(r.job_file().c_str(), text, "text"); });
}

capstan_code capstan_reader_progress(capstan_reader* reader, double seconds, capstan_progress* progress) {
  return AnswerFor(reader, [&](Reader&) { return Progress(reader, seconds, progress); });
}

capstan_code capstan_reader_pull(capstan_reader* reader, const capstan_pull_options* options, double seconds,
                                 capstan_pulled* pulled) {
  return AnswerFor(reader, [&](Reader& r) { return Pull(&r, options, seconds, pulled); });
}

capstan_code capstan_reader_tensor_count(capstan_reader* reader, size_t* count) {
  return AnswerFor(reader, [&](const Reader& r) { return WriteOut(r.tensors().size(), count, "count"); });
}

capstan_code capstan_reader_read_tensor(capstan_reader* reader, size_t index, capstan_reader_tensor* tensor) {
  return AnswerFor(reader, [&](const Reader& r) -> Status {
    CAPSTAN_RETURN_IF_ERROR(CheckIndex(index, r.tensors().size(), "tensor"));
    const capstan::ReaderTensor& known = r.tensors()[index];
    capstan_reader_tensor out{};
    out.name = known.name.c_str();
    out.shape = known.shape.data();
    out.dimensions = known.shape.size();
    return WriteStruct(out, tensor, "capstan_reader_tensor");
  });
}

capstan_code capstan_reader_element_count(capstan_reader* reader, uint64_t* count) {
  return AnswerFor(reader, [&](const Reader& r) { return WriteOut(r.element_count(), count, "count"); });
}

capstan_code capstan_reader_weights(capstan_reader* reader, const float** weights) {
  return AnswerFor(reader, [&](const Reader& r) { return WriteArray(r.weights(), weights, "weights"); });
}

capstan_code capstan_reader_state_count(capstan_reader* reader, size_t* count) {
  return AnswerFor(reader, [&](const Reader& r) { return WriteOut(r.state_names().size(), count, "count"); });
}

capstan_code capstan_reader_state_name(capstan_reader* reader, size_t index, const char** name) {
  return AnswerFor(reader, [&](const Reader& r) -> Status {
    CAPSTAN_RETURN_IF_ERROR(CheckIndex(index, r.state_names().size(), "state"));
    return WriteOut(r.state_names()[index].c_str(), name, "name");
  });
}

capstan_code capstan_reader_state(capstan_reader* reader, size_t index, const float** values) {
  return AnswerFor(reader, [&](const Reader& r) -> Status {
    CAPSTAN_RETURN_IF_ERROR(CheckIndex(index, r.state_names().size(), "state"));
    return WriteArray(r.state(index), values, "values");
  });
}

void capstan_reader_free(capstan_reader* reader) {
  (void)Answer(nullptr, 0, [&]() -> Status {
    delete reader;
    return {};
  });
}
