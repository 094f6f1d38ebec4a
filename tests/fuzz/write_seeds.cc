// Writes the first inputs for fuzzing: what correct programs write, and damaged versions of it.
//
//   write_seeds CORPUS
//
// A text that has a seal (a hash) on disk is also written without it: the targets seal their inputs, so that a fuzzer
// gets past the check of the seal.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/base/hash.h"
#include "common/config/job_config.h"
#include "common/data/safetensors.h"
#include "common/flight/flight_format.h"
#include "common/flight/flight_text.h"
#include "common/wire/coalesced_frame.h"
#include "common/wire/wire_codec.h"
#include "server/storage/log_text.h"
#include "server/storage/push_record_codec.h"
#include "server/storage/sealed_text.h"
#include "server/storage/shard_disk.h"
#include "server/storage/shard_identity_codec.h"
#include "tests/common/wire/random_messages.h"
#include "tests/fuzz/peer_script.h"
#include "tests/server/coordinator/coordinator_harness.h"
#include "tests/server/shard/shard_harness.h"
#include "tests/worker/session/session_harness.h"

namespace capstan {
namespace {

using namespace std::string_literals;
using namespace server;

// The folder of one target in the corpus.
class Folder {
 public:
  Folder(const std::filesystem::path& corpus, const std::string& target) : path_(corpus / target) {
    std::filesystem::create_directories(path_);
  }
  void Write(const std::string& name, const std::string& bytes) const {
    std::ofstream out(path_ / (name + ".bin"), std::ios::binary);  // binary, whatever the content looks like
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    CAPSTAN_CHECK(out.good());
  }
  // Writes the bytes unchanged, cut off in the middle, and with one bit in their middle flipped.
  void WriteAndDamage(const std::string& name, const std::string& bytes) const {
    Write(name, bytes);
    Write(name + "-cut", bytes.substr(0, bytes.size() / 2));
    std::string damaged = bytes;
    damaged[bytes.size() / 2] ^= 4;
    Write(name + "-bit", damaged);
  }

