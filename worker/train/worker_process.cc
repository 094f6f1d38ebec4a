#include "worker/train/worker_process.h"

#include <capstan/client.h>

#include <filesystem>
#include <new>

#include "common/base/float_control.h"
#include "common/base/host_port.h"
#include "common/base/own_address.h"
#include "common/config/job/allreduce_section.h"
#include "common/config/job/data_section.h"
#include "common/config/job/worker_section.h"
#include "common/config/job_config.h"
#include "kernels/base/context.h"
#include "monitoring/mirror_transport.h"
#include "worker/allreduce/member_patience.h"
#include "worker/allreduce/replica_client.h"
#include "worker/collective/secure_mesh.h"
#include "worker/device/job_model.h"
#include "worker/device/load_device.h"
#include "worker/device/model_factory.h"
#include "worker/machine/machine_reducer.h"
#include "worker/train/machine_name.h"
#include "worker/train/memory_account.h"
#include "worker/train/trainer.h"

namespace capstan::train {

namespace {

Result<WorkerDescription> Describe(const Dataset& data, const JobModel& model) {
  WorkerDescription description;
  for (const TensorSpec& tensor : model.tensors()) {
    description.tensors.push_back({tensor.name, tensor.shape, static_cast<InitialWeights>(tensor.init.kind),
                                   tensor.init.scale, tensor.decay, 0, tensor.kind == TensorKind::kStatistic});
  }
  description.numeric_class = model.NumericClass();
  CAPSTAN_ASSIGN_OR_RETURN(description.numeric_fingerprint, model.NumericFingerprint());
  description.data_fingerprint = data.fingerprint();
  return description;
}

// Returns a function that makes models in the job's precision, on the job's device. `cpu` must outlive these models.
Result<ModelMaker> MakerOf(const JobConfig& config, const WorkerOptions& options, kernels::CpuContext& cpu) {
  const Precision precision = config.worker.precision;
  const Device& device = config.worker.device;
  if (device.kind == DeviceKind::kCpu) {
    return ModelMaker([&cpu, precision](const nn::ModelShape& shape) { return CreateJobModel(cpu, precision, shape); });
  }
  CAPSTAN_ASSIGN_OR_RETURN(const DevicePlugin* const plugin, LoadDevicePlugin(options.plugins, device.kind));
  const DeviceOptions where{device.index, options.local_rank, options.libraries};
  return ModelMaker(
      [plugin, where, precision](const nn::ModelShape& shape) { return plugin->create(where, precision, shape); });
}

// The parts of the model's device that the client uses. The client is created before the model, so it gets a reference
// to this struct, which is filled later.
struct ClientDevices {
  DeviceReducer* reducer = nullptr;  // mode allreduce
  std::optional<AdderDevice> adder;  // local_reduce = "nccl"
};

struct JobClient {
  std::unique_ptr<Client> client;
  bool weights_stay = true;  // the weights keep their address, so they can be pinned; a replica has two sets in turn
};

// Creates the client that fits the job's mode. `devices` must outlive the client.
Result<JobClient> MakeClient(client::Connection connection, const JobConfig& config, const WorkerOptions& options,
                             const ClientDevices& devices) {
  const bool replicated = WorkersUpdate(config.mode());
  if (!replicated && !ReducesLocally(config))
    return JobClient{client::CreateParameterServerClient(std::move(connection))};
  std::string host = options.address;
  if (host.empty()) {
    Result<std::string> own = OwnAddress(options.coordinator);
    if (!own.ok()) {
      return Unreachable(own.status().message() + "; give the one that the other workers reach it by with --address");
    }
    host = std::move(own).value();
  } else {
    CAPSTAN_RETURN_IF_ERROR(CheckOwnAddress(host));
    CAPSTAN_ASSIGN_OR_RETURN(host, OwnAddress(WithHost(host, ":1")));  // the same address, in numbers
  }
  if (replicated) {
    ReplicaClientOptions replica{options.coordinator, options.key_file, options.name,
                                 std::move(host),     options.say,      [&devices] { return devices.reducer; }};
    return JobClient{CreateReplicaClient(std::move(connection), std::move(replica)), false};
  }
  MachineReducerOptions machine{std::move(host), static_cast<std::uint64_t>(config.allreduce.bucket_mib * (1 << 20)),
                                options.say};
  machine.device = [&devices] { return devices.adder ? &*devices.adder : nullptr; };
  machine.libraries = options.libraries;
  if (EncryptsCollectives(config)) machine.create_mesh = collective::CreateSecureMesh;
  machine.silence = SilenceMax(config);
  machine.patience = DevicePatience(config);
  return JobClient{client::CreateParameterServerClient(std::move(connection), CreateMachineReducer(std::move(machine)),
                                                       options.stop_requested)};
}

// Returns the device for sums on this machine; nullopt: the job file does not ask for one.
Result<std::optional<AdderDevice>> FindAdderDevice(const JobConfig& config, const kernels::LibrarySearch& libraries,
                                                   JobModel& model) {
  if (config.allreduce.local_reduce != LocalReduce::kNccl) return std::optional<AdderDevice>();
  const auto find = [&]() -> Result<AdderDevice> {
    CAPSTAN_ASSIGN_OR_RETURN(const ModelDevice* const device, model.device());
    CAPSTAN_ASSIGN_OR_RETURN(GroupDevice found, device->FindGroupDevice(libraries));
    return AdderDevice{std::move(found), device->AdderMaker()};
  };
  Result<AdderDevice> device = find();
  if (device.ok()) return std::optional(std::move(*device));
  return Unsupported("[allreduce] local_reduce = \"nccl\", and this worker cannot: " + device.status().message() +
                     "; or set \"gloo\", with which the hosts add up");
}

// If the data is missing, adds to the error the folder in which this worker looked. Not for --data-root "/", where the
// job file has an absolute path.
Status NameDataRoot(Status status, const JobConfig& config, const std::string& root) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(root, error).lexically_normal();
  if (root == "/" || std::filesystem::exists(folder / config.data.path, error)) return status;
  return {status.code(),
          status.message() + "; a relative path is below --data-root, which is " + folder.string() + " here"};
}

}  // namespace

