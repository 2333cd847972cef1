#include "09_cuda_graph_decode/load_tensors.cuh"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace {

struct Piece {
  const TensorPlace* place;
  size_t first, count;  // elements
};

std::vector<Piece> cut(const std::vector<TensorPlace>& places, size_t most) {
  std::vector<Piece> pieces;
  for (const TensorPlace& place : places)
    for (size_t first = 0; first < place.count; first += most)
      pieces.push_back({&place, first, std::min(most, place.count - first)});
  return pieces;
}

// The piece as bfloat16 at `to`, which has room for it in the file's format.
void read_piece(const Checkpoint& checkpoint, const Piece& piece, std::byte* to) {
  const std::string& name = piece.place->name;
  const size_t size = checkpoint.get(name).dtype == "F32" ? sizeof(float) : sizeof(bfloat16);
  checkpoint.read(name, piece.first * size, piece.count * size, to);
  if (size == sizeof(bfloat16)) return;
  for (size_t i = 0; i < piece.count; ++i) {  // in place: element i is written in front of what is still to be read
    float value;
    std::memcpy(&value, to + i * sizeof value, sizeof value);
    const bfloat16 rounded = __float2bfloat16(value);
    std::memcpy(to + i * sizeof rounded, &rounded, sizeof rounded);
  }
}

}  // namespace

void load_tensors(const Checkpoint& checkpoint, const std::vector<TensorPlace>& places, const LoadOptions& options) {
  const std::vector<Piece> pieces = cut(places, options.piece);
  size_t largest = 0;
  for (const Piece& piece : pieces) largest = std::max(largest, piece.count * sizeof(float));
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;

  // [load]
  const auto work = [&] {
    struct Slot {
      explicit Slot(size_t bytes) : staging(bytes) {}
      PinnedBuffer staging;
      Stream stream;
    };
    Slot slots[2] = {Slot(largest), Slot(largest)};
    for (int turn = 0;; ++turn) {
      const size_t i = next++;
      if (i >= pieces.size()) break;
      Slot& slot = slots[turn % 2];
      slot.stream.synchronize();  // what it carried before has left; the other slot's piece is on its way meanwhile
      read_piece(checkpoint, pieces[i], slot.staging.data());
      copy_bytes_to_device(slot.stream, pieces[i].place->to + pieces[i].first, slot.staging.data(),
                           pieces[i].count * sizeof(bfloat16));
    }
    for (Slot& slot : slots) slot.stream.synchronize();
  };
  // [/load]
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      next = pieces.size();  // the others stop as well
      const std::lock_guard<std::mutex> lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const int wanted = options.threads > 0 ? options.threads : std::clamp(int(std::thread::hardware_concurrency()), 1, 8);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(size_t(wanted), pieces.size()); ++i) threads.emplace_back(guarded);
  guarded();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}