 private:
  const std::filesystem::path path_;
};

std::string BytesOf(std::uint64_t count, const auto& number) {
  std::string bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto value = number(i);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

std::string Floats(std::uint64_t count) {
  return BytesOf(count, [](std::uint64_t i) { return static_cast<float>(i) / 4.0F; });
}

// ---- messages ------------------------------------------------------------------------------------------------------

std::string SmallMessage(std::size_t kind, RandomStream* random) {
  constexpr std::size_t kBytesMax = 1024;
  std::vector<std::byte> bytes;
  do {
    CAPSTAN_CHECK(EncodeHeader(testing::RandomHeader(kind, *random), &bytes).ok());
  } while (bytes.size() > kBytesMax);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void WriteMessages(const Folder& folder) {
  RandomStream random(1, 2);
  for (std::size_t kind = 0; kind < std::variant_size_v<MessageVariant>; ++kind) {
    folder.Write("kind-" + std::to_string(kind), SmallMessage(kind, &random));
  }
  folder.WriteAndDamage("view", SmallMessage(MessageTypes::IndexOf<View>(), &random));
  CoalescedFrame frame;
  frame.Begin({1}, {});
  for (int i = 0; i < 3; ++i) {
    const std::vector<std::byte> header(40 + 8 * i, std::byte{7}), tail(16 * i, std::byte{9});
    frame.Add({header, tail, i == 2});
  }
  folder.Write("coalesced", std::string(reinterpret_cast<const char*>(frame.bytes().data()), frame.bytes().size()));
}

// ---- messages of peers to cores -----------------------------------------------------------------------------------

// A sequence of correct messages, as frames that PeerScript can read back.
class Exchange {
 public:
  explicit Exchange(char flags) : text_(1, flags) {}
  // `who`: index among the target's peers.
  void Send(char who, Header header, Slice payload = {}) {
    text_ += '\0';  // the action: a frame
    text_ += who;
    text_ += fuzz::FrameOf({std::move(header), std::move(payload)});
  }
  void Do(const std::string& action) { text_ += action; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Writes random inputs. Most of their bytes are below 8, because a target mostly chooses among a few actions.
void WriteChoices(const Folder& folder) {
  constexpr int kSeeds = 8, kBytes = 160;
  for (int seed = 0; seed < kSeeds; ++seed) {
    RandomStream random(3, static_cast<std::uint64_t>(seed));
    std::string text(1, static_cast<char>(seed));
    while (text.size() < kBytes) text += static_cast<char>(random.Below(random.Below(4) == 0 ? 256 : 8));
    folder.Write("choices-" + std::to_string(seed), text);
  }
}

void WriteShardTalk(const Folder& folder) {
  constexpr char kCoordinatorIs = 0, kWorkerIs = 1;
  ShardHarness harness;
  Exchange exchange(0);
  exchange.Send(kCoordinatorIs, harness.MakeReset());
  for (BlockIndex block = 0; block < 3; ++block) {
    const Slice payload = harness.Values(harness.SizeOf(block), 1.0F);
    exchange.Send(kWorkerIs, harness.MakePush(0, block, {0, 1}, 1, payload), payload);
    exchange.Send(kWorkerIs, harness.MakePush(0, block, {1, 3}, 2, payload), payload);
    exchange.Send(kWorkerIs, harness.MakeEnd(0, block));
  }
  exchange.Send(kWorkerIs, harness.MakePull(1, {0, 1}));
  exchange.Send(kCoordinatorIs, harness.MakeSnapshotCommit(0));
  exchange.Send(kWorkerIs, CoverageQuery{Generation{1}, Incarnation{7}, SessionId{1}, Step{1}});
  exchange.Send(kCoordinatorIs, harness.MakeRetained({{Generation{1}, Version{1}}}, {Generation{1}, Version{1}}));
  exchange.Send(kCoordinatorIs, Shutdown{Term{1}, Generation{1}});
  folder.WriteAndDamage("step", exchange.text());
  WriteChoices(folder);
}

void WriteCoordinatorTalk(const Folder& folder) {
  constexpr char kStrangerIs = 0, kFirstWorkerIs = 2, kShardsAre = 3;
  CoordinatorHarness harness;
  harness.Run();
  const Join join = harness.MakeJoin("w0");
  Exchange exchange(8);
  exchange.Send(kFirstWorkerIs, Heartbeat{SessionId{1}, join.nonce, Generation{1}, {}, true, 1, {}, 0, {}, {}, 0, {}});
  exchange.Send(kStrangerIs, harness.MakeJoin("w9"));
  for (std::uint64_t step = 0; step < 3; ++step) {
    for (ShardIndex shard = 0; shard < 2; ++shard) {
      const Incarnation incarnation = harness.shards[shard].hello.incarnation;
      const auto who = static_cast<char>(kShardsAre + shard);
      exchange.Send(who, harness.MakePrepared(shard, step));
      if (step > 0) exchange.Send(who, Committed{shard, incarnation, Generation{1}, Step{step - 1}});
      if (step > 0) exchange.Send(who, harness.MakeDone(shard, step));
    }
  }
  exchange.Send(kFirstWorkerIs, Leave{SessionId{1}, join.nonce, "enough"});
  folder.WriteAndDamage("steps", exchange.text());
  WriteChoices(folder);
}

void WriteSessionTalk(const Folder& folder) {
  constexpr char kShardIs = 0, kCoordinatorIs = 3;
  const std::string ready("\5\0\0", 3), compute("\6\0\5\0\0", 5);
  session::SessionHarness harness;
  harness.Join({0, 1});
  Exchange exchange(0);
  exchange.Do(std::string(1, '\1'));  // it has joined
  exchange.Send(kCoordinatorIs, harness.MakeView({0, 1}));
  exchange.Do(ready);
  for (ShardIndex shard = 0; shard < 2; ++shard) {
    exchange.Send(static_cast<char>(kShardIs + shard), harness.MakeCoverage(shard, 0));
  }
  for (BlockIndex block = 0; block < 4; ++block) {
    const Slice payload = harness.Values(4, 1.0F);
    const ShardIndex shard = session::SessionHarness::ShardOf(block);
    exchange.Send(static_cast<char>(kShardIs + shard), harness.MakeWeights(block, 0, payload), payload);
  }
  exchange.Do(compute);
  for (ShardIndex shard = 0; shard < 2; ++shard) {
    Staged staged = harness.MakeStaged(shard, 0, {{shard, {0, 1}}, {shard + 2, {0, 1}}});
    staged.ended = {0, 1};
    exchange.Send(static_cast<char>(kShardIs + shard), staged);
  }
  View done = harness.MakeView({});
  done.phase = JobPhase::kDone;
  exchange.Send(kCoordinatorIs, done);
  folder.WriteAndDamage("round", exchange.text());
  WriteChoices(folder);
}

// ---- files of servers ----------------------------------------------------------------------------------------------

StepParameters SomeParameters() {
  StepParameters parameters;
  parameters.updates = 40;
  parameters.learning_rate = 0.01F;
  parameters.loss_scale = 1024.0F;
  parameters.good_steps = 7;
  parameters.program_state = "state";
  return parameters;
}

Progress::Entry SomeReport() {
  SlotReport report;
  report.slot = 1;
  report.samples = 8;
  report.loss_sum = 2.5;
  report.predictions = 8;
  report.metrics = {{"accuracy", 0.5, 2.0}};
  return {SequenceNumber{3}, report};
}

std::vector<LogRecord> SomeRecords() {
  return {JobRecord{{1, 2}, "[job]\nsteps = 5\n"},
          CatalogRecord{{{"w", {2, 3}, {InitKind::kNormal, 0.5F}}}, "class", 3, 4},
          TermRecord{Term{2}},
          RecoverRecord{Generation{1}, {}, SomeParameters(), TimelineId{1}},
          RunningRecord{Generation{1}, {Incarnation{50}, Incarnation{51}}},
          ManifestRecord{{Generation{1}, Version{40}}, SomeParameters(), {6, 7}, 100},
          DoneRecord{}};
}

std::string WithoutSeals(std::string text) {
  for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) text.erase(line, kSealBytes);
  return text;
}

void WriteLog(const Folder& folder) {
  const std::string text = PrintLogText(SomeRecords()).value();
  folder.WriteAndDamage("sealed", text);
  folder.WriteAndDamage("lines", WithoutSeals(text));
}

void WritePushRecords(const Folder& folder) {
  const std::string values = Floats(4);
  PushRecord push;
  push.block = 2;
  push.slot = 1;
  push.sequence = {9};
  push.samples = 8;
  push.learning_rate = 0.1F;
  push.payload_hash = Hash64(std::as_bytes(std::span(values)));
  const std::string sealed = EncodePushRecord(1, push) + values;
  folder.Write("sealed", sealed);
  folder.WriteAndDamage("push", sealed.substr(kSealBytes));
  push.hyper = {HyperParameters{}};
  folder.Write("groups", EncodePushRecord(1, push).substr(kSealBytes) + values);
  push.samples = 0;
  folder.Write("empty", EncodePushRecord(1, push).substr(kSealBytes));
  folder.Write("end", EncodePushRecord(1, SomeReport()).substr(kSealBytes));
  folder.Write("history", EncodeLogTimeline({TimelineId{3}, 2}).substr(kSealBytes));
}

void WriteShardIdentity(const Folder& folder) {
  const std::string sealed =
      EncodeShardIdentity({{1, 2}, 3, Incarnation{4}, Term{5}, Generation{6}, {Generation{6}, Version{40}}});
  folder.Write("sealed", sealed);
  folder.WriteAndDamage("life", sealed.substr(kSealBytes));
}

void WriteSnapshotHeader(const Folder& folder) {
  SnapshotHeader header;
  header.job = {1, 2};
  header.id = {Generation{1}, Version{40}};
  header.part_count = 2;
  header.array_count = 2;
  header.parameters = SomeParameters();
  header.slot_count = 2;
  header.ended = {{4}, {5}};
  header.reports = {SomeReport()};
  header.log_begin = 6;
  header.blocks = {{0, 4, 40, {{4}, {5}}, {1, 2}}, {3, 2, 40, {}, {3, 4}}};
  folder.Write("sealed", EncodeSnapshotHeader(header).value());
  folder.WriteAndDamage("header", EncodeSnapshotHeader(header).value().substr(kSealBytes));
}

// ---- files of users ------------------------------------------------------------------------------------------------

void WriteJobFiles(const Folder& folder) {
  const std::string small =
      "[job]\nsteps = 10\nglobal_batch = 8\n[model]\nkind = \"mlp\"\n[data]\nkind = \"synthetic\"\n";
  folder.WriteAndDamage("small", small);
  folder.Write("printed", PrintJobConfig(ParseJobConfig(small, "small").value()));
  folder.Write("overrides", small + "\0optimizer.lr=0.5\0model.hidden=[3, 4]\0job.name=caf\xC3\xA9"s);
  folder.Write("client", "[job]\nsteps = 3\nglobal_batch = 4\nmode = 'async' # \xC3\xA9\n[model]\nkind = \"client\"\n");
  folder.Write("letter", "\xC3\xA4 = 1\n");
  folder.Write("bracket", "[&");
  std::string deep = "a";
  for (int i = 0; i < 1100; ++i) deep += ".a";
  folder.Write("deep", "[" + deep + "]\n");
}

std::string Safetensors(const std::vector<TensorSpec>& tensors, const SafetensorsMetadata& metadata) {
  std::uint64_t elements = 0;
  for (const TensorSpec& tensor : tensors) elements += tensor.ElementCount();
  return SafetensorsHeader(tensors, metadata) + Floats(elements);
}

std::string SafetensorsOf(const std::string& header, const std::string& data) {
  return BytesOf(1, [&](std::uint64_t) { return std::uint64_t{header.size()}; }) + header + data;
}

void WriteSafetensors(const Folder& folder) {
  folder.WriteAndDamage("ours", Safetensors({{"a", {2, 3}, {}}, {"b\n", {4}, {}}}, {{"step", "4"}}));
  folder.Write("scalar", Safetensors({{"a", {}, {}}}, {}));
  folder.Write("types", SafetensorsOf("{\"a\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]},\"\\u00e9\":"
                                      "{\"dtype\":\"U8\",\"shape\":[3,0],\"data_offsets\":[4,4]}}",
                                      "1234"));
}

void WriteGpt2(const Folder& folder) {
  const auto tensors = [](const std::string& prefix) -> std::vector<TensorSpec> {
    return {{prefix + "wte.weight", {5, 2}, {}},
            {prefix + "wpe.weight", {4, 2}, {}},
            {prefix + "h.0.attn.bias", {1, 1, 3, 3}, {}},
            {prefix + "h.0.attn.c_attn.weight", {2, 6}, {}}};
  };
  folder.WriteAndDamage("plain", Safetensors(tensors(""), {}));
  folder.Write("prefixed", Safetensors(tensors("transformer."), {}));
  std::vector<TensorSpec> with_head = tensors("");
  with_head.push_back({"lm_head.weight", {5, 2}, {}});
  folder.Write("head", Safetensors(with_head, {}));
  folder.Write("rows", SafetensorsOf("{\"h.0.attn.c_attn.weight\":{\"dtype\":\"F32\",\"shape\":[2305843009213693952,0],"
                                     "\"data_offsets\":[0,0]}}",
                                     ""));
}

void WriteCsv(const Folder& folder) {
  folder.WriteAndDamage("header", "\xFF\x01width,height,kind\r\n1,2.5,0\r\n\r\n-3e2,+4,2\r\n"s);
  folder.Write("front",
               "\x00\x00"
               "1,0.1\n0,1e-45\n"s);
  folder.Write("nan",
               "\x00\x00"
               "1,nan\n"s);
}

void WriteIdx(const Folder& folder) {
  const std::string images =
      "\x00\x00\x08\x03\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x03"
      "abcdefghijkl"s;
  const std::string labels = "\x00\x00\x08\x01\x00\x00\x00\x02\x01\x07"s;
  folder.WriteAndDamage("images", std::string{static_cast<char>(images.size()), '\0'} + images + labels);
  folder.Write("huge", "\x10\x00\x00\x00\x08\x03\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s + labels);
}

void WriteCifar10(const Folder& folder) {
  std::string record(1 + 32 * 32 * 3, '\0');
  for (std::size_t i = 0; i < record.size(); ++i) record[i] = static_cast<char>(i * i / 7);
  record[0] = '\x09';
  folder.WriteAndDamage("image", record);
  record[0] = '\x0A';
  folder.Write("class", record);
}

void WriteTokens(const Folder& folder) {
  const auto small = [](std::uint64_t i) { return static_cast<std::uint16_t>(i * 7 % 300); };
  const auto large = [](std::uint64_t i) { return static_cast<std::uint32_t>(i * 7 % 300); };
  folder.WriteAndDamage("uint16", "\x00\x01"s + BytesOf(23, small));
  folder.Write("uint32", "\x01\x01"s + BytesOf(23, large));
  folder.Write("held-out", "\x06\x01"s + BytesOf(80, small));
  folder.Write("unknown", "\x00\x00"s + BytesOf(23, small));
}

void WriteRequests(const Folder& folder) {
  for (const char* path : {"", "metrics", "api/v1/status", "healthz", "../x"}) {
    std::string name = path;
    for (char& c : name) c = c == '/' || c == '.' ? '-' : c;
    folder.Write("get-" + name, "GET /" + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  const std::string get = "GET /metrics HTTP/1.1\r\n";
  folder.Write("foreign", get + "Host: x.example:80\r\n\r\n");
  folder.Write("address", get + "Host: [::1]:80\r\nAuthorization: Bearer abc\r\n\r\n");
  folder.Write("body", get + "Host: localhost\r\nContent-Length: 3\r\n\r\nabc");
  folder.Write("chunks", get + "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  folder.Write("head", "HEAD / HTTP/1.0\r\n\r\n");
  folder.Write("post", "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc");
  folder.Write("word", "GET / WORD\r\n\r\n");
  folder.Write("lines", "GET / HTTP/x\nSet-Cookie: a=b\r\n\r\n");
  folder.Write("long", "GET /" + std::string(17000, 'a'));
}

void WriteProgress(const Folder& folder) {
  folder.WriteAndDamage("steps",
                        "{\"step\": 0, \"loss\": 2.5, \"samples\": 10, \"seconds\": 0.5}\n"
                        "{\"step\": 1, \"loss\": null, \"action\": \"skip\"}\n"
                        "{\"step\": 2, \"validation_loss\": 0.5, \"validation_accuracy\": 0.975}\n");
  folder.Write("negative", "{\"step\": -1}\n");
  folder.Write("large", "{\"step\": 1e300}\n");
  folder.Write("fast", "{\"step\": 1, \"samples\": 1e300, \"seconds\": 1e-300}\n{\"step\": 2, \"seconds\": -1}\n");
}

// A file with one lane of four records and two events.
void WriteFlight(const Folder& folder) {
  FlightFileHeader header;
  header.magic = kFlightMagic;
  header.version = kFlightVersion;
  header.header_bytes = sizeof header;
  header.clock = 1;
  header.monotonic_ns = 5'000'000'000;
  header.realtime_ns = 1'700'000'000'000'000'000;
  header.lanes = 1;
  PutText("worker-0", &header.process);
  FlightLaneHeader lane;
  lane.name = header.process;
  lane.records_written = 6;  // two are overwritten
  lane.events_written = 1;
  lane.record_capacity = 4;
  lane.event_capacity = 2;
  const auto record = [](std::uint64_t i) {
    FlightRecord one;
    one.at_ns = 1'000'000'000 + i * 1000;
    one.count = one.last_count = 1;
    one.position = i;
    one.generation = 1;
    one.kind = i % 2 == 0 ? FlightKind::kSent : FlightKind::kReceived;
    one.message = static_cast<std::uint8_t>(i);
    PutText("coordinator", &one.peer);
    return one;
  };
  const auto event = [&](std::uint64_t i) {
    FlightEvent one{record(i), {}};
    one.record.kind = FlightKind::kWaits;
    PutText("shard 0 (to answer)", &one.text);
    return one;
  };
  const auto header_of = [](const auto& value) { return BytesOf(1, [&](std::uint64_t) { return value; }); };
  folder.WriteAndDamage("lane", header_of(header) + header_of(lane) + BytesOf(4, record) + BytesOf(2, event));
  header.lanes = 0;
  folder.Write("empty", header_of(header));
}

void WriteAddresses(const Folder& folder) {
  folder.Write("v4", "10.0.0.1:29600");
  folder.Write("v6", "[::1]:29600");
  folder.Write("any", "*:0");
  folder.Write("scheme", "tcp://127.0.0.1:1");
  folder.Write("no-port", "127.0.0.1");
  folder.Write("large", "127.0.0.1:99999");
  folder.Write("no-key", "[[#");
  folder.Write("key", "*:0#**::.0:99");
}

void WriteAll(const std::filesystem::path& corpus) {
  WriteMessages({corpus, "wire_codec"});
  WriteShardTalk({corpus, "shard"});
  WriteCoordinatorTalk({corpus, "coordinator"});
  WriteSessionTalk({corpus, "session"});
  WriteLog({corpus, "coordinator_log"});
  WritePushRecords({corpus, "push_record"});
  WriteShardIdentity({corpus, "shard_identity"});
  WriteSnapshotHeader({corpus, "snapshot_header"});
  WriteJobFiles({corpus, "job_file"});
  WriteSafetensors({corpus, "safetensors"});
  WriteGpt2({corpus, "gpt2_layout"});
  WriteCsv({corpus, "csv"});
  WriteIdx({corpus, "idx"});
  WriteCifar10({corpus, "cifar10"});
  WriteTokens({corpus, "tokens"});
  WriteRequests({corpus, "http"});
  WriteProgress({corpus, "progress"});
  WriteFlight({corpus, "flight"});
  WriteAddresses({corpus, "address"});
}

}  // namespace
}  // namespace capstan

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "write_seeds CORPUS\n"), 2;
  capstan::WriteAll(argv[1]);
  return 0;
}
