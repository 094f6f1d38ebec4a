// The target is a MemoryPeer whose other end is hostile: it sends packets and descriptors of any kind, writes what it
// likes into its page, and refers to payloads that it does not have. Each payload that is found lies in memory that
// this process may read, and no descriptor and no mapping is left when the connection is gone.
#include "common/wire/memory_peer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/input_bytes.h"
#include "tests/fuzz/target.h"

namespace capstan::fuzz {
namespace {

constexpr std::uint64_t kGreeting = 0x316e6c6d70616331, kRegion = 0x326e6c6d70616331;  // as in memory_peer.cc
constexpr std::size_t kPage = 4096;
constexpr int kChoicesMax = 256;

struct Packet {
  std::uint64_t kind = kRegion;
  std::uint64_t connection = 1, caller = 2;
  std::uint64_t size = kPage;
};

class Exchange {
 public:
  explicit Exchange(InputBytes* input) : input_(input) {
    Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_.data()) == 0, "a pair");
    peer_.emplace(ends_[0], own_);
    page_ = theirs_.Allocate(kPage);
    Require(page_ != nullptr && own_->Find({payload_->data(), payload_->size()}), "memory for both ends");
    std::memset(page_, 0, kPage);
  }
  ~Exchange() { close(ends_[1]); }

  void Begin() {
    if (input_->Below(4) == 0) return;
    Send({kGreeting}, theirs_.region(0).descriptor);
    Require(peer_->Read() && peer_->caller() == Packet().caller, "a sound Greeting is taken");
  }
  void Choose() {
    switch (input_->Below(8)) {
      case 0:
        if (!std::exchange(greeted_, true)) peer_->Greet(peer_->id() != 0 ? peer_->id() : 1, 2);
        return;
      case 1: return SendAny();
      case 2: return Read();
      case 3: return WriteInPage();
      case 4: return Refer();
      case 5: return peer_->ReleaseCopied();
      case 6: return Find();
      default:
        if (input_->Below(16) == 0) peer_->End();
    }
  }

 private:
  void Send(const Packet& packet, int descriptor, std::size_t bytes = sizeof(Packet), int copies = 1) const {
    std::array<char, 2 * sizeof(Packet)> buffer{};
    std::memcpy(buffer.data(), &packet, sizeof packet);
    iovec part{buffer.data(), bytes};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(copies * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(copies * sizeof(int));
      for (int i = 0; i < copies; ++i) std::memcpy(CMSG_DATA(header) + i * sizeof(int), &descriptor, sizeof descriptor);
    }
    (void)sendmsg(ends_[1], &message, MSG_NOSIGNAL | MSG_DONTWAIT);  // the peer may have closed its end
  }

  void Read() {
    Require(peer_->Read(&room_) || peer_->has_ended(), "a peer that breaks the rules has ended");
    Require(room_.regions + peer_->region_count() == kRoom.regions, "no region is lost from the room");
    Require(room_.bytes + peer_->region_bytes() == kRoom.bytes, "no byte is lost from the room");
  }

  void SendAny() {
    Packet packet;
    const std::uint64_t kind = input_->Below(8);
    packet.kind = kind == 0 ? input_->Next64() : kind == 1 ? kGreeting : kRegion;
    packet.connection = input_->Below(3);
    packet.caller = 1 + input_->Below(3);
    if (input_->Below(8) == 0) packet.size = input_->Next64();
    const std::size_t bytes = input_->Below(16) == 0 ? input_->Below(2 * sizeof(Packet) + 1) : sizeof packet;
    const int copies = input_->Below(16) == 0 ? 2 : 1;
    const int made = MakeDescriptor(packet.size);
    Send(packet, made == kSound ? theirs_.region(0).descriptor : made, bytes, copies);
    if (made >= 0) close(made);
  }

