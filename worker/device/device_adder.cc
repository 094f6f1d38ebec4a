#include "worker/device/device_adder.h"

#include <array>
#include <cstring>
#include <utility>

#include "common/data/encoding.h"
#include "kernels/axpby.h"
#include "kernels/cast.h"
#include "worker/device/cuda_handles.h"
#include "worker/device/nccl_group.h"

namespace capstan::train {

namespace {

using Clock = std::chrono::steady_clock;
using kernels::CudaContext;

// Memory that grows on demand. To grow, it waits for the work on the context's stream; its old contents are lost.
template <class Memory, Memory (*kMake)(CudaContext&, std::size_t)>
class Growing {
 public:
  std::byte* Reserve(CudaContext& context, std::size_t bytes) {
    if (bytes > bytes_) {
      if (memory_ != nullptr) context.Note(cudaStreamSynchronize(context.stream()), "waiting for what uses memory");
      memory_ = kMake(context, bytes);
      bytes_ = bytes;
    }
    return get();
  }
  std::byte* get() const { return static_cast<std::byte*>(memory_.get()); }

 private:
  Memory memory_;
  std::size_t bytes_ = 0;
};

CudaContext::Memory MakeOnDevice(CudaContext& context, std::size_t bytes) { return context.Allocate(bytes); }
using DeviceBuffer = Growing<CudaContext::Memory, MakeOnDevice>;
using PinnedBuffer = Growing<PinnedMemory, MakePinned>;

// Adds as AddNodes does, but enqueues each addition on the device. All pointers point to device memory.
class DeviceAddition {
 public:
  // `count_max`: most elements in one call.
  DeviceAddition(CudaContext& context, std::uint64_t count_max)
      : context_(context), bytes_(count_max * sizeof(float)) {}

  float* Spare(std::size_t depth, std::size_t) {
    if (spare_.size() <= depth) spare_.resize(depth + 1);
    return reinterpret_cast<float*>(spare_[depth].Reserve(context_, bytes_));
  }
  void Add(const StagedInput& left, const StagedInput& right, std::size_t count, float* out) {
    float kept = 0.0F;
    for (const StagedInput* const one : {&left, &right}) {
      if (one->samples == 0) continue;
      const float* const values = Wide(*one, count);
      if (values != out) kernels::Axpby(context_, static_cast<std::int64_t>(count), Scale(*one), values, kept, out);
      kept = 1.0F;
    }
  }

 private:
  static float Scale(const StagedInput& node) { return node.node.IsLeaf() ? static_cast<float>(node.samples) : 1.0F; }
  // Returns a node's numbers as floats: in place if they are fp32, else converted into memory that is valid until the
  // next call.
  const float* Wide(const StagedInput& node, std::size_t count) {
    if (node.encoding == Encoding::kFp32) return reinterpret_cast<const float*>(node.values);
    auto* const wide = reinterpret_cast<float*>(wide_.Reserve(context_, bytes_));
    const auto numbers = static_cast<std::int64_t>(count);
    if (node.encoding == Encoding::kBf16) {
      kernels::Cast(context_, numbers, reinterpret_cast<const Bf16*>(node.values), wide);
    } else {
      kernels::Cast(context_, numbers, reinterpret_cast<const Half*>(node.values), wide);
    }
    return wide;
  }

  CudaContext& context_;
  const std::size_t bytes_;
  std::vector<DeviceBuffer> spare_;
  DeviceBuffer wide_;
};

// The memory and state of one bucket in flight. `up`, `down`: pinned host memory for this worker's parts and the sums.
struct Place {
  PinnedBuffer up, down;
  DeviceBuffer mine, gathered, sums;
  CudaEvent is_down;

