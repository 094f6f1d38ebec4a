#include "server/storage/rocks_part_writer.h"

#include <pthread.h>
#include <rocksdb/sst_file_writer.h>

#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "common/hash.h"
#include "server/storage/rocks_support.h"
#include "server/storage/shard_disk.h"
#include "server/storage/sync_folder.h"

namespace capstan::server {

namespace {

rocksdb::Slice View(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t BytesOf(const std::array<Slice, kBlockArraysMax>& arrays) {
  std::uint64_t bytes = 0;
  for (const Slice& array : arrays) bytes += array.size;
  return bytes;
}

// The blocks [begin, end) of an image, into one file. Two of them share an image, but no block of it.
class BlockRangeWriter {
 public:
  BlockRangeWriter(std::string path, const rocksdb::Options& options, SnapshotImage* image,
                   const std::atomic<bool>* cancelled, std::atomic<bool>* failed)
      : path_(std::move(path)), options_(options), image_(image), cancelled_(cancelled), failed_(failed) {}

  const std::string& path() const { return path_; }

  Status Write(std::size_t begin, std::size_t end) {
    Status status = WriteAll(begin, end);
    if (!status.ok()) failed_->store(true);  // the other one need not go on
    return status;
  }

 private:
  Status WriteAll(std::size_t begin, std::size_t end) {
    // What was written last is what a shard that starts again reads first: it may stay in memory.
    rocksdb::SstFileWriter file(rocksdb::EnvOptions(options_), options_, /*column_family=*/nullptr,
                                /*invalidate_page_cache=*/false);
    CAPSTAN_RETURN_IF_ERROR(FromRocks(file.Open(path_), path_));
    for (std::size_t i = begin; i < end; ++i) {
      if (cancelled_->load()) return Refused("the snapshot was given up");
      if (failed_->load()) return Unreachable("the other half of the snapshot could not be written");
      CAPSTAN_RETURN_IF_ERROR(WriteBlock(i, &file));
    }
    return FromRocks(file.Finish(), path_);
  }

  Status WriteBlock(std::size_t index, rocksdb::SstFileWriter* file) {
    SnapshotHeader::Block& block = image_->header.blocks[index];
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
  const std::atomic<bool>* cancelled_;
  std::atomic<bool>* failed_;
};

// The block that begins the second half of the bytes.
std::size_t MiddleOf(const SnapshotImage& image, std::uint64_t bytes) {
  std::uint64_t before = 0;
  std::size_t middle = 0;
  while (middle < image.arrays.size() && before * 2 < bytes) before += BytesOf(image.arrays[middle++]);
  return middle;
}

Status WriteHalves(std::size_t middle, std::size_t end, BlockRangeWriter* first, BlockRangeWriter* second) {
  if (middle == 0) return {};
  if (middle == end) return first->Write(0, end);
  Status second_status;
  std::thread thread([&] {
    pthread_setname_np(pthread_self(), "disk-half");
    try {
      second_status = second->Write(middle, end);
    } catch (const std::exception& failure) {
      second_status = Unreachable(second->path() + ": " + failure.what());
    }
  });
  Status status;
  try {
    status = first->Write(0, middle);
  } catch (const std::exception& failure) {
    status = Unreachable(first->path() + ": " + failure.what());
  }
  thread.join();
  return status.ok() ? second_status : status;
}

Status WriteHeader(const std::string& path, const rocksdb::Options& options, const SnapshotHeader& header) {
  rocksdb::SstFileWriter file(rocksdb::EnvOptions(options), options);
  CAPSTAN_RETURN_IF_ERROR(FromRocks(file.Open(path), path));
  CAPSTAN_RETURN_IF_ERROR(FromRocks(file.Put(HeaderKey(), EncodeSnapshotHeader(header)), path));
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
  const std::size_t end = image.header.blocks.size();
  CAPSTAN_CHECK(image.arrays.size() == end);
  const std::size_t middle = MiddleOf(image, files.bytes);
  std::atomic<bool> failed{false};
  BlockRangeWriter first(folder + "/first.sst", options, &image, &cancelled, &failed);
  BlockRangeWriter second(folder + "/second.sst", options, &image, &cancelled, &failed);
  CAPSTAN_RETURN_IF_ERROR(WriteHalves(middle, end, &first, &second));
  if (middle > 0) files.paths.push_back(first.path());
  if (middle < end && middle > 0) files.paths.push_back(second.path());
  files.header = std::move(image.header);
  files.paths.push_back(folder + "/header.sst");
  CAPSTAN_RETURN_IF_ERROR(WriteHeader(files.paths.back(), options, files.header));
  CAPSTAN_RETURN_IF_ERROR(SyncFolder(folder));
  if (cancelled.load()) return Refused("the snapshot was given up");
  return files;
}

}  // namespace capstan::server