  // Returns a descriptor, -1 for none, or kSound for a region as SharedMemory makes it.
  int MakeDescriptor(std::uint64_t size) {
    static constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    const std::uint64_t choice = input_->Below(16);
    if (choice == 0) return -1;
    if (choice == 1) return open("/dev/zero", O_RDONLY | O_CLOEXEC);
    if (choice == 15) {  // a region that cannot be read over this descriptor
      const std::string again = "/proc/self/fd/" + std::to_string(theirs_.region(0).descriptor);
      return open(again.c_str(), O_WRONLY | O_CLOEXEC);
    }
    if (choice > 4) return kSound;
    const int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    Require(ftruncate(memory, static_cast<off_t>(std::min<std::uint64_t>(size, 16 * kPage))) == 0, "a file in memory");
    if (choice == 2) (void)!fallocate(memory, 0, 0, kPage);  // holes behind it, if it is longer
    if (choice != 4) fcntl(memory, F_ADD_SEALS, kAllSeals & static_cast<int>(input_->Next()));
    return memory;
  }

  void WriteInPage() {
    const std::uint64_t value = input_->Below(4) == 0 ? input_->Next64() : input_->Below(4);
    std::memcpy(page_ + input_->Below(2) * sizeof value, &value, sizeof value);
  }

  void Refer() {
    const std::size_t offset = input_->Below(kPage);
    const Slice payload{payload_, payload_->data() + offset, 1 + input_->Below(kPage - offset)};
    if (!peer_->Refer(payload)) return;
    Require(peer_->is_open(), "only an open connection carries references");
    if (input_->Below(8) == 0) peer_->Withdraw();
  }

  void Find() {
    PayloadReference reference;
    reference.connection = input_->Below(3);
    reference.number = input_->Below(4) == 0 ? input_->Next64() : input_->Below(8);
    reference.region = static_cast<std::uint32_t>(input_->Below(4) == 0 ? input_->Next64() : input_->Below(2));
    reference.offset = input_->Below(4) == 0 ? input_->Next64() : input_->Below(kPage + 2);
    reference.size = input_->Below(4) == 0 ? input_->Next64() : input_->Below(kPage + 2);
    const Result<LentBytes> found = peer_->Find(reference);
    if (!found.ok()) return RequireReason(found.status(), "a payload");
    Require(found->bytes.size() == reference.size, "as many bytes as referred to");
    const std::vector<std::byte> copy(found->bytes.begin(), found->bytes.end());
    peer_->Copied(reference);
  }

  static constexpr int kSound = -2;
  static constexpr MappingRoom kRoom{3, 16 * kPage};

  InputBytes* const input_;
  std::array<int, 2> ends_{};  // the peer's, then the hostile one
  const std::shared_ptr<SharedMemory> own_ = std::make_shared<SharedMemory>(kPage, kPage);
  BufferPool pool_{kPage, own_};
  const BufferRef payload_ = pool_.Take();
  SharedMemory theirs_{kPage, kPage};
  std::byte* page_ = nullptr;  // of the hostile end, in the only region of `theirs_`
  bool greeted_ = false;
  MappingRoom room_ = kRoom;
  std::optional<MemoryPeer> peer_;
};

std::ptrdiff_t OpenDescriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}

std::ptrdiff_t MappedFiles() {
  std::ifstream maps("/proc/self/maps");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != line.npos ? 1 : 0;
  return count;
}

void RunMemoryPeer(std::string_view text) {
  InputBytes input(text);
  const std::ptrdiff_t open_before = OpenDescriptors(), mapped_before = MappedFiles();
  {
    Exchange exchange(&input);
    exchange.Begin();
    for (int i = 0; i < kChoicesMax && !input.empty(); ++i) exchange.Choose();
  }
  Require(OpenDescriptors() == open_before, "no descriptor is left");
  Require(MappedFiles() == mapped_before, "no mapping is left");
}

const Registered memory_peer_target({"memory_peer", RunMemoryPeer});

}  // namespace
}  // namespace capstan::fuzz