  const MachineStep* step = nullptr;
  const Bucket* bucket = nullptr;
  collective::DeviceGroup::Ticket ticket = 0;
  std::vector<StagedInput> results;  // where each of plan.sums is on the device: in `sums`, or a single gathered part
};

class DeviceAdder final : public DeviceBucketAdder {
 public:
  DeviceAdder(const AdderOptions& options, CudaStream up, CudaStream down);
  // Waits for enqueued work, because it uses members that are destroyed next.
  ~DeviceAdder() override;
  DeviceAdder(const DeviceAdder&) = delete;
  DeviceAdder& operator=(const DeviceAdder&) = delete;

  Status Form(const collective::DeviceGroupOptions& group, collective::Rendezvous* rendezvous,
              collective::Deadline deadline) override;
  const Status& status() const { return upward_.status().ok() ? downward_.status() : upward_.status(); }

  bool is_impatient() const override { return true; }
  std::size_t ahead_max() const override { return kPlaces - 1; }
  Status Begin(const MachineStep& step, const Bucket& bucket) override;
  Status Finish(const std::function<void(BlockIndex)>& ready) override;

 private:
  static constexpr std::size_t kPlaces = 2;

  bool is_first() const { return group_->rank() == 0; }
  std::size_t ranks() const { return static_cast<std::size_t>(group_->size()); }
  Status Gather(Place& place);
  void AddUpAndReturn(Place& place);

