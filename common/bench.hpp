// Timing on the device: warm-up, events, the median of many samples and how far they spread.
#pragma once
#include <functional>

#include "common/device.hpp"

struct Timing {
  double seconds = 0;  // median time of one run
  double spread = 0;   // (90th − 10th percentile) / median
};

// Times `work(i)`, which enqueues one run on `stream`; i counts up, so that work can rotate among copies of its buffers
// and find them cold. Several runs make one sample when one is short, and they are replayed as a graph, so that the
// host's launch time is not part of the figure; as_graph = false leaves that out, for work that waits or copies. Only on a
// GPU: on the executor a time says nothing and 0 comes back.
Timing time_work(Stream& stream, int samples, const std::function<void(int)>& work, bool as_graph = true);

// GPU seconds, by events, of what `enqueue` puts on the stream once; waits for it. 0 on the executor, where it only runs.
double time_once(Stream& stream, const std::function<void()>& enqueue);

// Host seconds since an arbitrary start.
double host_seconds();
