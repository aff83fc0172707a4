//! What the server counts, as Prometheus text. No label tells a namespace, a key or a text.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Upper bounds of the time buckets, in seconds.
const BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

/// Counters of one server.
#[derive(Debug, Default)]
pub struct Metrics {
    requests: Mutex<BTreeMap<Request, u64>>,
    times: Mutex<BTreeMap<String, Times>>,
    in_flight: AtomicI64,
    connections: AtomicI64,
    recalls: AtomicU64,
    memories: AtomicU64,
    closed: Mutex<BTreeMap<&'static str, u64>>,
    learned: AtomicU64,
    learning_failed: AtomicU64,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    method: String,
    route: String,
    status: u16,
}

#[derive(Debug, Default)]
struct Times {
    buckets: [u64; BOUNDS.len()],
    count: u64,
    sum: f64,
}

impl Metrics {
    /// A request is being answered; `false`: no more.
    pub(crate) fn in_flight(&self, begins: bool) {
        self.in_flight.fetch_add(if begins { 1 } else { -1 }, Relaxed);
    }

    /// A connection is open; `false`: no more.
    pub(crate) fn connection(&self, opens: bool) {
        self.connections.fetch_add(if opens { 1 } else { -1 }, Relaxed);
    }

    /// A request to `route` (its template) was answered.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let request = Request { method: method.to_owned(), route: route.to_owned(), status };
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry(request).or_default() += 1;
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.entry(route.to_owned()).or_default().add(took.as_secs_f64());
    }

    /// A question was answered.
    pub fn recalled(&self) {
        self.recalls.fetch_add(1, Relaxed);
    }

    /// Memories were stored.
    pub fn remembered(&self, count: usize) {
        self.memories.fetch_add(count as u64, Relaxed);
    }

    /// A recall was closed through `door`.
    pub fn closed(&self, door: &'static str) {
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner).entry(door).or_default() += 1;
    }

    /// The background learned, or could not.
    pub(crate) fn learned(&self, well: bool) {
        if well { &self.learned } else { &self.learning_failed }.fetch_add(1, Relaxed);
    }

    /// All of it in Prometheus' text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        gauge(&mut out, "earmark_requests_in_flight", "Requests being answered.", self.in_flight.load(Relaxed));
        gauge(&mut out, "earmark_connections", "Open connections.", self.connections.load(Relaxed));
        counter(&mut out, "earmark_recalls_total", "Questions answered.", self.recalls.load(Relaxed));
        counter(&mut out, "earmark_memories_created_total", "Memories stored.", self.memories.load(Relaxed));
        counter(&mut out, "earmark_learning_runs_total", "Background learning runs.", self.learned.load(Relaxed));
        let failed = self.learning_failed.load(Relaxed);
        counter(&mut out, "earmark_learning_failures_total", "Background learning runs that failed.", failed);
        self.write_closed(&mut out);
        self.write_requests(&mut out);
        self.write_times(&mut out);
        out
    }

    fn write_closed(&self, out: &mut String) {
        head(out, "earmark_recalls_closed_total", "counter", "Recalls closed, by door.");
        for (door, count) in self.closed.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(out, "earmark_recalls_closed_total{{door=\"{door}\"}} {count}");
        }
    }

    fn write_requests(&self, out: &mut String) {
        head(out, "earmark_http_requests_total", "counter", "Requests answered.");
        for (request, count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Request { method, route, status } = request;
            let _ = writeln!(
                out,
                "earmark_http_requests_total{{method=\"{method}\",route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
    }

    fn write_times(&self, out: &mut String) {
        const NAME: &str = "earmark_http_request_seconds";
        head(out, NAME, "histogram", "Time to answer.");
        for (route, times) in self.times.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            for (bound, count) in BOUNDS.iter().zip(times.buckets) {
                let _ = writeln!(out, "{NAME}_bucket{{route=\"{route}\",le=\"{bound}\"}} {count}");
            }
            let Times { count, sum, .. } = times;
            let _ = writeln!(out, "{NAME}_bucket{{route=\"{route}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "{NAME}_sum{{route=\"{route}\"}} {sum}\n{NAME}_count{{route=\"{route}\"}} {count}");
        }
    }
}

/// How often the critic was called, and how often in vain, in the same format.
pub(crate) fn critic_text(calls: u64, failures: u64) -> String {
    let mut out = String::new();
    counter(&mut out, "earmark_critic_calls_total", "Slates shown to the critic.", calls);
    counter(&mut out, "earmark_critic_failures_total", "Critic calls without a verdict.", failures);
    out
}

impl Times {
    fn add(&mut self, seconds: f64) {
        let reached = BOUNDS.iter().zip(&mut self.buckets).filter(|(bound, _)| seconds <= **bound);
        reached.for_each(|(_, count)| *count += 1);
        self.count += 1;
        self.sum += seconds;
    }
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn counter(out: &mut String, name: &str, help: &str, value: u64) {
    head(out, name, "counter", help);
    let _ = writeln!(out, "{name} {value}");
}

fn gauge(out: &mut String, name: &str, help: &str, value: i64) {
    head(out, name, "gauge", help);
    let _ = writeln!(out, "{name} {value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let metrics = Metrics::default();
        for millis in [1, 3, 40_000] {
            metrics.answered("GET", "/v1/memories/{id}", 200, Duration::from_millis(millis));
        }
        let text = metrics.text();
        for line in [
            "earmark_http_requests_total{method=\"GET\",route=\"/v1/memories/{id}\",status=\"200\"} 3",
            "earmark_http_request_seconds_bucket{route=\"/v1/memories/{id}\",le=\"0.001\"} 1",
            "earmark_http_request_seconds_bucket{route=\"/v1/memories/{id}\",le=\"0.005\"} 2",
            "earmark_http_request_seconds_bucket{route=\"/v1/memories/{id}\",le=\"30\"} 2",
            "earmark_http_request_seconds_bucket{route=\"/v1/memories/{id}\",le=\"+Inf\"} 3",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in {text}");
        }
    }
}
