-- Run by wrk when it is done. Prints how many requests there were, for how many microseconds;
-- microseconds of p50, p99 and p99.9; how many failed.
done = function(summary, latency, requests)
   local errors = summary.errors
   local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
   print(string.format(
      "figures %d %d %d %d %d %d",
      summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), latency:percentile(99.9), failed
   ))
end
