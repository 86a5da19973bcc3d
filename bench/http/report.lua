-- SPDX-License-Identifier: MIT
-- What wrk tells http.py: requests, microseconds, errors, and latencies in microseconds.
done = function(summary, latency)
   local errors = summary.errors
   io.write(string.format("RESULT %d %d %d %d %d\n", summary.requests, summary.duration,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout,
      latency:percentile(50), latency:percentile(99)))
end
