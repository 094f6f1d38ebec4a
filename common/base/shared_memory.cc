#include "common/base/shared_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace capstan {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kTakenAtOnce = std::size_t{16} << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Takes the memory of a file. Returns false, with errno, if there is not so much. A signal undoes a call that it
// interrupts, so that one call for all of it might never end.
bool TakeMemory(int descriptor, std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes;) {
    const std::size_t some = std::min(kTakenAtOnce, bytes - begin);
    if (fallocate(descriptor, 0, static_cast<off_t>(begin), static_cast<off_t>(some)) == 0) {
      begin += some;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Whether no part of the file lacks memory.
bool HasItsMemory(int descriptor, std::uint64_t bytes) {
  return lseek(descriptor, 0, SEEK_HOLE) == static_cast<off_t>(bytes);
}

// Returns nothing, with errno, if the kernel gives none.
std::optional<SharedMemory::Region> CreateRegion(std::size_t bytes) {
  rlimit files{};  // beyond its limit ftruncate would end the process by a signal
  if (getrlimit(RLIMIT_FSIZE, &files) == 0 && bytes > files.rlim_cur) return errno = EFBIG, std::nullopt;
  const int descriptor = memfd_create("capstan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return std::nullopt;
  void* memory = MAP_FAILED;
  // Without the memory a first write to a page would end the process by a signal.
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 && TakeMemory(descriptor, bytes))
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED || fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) {
    const int error = errno;
    if (memory != MAP_FAILED) munmap(memory, bytes);
    close(descriptor);
    return errno = error, std::nullopt;
  }
  (void)madvise(memory, bytes, MADV_DONTFORK);  // a child process that wrote here would change what others read
  (void)madvise(memory, bytes, MADV_HUGEPAGE);  // a hint that most kernels refuse for shared memory
  auto* const data = static_cast<std::byte*>(memory);
  for (std::size_t page = 0; page < bytes; page += kPage) data[page] = std::byte{0};  // before that it counts as a hole
  return SharedMemory::Region{data, bytes, descriptor};
}

}  // namespace

SharedMemory::~SharedMemory() {
  for (FreePiece* list : {free_, freed_.load(std::memory_order_acquire)}) {
    while (list != nullptr) {
      const std::unique_ptr<FreePiece> piece(list);
      list = piece->next;
    }
  }
  for (std::size_t i = 0; i < count_.load(std::memory_order_acquire); ++i) {
    munmap(regions_[i].data, regions_[i].size);
    close(regions_[i].descriptor);
  }
}

void SharedMemory::Free(std::byte* memory, std::size_t bytes) {
  auto* piece = new FreePiece{memory, bytes, freed_.load(std::memory_order_relaxed)};
  while (!freed_.compare_exchange_weak(piece->next, piece, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

std::byte* SharedMemory::Allocate(std::size_t bytes) {
  if (is_closed()) return nullptr;
  for (FreePiece* piece = freed_.exchange(nullptr, std::memory_order_acquire); piece != nullptr;) {
    FreePiece* const next = std::exchange(piece->next, free_);
    free_ = std::exchange(piece, next);
  }
  for (FreePiece** at = &free_; *at != nullptr; at = &(*at)->next) {
    if ((*at)->bytes != bytes) continue;
    const std::unique_ptr<FreePiece> piece(std::exchange(*at, (*at)->next));
    return piece->memory;
  }
  const std::size_t count = count_.load(std::memory_order_relaxed);
  if (count == 0 || regions_[count - 1].size - used_ < bytes) {
    const std::size_t usual = std::min(std::max(all_ / 4, least_bytes_), usual_bytes_max_);
    errno = EMFILE;
    std::optional<Region> made;
    if (count < kRegionsMax) made = CreateRegion(RoundUp(std::max(bytes, usual), kPage));
    if (!made && count < kRegionsMax && bytes < usual) made = CreateRegion(RoundUp(bytes, kPage));
    if (!made) {
      failure_.store(errno, std::memory_order_relaxed);
      return nullptr;
    }
    regions_[count] = *made;
    all_ += made->size;
    used_ = 0;
    count_.store(count + 1, std::memory_order_release);
  }
  const Region& newest = regions_[count_.load(std::memory_order_relaxed) - 1];
  std::byte* memory = newest.data + used_;
  used_ = std::min(newest.size, RoundUp(used_ + bytes, kPage));
  return memory;
}

std::optional<SharedMemory::Place> SharedMemory::Find(std::span<const std::byte> bytes) const {
  const std::size_t count = count_.load(std::memory_order_acquire);
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(regions_[i].data);
    if (at < begin || at - begin >= regions_[i].size) continue;
    const std::uint64_t offset = at - begin;
    if (bytes.size() > regions_[i].size - offset) return std::nullopt;
    return Place{static_cast<std::uint32_t>(i), offset};
  }
  return std::nullopt;
}

Result<std::shared_ptr<const MappedRegion>> MappedRegion::Map(int descriptor, std::uint64_t size) {
  struct stat facts {};
  struct statfs system {};
  // The seals come first, because the kernel knows them. A file system of the peer may delay the other answers.
  const int seals = fcntl(descriptor, F_GET_SEALS), mode = fcntl(descriptor, F_GETFL);
  const bool is_sealed = seals >= 0 && (seals & kSeals) == kSeals && mode >= 0 && (mode & O_ACCMODE) != O_WRONLY;
  const bool fits = is_sealed && fstat(descriptor, &facts) == 0 && size > 0 &&
                    static_cast<std::uint64_t>(facts.st_size) == size && fstatfs(descriptor, &system) == 0 &&
                    system.f_type == TMPFS_MAGIC && HasItsMemory(descriptor, size);
  if (!fits) {
    close(descriptor);
    return Invalid("a peer gave a descriptor that is no sealed memory of " + std::to_string(size) +
                   " bytes, or that lacks a part of them");
  }
  void* memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const int error = errno;
  close(descriptor);
  if (memory == MAP_FAILED) {
    return Unreachable("memory of a peer, " + std::to_string(size) +
                       " bytes, cannot be mapped: " + std::strerror(error));
  }
  return std::shared_ptr<const MappedRegion>(new MappedRegion(static_cast<const std::byte*>(memory), size));
}

MappedRegion::~MappedRegion() { munmap(const_cast<std::byte*>(data_), size_); }

}  // namespace capstan
