-- Prints wrk's measurements as one line of JSON, which the runner reads. Latencies in microseconds.
function report(summary, latency)
    local errors = summary.errors
    io.write(string.format(
        'RESULT {"requests":%d,"micros":%d,"p50":%d,"p99":%d,"non2xx":%d,"broken":%d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), errors.status,
        errors.connect + errors.read + errors.write + errors.timeout))
end

done = function(summary, latency) report(summary, latency) end