  const AdderOptions options_;
  const CudaStream up_, down_;
  CudaContext upward_, downward_;  // copies parts to the device; adds, and copies sums to the host
  DeviceAddition addition_;
  std::array<Place, kPlaces> places_;
  std::size_t begun_ = 0, finished_ = 0;
  std::unique_ptr<collective::DeviceGroup> group_;
};

DeviceAdder::DeviceAdder(const AdderOptions& options, CudaStream up, CudaStream down)
    : options_(options),
      up_(std::move(up)),
      down_(std::move(down)),
      upward_(up_.get()),
      downward_(down_.get()),
      addition_(downward_, options.count_max) {
  for (Place& place : places_) place.is_down = MakeEvent(downward_, cudaEventBlockingSync);
}

DeviceAdder::~DeviceAdder() {
  if (group_ != nullptr) group_->Abort();
  for (cudaStream_t stream : {up_.get(), down_.get()}) {
    if (stream != nullptr) (void)cudaStreamSynchronize(stream);
  }
}

Status DeviceAdder::Form(const collective::DeviceGroupOptions& group, collective::Rendezvous* rendezvous,
                         collective::Deadline deadline) {
  CAPSTAN_ASSIGN_OR_RETURN(group_, CreateNcclGroup(upward_, group, rendezvous, deadline));
  return {};
}

Status DeviceAdder::Begin(const MachineStep& step, const Bucket& bucket) {
  Place& place = places_[begun_++ % kPlaces];
  place.step = &step;
  place.bucket = &bucket;
  CAPSTAN_RETURN_IF_ERROR(Gather(place));
  if (is_first()) AddUpAndReturn(place);
  return status();
}

Status DeviceAdder::Gather(Place& place) {
  const MachineStep& step = *place.step;
  const std::size_t bytes_max = step.plan.parts_each * options_.count_max * sizeof(float);
  std::byte* const up = place.up.Reserve(upward_, bytes_max);
  std::byte* const mine = place.mine.Reserve(upward_, bytes_max);
  std::byte* const all = is_first() ? place.gathered.Reserve(upward_, bytes_max * ranks()) : nullptr;
  CAPSTAN_RETURN_IF_ERROR(status());
  for (std::size_t number = 0, at = 0; number < step.plan.parts_each; ++number) {
    const std::size_t bytes = PartFloats(step.plan, number, *place.bucket, options_.encoding) * sizeof(float);
    if (number < step.parts.size() && step.parts[number] != nullptr) {
      PackPart(*options_.catalog, *place.bucket, step.nodes[number], options_.encoding, step.parts[number], up + at);
      upward_.Note(cudaMemcpyAsync(mine + at, up + at, bytes, cudaMemcpyHostToDevice, up_.get()), "copying a gradient");
    }
    const collective::DeviceArray array{mine + at, bytes / sizeof(float), Encoding::kFp32};
    std::byte* const to = is_first() ? all + at * ranks() : nullptr;
    CAPSTAN_ASSIGN_OR_RETURN(place.ticket, group_->SubmitGather(array, to, 0, Clock::now() + options_.patience));
    at += bytes;
  }
  return status();
}

void DeviceAdder::AddUpAndReturn(Place& place) {
  const MachinePlan& plan = place.step->plan;
  const Bucket& bucket = *place.bucket;
  std::vector<StagedInput> parts;
  for (const MachinePlan::Part& part : plan.parts) {
    std::size_t at = 0;  // where part `number` of all ranks begins
    for (std::size_t number = 0; number < part.number; ++number) {
      at += PartFloats(plan, number, bucket, options_.encoding) * ranks();
    }
    at += PartFloats(plan, part.number, bucket, options_.encoding) * static_cast<std::size_t>(part.rank);
    parts.push_back({part.node, part.samples, place.gathered.get() + at * sizeof(float),
                     PartEncoding(part.node, bucket, options_.encoding)});
  }
  const std::size_t bytes = bucket.count * sizeof(float);
  const std::size_t bytes_max = options_.count_max * sizeof(float) * plan.sums.size();
  std::byte* const sums = place.sums.Reserve(downward_, bytes_max);
  std::byte* const down = place.down.Reserve(downward_, bytes_max);
  if (!status().ok()) return;
  downward_.Fail(group_->OrderAfter(place.ticket, down_.get()));
  place.results.clear();
  for (std::size_t i = 0; i < plan.sums.size() && downward_.status().ok(); ++i) {
    auto* const out = reinterpret_cast<float*>(sums + i * bytes);
    const StagedInput& sum = place.results.emplace_back(AddUp(plan.sums[i].node, parts, bucket.count, out, addition_));
    if (sum.samples == 0) continue;
    downward_.Note(cudaMemcpyAsync(down + i * bytes, sum.values, bucket.count * BytesPerNumber(sum.encoding),
                                   cudaMemcpyDeviceToHost, down_.get()),
                   "copying a sum");
  }
  if (downward_.status().ok()) downward_.Note(cudaEventRecord(place.is_down.get(), down_.get()), "recording an event");
}

Status DeviceAdder::Finish(const std::function<void(BlockIndex)>& ready) {
  const Place& place = places_[finished_++ % kPlaces];
  if (is_first()) downward_.Note(cudaEventSynchronize(place.is_down.get()), "waiting for a sum");
  CAPSTAN_RETURN_IF_ERROR(group_->Wait(place.ticket));  // returns at the call's deadline at the latest
  CAPSTAN_RETURN_IF_ERROR(status());
  if (!is_first()) return {};
  for (BlockIndex index = place.bucket->last + 1; index-- > place.bucket->first;) {
    const Block& block = options_.catalog->blocks()[index];
    const std::uint64_t offset = block.flat_offset - place.bucket->flat_offset;
    for (std::size_t i = 0; i < place.results.size(); ++i) {
      if (place.results[i].samples == 0) continue;
      const std::size_t width = BytesPerNumber(place.results[i].encoding);
      const std::byte* const sum = place.down.get() + i * place.bucket->count * sizeof(float);
      std::memcpy(place.step->sums[i] + block.flat_offset, sum + offset * width, block.count * width);
    }
    ready(index);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<DeviceBucketAdder>> CreateDeviceAdder(int device, const AdderOptions& options) {
  CudaContext making(nullptr);
  making.Note(cudaSetDevice(device), "using this worker's device in another thread");
  CudaStream up = MakeStream(making), down = MakeStream(making);
  CAPSTAN_RETURN_IF_ERROR(making.status());
  auto adder = std::make_unique<DeviceAdder>(options, std::move(up), std::move(down));
  CAPSTAN_RETURN_IF_ERROR(adder->status());
  return std::unique_ptr<DeviceBucketAdder>(std::move(adder));
}

}  // namespace capstan::train
