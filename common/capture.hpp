// What a graph cannot hold: calls that are no work of a stream, refused on both machines with the same words
#pragma once
#include <string>

#include "common/error.hpp"

class Stream;

// Of this thread: the stream whose graph it captures now, or null, and what was refused so far.
struct CaptureState {
  Stream* stream = nullptr;
  int refused = 0;
  bool freed = false;  // device_free cannot throw: the end of the capture says it
};
inline thread_local CaptureState capture_state;

// Throws EnvironmentError where this thread captures a graph.
inline void refuse_in_capture(const char* call) {
  if (!capture_state.stream) return;
  ++capture_state.refused;
  throw EnvironmentError(std::string(call) +
                         " while a graph is captured: the recorded list cannot repeat it; do it before the capture");
}
inline void note_free_in_capture() {
  if (!capture_state.stream) return;
  ++capture_state.refused;
  capture_state.freed = true;
}

// As long as it lives, `stream` is being captured by this thread.
class CaptureScope {
 public:
  explicit CaptureScope(Stream& stream) {
    refuse_in_capture("Graph::capture");
    capture_state.stream = &stream;
    capture_state.freed = false;
  }
  ~CaptureScope() { capture_state.stream = nullptr; }
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  void check_frees() const {
    if (capture_state.freed) throw EnvironmentError("device_free while a graph is captured: its launches may use it");
  }
};