Status RunWorker(const WorkerOptions& options, const std::shared_ptr<monitoring::WorkerMetrics>& metrics,
                 const std::shared_ptr<monitoring::TransportMetrics>& transport_metrics) {
  const FloatControl float_control;
  ClientOptions client_options;
  client_options.coordinator = options.coordinator;
  client_options.key_file = options.key_file;
  client_options.worker = options.name;
  client_options.join_deadline = std::chrono::milliseconds(static_cast<std::int64_t>(options.join_seconds * 1000));
  client_options.on_notice = options.say;
  const client::ProcessTraits traits{
      options.machine.empty() ? MachineName() : options.machine, options.metrics, options.stop_requested,
      [metrics] { return metrics->phase_seconds[monitoring::WorkerPhase::kData].value(); }, options.flight};
  CAPSTAN_ASSIGN_OR_RETURN(client::Connection connection, client::Connect(client_options, traits));
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, ParseJobConfig(connection.job_file, "the coordinator's job file"));
  options.on_job(config.name());
  ClientDevices devices;
  CAPSTAN_ASSIGN_OR_RETURN(const JobClient made, MakeClient(std::move(connection), config, options, devices));
  const std::unique_ptr<Client>& client = made.client;
  Result<std::unique_ptr<Dataset>> opened = OpenDataset(config, options.data_root);
  if (!opened.ok()) return NameDataRoot(opened.status(), config, options.data_root);
  const std::unique_ptr<Dataset> data = std::move(opened).value();

  const unsigned threads = options.threads != 0 ? options.threads : config.worker.threads;
  kernels::CpuContext context(threads == 0 ? 1 : static_cast<int>(threads));
  CAPSTAN_ASSIGN_OR_RETURN(const ModelMaker make, MakerOf(config, options, context));
  CAPSTAN_ASSIGN_OR_RETURN(const nn::ModelShape shape, ShapeOfModel(config, data->spec()));
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<JobModel> model, make(shape));
  CAPSTAN_ASSIGN_OR_RETURN(const MemoryAccount account, CountMemory(context, config, *data, *model, make));
  CAPSTAN_RETURN_IF_ERROR(CheckMemory(account, options.free_memory()));
  options.say("memory: " + account.ToString());
  CAPSTAN_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceReducer> reducer,
                           DeviceReducer::Create(config, options.libraries, options.say, *model));
  devices.reducer = reducer.get();
  if (reducer != nullptr) CAPSTAN_RETURN_IF_ERROR(reducer->Check());
  CAPSTAN_ASSIGN_OR_RETURN(devices.adder, FindAdderDevice(config, options.libraries, *model));

  TrainerLanes lanes;
  if (options.trace != nullptr) lanes = {options.trace->AddLane("compute"), options.trace->AddLane("pushes")};
  SlotComputer computer(config, *data, *model, lanes.compute);
  auto& host_groups = EncryptsCollectives(config) ? metrics->secure_groups : metrics->gloo_groups;
  const auto mirror_and_ask = [&] {
    const ClientCounters counters = client->counters();
    monitoring::MirrorTraffic(counters, counters.decode_errors, transport_metrics.get());
    metrics->unstaged_pushes.Set(counters.unstaged_pushes);
    metrics->unsent_pushes.Set(counters.unsent_pushes);
    metrics->slots_left_out.AdvanceTo(counters.slots_left_out);
    metrics->reduced_bytes.AdvanceTo(counters.reduced_bytes);
    metrics->group_bytes_out.AdvanceTo(counters.group_bytes_out);
    host_groups.AdvanceTo(counters.groups_formed - counters.device_groups_formed);
    metrics->nccl_groups.AdvanceTo(counters.device_groups_formed);
    if (const std::string notice = model->TakeNotice(); !notice.empty()) options.say(notice);
    return options.stop_requested();
  };
  Trainer trainer(*client, computer, metrics, mirror_and_ask, lanes);
  try {
    CAPSTAN_ASSIGN_OR_RETURN(const WorkerDescription description, Describe(*data, *model));
    CAPSTAN_RETURN_IF_ERROR(client->Declare(description));  // allocates the weights
    if (made.weights_stay) {
      const std::string unpinned = model->PinWeights({client->weights(), client->narrow_weights()});
      if (!unpinned.empty()) options.say(unpinned);
    }
    model->ReserveActivations(account.activations);
    return trainer.Run();
  } catch (const std::bad_alloc&) {
    return OutOfMemory(account, options.free_memory());
  }
}

}  // namespace capstan::train
