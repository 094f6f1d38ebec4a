#include "tests/nccl_stand_in/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace capstan::stand_in {

constexpr std::size_t kBytes = sizeof(Layout);
constexpr timespec kSomeTime{0, 10'000'000};

std::unique_ptr<Segment> Segment::Open(const std::string& name) {
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (ftruncate(file, kBytes) == 0) memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return nullptr;
  return std::unique_ptr<Segment>(new Segment(name, static_cast<Layout*>(memory)));
}

Segment::~Segment() {
  TakeNameAway();
  munmap(layout_, kBytes);
}

void Segment::Tell() {
  ++layout_->news;
  (void)syscall(SYS_futex, &layout_->news, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Segment::AwaitNews(std::uint32_t known) {
  (void)syscall(SYS_futex, &layout_->news, FUTEX_WAIT, known, &kSomeTime, nullptr, 0);
}

void Segment::TakeNameAway() { (void)shm_unlink(name_.c_str()); }

}  // namespace capstan::stand_in
