#include "server/storage/rocks_part_writer.h"

#include <poll.h>
#include <pthread.h>
#include <rocksdb/sst_file_writer.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/durable_file.h"
#include "common/base/hash.h"
#include "server/storage/rocks_support.h"
#include "server/storage/shard_disk.h"
#include "server/storage/writer_pace.h"

namespace capstan::server {

namespace {

rocksdb::Slice View(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The number of writer threads. More were no faster, and slowed the steps down.
constexpr std::size_t kWriters = 2;
// Writers yield to the threads that train, by this much of `nice`, and pause (WriterPace).
constexpr int kNiceness = 10;
constexpr std::size_t kDirectBytes = std::size_t{4} << 20;  // size of one direct write

std::uint64_t BytesOf(const std::array<Slice, kBlockArraysMax>& arrays) {
  std::uint64_t bytes = 0;
  for (const Slice& array : arrays) bytes += array.size;
  return bytes;
}

// Writes the blocks [begin, end) of an image into one file. Several writers share an image, but no block.
class BlockRangeWriter {
 public:
  BlockRangeWriter(std::string path, const rocksdb::Options& options, SnapshotImage* image, std::size_t begin,
                   std::size_t end, const std::atomic<bool>* cancelled, std::atomic<bool>* failed)
      : path_(std::move(path)),
        options_(options),
        image_(image),
        begin_(begin),
        end_(end),
        cancelled_(cancelled),
        failed_(failed) {}

  Status Write() {
    Status status = WriteCaught();
    if (!status.ok()) failed_->store(true);  // stops the other writers
    return status;
  }

 private:
  Status WriteCaught() {
    try {
      return WriteFile();
    } catch (const std::exception& failure) {
      return Unreachable(path_ + ": " + failure.what());
    }
  }

  // Writes without the page cache if the file system allows it: training needs the memory and the time that filling the
  // cache would take.
  Status WriteFile() {
    rocksdb::EnvOptions env(options_);
    env.writable_file_max_buffer_size = kDirectBytes;
    env.use_direct_writes = true;
    if (rocksdb::SstFileWriter file(env, options_); file.Open(path_).ok()) return WriteBlocks(&file);
    env.use_direct_writes = false;
    rocksdb::SstFileWriter file(env, options_);
    CAPSTAN_RETURN_IF_ERROR(FromRocks(file.Open(path_), path_));
    return WriteBlocks(&file);
  }

  Status WriteBlocks(rocksdb::SstFileWriter* file) {
    WriterPace pace(ReadProcessorTime());
    for (std::size_t i = begin_; i < end_; ++i) {
      if (cancelled_->load()) return Refused("the snapshot was given up");
      if (failed_->load()) return Refused("another range of the snapshot could not be written");
      CAPSTAN_RETURN_IF_ERROR(WriteBlock(i, file));
      if (i + 1 == end_) break;
      const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(pace.PauseAt(ReadProcessorTime()));
      if (pause.count() > 0) poll(nullptr, 0, static_cast<int>(pause.count()));
    }
    return FromRocks(file->Finish(), path_);
  }

  Status WriteBlock(std::size_t index, rocksdb::SstFileWriter* file) {
    SnapshotHeader::BlockEntry& block = image_->header.blocks[index];
    for (std::uint32_t i = 0; i < image_->header.array_count; ++i) {
      const Slice array = std::exchange(image_->arrays[index][i], {});
      block.hashes[i] = Hash64(array.bytes());
      CAPSTAN_RETURN_IF_ERROR(FromRocks(file->Put(ArrayKey(block.block, i), View(array.bytes())), path_));
    }
    return {};
  }

  std::string path_;
  const rocksdb::Options& options_;
  SnapshotImage* image_;
  std::size_t begin_, end_;
  const std::atomic<bool>* cancelled_;
  std::atomic<bool>* failed_;
};

// Returns the beginning of each writer's range of blocks, and the end of the last range. Ranges have about equal
// numbers of bytes, and none is empty.
std::vector<std::size_t> Cut(const SnapshotImage& image, std::uint64_t bytes) {
  std::vector<std::size_t> begins;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < image.arrays.size(); ++i) {
    if (before * kWriters >= begins.size() * bytes) begins.push_back(i);
    before += BytesOf(image.arrays[i]);
  }
  begins.push_back(image.arrays.size());
  return begins;
}

Status WriteRanges(std::vector<BlockRangeWriter>* writers) {
  std::vector<Status> statuses(writers->size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < writers->size(); ++i) {
    threads.emplace_back([writer = &(*writers)[i], status = &statuses[i]] {
      pthread_setname_np(pthread_self(), "disk-range");
      (void)!nice(kNiceness);  // Linux changes that of this thread only
      *status = writer->Write();
    });
  }
  for (std::thread& thread : threads) thread.join();
  Status reason;  // the failure that made the other writers stop, rather than their kRefused
  for (const Status& status : statuses) {
    if (!status.ok() && (reason.ok() || reason.code() == Code::kRefused)) reason = status;
  }
  return reason;
}

Status WriteHeader(const std::string& path, const rocksdb::Options& options, const SnapshotHeader& header) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string bytes, EncodeSnapshotHeader(header));
  rocksdb::SstFileWriter file(rocksdb::EnvOptions(options), options);
  CAPSTAN_RETURN_IF_ERROR(FromRocks(file.Open(path), path));
  CAPSTAN_RETURN_IF_ERROR(FromRocks(file.Put(HeaderKey(), bytes), path));
  return FromRocks(file.Finish(), path);
}

}  // namespace

std::uint64_t BytesOf(const SnapshotImage& image) {
  std::uint64_t bytes = 0;
  for (const auto& arrays : image.arrays) bytes += BytesOf(arrays);
  return bytes;
}

Result<PartFiles> WritePartFiles(const std::string& folder, const rocksdb::Options& options, SnapshotImage image,
                                 const std::atomic<bool>& cancelled) {
  PartFiles files;
  files.bytes = BytesOf(image);
  CAPSTAN_CHECK(image.arrays.size() == image.header.blocks.size());
  const std::vector<std::size_t> begins = Cut(image, files.bytes);
  std::atomic<bool> failed{false};
  std::vector<BlockRangeWriter> writers;
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    files.paths.push_back(folder + "/blocks-" + std::to_string(i) + ".sst");
    writers.emplace_back(files.paths.back(), options, &image, begins[i], begins[i + 1], &cancelled, &failed);
  }
  CAPSTAN_RETURN_IF_ERROR(WriteRanges(&writers));
  files.header = std::move(image.header);
  files.paths.push_back(folder + "/header.sst");
  CAPSTAN_RETURN_IF_ERROR(WriteHeader(files.paths.back(), options, files.header));
  CAPSTAN_RETURN_IF_ERROR(SyncFolder(folder));
  if (cancelled.load()) return Refused("the snapshot was given up");
  return files;
}

}  // namespace capstan::server
